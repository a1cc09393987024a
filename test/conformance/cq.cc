// SPDX-License-Identifier: BSD-3-Clause
// Conformance: completion queues.
#include <algorithm>
#include <array>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class Cq : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::rc)) {
            GTEST_SKIP() << "the rail lacks rc";
        }
    }
};
ADAPTIB_CONFORMANCE(Cq);

TEST_P(Cq, NewOnesAreEmpty) {
    Queue& q = queue(0, 16);
    std::array<WorkCompletion, 4> out;
    EXPECT_EQ(q.cq->poll(out), 0u);
    EXPECT_EQ(q.cq->poll({}), 0u);
}

TEST_P(Cq, PollTakesWhatWasAskedForAndKeepsTheRest) {
    EndOptions options;
    options.send_queue = &queue(0, 64);
    options.receive_queue = &queue(1, 64);
    End& a = end(0, [&] {
        EndOptions o = options;
        o.receive_queue = nullptr;
        return o;
    }());
    End& b = end(1, [&] {
        EndOptions o = options;
        o.send_queue = nullptr;
        return o;
    }());
    connect(a, b);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 40 * 64);
    const std::vector<Gather> gather{source.gather(0, 64)};
    for (std::uint64_t i = 0; i < 40; ++i) {
        ASSERT_EQ(post_receive(b, 1000 + i, {target.gather(i * 64, 64)}), kOk);
    }
    for (std::uint64_t i = 0; i < 40; ++i) {
        ASSERT_EQ(a.qp->post_send(send_work(i, gather)), kOk);
    }
    // Polls portions of 0 to 7 completions by hand; the harness's poll would take all.
    const auto drain = [&](CompletionQueue& cq, std::uint64_t first) {
        std::vector<WorkCompletion> all;
        std::size_t portion = 0;
        world().run_until(
            [&] {
                std::array<WorkCompletion, 8> out;
                for (WorkCompletion& c : out) {
                    c.wr_id = ~std::uint64_t{0};
                }
                portion = (portion + 1) % 8;
                const std::size_t count = cq.poll(std::span(out).first(portion));
                EXPECT_LE(count, portion);
                for (std::size_t i = count; i < 8; ++i) {
                    EXPECT_EQ(out[i].wr_id, ~std::uint64_t{0}) << "wrote behind what it returned";
                }
                all.insert(all.end(), out.begin(),
                           out.begin() + static_cast<std::ptrdiff_t>(count));
                // Progress may require polling the other end, too.
                CompletionQueue& other = &cq == a.send->cq.get() ? *b.send->cq : *a.receive->cq;
                EXPECT_EQ(other.poll(out), 0u);
                return all.size() >= 40 || HasFailure();
            },
            kLong);
        ASSERT_EQ(all.size(), 40u);
        for (std::uint64_t i = 0; i < 40; ++i) {
            EXPECT_EQ(all[i].wr_id, first + i);
            EXPECT_EQ(all[i].status, WorkStatus::success);
        }
    };
    drain(*a.send->cq, 0);
    drain(*b.receive->cq, 1000);
    std::array<WorkCompletion, 4> out;
    EXPECT_EQ(a.send->cq->poll(out), 0u);
    EXPECT_EQ(b.receive->cq->poll(out), 0u);
}

TEST_P(Cq, OneQueueForSendsAndReceivesOfManyQueuePairs) {
    constexpr std::size_t kPairs = 6;
    constexpr std::uint64_t kMessages = 60;
    Queue& here = queue(0, 1024);
    Queue& there = queue(1, 1024);
    EndOptions a_options;
    a_options.send_queue = a_options.receive_queue = &here;
    EndOptions b_options;
    b_options.send_queue = b_options.receive_queue = &there;
    Buffer& local = memory(0, 64);
    Buffer& remote = memory(1, 64);
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < kPairs; ++i) {
        End& a = end(0, a_options);
        End& b = end(1, b_options);
        connect(a, b);
        pairs.push_back({a, b});
    }
    for (std::uint64_t m = 0; m < kMessages; ++m) {
        for (Pair& p : pairs) {
            ASSERT_EQ(post_receive(p.a, 1000 + m, {local.gather(0, 64)}), kOk);
            ASSERT_EQ(post_receive(p.b, 1000 + m, {remote.gather(0, 64)}), kOk);
        }
    }
    const std::vector<Gather> from_a{local.gather(0, 32)};
    const std::vector<Gather> from_b{remote.gather(0, 48)};
    for (std::uint64_t m = 0; m < kMessages; ++m) {
        for (Pair& p : pairs) {
            ASSERT_EQ(p.a.qp->post_send(send_work(m, from_a)), kOk);
            ASSERT_EQ(p.b.qp->post_send(send_work(m, from_b)), kOk);
        }
    }
    ASSERT_TRUE(wait_for(here, kPairs * kMessages * 2));
    ASSERT_TRUE(wait_for(there, kPairs * kMessages * 2));
    // Completions of one queue pair and direction come in posting order.
    for (std::size_t i = 0; i < kPairs; ++i) {
        for (const bool at_a : {true, false}) {
            const Queue& q = at_a ? here : there;
            const std::uint32_t number = (at_a ? pairs[i].a : pairs[i].b).qp->number();
            std::uint64_t sent = 0;
            std::uint64_t received = 0;
            for (const WorkCompletion& c : q.got) {
                if (c.qp_number != number) {
                    continue;
                }
                EXPECT_EQ(c.status, WorkStatus::success);
                if (c.kind == WorkKind::send) {
                    EXPECT_EQ(c.wr_id, sent++);
                } else {
                    EXPECT_EQ(c.kind, WorkKind::receive);
                    EXPECT_EQ(c.length, at_a ? 48u : 32u);
                    EXPECT_EQ(c.wr_id, 1000 + received++);
                }
            }
            EXPECT_EQ(sent, kMessages);
            EXPECT_EQ(received, kMessages);
        }
    }
}

TEST_P(Cq, HoldsItsDepth) {
    // The test does not poll this queue until it is exactly full.
    const std::uint32_t depth = std::min({64u, info().max_send_depth, info().max_cq_depth});
    EndOptions options;
    options.send_depth = depth;
    options.receive_depth = depth;
    Queue& sends = queue(0, depth);
    options.send_queue = &sends;
    End& a = end(0, options);
    options.send_queue = nullptr;
    options.receive_queue = &queue(1, depth);
    End& b = end(1, options);
    connect(a, b);
    Buffer& source = memory(0, 8);
    Buffer& target = memory(1, 8);
    const std::vector<Gather> gather{source.gather(0, 8)};
    for (int round = 0; round < 20; ++round) {
        for (std::uint32_t i = 0; i < depth; ++i) {
            ASSERT_EQ(post_receive(b, i, {target.gather(0, 8)}), kOk);
        }
        for (std::uint32_t i = 0; i < depth; ++i) {
            ASSERT_EQ(a.qp->post_send(send_work(i, gather)), kOk) << "round " << round;
        }
        ASSERT_TRUE(wait_for(*b.receive, depth));
        ASSERT_TRUE(wait_for(sends, depth));
        for (std::uint32_t i = 0; i < depth; ++i) {
            EXPECT_EQ(sends.got[i].wr_id, i);
            EXPECT_EQ(sends.got[i].status, WorkStatus::success);
        }
        sends.got.clear();
        b.receive->got.clear();
    }
}

TEST_P(Cq, GrowsWithItsQueuePairs) {
    // The CQ is created for 8 completions. Each queue pair can add 64 sends and 64 receives at
    // once, and the test does not poll before all queue pairs have failed.
    constexpr std::size_t kPairs = 12;
    Queue& shared = queue(0, 8);
    EndOptions options;
    options.send_queue = options.receive_queue = &shared;
    Buffer& memory_of_a = memory(0, 64);
    std::size_t posted = 0;
    std::vector<End*> ends;
    for (std::size_t i = 0; i < kPairs; ++i) {
        End& a = end(0, options);
        End& b = rc_end(1);
        connect(a, b);
        ends.push_back(&a);
        // Unsignaled sends without a receive at the peer: they only wait to be flushed.
        const std::vector<Gather> gather{memory_of_a.gather(0, 8)};
        SendWork work = send_work(i, gather);
        work.flags = 0;
        for (std::size_t n = 0; n < 64 && a.qp->post_send(work).ok(); ++n) {
            ++posted;
        }
        for (std::size_t n = 0; n < 64; ++n) {
            ASSERT_EQ(post_receive(a, 1000 + i, {memory_of_a.gather(0, 64)}), kOk);
            ++posted;
        }
        if (i % 2 == 0) { // fills the CQ while later queue pairs still make it grow
            QpAttributes attributes;
            attributes.state = QpState::error;
            ASSERT_EQ(a.qp->modify(attributes, kQpState), kOk);
        }
    }
    for (End* e : ends) {
        QpAttributes attributes;
        attributes.state = QpState::error;
        ASSERT_EQ(e->qp->modify(attributes, kQpState), kOk);
    }
    ASSERT_TRUE(wait_for(shared, posted));
    std::size_t of_last = 0;
    for (const WorkCompletion& c : shared.got) {
        EXPECT_NE(c.status, WorkStatus::success);
        of_last += c.qp_number == ends.back()->qp->number() ? 1 : 0;
    }
    EXPECT_GT(of_last, 64u) << "its sends and its receives";
    // The CQ works as before.
    End& from = end(0, options);
    End& to = rc_end(1);
    connect(from, to);
    shared.got.clear();
    ASSERT_EQ(post_receive(to, 1, {}), kOk);
    EXPECT_EQ(run(from, send_work(2, {})), WorkStatus::success);
}

TEST_P(Cq, CompletionsOfAnotherRailStayApart) {
    if (rail_count() < 2) {
        GTEST_SKIP() << "the world lacks a second rail";
    }
    Pair first = rc_pair();
    EndOptions options;
    options.rail = 1;
    Pair second = rc_pair(0, 1, options);
    Buffer& source = memory(0, 8, kAllAccess, 1);
    ASSERT_EQ(post_receive(second.b, 3, {}), kOk);
    EXPECT_EQ(run(second.a, send_work(2, {})), WorkStatus::success);
    ASSERT_TRUE(wait_for(*second.b.receive, 1));
    EXPECT_TRUE(first.a.send->got.empty());
    EXPECT_TRUE(first.b.receive->got.empty());
    EXPECT_EQ(source.size(), 8u);
}

} // namespace
} // namespace adaptib::conformance
