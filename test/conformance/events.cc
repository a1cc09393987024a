// SPDX-License-Identifier: BSD-3-Clause
// Conformance: rails that go down and come back, nodes that end. Uses the controls of World.
#include <algorithm>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class Events : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::rc)) {
            GTEST_SKIP() << "the rail lacks rc";
        }
    }
    void switch_rail(std::size_t node, std::size_t index, bool up) {
        ASSERT_TRUE(world().switch_rail(node, index, up));
        Event event;
        ASSERT_TRUE(wait_event(node, up ? EventKind::port_active : EventKind::port_error, event));
        EXPECT_EQ(event.rail, index);
        EXPECT_EQ(rail(node, index).state(), up ? PortState::active : PortState::down);
    }
};
ADAPTIB_CONFORMANCE(Events);

#define ADAPTIB_NEEDS_SWITCH                                                                       \
    if (!world().can_switch_rails()) {                                                             \
        GTEST_SKIP() << "the world lacks a switch for its rails";                                  \
    }

TEST_P(Events, NoneToBeginWith) {
    Event event;
    for (std::size_t node = 0; node < nodes(); ++node) {
        EXPECT_FALSE(wait_event(node, EventKind::device_fatal, event, kQuiet));
        EXPECT_FALSE(fabric(node).poll_event(event));
    }
}

TEST_P(Events, PortDownAndUp) {
    ADAPTIB_NEEDS_SWITCH;
    for (std::size_t index = 0; index < rail_count(); ++index) {
        for (int round = 0; round < 3; ++round) {
            switch_rail(0, index, false);
            for (std::size_t other = 0; other < rail_count(); ++other) {
                EXPECT_EQ(rail(0, other).state(),
                          other == index ? PortState::down : PortState::active);
            }
            switch_rail(0, index, true);
            Event event;
            EXPECT_FALSE(fabric(0).poll_event(event)) << "one event per change";
        }
    }
}

TEST_P(Events, WorkOverADeadRailEndsInRetryExceeded) {
    ADAPTIB_NEEDS_SWITCH;
    // Kills the rail of either end in turn.
    for (const std::size_t dead : {std::size_t{0}, std::size_t{1}}) {
        for (const Bytes length : {Bytes{64}, Bytes{100'000}}) {
            Pair p = rc_pair();
            Buffer& source = memory(0, length);
            Buffer& target = memory(1, length);
            const std::vector<Gather> gather{source.gather(0, length)};
            ASSERT_EQ(post_receive(p.b, 9, {target.gather(0, length)}), kOk);
            ASSERT_EQ(run(p.a, send_work(1, gather)), WorkStatus::success);
            ASSERT_TRUE(wait_for(*p.b.receive, 1));
            switch_rail(dead, 0, false);
            EXPECT_FALSE((dead == 0 ? p.a : p.b).qp->usable());
            ASSERT_EQ(post_receive(p.b, 10, {target.gather(0, length)}), kOk);
            for (std::uint64_t i = 0; i < 5; ++i) {
                SendWork work = send_work(i, gather);
                work.flags = 0;
                const Status status = p.a.qp->post_send(work);
                ASSERT_TRUE(status.ok() || status == Status::error(Reason::bad_state));
                if (!status.ok()) {
                    break; // the first request has failed already
                }
            }
            ASSERT_TRUE(wait_state(p.a, QpState::error));
            ASSERT_TRUE(wait_for(*p.a.send, 1));
            EXPECT_EQ(p.a.send->got[0].wr_id, 0u);
            EXPECT_EQ(p.a.send->got[0].status, WorkStatus::retry_exceeded);
            for (std::size_t i = 1; i < p.a.send->got.size(); ++i) {
                EXPECT_EQ(p.a.send->got[i].status, WorkStatus::flushed);
            }
            EXPECT_EQ(p.b.receive->got.size(), 1u);
            switch_rail(dead, 0, true);
            EXPECT_EQ(p.a.qp->query().state, QpState::error) << "stays dead";
            Pair fresh = rc_pair();
            ASSERT_EQ(post_receive(fresh.b, 1, {target.gather(0, length)}), kOk);
            EXPECT_EQ(run(fresh.a, send_work(1, gather)), WorkStatus::success);
        }
    }
}

TEST_P(Events, IdleConnectionsOutliveADeadRail) {
    ADAPTIB_NEEDS_SWITCH;
    Pair p = rc_pair();
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    for (std::uint64_t round = 0; round < 4; ++round) {
        ASSERT_EQ(post_receive(p.b, round, {target.gather(0, 64)}), kOk);
        switch_rail(round % 2, 0, false);
        EXPECT_TRUE(stays_empty({p.a.send, p.a.receive, p.b.send, p.b.receive}))
            << "a port event flushes nothing";
        switch_rail(round % 2, 0, true);
        EXPECT_TRUE(p.a.qp->usable());
        EXPECT_TRUE(p.b.qp->usable());
        fill(source.data(), 64, round);
        ASSERT_EQ(run(p.a, send_work(1, {source.gather(0, 64)})), WorkStatus::success);
        ASSERT_TRUE(wait_for(*p.b.receive, 1));
        EXPECT_TRUE(holds(target.data(), 64, round));
        p.b.receive->got.clear();
    }
}

TEST_P(Events, OtherRailsGoOn) {
    ADAPTIB_NEEDS_SWITCH;
    if (rail_count() < 2) {
        GTEST_SKIP() << "the world lacks a second rail";
    }
    EndOptions options;
    options.rail = 1;
    Pair p = rc_pair(0, 1, options);
    Buffer& source = memory(0, 5000, kAllAccess, 1);
    Buffer& target = memory(1, 5000, kAllAccess, 1);
    switch_rail(0, 0, false);
    for (std::uint64_t i = 0; i < 50; ++i) {
        fill(source.data(), 5000, i);
        ASSERT_EQ(post_receive(p.b, i, {target.gather(0, 5000)}), kOk);
        ASSERT_EQ(run(p.a, send_work(i, {source.gather(0, 5000)})), WorkStatus::success);
        ASSERT_TRUE(wait_for(*p.b.receive, i + 1));
        ASSERT_TRUE(holds(target.data(), 5000, i));
    }
    switch_rail(0, 0, true);
}

TEST_P(Events, DatagramsOverADeadRailAreLost) {
    ADAPTIB_NEEDS_SWITCH;
    ADAPTIB_NEEDS(ud);
    EndOptions options;
    options.type = QpType::ud;
    End& a = end(0, options);
    End& b = end(1, options);
    start_ud(a);
    start_ud(b);
    Buffer& target = memory(1, info().datagram_bytes);
    AddressHandle& to = handle(0, 1);
    for (const std::size_t dead : {std::size_t{0}, std::size_t{1}}) {
        ASSERT_EQ(post_receive(b, 1, {target.gather(0, target.size())}), kOk);
        switch_rail(dead, 0, false);
        SendWork work = send_work(1, {});
        work.address_handle = &to;
        work.remote_qp = b.qp->number();
        work.remote_access_key = kTestKey;
        EXPECT_EQ(run(a, work), WorkStatus::success) << "it left, as far as it knows";
        EXPECT_TRUE(stays_empty({b.receive}));
        switch_rail(dead, 0, true);
        EXPECT_TRUE(stays_empty({b.receive})) << "lost, not late";
        ASSERT_EQ(run(a, work), WorkStatus::success);
        if (has(Capability::reliable_ud)) {
            ASSERT_TRUE(wait_for(*b.receive, 1));
            b.receive->got.clear();
        }
    }
}

TEST_P(Events, SlowRailsAreNotUsableForStoresButWork) {
    if (!world().can_slow_rails()) {
        GTEST_SKIP() << "the world lacks a brake for its rails";
    }
    Pair p = rc_pair();
    Buffer& source = memory(0, 20'000);
    Buffer& target = memory(1, 20'000);
    ASSERT_TRUE(world().slow_rail(0, 0, 8));
    ASSERT_TRUE(wait([&] { return !p.a.qp->usable(); }));
    for (std::uint64_t i = 0; i < 20; ++i) {
        fill(source.data(), 20'000, i);
        ASSERT_EQ(post_receive(p.b, i, {target.gather(0, 20'000)}), kOk);
        ASSERT_EQ(run(p.a, send_work(i, {source.gather(0, 20'000)})), WorkStatus::success);
        ASSERT_TRUE(wait_for(*p.b.receive, i + 1));
        ASSERT_TRUE(holds(target.data(), 20'000, i));
    }
    ASSERT_TRUE(world().slow_rail(0, 0, 1));
    EXPECT_TRUE(wait([&] { return p.a.qp->usable(); }));
}

TEST_P(Events, EndedNodesDoNotAnswer) {
    if (!world().can_end_nodes()) {
        GTEST_SKIP() << "the world lacks a way to end a node";
    }
    for (const bool waiting : {false, true}) {
        SCOPED_TRACE(waiting);
        const std::size_t victim = nodes() - 1 - (waiting ? 1 : 0);
        if (victim == 0) {
            break; // only two nodes, and one has ended
        }
        Pair p = rc_pair(0, victim);
        Buffer& source = memory(0, 100'000);
        Buffer& target = memory(victim, 100'000);
        const std::uint64_t address = target.remote();
        const std::uint32_t key = target.key();
        const std::vector<Gather> small{source.gather(0, 64)};
        const std::vector<Gather> big{source.gather(0, 100'000)};
        if (waiting) {
            ASSERT_EQ(p.a.qp->post_send(send_work(50, small)), kOk);
            ASSERT_EQ(p.a.qp->post_send(send_work(51, big)), kOk);
        }
        destroy_node_objects(victim);
        ASSERT_TRUE(world().end_node(victim));
        if (waiting) {
            ASSERT_TRUE(wait_for(*p.a.send, 2));
            EXPECT_EQ(p.a.send->got[0].wr_id, 50u);
            EXPECT_EQ(p.a.send->got[0].status, WorkStatus::retry_exceeded);
            EXPECT_EQ(p.a.send->got[1].status, WorkStatus::flushed);
        } else {
            EXPECT_EQ(run(p.a, rdma_work(1, Opcode::write, big, address, key)),
                      WorkStatus::retry_exceeded);
        }
        EXPECT_FALSE(p.a.qp->usable());
        // The surviving nodes go on.
        Pair alive = rc_pair(0, 0);
        ASSERT_EQ(post_receive(alive.b, 1, {}), kOk);
        EXPECT_EQ(run(alive.a, send_work(1, {})), WorkStatus::success);
    }
}

} // namespace
} // namespace adaptib::conformance
