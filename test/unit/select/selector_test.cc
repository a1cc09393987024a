// SPDX-License-Identifier: BSD-3-Clause
// The windows of the selection: the published steps on literal traces.
#include "select/selector.h"

#include <gtest/gtest.h>

namespace adaptib {
namespace {

using Counts = std::vector<SourceCount>;
using Step = Selector::Step;
using Sources = std::vector<std::uint64_t>;

const ChannelLimits kTwo{2, 2, false};

TEST(Selector, TheFirstPeriodDecides) { // T1
    Selector selector({});
    EXPECT_EQ(selector.tick({{1, 10'000}, {2, 5000}, {3, 100}}, kTwo), Step::first);
    EXPECT_EQ(selector.mapping().connected, (Sources{1, 2}));
    EXPECT_EQ(selector.begin(), 0u);
    EXPECT_EQ(selector.end(), 1u);
}

TEST(Selector, APatternThatStaysIsLeftAlone) {
    Selector selector({});
    selector.tick({{1, 10'000}, {2, 5000}, {3, 100}}, kTwo);
    for (int t = 0; t < 50; ++t) {
        EXPECT_EQ(selector.tick({{1, 10'000}, {2, 5000}, {3, 100}}, kTwo), Step::none);
        EXPECT_LE(selector.gains().extended, 0); // a change could only cost establishing
        EXPECT_LE(selector.gains().shrunk, 0);
    }
    EXPECT_EQ(selector.end(), 1u);
}

TEST(Selector, AnAbruptChangeIsSeenInTheShortWindow) { // T2, T3, T4
    const ChannelLimits one{1, 1, false};
    Selector selector({});
    selector.tick({{1, 10'000}}, one);
    EXPECT_EQ(selector.tick({{1, 10'000}}, one), Step::none);
    EXPECT_EQ(selector.tick({{3, 10'000}}, one), Step::shrunk);
    EXPECT_EQ(selector.mapping().connected, (Sources{3}));
    // [2, 3): 10,000 messages; in use, 1: -50,000; best, 3: 1,312,500 - 50,000 - 10,000
    EXPECT_DOUBLE_EQ(selector.gains().shrunk, (1'252'500.0 + 50'000) / 10'000);
    // [0, 3): 1 is still the best, and in use: the difference is that 1 was to be established
    EXPECT_DOUBLE_EQ(selector.gains().extended, -10'000.0 / 30'000);
    EXPECT_EQ(selector.begin(), 2u);
    EXPECT_EQ(selector.end(), 3u);
}

// The long window, grown while the pattern stayed, shows a gain that one period alone
// would not pay for.
TEST(Selector, ASlowChangeIsSeenInTheLongWindow) {
    ChannelCosts costs;
    costs.establish = 1e6; // 1,000 messages do not pay for it, 20,000 do
    const ChannelLimits two{2, 2, false};
    Selector selector(costs);
    EXPECT_EQ(selector.tick({{1, 20'000}, {2, 1000}}, two), Step::first);
    EXPECT_EQ(selector.mapping().connected, (Sources{1}));
    int ticks = 0;
    while (selector.tick({{1, 1000}, {2, 1500}}, two) == Step::none) {
        ASSERT_LT(++ticks, 100);
    }
    EXPECT_GT(ticks, 5);
    EXPECT_EQ(selector.mapping().connected, (Sources{1, 2}));
    EXPECT_EQ(selector.begin(), 0u); // extended
    EXPECT_GT(selector.gains().extended, Selector::kThreshold);
    EXPECT_LT(selector.gains().shrunk, selector.gains().extended);
}

TEST(Selector, WhatGainsLittleIsNotChanged) { // T4: gamma
    const ChannelLimits one{1, 1, false};
    for (const double more : {1.0, 1.4}) {
        Selector selector({});
        selector.tick({{1, 10'000}, {2, 9000}}, one);
        const Step step = selector.tick({{1, 10'000}, {2, 10'000 * more * more}}, one);
        EXPECT_EQ(step == Step::none, more == 1.0) << more;
    }
}

// Decisions are the published ones, too, on a machine on which everything takes a tenth, or
// three times, as long.
TEST(Selector, WhatLittleIsFollowsFromTheCosts) {
    const ChannelLimits one{1, 1, false};
    for (const double scale : {0.1, 1.0, 3.0}) {
        ChannelCosts costs;
        for (double ChannelCosts::*cost :
             {&ChannelCosts::connected_ring, &ChannelCosts::shared_ring, &ChannelCosts::poll,
              &ChannelCosts::credit, &ChannelCosts::establish}) {
            costs.*cost *= scale;
        }
        for (const double more : {1.0, 1.4}) {
            SCOPED_TRACE(scale);
            Selector selector(costs);
            selector.tick({{1, 10'000}, {2, 9000}}, one);
            const Step step = selector.tick({{1, 10'000}, {2, 10'000 * more * more}}, one);
            EXPECT_EQ(step == Step::none, more == 1.0) << more;
        }
    }
}

// The source that came first keeps the connection: moving it to one that is no
// busier gains nothing.
TEST(Selector, WhatIsInUseStaysAmongEquals) {
    const ChannelLimits one{1, 1, false};
    Selector selector({});
    for (int t = 0; t < 20; ++t) {
        selector.now_in_use({{3}, {}});
        EXPECT_EQ(selector.tick({{1, 10'000}, {2, 10'000}, {3, 10'000}}, one),
                  t == 0 ? Step::first : Step::none);
        EXPECT_EQ(selector.mapping().connected, (Sources{3}));
    }
    selector.now_in_use({{3}, {}});
    EXPECT_NE(selector.tick({{1, 10'000}, {2, 100'000}, {3, 100}}, one), Step::none);
    EXPECT_EQ(selector.mapping().connected, (Sources{2}));
}

// If both ends of a message share a processor, both save time of that one.
TEST(Selector, WhoTakesTurnsWithUsCountsTwice) {
    const ChannelLimits three{3, 3, false};
    const auto period = [](double of_each) {
        Counts counts;
        for (std::uint64_t source = 1; source <= 7; ++source) {
            counts.push_back({source, of_each});
        }
        return counts;
    };
    Selector selector({});
    for (int t = 0; t < 3; ++t) {
        selector.now_in_use({{1, 2, 3}, {}});
        EXPECT_EQ(selector.tick(period(10'000), three), t == 0 ? Step::first : Step::none);
        EXPECT_EQ(selector.mapping().connected, (Sources{1, 2, 3}));
    }
    selector.now_beside({2, 4, 6});
    EXPECT_NE(selector.tick(period(10'000), three), Step::none);
    EXPECT_EQ(selector.mapping().connected, (Sources{2, 4, 6}));
    // [3, 4): 70,000 messages; two peers add 131.25 each, less the cost of establishing three
    EXPECT_DOUBLE_EQ(selector.gains().shrunk, (2 * 10'000 * 131.25 - 30'000) / 70'000);
    selector.now_beside({});
    EXPECT_EQ(selector.tick(period(10'000), three), Step::none) << "all are alike again";
    selector.now_beside({2});
    EXPECT_NE(selector.tick({{1, 50'000}, {2, 10'000}, {3, 50'000}, {4, 50'000}}, three),
              Step::none);
    EXPECT_EQ(selector.mapping().connected, (Sources{1, 3, 4})) << "messages count, too";
}

TEST(Selector, TheFirstPeriodDecidesAgainstWhatIsInUse) {
    const ChannelLimits one{1, 1, false};
    Selector selector({});
    selector.now_in_use({{3}, {}});
    EXPECT_EQ(selector.tick({{1, 10'000}, {3, 500}}, one), Step::first);
    EXPECT_EQ(selector.mapping().connected, (Sources{1}));
}

// Source 3 has got its connection while another phase fills the window in which 1 had been chosen.
TEST(Selector, ThePastDoesNotComeBack) {
    const ChannelLimits one{1, 1, false};
    Selector selector({});
    for (int t = 0; t < 9; ++t) {
        selector.tick({{1, 20'000}}, one);
    }
    EXPECT_EQ(selector.begin(), 0u);
    selector.now_in_use({{3}, {}});
    EXPECT_EQ(selector.tick({{3, 5000}}, one), Step::none);
    EXPECT_GT(selector.gains().extended, Selector::kThreshold) << "the long window wants 1 back";
    EXPECT_EQ(selector.mapping().connected, (Sources{3}));
    EXPECT_EQ(selector.begin(), 9u) << "from here on the past counts again";
    EXPECT_EQ(selector.tick({{3, 5000}}, one), Step::none);
    EXPECT_LE(selector.gains().extended, 0);
}

TEST(Selector, SilenceChangesNothing) {
    Selector selector({});
    selector.tick({{1, 10'000}}, kTwo);
    for (int t = 0; t < 1000; ++t) {
        selector.tick({}, kTwo);
    }
    EXPECT_EQ(selector.mapping().connected, (Sources{1}));
}

TEST(Selector, ALimitThatFallsIsKeptFromTheNextChangeOn) {
    Selector selector({});
    selector.tick({{1, 10'000}, {2, 9000}}, kTwo);
    selector.tick({{3, 90'000}}, {1, 1, false});
    EXPECT_EQ(selector.mapping().connected, (Sources{3}));
}

} // namespace
} // namespace adaptib
