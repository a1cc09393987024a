// SPDX-License-Identifier: BSD-3-Clause
// Conformance: shared receive queues and their limit event.
#include <map>
#include <set>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class Srq : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && (!has(Capability::rc) || !has(Capability::srq))) {
            GTEST_SKIP() << "the rail lacks rc or srq";
        }
    }
    // Makes a pair whose second end takes receives from the SRQ and completes them in a common CQ.
    Pair shared_pair(std::size_t from, SharedReceiveQueue& s, Queue& receive) {
        EndOptions options;
        options.srq = &s;
        options.receive_queue = &receive;
        End& a = end(from);
        End& b = end(1, options);
        connect(a, b);
        return {a, b};
    }
};
ADAPTIB_CONFORMANCE(Srq);

TEST_P(Srq, SendersShareItAndEachKeepsItsOrder) {
    constexpr std::uint32_t kDepth = 32;
    constexpr std::uint64_t kMessages = 200;
    constexpr Bytes kSlot = 3000;
    SharedReceiveQueue& s = srq(1, kDepth);
    Queue& received = queue(1, 2048);
    Buffer& target = memory(1, kDepth * kSlot);
    std::vector<Pair> pairs;
    std::vector<Buffer*> sources;
    for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t from = i % nodes() == 1 ? 0 : i % nodes();
        pairs.push_back(shared_pair(from, s, received));
        sources.push_back(&memory(from, kSlot * kMessages));
        for (std::uint64_t m = 0; m < kMessages; ++m) {
            fill(sources[i]->data() + m * kSlot, kSlot, i * 1000 + m);
        }
    }
    for (std::uint64_t slot = 0; slot < kDepth; ++slot) {
        ASSERT_EQ(post_receive(s, slot, {target.gather(slot * kSlot, kSlot)}), kOk);
    }
    std::vector<std::uint64_t> next(4, 0);
    std::map<std::uint32_t, std::size_t> index;
    for (std::size_t i = 0; i < 4; ++i) {
        index[pairs[i].b.qp->number()] = i;
    }
    std::vector<std::uint64_t> arrived(4, 0);
    const bool all = wait([&] {
        for (std::size_t i = 0; i < 4; ++i) {
            if (next[i] < kMessages) {
                const Bytes length = (next[i] * 61 + i) % kSlot;
                const std::vector<Gather> gather{sources[i]->gather(next[i] * kSlot, length)};
                if (pairs[i].a.qp->post_send(send_work(next[i], gather)).ok()) {
                    ++next[i];
                }
            }
        }
        while (!received.got.empty()) {
            const WorkCompletion done = received.got.front();
            received.got.pop_front();
            EXPECT_EQ(done.status, WorkStatus::success);
            if (index.count(done.qp_number) == 0) {
                ADD_FAILURE() << "completion of queue pair " << done.qp_number;
                return true;
            }
            const std::size_t i = index[done.qp_number];
            EXPECT_EQ(done.length, (arrived[i] * 61 + i) % kSlot);
            EXPECT_TRUE(
                holds(target.data() + done.wr_id * kSlot, done.length, i * 1000 + arrived[i]));
            ++arrived[i];
            EXPECT_EQ(post_receive(s, done.wr_id, {target.gather(done.wr_id * kSlot, kSlot)}), kOk);
        }
        return arrived == std::vector<std::uint64_t>(4, kMessages) || HasFailure();
    });
    EXPECT_TRUE(all) << arrived[0] << " " << arrived[1] << " " << arrived[2] << " " << arrived[3];
}

TEST_P(Srq, TakesItsDepthAndThenSaysFull) {
    SharedReceiveQueue& s = srq(1, 16);
    Buffer& target = memory(1, 64);
    std::uint64_t taken = 0;
    for (; taken < 4096; ++taken) {
        const Status status = post_receive(s, taken, {target.gather(0, 64)});
        if (!status.ok()) {
            EXPECT_EQ(status, Status::again(Reason::queue_full));
            break;
        }
    }
    EXPECT_GE(taken, 16u);
    EXPECT_LT(taken, 4096u);
}

TEST_P(Srq, QueuePairsOnItTakeNoReceivesOfTheirOwn) {
    SharedReceiveQueue& s = srq(1, 16);
    Pair p = shared_pair(0, s, queue(1));
    Buffer& target = memory(1, 64);
    EXPECT_EQ(post_receive(p.b, 1, {target.gather(0, 64)}), Status::error(Reason::bad_argument));
}

TEST_P(Srq, EmptySrqMakesSendersWait) {
    SharedReceiveQueue& s = srq(1, 16);
    Queue& received = queue(1);
    Pair p = shared_pair(0, s, received);
    Buffer& source = memory(0, 4000);
    Buffer& target = memory(1, 4000);
    fill(source.data(), 4000, 1);
    const std::vector<Gather> gather{source.gather(0, 4000)};
    ASSERT_EQ(p.a.qp->post_send(send_work(1, gather)), kOk);
    EXPECT_TRUE(stays_empty({p.a.send, &received}));
    ASSERT_EQ(post_receive(s, 5, {target.gather(0, 4000)}), kOk);
    ASSERT_TRUE(wait_for(received, 1));
    EXPECT_EQ(received.got[0].wr_id, 5u);
    EXPECT_TRUE(wait_for(*p.a.send, 1));
    EXPECT_TRUE(holds(target.data(), 4000, 1));
}

TEST_P(Srq, ReceivesStayWhenAQueuePairFails) {
    SharedReceiveQueue& s = srq(1, 16);
    Queue& received = queue(1);
    Pair first = shared_pair(0, s, received);
    Pair second = shared_pair(0, s, received);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(post_receive(s, i, {target.gather(0, 64)}), kOk);
    }
    QpAttributes to_error;
    to_error.state = QpState::error;
    ASSERT_EQ(first.b.qp->modify(to_error, kQpState), kOk);
    EXPECT_TRUE(stays_empty({&received})) << "receives of an SRQ are not flushed";
    std::set<std::uint64_t> used;
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(run(second.a, send_work(i, {source.gather(0, 64)})), WorkStatus::success);
        ASSERT_TRUE(wait_for(received, 1));
        EXPECT_EQ(received.got[0].qp_number, second.b.qp->number());
        EXPECT_EQ(received.got[0].status, WorkStatus::success);
        used.insert(received.got[0].wr_id);
        received.got.clear();
    }
    EXPECT_EQ(used.size(), 4u);
}

TEST_P(Srq, DestroyedQueuePairLeavesTheSrqToOthers) {
    SharedReceiveQueue& s = srq(1, 16);
    Queue& received = queue(1);
    Pair first = shared_pair(0, s, received);
    Pair second = shared_pair(0, s, received);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    const std::vector<Gather> gather{source.gather(0, 64)};
    ASSERT_EQ(first.a.qp->post_send(send_work(1, gather)), kOk) << "waits for a receive";
    destroy(first.a);
    destroy(first.b);
    ASSERT_EQ(post_receive(s, 9, {target.gather(0, 64)}), kOk);
    EXPECT_EQ(run(second.a, send_work(2, gather)), WorkStatus::success);
    ASSERT_TRUE(wait_for(received, 1));
    EXPECT_EQ(received.got[0].wr_id, 9u);
    EXPECT_EQ(received.got[0].qp_number, second.b.qp->number());
}

TEST_P(Srq, LimitEventComesOncePerArming) {
    SharedReceiveQueue& s = srq(1, 16);
    Queue& received = queue(1);
    Pair p = shared_pair(0, s, received);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    EXPECT_EQ(s.arm_limit(1u << 30), Status::error(Reason::bad_argument));
    for (std::uint64_t i = 0; i < 8; ++i) {
        ASSERT_EQ(post_receive(s, i, {target.gather(0, 64)}), kOk);
    }
    const auto send_one = [&] {
        return run(p.a, send_work(1, {source.gather(0, 64)})) == WorkStatus::success;
    };
    Event event;
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(s.arm_limit(6), kOk);
        ASSERT_TRUE(send_one()); // 7 are left
        ASSERT_TRUE(send_one()); // 6
        ASSERT_TRUE(wait_for(received, 2));
        EXPECT_FALSE(wait_event(1, EventKind::srq_limit, event, kQuiet)) << "not below the limit";
        ASSERT_TRUE(send_one()); // 5
        ASSERT_TRUE(wait_event(1, EventKind::srq_limit, event)) << "round " << round;
        EXPECT_EQ(event.srq, &s);
        EXPECT_EQ(event.rail, 0u);
        ASSERT_TRUE(send_one());
        EXPECT_FALSE(wait_event(1, EventKind::srq_limit, event, kQuiet)) << "once";
        received.got.clear();
        for (std::uint64_t i = 0; i < 4; ++i) {
            ASSERT_EQ(post_receive(s, i, {target.gather(0, 64)}), kOk);
        }
    }
    ASSERT_EQ(s.arm_limit(8), kOk);
    ASSERT_EQ(s.arm_limit(0), kOk);
    ASSERT_TRUE(send_one());
    ASSERT_TRUE(send_one());
    EXPECT_FALSE(wait_event(1, EventKind::srq_limit, event, kQuiet)) << "switched off";
}

} // namespace
} // namespace adaptib::conformance
