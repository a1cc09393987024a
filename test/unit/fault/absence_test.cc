// SPDX-License-Identifier: BSD-3-Clause
// A process that computes for long makes no call meanwhile: that it heard nothing then is
// no peer's silence.
#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

using fault::Fault;
using std::chrono::seconds;

constexpr Nanoseconds kStep{50'000};

// Nodes over two rails, both with faults; a peer that is silent for 20 s is given
// up. Node 0 computes.
class Absence : public testing::Test {
protected:
    void start(int connect_threshold) {
        Options options;
        options.parameters.connect_threshold = connect_threshold;
        options.parameters.shm_rails = 2;
        options.parameters.partition_timeout = 20;
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return fault::with_faults(std::move(fabric), plans[node], clock, logs[node]);
        };
        world = std::make_unique<Cores>(2, options);
        send(8);
        expect_arrival();
    }
    void send(Bytes bytes) {
        message = std::make_unique<PatternMessage>(0, bytes, bytes);
        ASSERT_TRUE(world->receive(1, 0, 1, contiguous(message->got), message->receive).ok());
        ASSERT_TRUE(world->send(0, 1, 1, contiguous(message->sent), message->send).ok());
    }
    bool run(const std::function<bool()>& done) {
        for (int pass = 0; pass < 100000 && !done(); ++pass) {
            world->progress();
            world->clock.advance(kStep);
        }
        return done();
    }
    void progress_alone(int passes) {
        for (int pass = 0; pass < passes; ++pass) {
            world->progress(0);
            world->clock.advance(kStep);
        }
    }
    void expect_arrival() {
        EXPECT_TRUE(run([&] { return message->send.done && message->receive.done; }));
        EXPECT_EQ(message->receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_TRUE(message->got == message->sent);
    }
    Peer& peer(std::size_t node) { return *world->peer(node, 1 - node); }

    fault::FaultPlan plans[2];
    fault::FaultLog logs[2];
    std::unique_ptr<Cores> world;
    std::unique_ptr<PatternMessage> message;
};

TEST_F(Absence, WhoHasNotAcknowledgedIsAskedAgain) {
    start(1000);
    send(8);
    progress_alone(10);
    world->clock.advance(seconds{100});
    progress_alone(300);
    EXPECT_NE(peer(0).session.state, ConnectState::failed) << peer(0).ending.failure;
    expect_arrival();
}

TEST_F(Absence, WhatTheAdapterHasSentIsLookedAtFirst) {
    start(1000);
    run([this] {
        return !peer(0).contact.datagram.link->busy() && !peer(1).contact.datagram.link->busy();
    });
    send(8);
    world->clock.advance(seconds{2});
    world->core(0).run_timers();
    EXPECT_EQ(world->counters(0).datagram_restarts, 0u);
    EXPECT_EQ(world->counters(0).paths_failed, 0u);
    expect_arrival();
}

TEST_F(Absence, ARepairGoesOn) {
    start(0);
    ASSERT_TRUE(run([this] { return peer(0).session.state == ConnectState::open; }));
    QpAttributes attributes;
    attributes.state = QpState::error;
    ASSERT_TRUE(peer(0).lanes.subchannels[0].qp->modify(attributes, kQpState).ok());
    send(200);
    for (int pass = 0; pass < 1000 && !peer(0).interruption.repair.active; ++pass) {
        progress_alone(1);
    }
    ASSERT_TRUE(peer(0).interruption.repair.active);
    world->clock.advance(seconds{100});
    progress_alone(300);
    EXPECT_NE(peer(0).session.state, ConnectState::failed) << peer(0).ending.failure;
    expect_arrival();
}

TEST_F(Absence, PathsThatAreBackAreAsked) {
    start(0);
    ASSERT_TRUE(run([this] { return peer(0).session.state == ConnectState::open; }));
    const Nanoseconds now = world->clock.now();
    for (std::uint32_t rail = 0; rail < 2; ++rail) {
        plans[0].faults.push_back({.fault = Fault::rail_down, .from = now, .rail = rail});
        plans[0].faults.push_back(
            {.fault = Fault::rail_up, .from = now + seconds{50}, .rail = rail});
    }
    progress_alone(2000);
    ASSERT_TRUE(peer(0).health.paths != nullptr && peer(0).health.paths->without);
    send(200);
    world->clock.advance(seconds{100});
    progress_alone(300);
    EXPECT_NE(peer(0).session.state, ConnectState::failed) << peer(0).ending.failure;
    expect_arrival();
}

} // namespace
} // namespace adaptib::test
