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

} // namespace
} // namespace adaptib::test
