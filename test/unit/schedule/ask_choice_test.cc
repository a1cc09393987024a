// SPDX-License-Identifier: BSD-3-Clause
// AskChoice: the faster way is taken, and left when it no longer is.
#include "schedule/ask_choice.h"

#include <gtest/gtest.h>

namespace adaptib {

namespace {

using Way = AskChoice::Way;

// So many operations at such costs; returns how many were asked for.
int play(AskChoice& choice, int operations, Nanoseconds direct, Nanoseconds asked) {
    int count = 0;
    for (int i = 0; i < operations; ++i) {
        const Way way = choice.choose();
        count += way == Way::asked ? 1 : 0;
        if (choice.timed()) {
            choice.note(way, way == Way::asked ? asked : direct);
        }
    }
    return count;
}

TEST(AskChoice, TakesTheFasterWay) {
    AskChoice asks;
    EXPECT_GT(play(asks, 10'000, Nanoseconds{1000}, Nanoseconds{600}), 9'900);
    AskChoice does;
    const int tried = play(does, 10'000, Nanoseconds{500}, Nanoseconds{600});
    EXPECT_GE(tried, 10) << "five to begin with, and then now and again";
    EXPECT_LE(tried, 30);
}

// Whoever asks goes_on() first makes the same choices at the same operations.
TEST(AskChoice, TheShortWayChangesNothing) {
    for (const Nanoseconds asked : {Nanoseconds{2000}, Nanoseconds{600}, Nanoseconds{1000}}) {
        AskChoice whole;
        AskChoice brief;
        int went_on = 0;
        for (int i = 0; i < 20'000; ++i) {
            const Nanoseconds direct{i < 10'000 ? 1000 : 700};
            const bool goes_on = brief.goes_on();
            went_on += goes_on ? 1 : 0;
            const Way way = whole.choose();
            ASSERT_EQ(goes_on ? Way::direct : brief.choose(), way) << i;
            ASSERT_EQ(!goes_on && brief.timed(), whole.timed()) << i;
            if (whole.timed()) {
                const Nanoseconds took = way == Way::asked ? asked : direct;
                whole.note(way, took);
                brief.note(way, took);
            }
            ASSERT_EQ(brief.patience(), whole.patience()) << i;
        }
        if (asked < Nanoseconds{700}) {
            EXPECT_EQ(went_on, 0) << "it only ever goes the direct way";
        } else {
            EXPECT_GT(went_on, 19'000);
        }
    }
}

TEST(AskChoice, BeginsWithTheWayThatIsNeverLate) {
    AskChoice choice;
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(choice.choose(), Way::direct);
        EXPECT_TRUE(choice.timed());
        choice.note(Way::direct, Nanoseconds{700});
    }
    EXPECT_EQ(choice.choose(), Way::asked);
    EXPECT_EQ(choice.patience(), Nanoseconds{700});
}

TEST(AskChoice, LeavesATargetThatComputesAtOnce) {
    AskChoice choice;
    play(choice, 1000, Nanoseconds{1000}, Nanoseconds{600});
    ASSERT_EQ(choice.choose(), Way::asked);
    for (int i = 0; i < 3; ++i) {
        choice.note(Way::asked, Nanoseconds{2000}); // taken back, and done here
    }
    EXPECT_LE(play(choice, 1000, Nanoseconds{1000}, Nanoseconds{2000}), 10);
}

TEST(AskChoice, ComesBackSoonToOneThatIsThereAgain) {
    AskChoice choice;
    play(choice, 100'000, Nanoseconds{1000}, Nanoseconds{2000});
    play(choice, 2'000, Nanoseconds{1000}, Nanoseconds{600});
    EXPECT_GT(play(choice, 1000, Nanoseconds{1000}, Nanoseconds{600}), 990)
        << "one good try brings the next ones soon";
}

TEST(AskChoice, OneTimeThatIsOffSaysNothing) {
    AskChoice choice;
    play(choice, 1000, Nanoseconds{1000}, Nanoseconds{600});
    choice.note(Way::asked, Nanoseconds{5'000'000}); // another process had its turn
    choice.note(Way::direct, Nanoseconds{10});
    EXPECT_GT(play(choice, 1000, Nanoseconds{1000}, Nanoseconds{600}), 990);
}

TEST(AskChoice, PatienceHasBounds) {
    AskChoice quick;
    play(quick, 5, Nanoseconds{20}, Nanoseconds{20});
    EXPECT_EQ(quick.patience(), Nanoseconds{300});
    AskChoice slow;
    play(slow, 5, Nanoseconds{50'000'000}, Nanoseconds{20});
    EXPECT_EQ(slow.patience(), Nanoseconds{20'000});
}

} // namespace

} // namespace adaptib
