// SPDX-License-Identifier: BSD-3-Clause
// Connections whose queue pairs need an rdma_cm connect, and queue pairs that cannot be connected:
// what is tried again, what a connection does without, and the notices for people.
#include <array>

#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

using fault::Fault;

constexpr Nanoseconds kSecond{1'000'000'000};
constexpr std::size_t kRails = 2;

class World {
public:
    explicit World(bool cm_connects = true) {
        for (fault::FaultPlan& plan : plans) {
            plan.cm_connects = cm_connects;
            plan.lacks = static_cast<std::uint32_t>(Capability::direct);
        }
        options.parameters.connect_threshold = 0;
        options.parameters.shm_rails = kRails;
        options.parameters.striping_policy = const_cast<char*>("even");
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return fault::with_faults(std::move(fabric), plans[node], clock, logs[node]);
        };
    }
    ~World() { cores.reset(); }

    void start() { cores = std::make_unique<Cores>(2, options); }
    void ask(std::size_t node) {
        Peer* peer = nullptr;
        ASSERT_TRUE(cores->core(node).peers().get(Cores::name(1 - node), peer).ok());
        Message& message = messages[node];
        ASSERT_TRUE(cores
                        ->receive(1 - node, static_cast<std::int32_t>(node), 1,
                                  contiguous(message.got), message.receive)
                        .ok());
        ASSERT_TRUE(cores->send(node, 1 - node, 1, contiguous(message.sent), message.send).ok());
    }
    bool run(
        Nanoseconds time, const std::function<bool()>& done = [] { return false; }) {
        constexpr Nanoseconds kStep{1'000'000};
        for (const Nanoseconds end = cores->clock.now() + time;
             cores->clock.now() < end && !done();) {
            cores->clock.advance(kStep);
            for (int i = 0; i < 64; ++i) { // timers run only once in so many passes
                cores->progress();
            }
        }
        return done();
    }
    void connect() {
        start();
        ask(0);
        ASSERT_TRUE(run(kSecond, [&] { return open() && arrived(0); }));
    }
    void plan(const fault::PlannedFault& fault) {
        for (fault::FaultPlan& each : plans) { // either node may be the one that asks
            each.faults.push_back(fault);
        }
    }
    // No connect succeeds from now on for so long.
    void fail_connects(Nanoseconds time) {
        plan({.fault = Fault::cm_connect_fails, .rate = 1, .until = cores->clock.now() + time});
    }
    std::uint64_t repeated() {
        return cores->counters(0).cm_connects_repeated + cores->counters(1).cm_connects_repeated;
    }
    Peer& peer(std::size_t node) { return *cores->peer(node, 1 - node); }
    bool open() {
        return cores->peer(0, 1) != nullptr && cores->peer(1, 0) != nullptr &&
               peer(0).session.state == ConnectState::open &&
               peer(1).session.state == ConnectState::open;
    }
    bool arrived(std::size_t node) {
        return messages[node].send.done && messages[node].receive.done &&
               messages[node].got == messages[node].sent;
    }
    // True if both ends have these paths and no others.
    bool lives(std::array<bool, kRails> paths) {
        for (std::size_t node : {0u, 1u}) {
            for (std::size_t i = 0; i < kRails; ++i) {
                if ((peer(node).lanes.subchannels[i].qp != nullptr) != paths[i]) {
                    return false;
                }
            }
        }
        return true;
    }
    std::string reported(std::size_t node) {
        std::string text;
        for (const std::string& each : cores->messages(node)) {
            text += each + "\n";
        }
        return text;
    }

    struct Message {
        std::vector<std::byte> sent = pattern(300'000, 5);
        std::vector<std::byte> got = std::vector<std::byte>(300'000);
        TestRequest send;
        TestRequest receive;
    };
    Options options;
    std::array<fault::FaultPlan, 2> plans;
    std::array<fault::FaultLog, 2> logs;
    std::array<Message, 2> messages;
    std::unique_ptr<Cores> cores;
};

TEST(CmConnects, AConnectionComesUpAndCarries) {
    World world;
    world.start();
    world.ask(0);
    EXPECT_TRUE(world.run(kSecond, [&] { return world.open() && world.arrived(0); }));
    EXPECT_TRUE(world.lives({true, true}));
    EXPECT_EQ(world.repeated(), 0u);
    EXPECT_EQ(world.cores->counters(0).connections_timed +
                  world.cores->counters(1).connections_timed,
              1u);
    EXPECT_EQ(world.reported(0) + world.reported(1), "");
}

TEST(CmConnects, RequestsThatCrossMakeOneConnection) {
    World world;
    world.start();
    world.ask(0);
    world.ask(1);
    EXPECT_TRUE(
        world.run(kSecond, [&] { return world.open() && world.arrived(0) && world.arrived(1); }));
    EXPECT_EQ(world.cores->counters(0).connections_crossed +
                  world.cores->counters(1).connections_crossed,
              2u);
    EXPECT_EQ(world.cores->counters(0).connections_open, 1u);
    EXPECT_EQ(world.cores->counters(0).bad_packets + world.cores->counters(1).bad_packets, 0u);
}

TEST(CmConnects, WhatComesToNothingIsTriedAgain) {
    World world;
    for (std::uint64_t nth : {1, 2, 3, 5}) {
        world.plan({.fault = Fault::cm_connect_fails, .nth = nth});
    }
    world.start();
    world.ask(0);
    EXPECT_TRUE(world.run(2 * kSecond, [&] { return world.open() && world.arrived(0); }));
    EXPECT_TRUE(world.lives({true, true}));
    EXPECT_EQ(world.repeated(), 4u);
    EXPECT_EQ(world.reported(0) + world.reported(1), "") << "nobody has to know";
}

TEST(CmConnects, APathThatIsNotConnectedIsDoneWithoutAndTakenBack) {
    for (const std::uint32_t rail : {0u, 1u}) {
        SCOPED_TRACE(rail);
        World world;
        world.plan(
            {.fault = Fault::cm_connect_fails, .rate = 1, .until = 10 * kSecond, .rail = rail});
        world.start();
        world.ask(0);
        EXPECT_FALSE(world.run(kSecond, [&] { return world.open(); })) << "both are waited for";
        EXPECT_TRUE(world.run(2 * kSecond, [&] { return world.open() && world.arrived(0); }));
        EXPECT_TRUE(world.lives({rail != 0, rail != 1}));
        EXPECT_EQ(world.peer(1).session.state, ConnectState::open);
        world.ask(1); // the other direction, after its sender has dropped the path, too
        EXPECT_TRUE(world.run(kSecond, [&] { return world.arrived(1); }));
        EXPECT_TRUE(world.run(40 * kSecond, [&] {
            return world.open() && world.lives({true, true});
        }));
        EXPECT_EQ(world.cores->counters(0).bad_packets + world.cores->counters(1).bad_packets, 0u);
    }
}

TEST(CmConnects, WhoNeverConnectsIsTriedForLongAndThenLost) {
    World world;
    world.options.parameters.partition_timeout = 20;
    world.plan({.fault = Fault::cm_connect_fails, .rate = 1});
    world.start();
    world.ask(0);
    world.run(9 * kSecond);
    EXPECT_EQ(world.reported(0) + world.reported(1), "");
    ASSERT_TRUE(world.peer(0).session.connecting() && world.peer(1).session.connecting());
    const std::size_t asker = world.peer(0).session.state == ConnectState::requested ? 0 : 1;
    world.run(2 * kSecond);
    const std::string late = world.reported(asker);
    EXPECT_NE(late.find("has not come up for 10 s"), std::string::npos) << late;
    EXPECT_NE(late.find("for 20 s in all"), std::string::npos) << late;
    EXPECT_EQ(world.peer(asker).session.state, ConnectState::requested);
    EXPECT_TRUE(world.run(10 * kSecond, [&] {
        return world.messages[0].send.done && world.messages[0].receive.done;
    }));
    EXPECT_NE(world.messages[0].receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(world.peer(0).session.state, ConnectState::failed);
    EXPECT_EQ(world.peer(1).session.state, ConnectState::failed) << "both sides know";
    EXPECT_NE(world.reported(asker).find("for 20 s no connection could be made"), std::string::npos)
        << world.reported(asker);
    EXPECT_NE(world.reported(1 - asker).find("the other side has given the connection up"),
              std::string::npos)
        << world.reported(1 - asker);
}

// The process that was asked does not wait forever either if the asking one falls silent.
TEST(CmConnects, WhoIsAskedGivesUpAsWell) {
    World world;
    world.options.parameters.partition_timeout = 20;
    world.plan({.fault = Fault::cm_connect_fails, .rate = 1});
    world.start();
    world.ask(0);
    world.run(kSecond);
    const std::size_t asked = world.peer(0).session.state == ConnectState::answered ? 0 : 1;
    ASSERT_EQ(world.peer(asked).session.state, ConnectState::answered);
    world.plans[1 - asked].faults.push_back({.fault = Fault::death, .from = Nanoseconds{1}});
    EXPECT_TRUE(world.run(25 * kSecond,
                          [&] { return world.peer(asked).session.state == ConnectState::failed; }));
    EXPECT_NE(world.reported(asked).find("has not confirmed the connection"), std::string::npos)
        << world.reported(asked);
}

// Behaves like a service whose request is lost, so that no answer comes.
TEST(CmConnects, ACmConnectThatIsSilentIsTriedAgain) {
    for (const double rate : {0.0, 1.0}) {
        World world;
        world.plan({.fault = Fault::cm_connect_fails,
                    .nth = rate > 0 ? 0u : 1u,
                    .rate = rate,
                    .rail = 1,
                    .delay = {0, 60 * kSecond}});
        world.start();
        world.ask(0);
        EXPECT_FALSE(world.run(kSecond - Nanoseconds{10'000'000}, [&] { return world.open(); }));
        EXPECT_TRUE(world.run(2 * kSecond, [&] { return world.open() && world.arrived(0); }));
        EXPECT_TRUE(world.lives({true, rate == 0})) << "it is not waited for without end";
        EXPECT_GE(world.repeated(), 1u);
    }
}

// A repair does not wait that long for an rdma_cm connect: a new attempt looks for paths again.
TEST(CmConnects, ARepairThatConnectsNobodyBeginsAnew) {
    World world;
    ASSERT_NO_FATAL_FAILURE(world.connect());
    world.fail_connects(25 * kSecond);
    const std::uint32_t before = world.peer(0).connection.number;
    QpAttributes error;
    error.state = QpState::error;
    ASSERT_TRUE(world.peer(0).lanes.subchannels[0].qp->modify(error, kQpState).ok());
    world.ask(1);
    EXPECT_FALSE(world.run(20 * kSecond, [&] { return world.open() && world.arrived(1); }));
    EXPECT_TRUE(world.run(30 * kSecond, [&] { return world.open() && world.arrived(1); }));
    EXPECT_GT(world.peer(0).connection.number, before + 1) << "more than one attempt";
    EXPECT_EQ(world.cores->counters(0).bad_packets + world.cores->counters(1).bad_packets, 0u);
}

// Both nodes request the connection anew before either hears of the other's request.
TEST(CmConnects, RepairsThatCrossAndConnectNobodyBeginAnew) {
    World world;
    ASSERT_NO_FATAL_FAILURE(world.connect());
    world.fail_connects(25 * kSecond);
    const auto crossed = [&] {
        return world.cores->counters(0).connections_crossed +
               world.cores->counters(1).connections_crossed;
    };
    const std::uint64_t before = crossed();
    QpAttributes error;
    error.state = QpState::error;
    for (const std::size_t node : {0u, 1u}) {
        ASSERT_TRUE(world.peer(node).lanes.subchannels[0].qp->modify(error, kQpState).ok());
        ConnectionManager& connections = world.cores->core(node).connections();
        connections.repairs().begin(world.peer(node));
        for (int i = 0; i < 4; ++i) {
            connections.retry();
            connections.handle_events();
        }
        ASSERT_EQ(world.peer(node).session.state, ConnectState::requested);
    }
    world.ask(1);
    EXPECT_FALSE(world.run(20 * kSecond, [&] { return world.open() && world.arrived(1); }));
    EXPECT_GT(crossed(), before);
    EXPECT_TRUE(world.run(30 * kSecond, [&] { return world.open() && world.arrived(1); }));
    EXPECT_EQ(world.cores->counters(0).bad_packets + world.cores->counters(1).bad_packets, 0u);
}

// Without rdma_cm: one queue pair of a node refuses its move to RTR or RTS.
class QueuePairThatCannotBeConnected : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Nodes, QueuePairThatCannotBeConnected, testing::Values(0u, 1u));

TEST_P(QueuePairThatCannotBeConnected, TheConnectionDoesWithout) {
    const std::size_t node = GetParam();
    // The first kRails moves are those to INIT.
    for (std::uint64_t nth = kRails + 1; nth <= 3 * kRails; ++nth) {
        SCOPED_TRACE(nth);
        World world(false);
        world.start();
        world.plans[node].faults.push_back(
            {.fault = Fault::modify_fails, .nth = nth, .reason = Reason::bad_argument});
        world.ask(0);
        EXPECT_TRUE(world.run(kSecond, [&] { return world.open() && world.arrived(0); }));
        world.ask(1);
        EXPECT_TRUE(world.run(kSecond, [&] { return world.arrived(1); }));
        EXPECT_EQ(world.logs[node].count(Fault::modify_fails), 1u);
        EXPECT_EQ(world.peer(0).lanes.live_subchannels(), kRails - 1);
        EXPECT_EQ(world.peer(1).lanes.live_subchannels(), kRails - 1);
        EXPECT_TRUE(world.run(40 * kSecond, [&] {
            return world.open() && world.lives({true, true});
        })) << "it is tried again";
    }
}

TEST(QueuePairsThatCannotBeConnected, WithoutAnyThePeerIsLost) {
    World world(false);
    world.start();
    for (std::uint64_t nth : {kRails + 1, kRails + 2}) {
        world.plans[1].faults.push_back(
            {.fault = Fault::modify_fails, .nth = nth, .reason = Reason::bad_argument});
    }
    world.ask(1);
    EXPECT_TRUE(world.run(kSecond, [&] { return world.messages[1].send.done; }));
    EXPECT_NE(world.messages[1].send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(world.peer(1).session.state, ConnectState::failed);
}

} // namespace
} // namespace adaptib::test
