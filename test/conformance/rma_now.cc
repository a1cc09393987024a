// SPDX-License-Identifier: BSD-3-Clause
// Conformance: QueuePair::rma_now, which completes a write, read or atomic inside the call. A
// request that it accepts has the effects of post_send. A request that it declines has no effect;
// the caller must use post_send.
#include <atomic>
#include <cstring>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

const Status kNotNow = Status::again(Reason::none);

class RmaNow : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() &&
            (!has(Capability::rc) || !has(Capability::rdma_write) || !has(Capability::rdma_read))) {
            GTEST_SKIP() << "the rail lacks rc, rdma_write or rdma_read";
        }
    }
    // Target memory: allocated by the rail (`own`), or the caller's.
    Buffer& target_of(bool own, Bytes size, std::uint32_t access = kAllAccess) {
        return own ? allocated(1, size, access) : memory(1, size, access);
    }
    // Executes a request inside the call, or else posts it; true if it completed inside the call.
    bool rma_now(End& e, const SendWork& work) {
        const Status status = e.qp->rma_now(piece_of(work));
        if (status.ok()) {
            EXPECT_TRUE(info().synchronous_rma);
            return true;
        }
        EXPECT_EQ(status, kNotNow);
        EXPECT_EQ(run(e, work), WorkStatus::success);
        return false;
    }
};
ADAPTIB_CONFORMANCE(RmaNow);

TEST_P(RmaNow, MovesEveryByteAndNoOther) {
    constexpr Bytes kRoom = 2 * kMiB + 64;
    Pair p = rc_pair();
    Buffer& local = memory(0, kRoom);
    for (const bool own : {false, true}) {
        Buffer& target = target_of(own, kRoom);
        std::uint64_t seed = 0;
        for (const Bytes length : boundary_lengths(2 * kMiB)) {
            const Bytes at = 5 + length % 16;
            const std::vector<Gather> gather{local.gather(3, length)};
            std::fill(target.data(), target.data() + kRoom, std::byte{0xee});
            fill(local.data() + 3, length, ++seed);
            const SendWork write =
                rdma_work(1, Opcode::write, gather, target.remote(at), target.key());
            const Status status = p.a.qp->rma_now(piece_of(write));
            if (!status.ok()) {
                EXPECT_EQ(status, kNotNow);
                EXPECT_FALSE(world().rma_now_works(own) && length > 0 && length <= 64 * kKiB)
                    << length;
                EXPECT_TRUE(all_equal(target.data(), kRoom, std::byte{0xee})) << length;
                ASSERT_EQ(run(p.a, write), WorkStatus::success);
            }
            EXPECT_TRUE(all_equal(target.data(), at, std::byte{0xee})) << length;
            EXPECT_TRUE(holds(target.data() + at, length, seed)) << length;
            EXPECT_TRUE(
                all_equal(target.data() + at + length, kRoom - at - length, std::byte{0xee}));

            fill(target.data() + at, length, ++seed);
            std::fill(local.data(), local.data() + kRoom, std::byte{0xdd});
            rma_now(p.a, rdma_work(2, Opcode::read, gather, target.remote(at), target.key()));
            EXPECT_TRUE(all_equal(local.data(), 3, std::byte{0xdd})) << length;
            EXPECT_TRUE(holds(local.data() + 3, length, seed)) << length;
            EXPECT_TRUE(all_equal(local.data() + 3 + length, kRoom - 3 - length, std::byte{0xdd}));
        }
    }
    EXPECT_TRUE(stays_empty({p.a.send, p.b.receive}));
}

TEST_P(RmaNow, AtomicsAreThoseOfPostSend) {
    ADAPTIB_NEEDS(atomic64);
    Pair p = rc_pair();
    Buffer& result = memory(0, 24);
    const std::vector<Gather> gather{result.gather(8, 8)};
    for (const bool own : {false, true}) {
        Buffer& target = target_of(own, 24);
        for (std::size_t i = 0; i < 3; ++i) {
            set_word(target, i, 1000 + i);
            set_word(result, i, 0xaaaa);
        }
        std::uint64_t value = 1001;
        // Atomics alternate between execute and post_send.
        for (std::uint64_t round = 0; round < 64; ++round) {
            const bool add = round % 4 < 2;
            const bool equal = round % 8 < 6;
            SendWork work = rdma_work(1, add ? Opcode::fetch_add : Opcode::compare_swap, gather,
                                      target.remote(8), target.key());
            work.compare_add = add ? ~std::uint64_t{0} << round : equal ? value : ~value;
            work.swap = round * 0x0101010101010101u;
            if (round % 2 == 0) {
                EXPECT_EQ(rma_now(p.a, work), world().rma_now_works(own));
            } else {
                ASSERT_EQ(run(p.a, work), WorkStatus::success);
            }
            EXPECT_EQ(word(result, 1), value) << round;
            value = add ? value + work.compare_add : equal ? work.swap : value;
            EXPECT_EQ(word(target, 1), value) << round;
        }
        EXPECT_EQ(word(result, 0), 0xaaaau);
        EXPECT_EQ(word(result, 2), 0xaaaau);
        EXPECT_EQ(word(target, 0), 1000u);
        EXPECT_EQ(word(target, 2), 1002u);
    }
    EXPECT_TRUE(stays_empty({p.a.send, p.b.receive}));
}

TEST_P(RmaNow, AddsByAllWaysLoseNothing) {
    ADAPTIB_NEEDS(atomic64);
    constexpr std::uint64_t kEach = 200;
    for (const bool own : {false, true}) {
        Buffer& target = target_of(own, 8);
        set_word(target, 0, 0);
        std::vector<Pair> pairs;
        std::vector<Buffer*> results;
        for (std::size_t node = 0; node < nodes(); ++node) {
            pairs.push_back(rc_pair(node, 1));
            results.push_back(&memory(node, kEach * 8));
        }
        std::size_t posted = 0;
        for (std::uint64_t i = 0; i < kEach; ++i) {
            for (std::size_t node = 0; node < nodes(); ++node) {
                const std::vector<Gather> gather{results[node]->gather(i * 8, 8)};
                SendWork add =
                    rdma_work(i, Opcode::fetch_add, gather, target.remote(), target.key());
                add.compare_add = 1;
                if ((i + node) % 3 == 0 || !pairs[node].a.qp->rma_now(piece_of(add)).ok()) {
                    ASSERT_EQ(post(pairs[node].a, add), kOk); // signaled; completes later
                    ++posted;
                }
            }
        }
        std::size_t done = 0;
        ASSERT_TRUE(wait([&] {
            done = 0;
            for (const Pair& p : pairs) {
                done += p.a.send->got.size();
            }
            return done == posted;
        })) << done
            << " of " << posted;
        EXPECT_EQ(word(target), kEach * nodes());
        std::vector<bool> seen(kEach * nodes());
        for (std::size_t node = 0; node < nodes(); ++node) {
            for (std::uint64_t i = 0; i < kEach; ++i) {
                const std::uint64_t old = word(*results[node], i);
                ASSERT_LT(old, seen.size());
                EXPECT_FALSE(seen[old]) << "two saw " << old;
                seen[old] = true;
                EXPECT_TRUE(i == 0 || old > word(*results[node], i - 1)) << "out of order";
            }
        }
    }
}

TEST_P(RmaNow, NoCompletionFollowsAndNoSlotIsUsed) {
    EndOptions options;
    options.signal_all = true;
    options.send_depth = 8;
    Pair p = rc_pair(0, 1, options);
    Buffer& local = memory(0, 64);
    Buffer& target = allocated(1, 64);
    const std::vector<Gather> gather{local.gather(0, 64)};
    std::size_t executed = 0;
    for (std::uint64_t i = 0; i < 300; ++i) {
        fill(local.data(), 64, i);
        const SendWork work = rdma_work(i, i % 3 == 2 ? Opcode::read : Opcode::write, gather,
                                        target.remote(), target.key());
        executed += p.a.qp->rma_now(piece_of(work)).ok();
    }
    EXPECT_EQ(executed, world().rma_now_works(true) ? 300u : executed);
    EXPECT_TRUE(stays_empty({p.a.send, p.b.receive}));
    fill(local.data(), 64, 999);
    EXPECT_EQ(run(p.a, rdma_work(1000, Opcode::write, gather, target.remote(), target.key())),
              WorkStatus::success);
    EXPECT_TRUE(p.a.send->got.empty());
    EXPECT_TRUE(holds(target.data(), 64, 999));
}

TEST_P(RmaNow, NothingOvertakesWhatIsPosted) {
    // A message without a receive waits; an executed request would overtake it.
    for (const bool own : {false, true}) {
        Pair p = rc_pair();
        Buffer& local = memory(0, 64);
        Buffer& target = target_of(own, 64);
        std::fill(target.data(), target.data() + 64, std::byte{7});
        const std::vector<Gather> gather{local.gather(0, 64)};
        SendWork message = send_work(1, {});
        message.flags = 0;
        ASSERT_EQ(p.a.qp->post_send(message), kOk);
        for (const Opcode opcode : {Opcode::write, Opcode::read}) {
            fill(local.data(), 64, 3);
            EXPECT_EQ(p.a.qp->rma_now(
                          piece_of(rdma_work(2, opcode, gather, target.remote(), target.key()))),
                      kNotNow);
            EXPECT_TRUE(holds(local.data(), 64, 3));
        }
        EXPECT_TRUE(all_equal(target.data(), 64, std::byte{7}));
        if (has(Capability::atomic64)) {
            const std::vector<Gather> old{local.gather(0, 8)};
            EXPECT_EQ(p.a.qp->rma_now(piece_of(
                          rdma_work(2, Opcode::fetch_add, old, target.remote(), target.key()))),
                      kNotNow);
        }
        // Posted requests keep their order; execute works again once they have completed.
        ASSERT_EQ(
            p.a.qp->post_send(rdma_work(3, Opcode::write, gather, target.remote(), target.key())),
            kOk);
        EXPECT_EQ(p.a.qp->rma_now(
                      piece_of(rdma_work(4, Opcode::write, gather, target.remote(), target.key()))),
                  kNotNow);
        ASSERT_EQ(post_receive(p.b, 9, {}), kOk);
        ASSERT_TRUE(wait_for(*p.a.send, 1));
        EXPECT_EQ(p.a.send->got[0].wr_id, 3u);
        EXPECT_TRUE(holds(target.data(), 64, 3));
        fill(local.data(), 64, 4);
        EXPECT_EQ(rma_now(p.a, rdma_work(5, Opcode::write, gather, target.remote(), target.key())),
                  world().rma_now_works(own));
        EXPECT_TRUE(holds(target.data(), 64, 4));
    }
}

TEST_P(RmaNow, LaterOnesWin) {
    constexpr Bytes kSize = 300'000;
    Buffer& local = memory(0, kSize);
    Buffer& small = memory(0, 4096);
    const std::vector<Gather> big{local.gather(0, kSize)};
    const std::vector<Gather> little{small.gather(0, 4096)};
    for (const bool own : {false, true}) {
        Pair p = rc_pair();
        Buffer& target = target_of(own, kSize);
        for (std::uint64_t round = 0; round < 20; ++round) {
            fill(local.data(), kSize, round);
            fill(small.data(), 4096, 1000 + round);
            const Bytes at = round * 14'000;
            SendWork first = rdma_work(1, Opcode::write, big, target.remote(), target.key());
            first.flags = 0;
            ASSERT_EQ(post(p.a, first), kOk);
            rma_now(p.a, rdma_work(2, Opcode::write, little, target.remote(at), target.key()));
            // A read behind both writes sees both.
            std::fill(local.data(), local.data() + kSize, std::byte{0});
            rma_now(p.a, rdma_work(3, Opcode::read, big, target.remote(), target.key()));
            EXPECT_TRUE(holds(local.data(), at, round));
            EXPECT_TRUE(holds(local.data() + at, 4096, 1000 + round));
            EXPECT_TRUE(std::equal(local.data(), local.data() + kSize, target.data()));
            EXPECT_EQ(target.data()[at + 4096], pattern(round, at + 4096));
        }
    }
}

// -------------------------------------------------------------------------------------------------
// The target's side

// The target serves a copy only if the peer's own request and a request of this end would both be
// allowed: a write needs kRemoteRead here and kRemoteWrite there, a read the reverse.
TEST_P(RmaNow, ACopyIsServedWithTheRightsOfBothEnds) {
    constexpr Bytes kSize = 4096;
    constexpr Bytes kPart = kSize - 16;
    const std::uint32_t rights[] = {0, kRemoteRead, kRemoteWrite, kRemoteRead | kRemoteWrite};
    Pair p = rc_pair();
    for (const std::uint32_t here : rights) {
        Buffer& ours = memory(1, kSize, kLocalWrite | here);
        for (const std::uint32_t there : rights) {
            Buffer& theirs = memory(0, kSize, kLocalWrite | there);
            for (const Opcode opcode : {Opcode::write, Opcode::read}) {
                fill(ours.data(), kSize, 1);
                fill(theirs.data(), kSize, 2);
                const auto serve = [&](Bytes at, Bytes length, Buffer& peers) {
                    return p.b.qp
                        ->serve_copy({.opcode = opcode,
                                      .local_key = ours.key(),
                                      .local = ours.data() + at,
                                      .length = length,
                                      .remote_address = peers.remote(at),
                                      .remote_key = peers.key(),
                                      .compare_add = 0,
                                      .swap = 0})
                        .ok();
                };
                EXPECT_FALSE(serve(8, kSize - 7, theirs)) << "it leaves the regions";
                EXPECT_FALSE(serve(8, 0, theirs));
                Buffer& allocated_there = allocated(0, kSize);
                EXPECT_FALSE(serve(8, kPart, allocated_there));
                EXPECT_TRUE(all_equal(allocated_there.data(), kSize, std::byte{0}));
                destroy(allocated_there);
                EXPECT_TRUE(holds(ours.data(), kSize, 1));
                EXPECT_TRUE(holds(theirs.data(), kSize, 2));
                const bool writes = opcode == Opcode::write;
                const bool allowed = (here & (writes ? kRemoteRead : kRemoteWrite)) != 0 &&
                                     (there & (writes ? kRemoteWrite : kRemoteRead)) != 0;
                const bool served = serve(8, kPart, theirs);
                EXPECT_EQ(served, allowed && world().rma_now_works(false));
                const Buffer& from = writes ? ours : theirs;
                const Buffer& to = writes ? theirs : ours;
                EXPECT_TRUE(holds(from.data(), kSize, writes ? 1 : 2));
                EXPECT_TRUE(holds(to.data(), 8, writes ? 2 : 1));
                EXPECT_EQ(std::equal(from.data() + 8, from.data() + 8 + kPart, to.data() + 8),
                          served);
                EXPECT_TRUE(served || holds(to.data(), kSize, writes ? 2 : 1));
            }
            destroy(theirs);
        }
        destroy(ours);
    }
    EXPECT_TRUE(stays_empty({p.a.send, p.b.send}));
}

// -------------------------------------------------------------------------------------------------
// Faulty requests: execute declines, and post_send reports the error

class RmaNowRefused : public RmaNow {
protected:
    void SetUp() override {
        RmaNow::SetUp();
        if (IsSkipped() || HasFatalFailure()) {
            return;
        }
        local_ = &memory(0, 64);
        target_ = &memory(1, 64);
        own_ = &allocated(1, 64);
        for (Buffer* b : {local_, target_, own_}) {
            fill(b->data(), 64, 1);
        }
    }
    void expect_untouched() {
        for (Buffer* b : {local_, target_, own_}) {
            EXPECT_TRUE(holds(b->data(), 64, 1));
        }
    }
    // Tries the request over a new connection: rma_now must decline it without effect, and
    // post_send must end it with the wanted status.
    void refuse(const SendWork& work, WorkStatus wanted, const RcOptions& rc = {}) {
        Pair p = rc_pair(0, 1, {}, rc);
        EXPECT_EQ(p.a.qp->rma_now(piece_of(work)), kNotNow);
        expect_untouched();
        EXPECT_TRUE(p.a.send->got.empty());
        EXPECT_EQ(p.a.qp->query().state, QpState::ready_to_send);
        EXPECT_EQ(p.b.qp->query().state, QpState::ready_to_send);
        if (wanted == WorkStatus::local_protection_error) {
            EXPECT_TRUE(refused_locally(p.a, work));
        } else {
            EXPECT_TRUE(ended(run(p.a, work), wanted));
        }
        expect_untouched();
    }
    SendWork write_to(std::uint64_t address, std::uint32_t key, const std::vector<Gather>& gather) {
        return rdma_work(1, Opcode::write, gather, address, key);
    }

    Buffer* local_ = nullptr;
    Buffer* target_ = nullptr;
    Buffer* own_ = nullptr;
};
ADAPTIB_CONFORMANCE(RmaNowRefused);

TEST_P(RmaNowRefused, RemoteKeysAndRanges) {
    const std::vector<Gather> word{local_->gather(8, 8)};
    const std::vector<Gather> all{local_->gather(0, 64)};
    for (Buffer* target : {target_, own_}) {
        // Lies within memory that is registered and mapped: only the range check can refuse.
        std::unique_ptr<MemoryRegion> middle;
        ASSERT_EQ(rail(1).register_memory(target->data() + 16, 32, rights(), middle), kOk);
        const std::uint64_t start = target->remote(16);
        const std::uint32_t key = middle->remote_key();
        for (const Opcode opcode : {Opcode::write, Opcode::read, Opcode::fetch_add}) {
            if (opcode == Opcode::fetch_add && !has(Capability::atomic64)) {
                continue;
            }
            const bool atomic = opcode == Opcode::fetch_add;
            const Bytes step = atomic ? 8 : 1; // an atomic one byte off would be misaligned
            for (const std::uint64_t address :
                 {start - step, start + 24 + step, std::uint64_t{0}, ~std::uint64_t{7},
                  start + (std::uint64_t{1} << 32)}) {
                SCOPED_TRACE(static_cast<std::int64_t>(address - start));
                SendWork work = rdma_work(1, opcode, word, address, key);
                work.compare_add = 1;
                refuse(work, WorkStatus::remote_access_error);
            }
            for (const std::uint32_t bad : {0u, ~0u, key ^ 0x80000000u}) {
                SendWork work = rdma_work(1, opcode, word, start, bad);
                work.compare_add = 1;
                refuse(work, WorkStatus::remote_access_error);
            }
        }
        refuse(write_to(start, key, all), WorkStatus::remote_access_error);
        const std::vector<Gather> one_more{local_->gather(0, 33)};
        refuse(write_to(start, key, one_more), WorkStatus::remote_access_error);
    }
}

TEST_P(RmaNowRefused, Rights) {
    struct Case {
        Opcode opcode;
        std::uint32_t needed;
    };
    const std::vector<Gather> word{local_->gather(0, 8)};
    for (const Case& c :
         {Case{Opcode::write, kRemoteWrite}, Case{Opcode::read, kRemoteRead},
          Case{Opcode::fetch_add, kRemoteAtomic}, Case{Opcode::compare_swap, kRemoteAtomic}}) {
        if (c.needed == kRemoteAtomic && !has(Capability::atomic64)) {
            continue;
        }
        const std::uint32_t others = rights() & ~c.needed;
        for (const bool own : {false, true}) {
            std::unique_ptr<MemoryRegion> region;
            Buffer* target = own ? own_ : target_;
            ASSERT_EQ(rail(1).register_memory(target->data(), 64, others, region), kOk);
            refuse(rdma_work(1, c.opcode, word, target->remote(), region->remote_key()),
                   WorkStatus::remote_access_error);
            RcOptions rc;
            rc.access = others & ~static_cast<std::uint32_t>(kLocalWrite);
            Pair p = rc_pair(0, 1, {}, rc); // QueuePairRightsAreKept tests the same by post_send
            EXPECT_EQ(p.a.qp->rma_now(
                          piece_of(rdma_work(1, c.opcode, word, target->remote(), target->key()))),
                      kNotNow)
                << "the queue pair gives no such right";
            expect_untouched();
        }
        RcOptions none;
        none.max_target_reads = 0;
        if (c.opcode != Opcode::write) {
            refuse(rdma_work(1, c.opcode, word, target_->remote(), target_->key()),
                   WorkStatus::remote_invalid_request, none);
            refuse(rdma_work(1, c.opcode, word, own_->remote(), own_->key()),
                   WorkStatus::remote_invalid_request, none);
        }
    }
}

TEST_P(RmaNowRefused, LocalKeysRangesAndRights) {
    std::unique_ptr<MemoryRegion> region;
    ASSERT_EQ(rail(0).register_memory(local_->data() + 16, 32, 0, region), kOk);
    const std::uint32_t key = region->local_key();
    const auto from = [&](Bytes offset, Bytes length, std::uint32_t local_key) {
        return std::vector<Gather>{{local_->data() + offset, length, local_key}};
    };
    const WorkStatus refused = WorkStatus::local_protection_error;
    for (Buffer* target : {target_, own_}) {
        const std::uint64_t to = target->remote();
        for (const auto& gather : {from(15, 8, key), from(41, 8, key), from(48, 1, key),
                                   from(16, 33, key), from(16, 8, ~0u)}) {
            refuse(write_to(to, target->key(), gather), refused);
        }
        const std::vector<Gather> inside = from(16, 8, key);
        refuse(rdma_work(1, Opcode::read, inside, to, target->key()), refused);
        if (has(Capability::atomic64)) {
            for (const Opcode opcode : {Opcode::fetch_add, Opcode::compare_swap}) {
                refuse(rdma_work(1, opcode, inside, to, target->key()), refused);
            }
        }
    }
    region.reset();
    const std::vector<Gather> dead = from(16, 8, key);
    refuse(write_to(own_->remote(), own_->key(), dead), refused);
}

TEST_P(RmaNowRefused, AtomicsThatAreNone) {
    ADAPTIB_NEEDS(atomic64);
    for (Buffer* target : {target_, own_}) {
        for (const Opcode opcode : {Opcode::fetch_add, Opcode::compare_swap}) {
            const std::vector<Gather> word{local_->gather(0, 8)};
            Pair p = rc_pair();
            for (Bytes offset = 1; offset < 8; ++offset) {
                SendWork work = rdma_work(1, opcode, word, target->remote(offset), target->key());
                work.compare_add = 1;
                EXPECT_EQ(p.a.qp->rma_now(piece_of(work)), kNotNow) << offset;
            }
            for (const Bytes length : {Bytes{0}, Bytes{4}, Bytes{7}, Bytes{9}, Bytes{16}}) {
                const std::vector<Gather> odd{local_->gather(0, length)};
                SendWork work = rdma_work(1, opcode, odd, target->remote(), target->key());
                work.compare_add = 1;
                EXPECT_EQ(p.a.qp->rma_now(piece_of(work)), kNotNow) << length;
            }
            expect_untouched();
            EXPECT_EQ(p.a.qp->query().state, QpState::ready_to_send);
        }
    }
}

TEST_P(RmaNowRefused, WhatMovesNoData) {
    const std::vector<Gather> gather{local_->gather(0, 8)};
    Pair p = rc_pair();
    for (const Opcode opcode :
         {Opcode::send, Opcode::send_imm, Opcode::write_imm, static_cast<Opcode>(7),
          static_cast<Opcode>(200), static_cast<Opcode>(255)}) {
        EXPECT_EQ(
            p.a.qp->rma_now(piece_of(rdma_work(1, opcode, gather, own_->remote(), own_->key()))),
            kNotNow)
            << static_cast<int>(opcode);
    }
    EXPECT_TRUE(stays_empty({p.a.send, p.b.receive}));
    expect_untouched();
    ASSERT_EQ(post_receive(p.b, 1, {}), kOk);
    EXPECT_EQ(run(p.a, send_work(2, {})), WorkStatus::success) << "nothing is broken";
}

TEST_P(RmaNowRefused, OnlyAnRcQueuePairThatIsReady) {
    const std::vector<Gather> gather{local_->gather(0, 8)};
    const SendWork work = rdma_work(1, Opcode::write, gather, own_->remote(), own_->key());
    Pair p{rc_end(0), rc_end(1)};
    EXPECT_EQ(p.a.qp->rma_now(piece_of(work)), kNotNow) << "reset";
    ASSERT_EQ(p.a.qp->modify(rc_attributes(p.a, p.b, QpState::init), kRcInit), kOk);
    EXPECT_EQ(p.a.qp->rma_now(piece_of(work)), kNotNow) << "init";
    ASSERT_EQ(p.a.qp->modify(rc_attributes(p.a, p.b, QpState::ready_to_receive), kRcReceive), kOk);
    EXPECT_EQ(p.a.qp->rma_now(piece_of(work)), kNotNow) << "ready to receive";
    ASSERT_EQ(p.a.qp->modify(rc_attributes(p.a, p.b, QpState::ready_to_send), kRcSend), kOk);
    EXPECT_EQ(p.a.qp->rma_now(piece_of(work)), kNotNow) << "the other end is not";
    expect_untouched();
    Pair good = rc_pair();
    QpAttributes a;
    a.state = QpState::error;
    ASSERT_EQ(good.b.qp->modify(a, kQpState), kOk);
    EXPECT_EQ(good.a.qp->rma_now(piece_of(work)), kNotNow) << "the other end is in error";
    ASSERT_EQ(good.a.qp->modify(a, kQpState), kOk);
    EXPECT_EQ(good.a.qp->rma_now(piece_of(work)), kNotNow) << "error";
    Pair alone = rc_pair();
    destroy(alone.b);
    EXPECT_EQ(alone.a.qp->rma_now(piece_of(work)), kNotNow) << "the other end is gone";
    if (has(Capability::ud)) {
        EndOptions options;
        options.type = QpType::ud;
        End& ud = end(0, options);
        start_ud(ud);
        EXPECT_EQ(ud.qp->rma_now(piece_of(work)), kNotNow) << "datagrams";
    }
    expect_untouched();
}

TEST_P(RmaNowRefused, KeysEndWithTheRegion) {
    const std::vector<Gather> gather{local_->gather(0, 8)};
    for (const bool own : {false, true}) {
        Pair p = rc_pair();
        Buffer* target = own ? own_ : target_;
        std::unique_ptr<MemoryRegion> region;
        ASSERT_EQ(rail(1).register_memory(target->data(), 64, rights(), region), kOk);
        const std::uint32_t key = region->remote_key();
        fill(local_->data(), 64, 1);
        rma_now(p.a, write_to(target->remote(), key, gather)); // lets the initiator cache the key
        region.reset();
        std::fill(local_->data(), local_->data() + 8, std::byte{9});
        EXPECT_EQ(p.a.qp->rma_now(piece_of(write_to(target->remote(), key, gather))), kNotNow);
        ASSERT_EQ(rail(1).register_memory(target->data(), 64, rights(), region), kOk);
        EXPECT_EQ(p.a.qp->rma_now(piece_of(write_to(target->remote(), key, gather))), kNotNow);
        EXPECT_TRUE(holds(target->data(), 64, 1));
        rma_now(p.a, write_to(target->remote(), region->remote_key(), gather));
        EXPECT_TRUE(all_equal(target->data(), 8, std::byte{9}));
        fill(target->data(), 64, 1);
        fill(local_->data(), 64, 1);
    }
}

// A request may be forbidden although the previous one with the same keys was allowed.
TEST_P(RmaNowRefused, NothingIsTakenForGranted) {
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        for (Buffer* target : {target_, own_}) {
            for (int change = 0; change < 6; ++change) {
                SCOPED_TRACE(change);
                for (Buffer* b : {local_, target}) {
                    fill(b->data(), 64, 1);
                }
                std::unique_ptr<MemoryRegion> here;
                std::unique_ptr<MemoryRegion> there;
                ASSERT_EQ(rail(0).register_memory(local_->data(), 32, kLocalWrite, here), kOk);
                ASSERT_EQ(rail(1).register_memory(target->data(), 32, rights(), there), kOk);
                Pair p = rc_pair();
                RmaWork work{.opcode = opcode,
                             .local_key = here->local_key(),
                             .local = local_->data() + 8,
                             .length = 8,
                             .remote_address = target->remote(8),
                             .remote_key = there->remote_key()};
                for (int again = 0; again < 2; ++again) {
                    EXPECT_EQ(p.a.qp->rma_now(work).ok(), world().rma_now_works(target == own_));
                }
                QpAttributes a;
                switch (change) {
                case 0: work.local = local_->data() + 25; break;
                case 1: work.remote_address = target->remote(25); break;
                case 2: here.reset(); break;
                case 3: there.reset(); break;
                case 4:
                    a.state = QpState::ready_to_send;
                    a.access = kLocalWrite;
                    ASSERT_EQ(p.b.qp->modify(a, kQpState | kQpAccess), kOk);
                    break;
                default:
                    a.state = QpState::error;
                    ASSERT_EQ(p.b.qp->modify(a, kQpState), kOk);
                    break;
                }
                std::fill(local_->data(), local_->data() + 64, std::byte{5});
                fill(target->data(), 64, 1);
                EXPECT_EQ(p.a.qp->rma_now(work), kNotNow);
                EXPECT_TRUE(all_equal(local_->data(), 64, std::byte{5}));
                EXPECT_TRUE(holds(target->data(), 64, 1));
            }
        }
    }
}

TEST_P(RmaNowRefused, ARailThatIsDownOrSlowed) {
    if (!world().can_switch_rails() || !world().can_slow_rails()) {
        GTEST_SKIP() << "the world cannot switch or slow rails";
    }
    const std::vector<Gather> gather{local_->gather(0, 8)};
    for (Buffer* target : {target_, own_}) {
        Pair p = rc_pair();
        const SendWork write = write_to(target->remote(), target->key(), gather);
        const SendWork read = rdma_work(1, Opcode::read, gather, target->remote(8), target->key());
        for (const std::size_t node : {std::size_t{0}, std::size_t{1}}) {
            fill(local_->data(), 64, 1);
            ASSERT_TRUE(world().switch_rail(node, 0, false));
            EXPECT_EQ(p.a.qp->rma_now(piece_of(write)), kNotNow);
            EXPECT_EQ(p.a.qp->rma_now(piece_of(read)), kNotNow);
            expect_untouched();
            ASSERT_TRUE(world().switch_rail(node, 0, true));
            EXPECT_EQ(rma_now(p.a, write), world().rma_now_works(target == own_));
            ASSERT_TRUE(world().slow_rail(node, 0, 100));
            std::fill(local_->data(), local_->data() + 8, std::byte{9});
            EXPECT_EQ(p.a.qp->rma_now(piece_of(write)), kNotNow);
            EXPECT_EQ(p.a.qp->rma_now(piece_of(read)), kNotNow);
            EXPECT_TRUE(holds(target->data(), 64, 1));
            EXPECT_EQ(run(p.a, write), WorkStatus::success) << "slowly";
            ASSERT_TRUE(world().slow_rail(node, 0, 1));
            fill(local_->data(), 64, 1);
            EXPECT_EQ(rma_now(p.a, write), world().rma_now_works(target == own_));
            expect_untouched();
        }
    }
}

TEST_P(RmaNowRefused, ATargetThatHasEnded) {
    if (!world().can_end_nodes()) {
        GTEST_SKIP() << "the world cannot end nodes";
    }
    Pair p = rc_pair();
    const std::vector<Gather> gather{local_->gather(0, 8)};
    const SendWork to_own = write_to(own_->remote(), own_->key(), gather);
    const SendWork to_memory = write_to(target_->remote(), target_->key(), gather);
    rma_now(p.a, to_own);
    rma_now(p.a, to_memory);
    std::fill(local_->data(), local_->data() + 8, std::byte{9});
    destroy_node_objects(1);
    EXPECT_EQ(p.a.qp->rma_now(piece_of(to_memory)), kNotNow);
    ASSERT_TRUE(world().end_node(1));
    EXPECT_EQ(p.a.qp->rma_now(piece_of(to_own)), kNotNow);
    EXPECT_EQ(p.a.qp->rma_now(piece_of(to_memory)), kNotNow);
    EXPECT_NE(std::memcmp(target_->words.data(), local_->data(), 8), 0);
}

} // namespace
} // namespace adaptib::conformance
