// SPDX-License-Identifier: BSD-3-Clause
// Paths of a peer's datagrams: one counts as up only if something comes over it.
#include <memory>
#include <set>
#include <vector>

#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

using fault::Fault;
using std::chrono::milliseconds;

// Datagrams of node 0 get lost, those over rail 0 for a while only: node 0 goes on to hear node 1
// over rail 0, which says nothing about rail 1.
TEST(DatagramPaths, WhatComesOverAnotherOneDoesNotSpeakForIt) {
    fault::FaultPlan plan;
    fault::FaultLog log;
    Options options;
    options.parameters.connect_threshold = 1000;
    options.parameters.shm_rails = 2;
    options.wrap = [&](std::size_t node, std::unique_ptr<Fabric> fabric, const Clock& clock) {
        return node == 0 ? fault::with_faults(std::move(fabric), plan, clock, log)
                         : std::move(fabric);
    };
    Cores world(2, options);
    exchange(world, 8, 2);
    plan.faults = {{.fault = Fault::datagram_lost, .rate = 1, .rail = 1},
                   {.fault = Fault::datagram_lost,
                    .rate = 1,
                    .until = world.clock.now() + milliseconds{500},
                    .rail = 0}};
    PatternMessage lost(0, 8, 1);
    ASSERT_TRUE(world.receive(1, 0, 9, contiguous(lost.got), lost.receive).ok());
    ASSERT_TRUE(world.send(0, 1, 9, contiguous(lost.sent), lost.send).ok());
    Peer& peer = *world.peer(0, 1);
    std::vector<std::unique_ptr<PatternMessage>> heard;
    std::set<std::size_t> doubted;
    for (int turn = 0; turn < 20000; ++turn) {
        if (turn % 50 == 0 && heard.size() < 100) {
            PatternMessage& message =
                *heard.emplace_back(std::make_unique<PatternMessage>(1, 8, 2));
            ASSERT_TRUE(world.receive(0, 1, 9, contiguous(message.got), message.receive).ok());
            ASSERT_TRUE(world.send(1, 0, 9, contiguous(message.sent), message.send).ok());
        }
        world.progress();
        world.clock.advance(Nanoseconds{50'000});
        for (std::size_t pair = 0; peer.health.paths != nullptr && pair < peer.contact.route.total;
             ++pair) {
            if (peer.contact.route.pairs[pair].local != 1) {
                continue;
            }
            if (peer.health.paths->records[pair].state != PathState::up) {
                doubted.insert(pair);
            }
            ASSERT_TRUE(peer.health.paths->records[pair].state != PathState::up ||
                        !doubted.contains(pair))
                << "turn " << turn << " pair " << pair;
        }
    }
    EXPECT_FALSE(doubted.empty());
    EXPECT_TRUE(lost.receive.done);
}

// Both ends number the datagrams, since those of the node with two rails may move.
TEST(DatagramPaths, ANodeWithOneRailTakesWhatComesOverAnother) {
    fault::FaultPlan plans[2];
    fault::FaultLog logs[2];
    Options options;
    options.parameters.connect_threshold = 1000;
    options.parameters_of = [](std::size_t node, Parameters& parameters) {
        parameters.shm_rails = node == 0 ? 1 : 2;
    };
    options.wrap = [&](std::size_t node, std::unique_ptr<Fabric> fabric, const Clock& clock) {
        return fault::with_faults(std::move(fabric), plans[node], clock, logs[node]);
    };
    Cores world(2, options);
    exchange(world, 8, 2);
    // Those of node 1 are lost on its first rail, those of node 0 for a while.
    plans[1].faults = {{.fault = Fault::datagram_lost, .rate = 1, .rail = 0}};
    plans[0].faults = {
        {.fault = Fault::datagram_lost, .rate = 1, .until = world.clock.now() + milliseconds{50}}};
    std::vector<std::unique_ptr<PatternMessage>> messages;
    for (std::size_t from : {std::size_t{0}, std::size_t{1}}) {
        PatternMessage& message =
            *messages.emplace_back(std::make_unique<PatternMessage>(from, 8, 1));
        ASSERT_TRUE(world
                        .receive(1 - from, static_cast<std::int32_t>(from), 9,
                                 contiguous(message.got), message.receive)
                        .ok());
        ASSERT_TRUE(world.send(from, 1 - from, 9, contiguous(message.sent), message.send).ok());
    }
    for (int turn = 0; turn < 100000; ++turn) {
        world.progress();
        world.clock.advance(Nanoseconds{50'000});
    }
    for (const auto& message : messages) {
        EXPECT_TRUE(message->receive.done) << "from " << message->from;
        EXPECT_EQ(message->got, message->sent);
    }
    EXPECT_EQ(world.peer(1, 0)->contact.route.pairs[world.peer(1, 0)->contact.datagram.pair].local,
              1);
}

} // namespace
} // namespace adaptib::test
