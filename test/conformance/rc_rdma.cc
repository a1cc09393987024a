// SPDX-License-Identifier: BSD-3-Clause
// Conformance: RDMA read and write over RC, with and without immediate data; publishing; release of
// unsignaled requests.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class RcRdma : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() &&
            (!has(Capability::rc) || !has(Capability::rdma_write))) {
            GTEST_SKIP() << "the rail lacks rc or rdma_write";
        }
    }
};
ADAPTIB_CONFORMANCE(RcRdma);

TEST_P(RcRdma, WritesOfEveryLength) {
    const std::vector<Bytes> lengths =
        boundary_lengths(std::min(info().max_message_bytes, 2 * kMiB));
    const Bytes room = lengths.back() + 192;
    Pair p = rc_pair();
    for (const bool own : {false, true}) {
        Buffer& source = memory(0, room);
        Buffer& target = own ? allocated(1, room) : memory(1, room);
        for (const Bytes length : lengths) {
            const Bytes at = 64 + length % 13; // unaligned offsets as well
            fill(source.data() + 64, length, length);
            std::fill(target.data(), target.data() + room, std::byte{0xee});
            const std::vector<Gather> gather{source.gather(64, length)};
            ASSERT_EQ(
                run(p.a, rdma_work(length, Opcode::write, gather, target.remote(at), target.key())),
                WorkStatus::success)
                << length;
            ASSERT_TRUE(holds(target.data() + at, length, length)) << length;
            ASSERT_TRUE(all_equal(target.data(), at, std::byte{0xee}));
            ASSERT_TRUE(all_equal(target.data() + at + length, 64, std::byte{0xee}));
        }
    }
}

TEST_P(RcRdma, ReadsOfEveryLength) {
    ADAPTIB_NEEDS(rdma_read);
    const std::vector<Bytes> lengths =
        boundary_lengths(std::min(info().max_message_bytes, 2 * kMiB));
    const Bytes room = lengths.back() + 192;
    Pair p = rc_pair();
    for (const bool own : {false, true}) {
        Buffer& sink = memory(0, room);
        Buffer& target = own ? allocated(1, room) : memory(1, room);
        for (const Bytes length : lengths) {
            const Bytes at = 64 + length % 13;
            fill(target.data() + at, length, length);
            std::fill(sink.data(), sink.data() + room, std::byte{0xee});
            const std::vector<Gather> gather{sink.gather(64, length)};
            ASSERT_EQ(
                run(p.a, rdma_work(length, Opcode::read, gather, target.remote(at), target.key())),
                WorkStatus::success)
                << length;
            ASSERT_TRUE(holds(sink.data() + 64, length, length)) << length;
            ASSERT_TRUE(all_equal(sink.data(), 64, std::byte{0xee}));
            ASSERT_TRUE(all_equal(sink.data() + 64 + length, 64, std::byte{0xee}));
        }
    }
}

TEST_P(RcRdma, KindsOfCompletions) {
    Pair p = rc_pair();
    Buffer& local = memory(0, 64);
    Buffer& target = memory(1, 64);
    const std::vector<Gather> gather{local.gather(0, 64)};
    ASSERT_EQ(p.a.qp->post_send(rdma_work(1, Opcode::write, gather, target.remote(), target.key())),
              kOk);
    ASSERT_TRUE(wait_for(*p.a.send, 1));
    EXPECT_EQ(p.a.send->got[0].kind, WorkKind::write);
    if (has(Capability::rdma_read)) {
        ASSERT_EQ(
            p.a.qp->post_send(rdma_work(2, Opcode::read, gather, target.remote(), target.key())),
            kOk);
        ASSERT_TRUE(wait_for(*p.a.send, 2));
        EXPECT_EQ(p.a.send->got[1].kind, WorkKind::read);
    }
    EXPECT_TRUE(p.b.receive->got.empty());
    EXPECT_TRUE(p.b.send->got.empty());
}

TEST_P(RcRdma, GatherListsOfWritesAndReads) {
    const std::uint32_t most = std::min(info().max_gather, 6u);
    EndOptions options;
    options.max_gather = most;
    Pair p = rc_pair(0, 1, options);
    Buffer& local = memory(0, 100'000);
    Buffer& target = memory(1, 100'000);
    const Bytes pieces[] = {3, 4096, 0, 50'000, 1, 700};
    for (std::uint32_t count = 1; count <= most; ++count) {
        std::vector<Gather> gather;
        Bytes total = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            gather.push_back(local.gather(i * 60 + total, pieces[i]));
            total += pieces[i];
        }
        fill(local.data(), local.size(), count);
        ASSERT_EQ(run(p.a, rdma_work(1, Opcode::write, gather, target.remote(5), target.key())),
                  WorkStatus::success);
        Bytes at = 5;
        for (const Gather& g : gather) {
            const auto* from = static_cast<const std::byte*>(g.address);
            ASSERT_TRUE(std::equal(from, from + g.length, target.data() + at));
            at += g.length;
        }
        if (!has(Capability::rdma_read)) {
            continue;
        }
        fill(target.data(), target.size(), count + 50);
        ASSERT_EQ(run(p.a, rdma_work(1, Opcode::read, gather, target.remote(9), target.key())),
                  WorkStatus::success);
        at = 9;
        for (const Gather& g : gather) {
            const auto* into = static_cast<const std::byte*>(g.address);
            ASSERT_TRUE(std::equal(into, into + g.length, target.data() + at));
            at += g.length;
        }
    }
}

TEST_P(RcRdma, WriteWithImmediateUsesAReceive) {
    ADAPTIB_NEEDS(write_imm);
    Pair p = rc_pair();
    Buffer& local = memory(0, 200'000);
    Buffer& target = memory(1, 200'000);
    Buffer& receive = memory(1, 64);
    for (const Bytes length : {Bytes{0}, Bytes{1}, Bytes{4096}, Bytes{200'000}}) {
        fill(local.data(), length, length);
        std::fill(receive.data(), receive.data() + 64, std::byte{1});
        const std::vector<Gather> gather{local.gather(0, length)};
        SendWork work = rdma_work(1, Opcode::write_imm, gather, target.remote(), target.key());
        work.immediate = static_cast<std::uint32_t>(length) ^ 0xdeadbeefu;
        ASSERT_EQ(p.a.qp->post_send(work), kOk);
        EXPECT_TRUE(stays_empty({p.b.receive})) << "there is no receive yet";
        ASSERT_EQ(post_receive(p.b, 77, {receive.gather(0, 64)}), kOk);
        ASSERT_TRUE(wait_for(*p.b.receive, 1));
        const WorkCompletion& done = p.b.receive->got[0];
        EXPECT_EQ(done.wr_id, 77u);
        EXPECT_EQ(done.status, WorkStatus::success);
        EXPECT_EQ(done.kind, WorkKind::receive_imm);
        EXPECT_EQ(done.immediate, work.immediate);
        EXPECT_EQ(done.length, length);
        EXPECT_TRUE(holds(target.data(), length, length)) << "data first, completion second";
        EXPECT_TRUE(all_equal(receive.data(), 64, std::byte{1}));
        ASSERT_TRUE(wait_for(*p.a.send, 1));
        EXPECT_EQ(p.a.send->got[0].status, WorkStatus::success);
        EXPECT_EQ(p.a.send->got[0].kind, WorkKind::write);
        p.a.send->got.clear();
        p.b.receive->got.clear();
    }
}

TEST_P(RcRdma, ReceiveComesAfterEarlierWrites) {
    Pair p = rc_pair();
    constexpr Bytes kSize = 300'000;
    Buffer& local = memory(0, kSize);
    Buffer& target = memory(1, kSize);
    Buffer& receive = memory(1, 8);
    for (std::uint64_t round = 0; round < 20; ++round) {
        fill(local.data(), kSize, round);
        ASSERT_EQ(post_receive(p.b, round, {receive.gather(0, 8)}), kOk);
        const std::vector<Gather> gather{local.gather(0, kSize)};
        SendWork work = rdma_work(1, Opcode::write, gather, target.remote(), target.key());
        work.flags = 0;
        ASSERT_EQ(post(p.a, work), kOk);
        ASSERT_EQ(post(p.a, send_work(2, {})), kOk);
        ASSERT_TRUE(wait_for(*p.b.receive, 1));
        ASSERT_TRUE(holds(target.data(), kSize, round)) << "round " << round;
        p.b.receive->got.clear();
    }
}

TEST_P(RcRdma, PublishedWordComesLast) {
    Pair p = rc_pair();
    constexpr Bytes kSlot = 2048;
    for (const bool own : {false, true}) {
        Buffer& local = memory(0, kSlot);
        Buffer& ring = own ? allocated(1, kSlot) : memory(1, kSlot);
        for (std::uint64_t round = 1; round <= 200; ++round) {
            const Bytes length = 8 * (1 + round % (kSlot / 8));
            fill(local.data(), length - 8, round);
            std::memcpy(local.data() + length - 8, &round, 8);
            const std::vector<Gather> gather{local.gather(0, length)};
            SendWork work = rdma_work(round, Opcode::write, gather, ring.remote(), ring.key());
            work.flags = kSignaled | kPublish;
            ASSERT_EQ(post(p.a, work), kOk);
            std::atomic_ref<std::uint64_t> word(
                *reinterpret_cast<std::uint64_t*>(ring.data() + length - 8));
            // Polls the word without waiting for the completion, which may come later.
            ASSERT_TRUE(wait([&] { return word.load(std::memory_order_acquire) == round; }));
            ASSERT_TRUE(holds(ring.data(), length - 8, round)) << "round " << round;
            ASSERT_TRUE(wait_for(*p.a.send, 1));
            EXPECT_EQ(p.a.send->got[0].status, WorkStatus::success);
            p.a.send->got.clear();
        }
    }
}

TEST_P(RcRdma, LaterWritesWin) {
    Pair p = rc_pair();
    Buffer& local = memory(0, 64 * 4096);
    Buffer& target = memory(1, 4096);
    for (std::uint64_t i = 0; i < 64; ++i) {
        fill(local.data() + i * 4096, 4096, i);
    }
    for (int round = 0; round < 10; ++round) {
        for (std::uint64_t i = 0; i < 64; ++i) {
            const std::vector<Gather> gather{local.gather(i * 4096, 4096 - (i % 5))};
            SendWork work = rdma_work(i, Opcode::write, gather, target.remote(), target.key());
            work.flags = i == 63 ? +kSignaled : 0u;
            ASSERT_EQ(post(p.a, work), kOk);
        }
        ASSERT_TRUE(wait_for(*p.a.send, 1));
        EXPECT_EQ(p.a.send->got[0].wr_id, 63u);
        EXPECT_EQ(p.a.send->got.size(), 1u);
        EXPECT_TRUE(holds(target.data(), 4096 - (63 % 5), 63));
        p.a.send->got.clear();
    }
}

TEST_P(RcRdma, FencedWriteComesAfterTheRead) {
    ADAPTIB_NEEDS(rdma_read);
    Pair p = rc_pair();
    constexpr Bytes kSize = 100'000;
    Buffer& sink = memory(0, kSize);
    Buffer& source = memory(0, kSize);
    Buffer& target = memory(1, kSize);
    for (std::uint64_t round = 0; round < 20; ++round) {
        fill(target.data(), kSize, round * 2);
        fill(source.data(), kSize, round * 2 + 1);
        const std::vector<Gather> into{sink.gather(0, kSize)};
        SendWork read = rdma_work(1, Opcode::read, into, target.remote(), target.key());
        read.flags = 0;
        ASSERT_EQ(post(p.a, read), kOk);
        const std::vector<Gather> from{source.gather(0, kSize)};
        SendWork write = rdma_work(2, Opcode::write, from, target.remote(), target.key());
        write.flags |= kFence;
        ASSERT_EQ(post(p.a, write), kOk);
        ASSERT_TRUE(wait_for(*p.a.send, 1));
        EXPECT_EQ(p.a.send->got[0].wr_id, 2u);
        p.a.send->got.clear();
        EXPECT_TRUE(holds(sink.data(), kSize, round * 2));
        EXPECT_TRUE(holds(target.data(), kSize, round * 2 + 1));
    }
}

TEST_P(RcRdma, ManyReadsWaitForEachOther) {
    ADAPTIB_NEEDS(rdma_read);
    // More than max_reads at once.
    Pair p = rc_pair();
    constexpr Bytes kPart = 5000;
    Buffer& sink = memory(0, 60 * kPart);
    Buffer& target = memory(1, 60 * kPart);
    fill(target.data(), target.size(), 9);
    for (std::uint64_t i = 0; i < 60; ++i) {
        const std::vector<Gather> into{sink.gather(i * kPart, kPart)};
        ASSERT_EQ(p.a.qp->post_send(
                      rdma_work(i, Opcode::read, into, target.remote(i * kPart), target.key())),
                  kOk);
    }
    ASSERT_TRUE(wait_for(*p.a.send, 60));
    for (std::uint64_t i = 0; i < 60; ++i) {
        EXPECT_EQ(p.a.send->got[i].wr_id, i);
        EXPECT_EQ(p.a.send->got[i].status, WorkStatus::success);
    }
    EXPECT_TRUE(holds(sink.data(), sink.size(), 9));
}

TEST_P(RcRdma, UnsignalledOnesAreReleasedByTheNextSignalled) {
    EndOptions options;
    options.send_depth = 16;
    Pair p = rc_pair(0, 1, options);
    Buffer& local = memory(0, 8);
    Buffer& target = memory(1, 8);
    std::uint64_t signalled = 0;
    for (std::uint64_t i = 0; i < 3000; ++i) {
        fill(local.data(), 8, i / 16);
        const std::vector<Gather> gather{local.gather(0, 8)};
        SendWork work = rdma_work(i, Opcode::write, gather, target.remote(), target.key());
        work.flags = i % 16 == 15 ? +kSignaled : 0u;
        ASSERT_EQ(p.a.qp->post_send(work), kOk) << i;
        if (i % 16 == 15) {
            ASSERT_TRUE(wait_for(*p.a.send, 1)) << i;
            ASSERT_EQ(p.a.send->got.size(), 1u);
            EXPECT_EQ(p.a.send->got[0].wr_id, i);
            EXPECT_TRUE(holds(target.data(), 8, i / 16));
            p.a.send->got.clear();
            ++signalled;
        }
    }
    EXPECT_EQ(signalled, 3000u / 16);
}

TEST_P(RcRdma, SignalAllSignalsAll) {
    EndOptions options;
    options.signal_all = true;
    Pair p = rc_pair(0, 1, options);
    Buffer& local = memory(0, 8);
    Buffer& target = memory(1, 8);
    const std::vector<Gather> gather{local.gather(0, 8)};
    for (std::uint64_t i = 0; i < 20; ++i) {
        SendWork work = rdma_work(i, Opcode::write, gather, target.remote(), target.key());
        work.flags = 0;
        ASSERT_EQ(p.a.qp->post_send(work), kOk);
    }
    ASSERT_TRUE(wait_for(*p.a.send, 20));
}

TEST_P(RcRdma, InlineWrites) {
    if (info().inline_bytes == 0) {
        GTEST_SKIP() << "the rail lacks inline sends";
    }
    const Bytes most = info().inline_bytes;
    EndOptions options;
    options.inline_bytes = most;
    Pair p = rc_pair(0, 1, options);
    Buffer& target = memory(1, 32 * most);
    std::vector<std::byte> plain(most);
    for (std::uint64_t i = 0; i < 32; ++i) {
        fill(plain.data(), most, i);
        const std::vector<Gather> gather{{plain.data(), most, 0}};
        SendWork work = rdma_work(i, Opcode::write, gather, target.remote(i * most), target.key());
        work.flags |= kInline;
        ASSERT_EQ(p.a.qp->post_send(work), kOk);
    }
    std::fill(plain.begin(), plain.end(), std::byte{0});
    ASSERT_TRUE(wait_for(*p.a.send, 32));
    for (std::uint64_t i = 0; i < 32; ++i) {
        EXPECT_TRUE(holds(target.data() + i * most, most, i));
    }
}

TEST_P(RcRdma, BigTransfersInBothDirectionsAtOnce) {
    const Bytes size = std::min(info().max_message_bytes, 48 * kMiB + 333);
    Pair p = rc_pair();
    Buffer& local = memory(0, size);
    Buffer& local_in = memory(0, size);
    Buffer& remote = memory(1, size);
    Buffer& remote_in = allocated(1, size);
    fill(local.data(), size, 1);
    fill(remote.data(), size, 2);
    const std::vector<Gather> from_a{local.gather(0, size)};
    const std::vector<Gather> from_b{remote.gather(0, size)};
    ASSERT_EQ(
        p.a.qp->post_send(rdma_work(1, Opcode::write, from_a, remote_in.remote(), remote_in.key())),
        kOk);
    ASSERT_EQ(
        p.b.qp->post_send(rdma_work(2, Opcode::write, from_b, local_in.remote(), local_in.key())),
        kOk);
    ASSERT_TRUE(wait_for(*p.a.send, 1));
    ASSERT_TRUE(wait_for(*p.b.send, 1));
    EXPECT_EQ(p.a.send->got[0].status, WorkStatus::success);
    EXPECT_EQ(p.b.send->got[0].status, WorkStatus::success);
    EXPECT_TRUE(holds(remote_in.data(), size, 1));
    EXPECT_TRUE(holds(local_in.data(), size, 2));
}

TEST_P(RcRdma, ReadsThatReachBeyondTheRegionBringNothing) {
    ADAPTIB_NEEDS(rdma_read);
    for (const bool own : {false, true}) {
        Buffer& sink = memory(0, 4096);
        Buffer& whole = own ? allocated(1, 4096) : memory(1, 4096);
        std::unique_ptr<MemoryRegion> middle;
        ASSERT_EQ(rail(1).register_memory(whole.data() + 1000, 1000, rights(), middle), kOk);
        fill(whole.data(), 4096, 5);
        const std::uint64_t start = whole.remote(1000);
        const std::uint64_t far = std::uint64_t{1} << 32; // a 32-bit check would find it inside
        struct Case {
            std::uint64_t address;
            Bytes length;
            bool inside;
        };
        for (const Case& c :
             {Case{start, 1000, true}, Case{start + 999, 1, true}, Case{start, 1001, false},
              Case{start - 1, 1, false}, Case{start - 1, 1000, false}, Case{start + 1000, 1, false},
              Case{start + 993, 8, false}, Case{~std::uint64_t{0} - 3, 8, false},
              Case{~std::uint64_t{0} - 999, 1000, false}, Case{0, 1, false},
              Case{start + far, 8, false}, Case{start - far, 8, false}}) {
            std::fill(sink.data(), sink.data() + 4096, std::byte{0xee});
            Pair p = rc_pair();
            const std::vector<Gather> gather{sink.gather(0, c.length)};
            EXPECT_EQ(run(p.a, rdma_work(1, Opcode::read, gather, c.address, middle->remote_key())),
                      c.inside ? WorkStatus::success : WorkStatus::remote_access_error)
                << "address " << static_cast<std::int64_t>(c.address - start) << ", " << c.length;
            EXPECT_TRUE(all_equal(sink.data() + (c.inside ? c.length : 0), 1000, std::byte{0xee}));
            if (c.inside) {
                const std::byte* from = whole.data() + 1000 + (c.address - start);
                EXPECT_TRUE(std::equal(sink.data(), sink.data() + c.length, from));
            }
        }
    }
}

TEST_P(RcRdma, EmptyOnesReachNoMemory) {
    // The responder checks neither key nor address of a request of zero bytes (InfiniBand
    // Architecture, 9.4).
    Buffer& local = memory(0, 64);
    Buffer& target = memory(1, 64);
    fill(local.data(), 64, 1);
    fill(target.data(), 64, 2);
    Pair p = rc_pair();
    for (const Opcode opcode : {Opcode::write, Opcode::read}) {
        if (opcode == Opcode::read && !has(Capability::rdma_read)) {
            continue;
        }
        for (const std::uint64_t address : {target.remote(), std::uint64_t{0}, ~std::uint64_t{0}}) {
            for (const std::uint32_t key : {target.key(), ~0u}) {
                EXPECT_EQ(run(p.a, rdma_work(1, opcode, {}, address, key)), WorkStatus::success);
                const std::vector<Gather> gather{local.gather(8, 0)};
                EXPECT_EQ(run(p.a, rdma_work(1, opcode, gather, address, key)),
                          WorkStatus::success);
            }
        }
    }
    EXPECT_TRUE(holds(local.data(), 64, 1));
    EXPECT_TRUE(holds(target.data(), 64, 2));
}

TEST_P(RcRdma, ARegionThatEndsUnderTrafficIsNotWrittenAfterwards) {
    constexpr Bytes kSize = 300'000;
    constexpr std::size_t kRequests = 24;
    Buffer& local = memory(0, kSize);
    fill(local.data(), kSize, 1);
    std::vector<std::byte> target(kSize);
    for (std::size_t end_after = 0; end_after < kRequests; end_after += 5) {
        std::unique_ptr<MemoryRegion> region;
        ASSERT_EQ(rail(1).register_memory(target.data(), kSize, rights(), region), kOk);
        const std::uint32_t key = region->remote_key();
        Pair p = rc_pair();
        const std::vector<Gather> gather{local.gather(0, kSize)};
        const auto address = reinterpret_cast<std::uintptr_t>(target.data());
        for (std::size_t i = 0; i < kRequests; ++i) {
            if (i == end_after) {
                region.reset();
                std::fill(target.begin(), target.end(), std::byte{0xee});
            }
            const Status posted =
                p.a.qp->post_send(rdma_work(i, Opcode::write, gather, address, key));
            // Once the initiator knows of the error, the queue pair takes nothing more.
            ASSERT_TRUE(posted.ok() || (i > end_after && posted.is_error())) << i;
        }
        ASSERT_TRUE(wait_state(p.a, QpState::error));
        EXPECT_TRUE(stays_empty({p.b.receive}));
        std::size_t refused = 0;
        for (const WorkCompletion& done : p.a.send->got) {
            EXPECT_TRUE(done.status != WorkStatus::success || done.wr_id < end_after)
                << "request " << done.wr_id << " succeeded after the region's end";
            refused += done.status == WorkStatus::remote_access_error;
        }
        EXPECT_EQ(refused, 1u) << "the first is refused, the others are flushed";
        EXPECT_TRUE(all_equal(target.data(), kSize, std::byte{0xee})) << "written after the end";
    }
}

} // namespace
} // namespace adaptib::conformance
