// SPDX-License-Identifier: BSD-3-Clause
// Conformance: 64-bit atomics.
#include <cstring>
#include <set>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class Atomics : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() &&
            (!has(Capability::rc) || !has(Capability::atomic64))) {
            GTEST_SKIP() << "the rail lacks rc or atomic64";
        }
    }
    SendWork atomic(Opcode opcode, const std::vector<Gather>& gather, const Buffer& target,
                    std::size_t index, std::uint64_t compare_add, std::uint64_t swap = 0) {
        SendWork work = rdma_work(1, opcode, gather, target.remote(index * 8), target.key());
        work.compare_add = compare_add;
        work.swap = swap;
        return work;
    }
};
ADAPTIB_CONFORMANCE(Atomics);

TEST_P(Atomics, FetchAddReturnsTheOldValue) {
    Pair p = rc_pair();
    for (const bool own : {false, true}) {
        Buffer& result = memory(0, 24);
        Buffer& target = own ? allocated(1, 24) : memory(1, 24);
        for (std::size_t i = 0; i < 3; ++i) {
            set_word(result, i, 0xaaaa);
            set_word(target, i, 1000);
        }
        const std::vector<Gather> gather{result.gather(8, 8)};
        std::uint64_t expected = 1000;
        for (const std::uint64_t add :
             {std::uint64_t{1}, std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63,
              std::uint64_t{1} << 63, std::uint64_t{0x0102030405060708}}) {
            ASSERT_EQ(run(p.a, atomic(Opcode::fetch_add, gather, target, 1, add)),
                      WorkStatus::success);
            EXPECT_EQ(word(result, 1), expected);
            expected += add;
            EXPECT_EQ(word(target, 1), expected);
        }
        EXPECT_EQ(word(result, 0), 0xaaaau);
        EXPECT_EQ(word(result, 2), 0xaaaau);
        EXPECT_EQ(word(target, 0), 1000u);
        EXPECT_EQ(word(target, 2), 1000u);
    }
}

TEST_P(Atomics, CompareSwapSwapsOnlyWhenEqual) {
    Pair p = rc_pair();
    Buffer& result = memory(0, 8);
    Buffer& target = memory(1, 8);
    const std::vector<Gather> gather{result.gather(0, 8)};
    set_word(target, 0, 0x1122334455667788);
    ASSERT_EQ(run(p.a, atomic(Opcode::compare_swap, gather, target, 0, 0x1122334455667788, 42)),
              WorkStatus::success);
    EXPECT_EQ(word(result), 0x1122334455667788u);
    EXPECT_EQ(word(target), 42u);
    ASSERT_EQ(run(p.a, atomic(Opcode::compare_swap, gather, target, 0, 43, 99)),
              WorkStatus::success);
    EXPECT_EQ(word(result), 42u);
    EXPECT_EQ(word(target), 42u);
}

TEST_P(Atomics, CompletionNamesTheKind) {
    Pair p = rc_pair();
    Buffer& result = memory(0, 8);
    Buffer& target = memory(1, 8);
    const std::vector<Gather> gather{result.gather(0, 8)};
    ASSERT_EQ(p.a.qp->post_send(atomic(Opcode::fetch_add, gather, target, 0, 1)), kOk);
    ASSERT_EQ(p.a.qp->post_send(atomic(Opcode::compare_swap, gather, target, 0, 1, 2)), kOk);
    ASSERT_TRUE(wait_for(*p.a.send, 2));
    EXPECT_EQ(p.a.send->got[0].kind, WorkKind::fetch_add);
    EXPECT_EQ(p.a.send->got[1].kind, WorkKind::compare_swap);
    EXPECT_EQ(word(target), 2u);
}

TEST_P(Atomics, ContentionLosesNothing) {
    // Every node, the target's own included, adds over several connections. Each old value must be
    // returned exactly once.
    constexpr std::uint64_t kEach = 300;
    Buffer& target = memory(1, 16);
    struct Client {
        Pair pair;
        Buffer* results;
        std::uint64_t next = 0;
    };
    std::vector<Client> clients;
    for (std::size_t node = 0; node < nodes(); ++node) {
        for (int i = 0; i < 2; ++i) {
            clients.push_back({rc_pair(node, 1), &memory(node, kEach * 8)});
        }
    }
    const std::uint64_t total = kEach * clients.size();
    ASSERT_TRUE(wait([&] {
        std::uint64_t done = 0;
        for (Client& c : clients) {
            while (c.next < kEach && c.next < c.pair.a.send->got.size() + 16) {
                const std::vector<Gather> gather{c.results->gather(c.next * 8, 8)};
                if (!c.pair.a.qp->post_send(atomic(Opcode::fetch_add, gather, target, 1, 1)).ok()) {
                    break;
                }
                ++c.next;
            }
            done += c.pair.a.send->got.size();
        }
        return done == total;
    }));
    EXPECT_EQ(word(target, 1), total);
    EXPECT_EQ(word(target, 0), 0u);
    std::set<std::uint64_t> seen;
    for (const Client& c : clients) {
        for (std::uint64_t i = 0; i < kEach; ++i) {
            EXPECT_EQ(c.pair.a.send->got[i].status, WorkStatus::success);
            seen.insert(word(*c.results, i));
            if (i > 0) {
                EXPECT_GT(word(*c.results, i), word(*c.results, i - 1)) << "out of order";
            }
        }
    }
    EXPECT_EQ(seen.size(), total);
    EXPECT_EQ(*seen.rbegin(), total - 1);
}

TEST_P(Atomics, LockByCompareSwap) {
    // A lock that two nodes take in turn protects a counter, which they read and write.
    ADAPTIB_NEEDS(rdma_read);
    ADAPTIB_NEEDS(rdma_write);
    Buffer& target = memory(1, 16); // lock, counter
    Pair p[] = {rc_pair(0, 1), rc_pair(nodes() - 1, 1)};
    Buffer* local[] = {&memory(0, 16), &memory(nodes() - 1, 16)};
    for (std::uint64_t round = 0; round < 100; ++round) {
        const std::size_t who = round % 2;
        const std::vector<Gather> lock{local[who]->gather(0, 8)};
        const std::vector<Gather> counter{local[who]->gather(8, 8)};
        ASSERT_EQ(run(p[who].a, atomic(Opcode::compare_swap, lock, target, 0, 0, who + 1)),
                  WorkStatus::success);
        ASSERT_EQ(word(*local[who], 0), 0u);
        const std::size_t other = 1 - who;
        const std::vector<Gather> other_lock{local[other]->gather(0, 8)};
        ASSERT_EQ(run(p[other].a, atomic(Opcode::compare_swap, other_lock, target, 0, 0, 9)),
                  WorkStatus::success);
        EXPECT_EQ(word(*local[other], 0), who + 1) << "the lock was taken";
        ASSERT_EQ(
            run(p[who].a, rdma_work(1, Opcode::read, counter, target.remote(8), target.key())),
            WorkStatus::success);
        EXPECT_EQ(word(*local[who], 1), round);
        set_word(*local[who], 1, round + 1);
        ASSERT_EQ(
            run(p[who].a, rdma_work(1, Opcode::write, counter, target.remote(8), target.key())),
            WorkStatus::success);
        ASSERT_EQ(run(p[who].a, atomic(Opcode::compare_swap, lock, target, 0, who + 1, 0)),
                  WorkStatus::success);
    }
    EXPECT_EQ(word(target, 1), 100u);
}

TEST_P(Atomics, MisalignedOnesFail) {
    for (const Bytes offset : {Bytes{1}, Bytes{4}, Bytes{7}}) {
        for (const Opcode opcode : {Opcode::fetch_add, Opcode::compare_swap}) {
            Pair p = rc_pair();
            Buffer& result = memory(0, 8);
            Buffer& target = memory(1, 16);
            const std::vector<Gather> gather{result.gather(0, 8)};
            SendWork work = atomic(opcode, gather, target, 0, 0, 5);
            work.compare_add = opcode == Opcode::fetch_add ? 5 : 0;
            work.remote_address += offset;
            const Status status = p.a.qp->post_send(work);
            if (status.ok()) {
                ASSERT_TRUE(wait_for(*p.a.send, 1));
                EXPECT_EQ(p.a.send->got[0].status, WorkStatus::remote_invalid_request);
                EXPECT_EQ(p.a.qp->query().state, QpState::error);
            } else {
                EXPECT_EQ(status, Status::error(Reason::bad_argument));
                EXPECT_EQ(p.a.qp->query().state, QpState::ready_to_send);
            }
            EXPECT_EQ(word(target, 0), 0u);
            EXPECT_EQ(word(target, 1), 0u);
        }
    }
}

TEST_P(Atomics, OtherSizesAreRefused) {
    Pair p = rc_pair();
    Buffer& result = memory(0, 16);
    Buffer& target = memory(1, 16);
    for (const Bytes length : {Bytes{0}, Bytes{4}, Bytes{7}, Bytes{9}, Bytes{16}}) {
        const std::vector<Gather> gather{result.gather(0, length)};
        EXPECT_EQ(p.a.qp->post_send(atomic(Opcode::fetch_add, gather, target, 0, 1)),
                  Status::error(Reason::bad_argument))
            << length;
    }
    EXPECT_EQ(p.a.qp->post_send(atomic(Opcode::fetch_add, {}, target, 0, 1)),
              Status::error(Reason::bad_argument));
    EXPECT_EQ(word(target), 0u);
    const std::vector<Gather> gather{result.gather(0, 8)};
    EXPECT_EQ(run(p.a, atomic(Opcode::fetch_add, gather, target, 0, 1)), WorkStatus::success);
}

TEST_P(Atomics, ResultNeedsLocalWrite) {
    Pair p = rc_pair();
    Buffer& result = memory(0, 8, 0);
    Buffer& target = memory(1, 8);
    const std::vector<Gather> gather{result.gather(0, 8)};
    EXPECT_TRUE(refused_locally(p.a, atomic(Opcode::fetch_add, gather, target, 0, 1)));
}

TEST_P(Atomics, WhatIsNotWhollyInTheRegionIsNotTouched) {
    Buffer& result = memory(0, 8);
    Buffer& whole = memory(1, 64);
    std::unique_ptr<MemoryRegion> middle; // words 2 to 4 of 0 to 7
    ASSERT_EQ(rail(1).register_memory(whole.data() + 16, 24, kAllAccess, middle), kOk);
    std::unique_ptr<MemoryRegion> uneven; // ends in the middle of word 4
    ASSERT_EQ(rail(1).register_memory(whole.data() + 16, 20, kAllAccess, uneven), kOk);
    const std::uint64_t start = whole.remote(16);
    struct Case {
        std::uint64_t address;
        std::uint32_t key;
        bool inside;
    };
    const Case cases[] = {
        {start - 8, middle->remote_key(), false},
        {start, middle->remote_key(), true},
        {start + 16, middle->remote_key(), true},
        {start + 24, middle->remote_key(), false},
        {start + 8, uneven->remote_key(), true},
        {start + 16, uneven->remote_key(), false},
        {0, middle->remote_key(), false},
        {~std::uint64_t{7}, middle->remote_key(), false},                // the end wraps around
        {start + (std::uint64_t{1} << 32), middle->remote_key(), false}, // inside modulo 2^32
    };
    for (const Case& c : cases) {
        for (const Opcode opcode : {Opcode::fetch_add, Opcode::compare_swap}) {
            for (std::size_t i = 0; i < 8; ++i) {
                set_word(whole, i, 100 + i);
            }
            set_word(result, 0, 0xaaaa);
            Pair p = rc_pair();
            const std::vector<Gather> gather{result.gather(0, 8)};
            SendWork work = rdma_work(1, opcode, gather, c.address, c.key);
            const std::uint64_t index = (c.address - whole.remote()) / 8;
            work.compare_add = opcode == Opcode::fetch_add ? 1000 : 100 + index;
            work.swap = 1100 + index;
            EXPECT_EQ(run(p.a, work),
                      c.inside ? WorkStatus::success : WorkStatus::remote_access_error)
                << "address " << static_cast<std::int64_t>(c.address - start);
            EXPECT_EQ(word(result), c.inside ? 100 + index : 0xaaaau);
            for (std::size_t i = 0; i < 8; ++i) {
                EXPECT_EQ(word(whole, i), (c.inside && i == index ? 1100 : 100) + i);
            }
        }
    }
}

TEST_P(Atomics, KeysOfRegionsThatAreGoneAreRefused) {
    Buffer& result = memory(0, 8);
    std::vector<std::uint64_t> words(4, 5);
    const auto address = reinterpret_cast<std::uintptr_t>(words.data());
    std::unique_ptr<MemoryRegion> region;
    ASSERT_EQ(rail(1).register_memory(words.data(), 32, kAllAccess, region), kOk);
    const std::uint32_t old = region->remote_key();
    region.reset();
    ASSERT_EQ(rail(1).register_memory(words.data(), 32, kAllAccess, region), kOk);
    const std::vector<Gather> gather{result.gather(0, 8)};
    for (const Opcode opcode : {Opcode::fetch_add, Opcode::compare_swap}) {
        for (const std::uint32_t key : {old, 0u, ~0u}) {
            Pair p = rc_pair();
            SendWork work = rdma_work(1, opcode, gather, address, key);
            work.compare_add = 5;
            EXPECT_EQ(run(p.a, work), WorkStatus::remote_access_error) << "key " << key;
        }
    }
    EXPECT_EQ(words, std::vector<std::uint64_t>(4, 5));
}

} // namespace
} // namespace adaptib::conformance
