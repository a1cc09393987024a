// SPDX-License-Identifier: BSD-3-Clause
// Channels' costs are taken from traffic where the clock is the machine's, and nowhere else.
#include <gtest/gtest.h>

#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

char kConnectIb[] = "connect-ib";

// Sends messages over the shared queue and, from the 17th on, over the ring; many
// passes look for each.
void talk(Cores& world, int passes = 10'000) {
    std::vector<std::byte> from(8);
    std::vector<std::byte> to(8);
    for (int i = 0; i < 40; ++i) {
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(world.receive(1, 0, 1, contiguous(to), receive).ok());
        ASSERT_TRUE(world.send(0, 1, 1, contiguous(from), send).ok());
        ASSERT_TRUE(world.run({&send, &receive}));
        for (int pass = 0; pass < passes; ++pass) {
            world.progress();
        }
    }
}

TEST(Costs, AreMeasuredFromTraffic) {
    Options options;
    options.timed = true;
    Cores world(2, options);
    EXPECT_EQ(world.counters(1).cost_poll, 10'000u) << "the model's, until then";
    talk(world);
    EXPECT_GT(world.counters(1).cost_samples, 31u);
    EXPECT_EQ(world.counters(1).cost_poll, 0u) << "this clock stands still";
    EXPECT_EQ(world.counters(1).cost_ring_saves, 150'000u) << "too few messages in timed passes";
}

// Passes are timed often to begin with, and then seldom, even if no message came in those.
TEST(Costs, AreKnownSoon) {
    Options options;
    options.timed = true;
    Cores world(2, options);
    const auto passes = [&](int count) {
        const std::uint64_t before = world.counters(1).cost_samples;
        for (int pass = 0; pass < count; ++pass) {
            world.progress();
        }
        return world.counters(1).cost_samples - before;
    };
    EXPECT_EQ(passes(10'000), 0u) << "no ring to look at";
    talk(world, 0);
    EXPECT_GE(passes(2 * 4096), 500u);
    EXPECT_EQ(world.counters(1).cost_poll, 0u);
    EXPECT_LE(passes(40 * 4096), 60u);
}

// An empty queue need not be timed: once rings are known, passes are timed no more until
// something comes there.
TEST(Costs, OfASilentQueueAreNotLookedFor) {
    Options options;
    options.timed = true;
    Cores world(2, options);
    talk(world, 0);
    // One pass each: every eighth comes in a timed one, to begin with.
    for (int i = 0; i < 2 * 4096; ++i) {
        std::vector<std::byte> data(8);
        TestRequest receive;
        ASSERT_TRUE(world.receive(1, 0, 1, contiguous(data), receive).ok());
        ASSERT_TRUE(world.try_send(0, 1, 1, contiguous(data)));
        ASSERT_TRUE(world.run({&receive}));
    }
    EXPECT_GE(world.counters(1).cost_samples, 31u);
    EXPECT_LE(world.counters(1).cost_samples, 100u);
}

// Timing passes more often does not run timers more often: timers send acknowledgments that
// messages would have carried.
TEST(Costs, TimersDoNotRunMoreOftenForThem) {
    Options options;
    options.timed = true;
    options.parameters.connect_max = 1;
    options.parameters.channel_period = 1;
    Cores world(2, options);
    talk(world, 0);
    ASSERT_EQ(world.counters(1).connections_open, 1u);
    const std::uint64_t looks = world.counters(1).cost_samples;
    const std::uint64_t before = world.counters(1).selections;
    for (int pass = 0; pass < 64 * 100; ++pass) {
        // Timers find that channels are to be selected.
        world.clock.advance(std::chrono::milliseconds(1));
        world.progress(1);
    }
    EXPECT_EQ(world.counters(1).selections - before, 100u);
    EXPECT_GE(world.counters(1).cost_samples - looks, 500u) << "passes were timed meanwhile";
}

TEST(Costs, AreTheModelsWithoutAClockOrOnDemand) {
    for (const bool timed : {false, true}) {
        Options options;
        options.timed = timed;
        if (timed) {
            options.parameters.channel_costs = kConnectIb;
        }
        Cores world(2, options);
        talk(world);
        EXPECT_EQ(world.counters(1).cost_samples, 0u);
        EXPECT_EQ(world.counters(1).cost_poll, 10'000u);
        EXPECT_EQ(world.counters(1).cost_ring_saves, 150'000u);
        EXPECT_EQ(world.counters(1).cost_shared_ring_saves, 100'000u);
        EXPECT_EQ(world.counters(1).cost_credit, 300'000u);
    }
}

} // namespace
} // namespace adaptib::test
