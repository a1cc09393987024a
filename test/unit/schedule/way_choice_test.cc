// SPDX-License-Identifier: BSD-3-Clause
// WayChoice: the fastest way is taken, left when it is no longer the fastest, and found without
// much regret.
#include "schedule/way_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/random.h"

namespace adaptib {

namespace {

using Way = WayChoice::Way;

constexpr Way kDirect = 0;
constexpr Way kAssisted = 1;

// Plays so many operations at such costs. Returns how many were target-assisted.
int play(WayChoice& choice, int operations, Nanoseconds direct, Nanoseconds assisted) {
    int count = 0;
    for (int i = 0; i < operations; ++i) {
        const Way way = choice.choose();
        count += way == kAssisted ? 1 : 0;
        if (choice.timed()) {
            choice.note(way, way == kAssisted ? assisted : direct);
        }
    }
    return count;
}

TEST(WayChoice, TakesTheFasterWay) {
    WayChoice assists;
    EXPECT_GT(play(assists, 10'000, Nanoseconds{1000}, Nanoseconds{600}), 9'800);
    WayChoice does;
    const int tried = play(does, 10'000, Nanoseconds{500}, Nanoseconds{600});
    EXPECT_GE(tried, 10) << "four to begin with, and then now and again three";
    EXPECT_LE(tried, 50);
}

// A caller that takes the fast path, goes_on(), makes the same choices at the same operations as
// one that only calls choose().
TEST(WayChoice, TheFastPathChangesNothing) {
    for (const Nanoseconds assisted : {Nanoseconds{2000}, Nanoseconds{600}, Nanoseconds{1000}}) {
        WayChoice whole;
        WayChoice brief;
        int went_on = 0;
        for (int i = 0; i < 20'000; ++i) {
            const Nanoseconds direct{i < 10'000 ? 1000 : 700};
            const bool goes_on = brief.goes_on();
            went_on += goes_on ? 1 : 0;
            const Way way = whole.choose();
            ASSERT_EQ(goes_on ? kDirect : brief.choose(), way) << i;
            ASSERT_EQ(!goes_on && brief.timed(), whole.timed()) << i;
            if (whole.timed()) {
                const Nanoseconds took = way == kAssisted ? assisted : direct;
                whole.note(way, took);
                brief.note(way, took);
            }
            ASSERT_EQ(brief.patience(), whole.patience()) << i;
        }
        if (assisted < Nanoseconds{700}) {
            EXPECT_EQ(went_on, 0) << "it only ever goes the direct way";
        } else {
            EXPECT_GT(went_on, 19'000);
        }
    }
}

TEST(WayChoice, BeginsInTurnsWithTheWayThatIsNeverLate) {
    WayChoice choice;
    for (const Way way : {kDirect, kAssisted}) {
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(choice.choose(), way);
            EXPECT_TRUE(choice.timed());
            if (way == kAssisted) {
                EXPECT_EQ(choice.patience(), Nanoseconds{700});
            }
            choice.note(way, way == kAssisted ? Nanoseconds{800} : Nanoseconds{700});
        }
    }
    EXPECT_EQ(play(choice, 12, Nanoseconds{700}, Nanoseconds{800}), 2) << "until it is known, too";
    EXPECT_EQ(choice.better(), kDirect);
}

// The first operation after a change of ways takes three times as long, whichever way it goes:
// neither the trials nor what comes behind them make the better way look slow.
TEST(WayChoice, WhatAChangeOfWaysCostsIsNotCharged) {
    for (const Way best : {kDirect, kAssisted}) {
        WayChoice choice;
        Way last = kDirect;
        int taken = 0;
        for (int i = 0; i < 4000; ++i) {
            const Way way = choice.choose();
            Nanoseconds took{way == best ? 8000 : 11'000};
            took *= way == last ? 1 : 3;
            last = way;
            taken += i >= 200 && way == best ? 1 : 0;
            if (choice.timed()) {
                choice.note(way, took);
            }
        }
        EXPECT_GT(taken, 3700) << "of 3800";
    }
}

TEST(WayChoice, LeavesATargetThatComputesAtOnce) {
    WayChoice choice;
    play(choice, 1000, Nanoseconds{1000}, Nanoseconds{600});
    for (int i = 0; choice.choose() != kAssisted; ++i) {
        ASSERT_LT(i, 5) << "behind a trial";
    }
    for (int i = 0; i < 3; ++i) {
        choice.note(kAssisted, Nanoseconds{2000}); // the initiator took it back, and did it itself
    }
    EXPECT_LE(play(choice, 1000, Nanoseconds{1000}, Nanoseconds{2000}), 15);
}

TEST(WayChoice, ComesBackSoonToOneThatIsThereAgain) {
    WayChoice choice;
    play(choice, 100'000, Nanoseconds{1000}, Nanoseconds{2000});
    play(choice, 2'000, Nanoseconds{1000}, Nanoseconds{600});
    EXPECT_GT(play(choice, 1000, Nanoseconds{1000}, Nanoseconds{600}), 980)
        << "one good try brings the next ones soon";
}

TEST(WayChoice, OneGoodTryBringsTheNextSoon) {
    WayChoice choice;
    play(choice, 100'000, Nanoseconds{1000}, Nanoseconds{2000});
    for (int i = 0, tried = 0; tried < 3; ++i) { // one try
        ASSERT_LT(i, 2000);
        tried += play(choice, 1, Nanoseconds{1000}, Nanoseconds{600});
    }
    EXPECT_GT(play(choice, 20, Nanoseconds{1000}, Nanoseconds{600}), 12);
}

TEST(WayChoice, OneTimeThatIsOffSaysNothing) {
    WayChoice choice;
    play(choice, 1000, Nanoseconds{1000}, Nanoseconds{600});
    choice.note(kAssisted, Nanoseconds{5'000'000}); // another process had its turn
    choice.note(kDirect, Nanoseconds{10});
    EXPECT_GT(play(choice, 1000, Nanoseconds{1000}, Nanoseconds{600}), 980);
}

TEST(WayChoice, PatienceHasBounds) {
    WayChoice quick;
    play(quick, 5, Nanoseconds{20}, Nanoseconds{20});
    EXPECT_EQ(quick.patience(), Nanoseconds{300});
    WayChoice slow;
    play(slow, 5, Nanoseconds{50'000'000}, Nanoseconds{20});
    EXPECT_EQ(slow.patience(), Nanoseconds{20'000});
}

// -------------------------------------------------------------------------------------------------
// Three ways, at the costs of real machines: the times of a message of 256 KiB that one end copies,
// that both ends copy together, and that both ends stage

using Costs = std::array<Nanoseconds, 3>;

struct Machine {
    const char* name;
    Costs costs;
};

constexpr Machine kMachines[] = {
    {"Zen 4: a line is dear", {Nanoseconds{24'800}, Nanoseconds{21'700}, Nanoseconds{89'700}}},
    {"Zen 5: pinning is dear", {Nanoseconds{31'000}, Nanoseconds{24'000}, Nanoseconds{7'300}}},
    {"both middling", {Nanoseconds{21'000}, Nanoseconds{14'000}, Nanoseconds{17'000}}},
    {"system calls very dear", {Nanoseconds{140'000}, Nanoseconds{120'000}, Nanoseconds{30'000}}},
    {"nothing between them", {Nanoseconds{20'000}, Nanoseconds{20'200}, Nanoseconds{19'900}}},
};

// The time that operations took, and the time that they would have taken in the fastest way.
struct Played {
    double took = 0;
    double best = 0;
    double ratio() const { return took / best; }
};

// Plays operations whose reported times are up to a tenth too long; one in twenty also contains
// another process's turn of 50 us.
Played play_noisy(WayChoice& choice, const Costs& costs, int operations, Random& random) {
    Played played;
    const auto best = static_cast<double>(std::min({costs[0], costs[1], costs[2]}).count());
    for (int i = 0; i < operations; ++i) {
        const Way way = choice.choose();
        const auto took = costs[way].count();
        const auto noise =
            static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(took / 10 + 1)));
        const std::int64_t disturbed = random.below(20) == 0 ? 50'000 : 0;
        if (choice.timed()) {
            choice.note(way, Nanoseconds{took + noise + disturbed});
        }
        played.took += static_cast<double>(took);
        played.best += best;
    }
    return played;
}

TEST(WayChoice, FindsTheBestOfThreeWithLittleRegret) {
    for (const Machine& machine : kMachines) {
        double first = 0;
        double later = 0;
        constexpr int kSeeds = 50;
        for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
            WayChoice choice(3);
            Random random(seed);
            first += play_noisy(choice, machine.costs, 200, random).ratio() / kSeeds;
            later += play_noisy(choice, machine.costs, 20'000, random).ratio() / kSeeds;
        }
        EXPECT_LE(first, 1.1) << machine.name;
        EXPECT_LE(later, 1.03) << machine.name;
    }
}

// Times teach a choice that nothing was chosen by: copies that turned out to cross another one.
TEST(WayChoice, WhatTimesHaveTaughtStaysWhenTheNeighborChanges) {
    WayChoice smaller(3);
    WayChoice larger(3);
    const auto note = [](WayChoice& choice, Way way, std::int64_t took) {
        for (int i = 0; i < 5; ++i) {
            choice.note(way, Nanoseconds{took});
        }
    };
    note(smaller, 0, 100);
    note(smaller, 1, 150);
    note(smaller, 2, 1000);
    larger.learn_from(smaller); // the third way is far behind
    note(larger, 0, 200);
    note(larger, 1, 300);
    note(smaller, 2, 10);
    ASSERT_EQ(smaller.better(), 2);
    larger.learn_from(smaller);
    EXPECT_EQ(larger.better(), 0) << "the third way was never timed";
}

// A way that was far behind for the next smaller size is hardly tried for the larger one.
TEST(WayChoice, WhatIsFarBehindForOneSizeIsHardlyTriedForTheNext) {
    for (const Machine& machine : kMachines) {
        Random random(7);
        WayChoice smaller(3);
        play_noisy(smaller, machine.costs, 1000, random);
        WayChoice larger(3);
        ASSERT_TRUE(larger.is_fresh());
        larger.learn_from(smaller);
        EXPECT_LE(play_noisy(larger, machine.costs, 200, random).ratio(), 1.03) << machine.name;
        EXPECT_LE(play_noisy(larger, machine.costs, 20'000, random).ratio(), 1.03) << machine.name;
    }
}

TEST(WayChoice, FollowsAMachineWhoseStateChanges) {
    Random random(3);
    WayChoice choice(3);
    for (int change = 0; change < 10; ++change) {
        for (const Machine& machine : {kMachines[1], kMachines[0]}) {
            play_noisy(choice, machine.costs, 3000, random); // notices the change
            EXPECT_LE(play_noisy(choice, machine.costs, 3000, random).ratio(), 1.05)
                << machine.name << ", change " << change;
        }
    }
}

} // namespace

} // namespace adaptib
