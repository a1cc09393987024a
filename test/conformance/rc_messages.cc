// SPDX-License-Identifier: BSD-3-Clause
// Conformance: send and receive over RC: contents, lengths, order, gather lists, waiting for
// receives.
#include <algorithm>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class RcMessages : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::rc)) {
            GTEST_SKIP() << "the rail lacks rc";
        }
    }
};
ADAPTIB_CONFORMANCE(RcMessages);

TEST_P(RcMessages, EveryLengthArrivesWhole) {
    const std::vector<Bytes> lengths =
        boundary_lengths(std::min(info().max_message_bytes, 2 * kMiB));
    const Bytes room = lengths.back() + 128;
    Pair p = rc_pair();
    for (const bool own : {false, true}) {
        Buffer& source = own ? allocated(0, room) : memory(0, room);
        Buffer& target = own ? allocated(1, room) : memory(1, room);
        for (const Bytes length : lengths) {
            fill(source.data() + 64, length, length);
            std::fill(target.data(), target.data() + room, std::byte{0xee});
            ASSERT_EQ(post_receive(p.b, length, {target.gather(64, length)}), kOk);
            ASSERT_EQ(run(p.a, send_work(length + 1, {source.gather(64, length)})),
                      WorkStatus::success);
            ASSERT_TRUE(wait_for(*p.b.receive, 1)) << length;
            const WorkCompletion done = p.b.receive->got.front();
            p.b.receive->got.pop_front();
            EXPECT_EQ(done.status, WorkStatus::success);
            EXPECT_EQ(done.kind, WorkKind::receive);
            EXPECT_EQ(done.wr_id, length);
            EXPECT_EQ(done.length, length);
            EXPECT_EQ(done.qp_number, p.b.qp->number());
            ASSERT_TRUE(holds(target.data() + 64, length, length));
            ASSERT_TRUE(all_equal(target.data(), 64, std::byte{0xee}));
            ASSERT_TRUE(all_equal(target.data() + 64 + length, 64, std::byte{0xee}));
        }
    }
}

TEST_P(RcMessages, SendCompletionIsComplete) {
    Pair p = rc_pair();
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, 64)}), kOk);
    const std::vector<Gather> gather{source.gather(0, 64)};
    ASSERT_EQ(p.a.qp->post_send(send_work(0xfedcba9876543210, gather)), kOk);
    ASSERT_TRUE(wait_for(*p.a.send, 1));
    const WorkCompletion& done = p.a.send->got.front();
    EXPECT_EQ(done.wr_id, 0xfedcba9876543210);
    EXPECT_EQ(done.status, WorkStatus::success);
    EXPECT_EQ(done.kind, WorkKind::send);
    EXPECT_EQ(done.qp_number, p.a.qp->number());
    EXPECT_TRUE(stays_empty({p.a.receive, p.b.send}));
    EXPECT_EQ(p.a.send->got.size(), 1u);
}

TEST_P(RcMessages, ShorterThanTheReceiveIsFine) {
    Pair p = rc_pair();
    Buffer& source = memory(0, 100);
    Buffer& target = memory(1, 5000);
    fill(source.data(), 100, 1);
    std::fill(target.data(), target.data() + 5000, std::byte{1});
    ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, 5000)}), kOk);
    EXPECT_EQ(run(p.a, send_work(2, {source.gather(0, 100)})), WorkStatus::success);
    ASSERT_TRUE(wait_for(*p.b.receive, 1));
    EXPECT_EQ(p.b.receive->got[0].length, 100u);
    EXPECT_TRUE(holds(target.data(), 100, 1));
    EXPECT_TRUE(all_equal(target.data() + 100, 4900, std::byte{1}));
}

TEST_P(RcMessages, EmptyMessageNeedsNoBuffers) {
    Pair p = rc_pair();
    ASSERT_EQ(post_receive(p.b, 1, {}), kOk);
    EXPECT_EQ(run(p.a, send_work(2, {})), WorkStatus::success);
    ASSERT_TRUE(wait_for(*p.b.receive, 1));
    EXPECT_EQ(p.b.receive->got[0].length, 0u);
    EXPECT_EQ(p.b.receive->got[0].status, WorkStatus::success);
}

TEST_P(RcMessages, ImmediateDataArrives) {
    Pair p = rc_pair();
    Buffer& source = memory(0, 100);
    Buffer& target = memory(1, 100);
    for (const std::uint32_t immediate : {0u, 1u, 0x01020304u, ~0u}) {
        for (const Bytes length : {Bytes{0}, Bytes{1}, Bytes{100}}) {
            ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, 100)}), kOk);
            const std::vector<Gather> gather{source.gather(0, length)};
            SendWork work = send_work(2, gather);
            work.opcode = Opcode::send_imm;
            work.immediate = immediate;
            ASSERT_EQ(run(p.a, work), WorkStatus::success);
            ASSERT_TRUE(wait_for(*p.b.receive, 1));
            EXPECT_EQ(p.b.receive->got[0].kind, WorkKind::receive_imm);
            EXPECT_EQ(p.b.receive->got[0].immediate, immediate);
            EXPECT_EQ(p.b.receive->got[0].length, length);
            p.b.receive->got.clear();
        }
    }
}

TEST_P(RcMessages, OrderIsKeptBothWays) {
    Pair p = rc_pair();
    constexpr std::size_t kMessages = 500;
    constexpr Bytes kSlot = 600;
    Buffer* out[] = {&memory(0, kMessages * kSlot), &memory(1, kMessages * kSlot)};
    Buffer* in[] = {&memory(0, kMessages * kSlot), &memory(1, kMessages * kSlot)};
    End* ends[] = {&p.a, &p.b};
    const auto length = [](std::size_t i) { return Bytes{(i * 37) % kSlot}; };
    std::size_t posted[2] = {0, 0};
    for (std::size_t i = 0; i < kMessages; ++i) {
        for (std::size_t side = 0; side < 2; ++side) {
            fill(out[side]->data() + i * kSlot, kSlot, i * 2 + side);
            while (posted[side] < std::min(kMessages, i + 32)) {
                const Gather g = in[side]->gather(posted[side] * kSlot, kSlot);
                ASSERT_EQ(post_receive(*ends[side], posted[side], {g}), kOk);
                ++posted[side];
            }
            const std::vector<Gather> gather{out[side]->gather(i * kSlot, length(i))};
            ASSERT_EQ(post(*ends[side], send_work(i, gather)), kOk);
        }
        // Posts new receives only as fast as messages use them up.
        ASSERT_TRUE(wait(
            [&] { return p.a.receive->got.size() + 16 > i && p.b.receive->got.size() + 16 > i; }));
    }
    for (std::size_t side = 0; side < 2; ++side) {
        ASSERT_TRUE(wait_for(*ends[side]->receive, kMessages));
        ASSERT_TRUE(wait_for(*ends[side]->send, kMessages));
        for (std::size_t i = 0; i < kMessages; ++i) {
            EXPECT_EQ(ends[side]->send->got[i].wr_id, i);
            ASSERT_EQ(ends[side]->receive->got[i].wr_id, i);
            ASSERT_EQ(ends[side]->receive->got[i].length, length(i));
            ASSERT_TRUE(holds(in[side]->data() + i * kSlot, length(i), i * 2 + (1 - side)));
        }
    }
}

TEST_P(RcMessages, GatherAndScatterLists) {
    const std::uint32_t most = std::min(info().max_gather, 8u);
    EndOptions options;
    options.max_gather = most;
    Pair p = rc_pair(0, 1, options);
    Buffer& source = memory(0, 100'000);
    Buffer& more = allocated(0, 100'000);
    Buffer& target = memory(1, 200'000);
    fill(source.data(), 100'000, 1);
    fill(more.data(), 100'000, 2);
    const Bytes pieces[] = {1, 0, 7, 64, 1000, 4097, 13, 20'000};
    for (std::uint32_t count = 1; count <= most; ++count) {
        for (std::uint32_t scatter_count = 1; scatter_count <= most; ++scatter_count) {
            std::vector<Gather> gather;
            std::vector<std::byte> expected;
            for (std::uint32_t i = 0; i < count; ++i) {
                const Buffer& from = i % 2 == 0 ? source : more;
                gather.push_back(from.gather(i * 11, pieces[i]));
                expected.insert(expected.end(), from.data() + i * 11,
                                from.data() + i * 11 + pieces[i]);
            }
            // Scatter list: equal parts with holes of 100 bytes between them; the last part takes
            // the rest.
            std::vector<Gather> scatter;
            const Bytes part = expected.size() / scatter_count;
            for (std::uint32_t i = 0; i < scatter_count; ++i) {
                const Bytes last = expected.size() - part * (scatter_count - 1);
                scatter.push_back(
                    target.gather(i * (part + 100), i + 1 == scatter_count ? last : part));
            }
            std::fill(target.data(), target.data() + target.size(), std::byte{0xcd});
            ASSERT_EQ(post_receive(p.b, 1, scatter), kOk);
            ASSERT_EQ(run(p.a, send_work(2, gather)), WorkStatus::success);
            ASSERT_TRUE(wait_for(*p.b.receive, 1));
            EXPECT_EQ(p.b.receive->got[0].length, expected.size());
            p.b.receive->got.clear();
            Bytes at = 0;
            for (const Gather& g : scatter) {
                const auto* there = static_cast<const std::byte*>(g.address);
                ASSERT_TRUE(std::equal(there, there + g.length,
                                       expected.begin() + static_cast<std::ptrdiff_t>(at)))
                    << count << " into " << scatter_count;
                ASSERT_TRUE(all_equal(there + g.length, 100, std::byte{0xcd}));
                at += g.length;
            }
        }
    }
}

TEST_P(RcMessages, WhatTheRequestShowsIsRefusedAtOnce) {
    EndOptions options;
    options.inline_bytes = std::min<Bytes>(info().inline_bytes, 32);
    Pair p = rc_pair(0, 1, options);
    Buffer& source = memory(0, 4096);
    Buffer& target = memory(1, 4096);
    const Status bad = Status::error(Reason::bad_argument);
    std::vector<Gather> gather(info().max_gather + 1, source.gather(0, 1));
    EXPECT_EQ(p.a.qp->post_send(send_work(1, gather)), bad) << "gather entries";
    EXPECT_EQ(post_receive(p.b, 1, gather), bad) << "scatter entries";
    if (info().max_message_bytes < Bytes{1} << 60) {
        gather = {source.gather(0, info().max_message_bytes + 1)};
        EXPECT_EQ(p.a.qp->post_send(send_work(1, gather)), bad) << "message length";
    }
    gather = {source.gather(0, 4096)};
    if (info().inline_bytes < 4096) {
        SendWork work = send_work(1, gather);
        work.flags |= kInline;
        EXPECT_EQ(p.a.qp->post_send(work), bad) << "inline length";
    }
    EXPECT_TRUE(stays_empty({p.a.send, p.b.receive}));
    EXPECT_EQ(p.a.qp->query().state, QpState::ready_to_send);
    ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, 4096)}), kOk);
    EXPECT_EQ(run(p.a, send_work(2, gather)), WorkStatus::success);
}

TEST_P(RcMessages, InlineTakesThePayloadAtOnceAndNeedsNoKey) {
    const Bytes most = info().inline_bytes;
    if (most == 0) {
        GTEST_SKIP() << "the rail lacks inline sends";
    }
    EndOptions options;
    options.inline_bytes = most;
    Pair p = rc_pair(0, 1, options);
    Buffer& target = memory(1, 16 * most);
    std::vector<std::byte> plain(most);
    // The target has posted no receive yet: the requests wait while their source changes.
    for (std::uint64_t i = 0; i < 8; ++i) {
        fill(plain.data(), most, i);
        const std::vector<Gather> gather{{plain.data(), most - i % most, 0}};
        SendWork work = send_work(i, gather);
        work.flags |= kInline;
        ASSERT_EQ(p.a.qp->post_send(work), kOk);
    }
    std::fill(plain.begin(), plain.end(), std::byte{0});
    for (std::uint64_t i = 0; i < 8; ++i) {
        ASSERT_EQ(post_receive(p.b, i, {target.gather(i * most, most)}), kOk);
    }
    ASSERT_TRUE(wait_for(*p.b.receive, 8));
    ASSERT_TRUE(wait_for(*p.a.send, 8));
    for (std::uint64_t i = 0; i < 8; ++i) {
        EXPECT_EQ(p.b.receive->got[i].length, most - i % most);
        EXPECT_TRUE(holds(target.data() + i * most, most - i % most, i));
    }
}

TEST_P(RcMessages, WaitsForReceivesInOrder) {
    EndOptions options;
    options.send_depth = 32;
    options.receive_depth = std::min(8192u, info().max_send_depth);
    Pair p = rc_pair(0, 1, options);
    // Small requests, whose data may lie in a queue on the way, and large ones, whose data may not.
    for (const Bytes length : {Bytes{64}, Bytes{5000}, Bytes{300'000}}) {
        Buffer& source = memory(0, length + 8192);
        Buffer& target = memory(1, length + 8192);
        fill(source.data(), source.size(), length);
        std::uint64_t taken = 0;
        for (; taken < 8000; ++taken) {
            const std::vector<Gather> gather{source.gather(taken, length)};
            const Status status = p.a.qp->post_send(send_work(taken, gather));
            if (!status.ok()) {
                ASSERT_EQ(status, Status::again(Reason::queue_full));
                break;
            }
        }
        ASSERT_GE(taken, options.send_depth) << "a queue takes at least its depth";
        ASSERT_LT(taken, 8000u) << "without receives the queue never filled";
        EXPECT_TRUE(stays_empty({p.a.send, p.b.receive}));
        for (std::uint64_t i = 0; i < taken; ++i) {
            ASSERT_EQ(post_receive(p.b, i, {target.gather(0, length)}), kOk);
            ASSERT_TRUE(wait_for(*p.b.receive, 1)) << i << " of " << taken;
            EXPECT_EQ(p.b.receive->got[0].wr_id, i);
            EXPECT_EQ(p.b.receive->got[0].status, WorkStatus::success);
            ASSERT_TRUE(std::equal(target.data(), target.data() + length, source.data() + i));
            p.b.receive->got.clear();
        }
        ASSERT_TRUE(wait_for(*p.a.send, taken));
        for (std::uint64_t i = 0; i < taken; ++i) {
            EXPECT_EQ(p.a.send->got[i].wr_id, i);
            EXPECT_EQ(p.a.send->got[i].status, WorkStatus::success);
        }
        p.a.send->got.clear();
    }
}

TEST_P(RcMessages, WaitingOnesDoNotHoldOthersUp) {
    // The first pair waits for a receive; the second, between the same nodes, goes on.
    Pair stuck = rc_pair();
    Pair free = rc_pair();
    Buffer& source = memory(0, 4096);
    Buffer& target = memory(1, 4096);
    const std::vector<Gather> gather{source.gather(0, 4096)};
    for (std::uint64_t i = 0; i < 32; ++i) {
        ASSERT_EQ(stuck.a.qp->post_send(send_work(i, gather)), kOk);
    }
    for (std::uint64_t i = 0; i < 300; ++i) {
        ASSERT_EQ(post_receive(free.b, i, {target.gather(0, 4096)}), kOk);
        ASSERT_EQ(run(free.a, send_work(i, gather)), WorkStatus::success) << i;
    }
    EXPECT_TRUE(stuck.a.send->got.empty());
    for (std::uint64_t i = 0; i < 32; ++i) {
        ASSERT_EQ(post_receive(stuck.b, i, {target.gather(0, 4096)}), kOk);
    }
    EXPECT_TRUE(wait_for(*stuck.a.send, 32));
    EXPECT_TRUE(wait_for(*stuck.b.receive, 32));
}

TEST_P(RcMessages, RnrRetriesEnd) {
    RcOptions rc;
    rc.rnr_retry = 2;
    Pair p = rc_pair(0, 1, {}, rc);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    EXPECT_EQ(run(p.a, send_work(1, {source.gather(0, 64)})), WorkStatus::rnr_retry_exceeded);
    EXPECT_EQ(p.a.qp->query().state, QpState::error);
    // The responder notices nothing: a receive that it posts now stays unused.
    EXPECT_EQ(p.b.qp->query().state, QpState::ready_to_send);
    ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, 64)}), kOk);
    EXPECT_TRUE(stays_empty({p.b.receive}));
}

TEST_P(RcMessages, TooShortReceiveEndsBoth) {
    for (const Bytes length : {Bytes{9}, Bytes{3000}, Bytes{200'000}}) {
        Pair p = rc_pair();
        Buffer& source = memory(0, length);
        Buffer& target = memory(1, length);
        std::fill(target.data(), target.data() + length, std::byte{3});
        ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, length - 1)}), kOk);
        ASSERT_EQ(post_receive(p.b, 2, {target.gather(0, length)}), kOk);
        EXPECT_TRUE(ended(run(p.a, send_work(3, {source.gather(0, length)})),
                          WorkStatus::remote_invalid_request));
        ASSERT_TRUE(wait_for(*p.b.receive, 2));
        EXPECT_EQ(p.b.receive->got[0].wr_id, 1u);
        EXPECT_TRUE(ended(p.b.receive->got[0].status, WorkStatus::local_length_error));
        EXPECT_EQ(p.b.receive->got[1].wr_id, 2u);
        EXPECT_EQ(p.b.receive->got[1].status, WorkStatus::flushed);
        EXPECT_EQ(p.a.qp->query().state, QpState::error);
        EXPECT_EQ(p.b.qp->query().state, QpState::error);
        EXPECT_EQ(target.data()[length - 1], std::byte{3}) << "wrote behind the receive";
    }
}

TEST_P(RcMessages, BadReceiveMemoryEndsBoth) {
    Buffer& source = memory(0, 256);
    Buffer& target = memory(1, 256);
    Buffer& read_only = memory(1, 256, kRemoteRead);
    const Gather bad[] = {
        {target.data(), 256, ~0u},
        {target.data() + 1, 256, target.region->local_key()},
        read_only.gather(0, 256),
    };
    for (const Gather& g : bad) {
        Pair p = rc_pair();
        ASSERT_EQ(post_receive(p.b, 1, {g}), kOk) << "seen when it is used, not before";
        EXPECT_EQ(run(p.a, send_work(3, {source.gather(0, 256)})),
                  WorkStatus::remote_operation_error);
        ASSERT_TRUE(wait_for(*p.b.receive, 1));
        EXPECT_EQ(p.b.receive->got[0].wr_id, 1u);
        EXPECT_TRUE(ended(p.b.receive->got[0].status, WorkStatus::local_protection_error));
        EXPECT_EQ(p.b.qp->query().state, QpState::error);
    }
}

TEST_P(RcMessages, ReceiveQueueTakesItsDepthAndThenSaysFull) {
    EndOptions options;
    options.receive_depth = 20;
    options.receive_queue = &queue(1, std::min(info().max_cq_depth, 8192u));
    End& e = end(1, options);
    End& peer = rc_end(0);
    connect(peer, e);
    Buffer& target = memory(1, 64);
    std::uint64_t taken = 0;
    for (; taken < 4000; ++taken) {
        const Status status = post_receive(e, taken, {target.gather(0, 64)});
        if (!status.ok()) {
            EXPECT_EQ(status, Status::again(Reason::queue_full));
            break;
        }
    }
    EXPECT_GE(taken, 20u);
    EXPECT_LT(taken, 4000u);
    Buffer& source = memory(0, 64);
    EXPECT_EQ(run(peer, send_work(1, {source.gather(0, 64)})), WorkStatus::success);
    ASSERT_TRUE(wait_for(*e.receive, 1));
    EXPECT_EQ(post_receive(e, 1, {target.gather(0, 64)}), kOk) << "one was used";
}

TEST_P(RcMessages, LargestMessages) {
    const Bytes length = std::min(info().max_message_bytes, 64 * kMiB + 12'345);
    Pair p = rc_pair();
    Buffer& source = memory(0, length);
    Buffer& target = memory(1, length);
    fill(source.data(), length, 6);
    ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, length)}), kOk);
    EXPECT_EQ(run(p.a, send_work(2, {source.gather(0, length)})), WorkStatus::success);
    ASSERT_TRUE(wait_for(*p.b.receive, 1));
    EXPECT_EQ(p.b.receive->got[0].length, length);
    EXPECT_TRUE(holds(target.data(), length, 6));
}

} // namespace
} // namespace adaptib::conformance
