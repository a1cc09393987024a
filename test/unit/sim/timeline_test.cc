// SPDX-License-Identifier: BSD-3-Clause
// Timelines of faults: as text, at random, in a world.
#include "simulator/network/timeline.h"

#include <gtest/gtest.h>

namespace adaptib::sim {
namespace {

WorldOptions three_hosts() {
    WorldOptions options;
    options.machine = *machine("connect-ib");
    options.topology = crossbar(3, {}, links_of(options.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.topology, options.routes, text)) << text;
    return options;
}

TEST(Timeline, TextAndBack) {
    constexpr const char* kText = "10 port 1 down\n20 port 1 up\n30 link 2 down\n40 link 2 up\n"
                                  "50 port 0 slow 8\n60 host 2 group 1\n70 process 4 dies\n";
    std::vector<Fault> faults;
    std::string text;
    ASSERT_TRUE(from_text(std::string("# a comment\n\n") + kText, faults, text)) << text;
    ASSERT_EQ(faults.size(), 7u);
    EXPECT_EQ(faults[4].kind, Fault::Kind::slow);
    EXPECT_EQ(faults[4].value, 8u);
    EXPECT_EQ(to_text(faults), kText);
}

TEST(Timeline, WrongLinesAreNamed) {
    for (const char* line : {"x port 1 down", "-1 port 1 down", "1 port 1", "1 port 1 gone",
                             "1 port 1 slow", "1 port 1 down 3", "1 planet 1 down"}) {
        std::vector<Fault> faults(3);
        std::string text;
        EXPECT_FALSE(from_text(std::string("5 port 1 up\n") + line, faults, text)) << line;
        EXPECT_NE(text.find("line 2"), std::string::npos) << text;
        EXPECT_EQ(faults.size(), 3u) << "left as it was";
    }
}

TEST(Timeline, HappensInTheWorld) {
    World world(three_hosts());
    World::Attached at = world.attach(0);
    std::vector<Fault> faults;
    std::string text;
    ASSERT_TRUE(from_text("100 port 0 down\n300 port 0 up\n400 process 0 dies\n", faults, text));
    std::unique_ptr<Timeline> timeline;
    ASSERT_TRUE(Timeline::schedule(world, faults, timeline, text)) << text;
    const auto pass = [&](std::int64_t until) {
        while (!world.simulator().idle() && world.simulator().next() <= Nanoseconds{until}) {
            world.simulator().step();
        }
    };
    pass(99);
    EXPECT_EQ(at.fabric->rails()[0]->state(), PortState::active);
    pass(100);
    EXPECT_EQ(at.fabric->rails()[0]->state(), PortState::down);
    adaptib::Event event;
    ASSERT_TRUE(at.fabric->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::port_error);
    pass(300);
    EXPECT_EQ(at.fabric->rails()[0]->state(), PortState::active);
    EXPECT_FALSE(at.process->dead());
    pass(400);
    EXPECT_TRUE(at.process->dead());
    EXPECT_TRUE(world.simulator().idle());
    at.fabric.reset();
}

TEST(Timeline, WhatTheWorldHasNotIsRefused) {
    World world(three_hosts());
    std::unique_ptr<Timeline> timeline;
    for (const char* line :
         {"1 port 3 down", "1 link 6 down", "1 host 3 group 1", "1 process 0 dies"}) {
        std::vector<Fault> faults;
        std::string text;
        ASSERT_TRUE(from_text(line, faults, text));
        EXPECT_FALSE(Timeline::schedule(world, faults, timeline, text)) << line;
        EXPECT_NE(text.find(line), std::string::npos) << text;
    }
    EXPECT_TRUE(world.simulator().idle());
}

TEST(Timeline, RandomOnesComeFromTheSeed) {
    const WorldOptions options = three_hosts();
    FaultRates rates;
    rates.ports = rates.links = rates.slowed = rates.partitions = 2.5;
    rates.deaths = 0.5;
    rates.until = Nanoseconds{1'000'000};
    rates.lasts = Nanoseconds{10'000};
    const auto draw = [&](std::uint64_t seed) {
        Random random(seed);
        return random_faults(options.topology, 3, rates, random);
    };
    EXPECT_EQ(draw(1), draw(1));
    EXPECT_NE(draw(1), draw(2));
    std::size_t deaths = 0;
    std::size_t ports = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        Nanoseconds last{0};
        for (const Fault& fault : draw(seed)) {
            EXPECT_GE(fault.when, last);
            last = fault.when;
            deaths += fault.kind == Fault::Kind::kill ? 1 : 0;
            ports += fault.kind == Fault::Kind::port_down ? 1 : 0;
        }
    }
    EXPECT_NEAR(static_cast<double>(deaths), 100, 40);
    EXPECT_NEAR(static_cast<double>(ports), 500, 60);
}

} // namespace
} // namespace adaptib::sim
