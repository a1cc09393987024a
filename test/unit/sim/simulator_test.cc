// SPDX-License-Identifier: BSD-3-Clause
// The queue of events: order, ties, cancelling, moving; against a sorted list at random.
#include "simulator/network/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"

namespace adaptib::sim {
namespace {

struct Recorded final : Event {
    Recorded(int n, std::vector<int>& l) : number(n), log(l) {}
    void happen() override { log.push_back(number); }

    int number;
    std::vector<int>& log;
};

TEST(Simulator, EqualTimesInTheOrderOfScheduling) {
    Simulator simulator;
    std::vector<int> log;
    Recorded a(1, log);
    Recorded b(2, log);
    Recorded c(3, log);
    simulator.schedule(b, Nanoseconds{5});
    simulator.schedule(a, Nanoseconds{5});
    simulator.schedule(c, Nanoseconds{4});
    while (simulator.step()) {
    }
    EXPECT_EQ(log, (std::vector{3, 2, 1}));
    EXPECT_EQ(simulator.now(), Nanoseconds{5});
    EXPECT_EQ(simulator.happened(), 3u);
}

TEST(Simulator, WhatIsOverIsNow) {
    Simulator simulator;
    std::vector<int> log;
    Recorded a(1, log);
    simulator.advance(Nanoseconds{10});
    simulator.schedule(a, Nanoseconds{3});
    EXPECT_EQ(a.when(), Nanoseconds{10});
    EXPECT_TRUE(simulator.step());
    EXPECT_EQ(simulator.now(), Nanoseconds{10});
}

TEST(Simulator, DestroyingAnEventCancelsIt) {
    Simulator simulator;
    std::vector<int> log;
    {
        Recorded a(1, log);
        simulator.schedule(a, Nanoseconds{1});
    }
    EXPECT_TRUE(simulator.idle());
    EXPECT_FALSE(simulator.step());
    EXPECT_TRUE(log.empty());
}

TEST(Simulator, MovingGivesANewPlaceAmongEqualTimes) {
    Simulator simulator;
    std::vector<int> log;
    Recorded a(1, log);
    Recorded b(2, log);
    simulator.schedule(a, Nanoseconds{1});
    simulator.schedule(b, Nanoseconds{1});
    simulator.schedule(a, Nanoseconds{1});
    while (simulator.step()) {
    }
    EXPECT_EQ(log, (std::vector{2, 1}));
}

TEST(Simulator, AgreesWithASortedList) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        Simulator simulator;
        std::vector<int> log;
        std::vector<std::unique_ptr<Recorded>> events;
        struct Planned {
            Nanoseconds when;
            int order;
            int number;
        };
        std::vector<Planned> planned;
        for (int i = 0; i < 40; ++i) {
            events.push_back(std::make_unique<Recorded>(i, log));
        }
        for (int order = 0; order < 300; ++order) {
            const auto number = static_cast<int>(random.below(events.size()));
            const bool gone = random.below(4) == 0;
            std::erase_if(planned, [&](const Planned& p) { return p.number == number; });
            if (gone) {
                simulator.cancel(*events[static_cast<std::size_t>(number)]);
            } else {
                const Nanoseconds when{static_cast<std::int64_t>(random.below(20))};
                simulator.schedule(*events[static_cast<std::size_t>(number)], when);
                planned.push_back({when, order, number});
            }
        }
        std::sort(planned.begin(), planned.end(), [](const Planned& x, const Planned& y) {
            return x.when != y.when ? x.when < y.when : x.order < y.order;
        });
        std::vector<int> wanted;
        for (const Planned& p : planned) {
            wanted.push_back(p.number);
        }
        while (simulator.step()) {
        }
        EXPECT_EQ(log, wanted) << "seed " << seed;
    }
}

} // namespace
} // namespace adaptib::sim
