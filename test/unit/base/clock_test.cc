// SPDX-License-Identifier: BSD-3-Clause
// Clocks: the process's clock runs at the speed of real time, the manual clock only when told to.
#include "base/clock.h"

#include <gtest/gtest.h>

#include <ctime>

namespace adaptib {
namespace {

TEST(MonotonicClock, NeverRunsBackwards) {
    const MonotonicClock clock;
    Nanoseconds last = clock.now();
    for (int i = 0; i < 10000; ++i) {
        const Nanoseconds now = clock.now();
        ASSERT_GE(now, last);
        last = now;
    }
}

TEST(MonotonicClock, CountsNanosecondsOfTheSystemsClock) {
    const MonotonicClock clock;
    timespec before{};
    timespec after{};
    ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &before), 0);
    const Nanoseconds now = clock.now();
    ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &after), 0);
    EXPECT_GE(now.count(), std::int64_t{before.tv_sec} * 1000000000 + before.tv_nsec);
    EXPECT_LE(now.count(), std::int64_t{after.tv_sec} * 1000000000 + after.tv_nsec);
}

TEST(ManualClock, MovesOnlyWhenTold) {
    ManualClock clock;
    const Clock& seen = clock;
    EXPECT_EQ(seen.now(), Nanoseconds{0});
    clock.advance(std::chrono::microseconds{3});
    EXPECT_EQ(seen.now(), Nanoseconds{3000});
    EXPECT_EQ(seen.now(), Nanoseconds{3000});
    clock.advance(Nanoseconds{1});
    EXPECT_EQ(seen.now(), Nanoseconds{3001});
}

TEST(AttendedClock, StandsStillWhileNobodyLooks) {
    ManualClock below;
    below.advance(Nanoseconds{500});
    AttendedClock clock(below);
    clock.at_most(Nanoseconds{100});
    EXPECT_EQ(clock.now(), Nanoseconds{500});
    below.advance(Nanoseconds{100});
    EXPECT_EQ(clock.now(), Nanoseconds{600});
    below.advance(Nanoseconds{1000});
    EXPECT_EQ(clock.now(), Nanoseconds{700});
    EXPECT_EQ(clock.now(), Nanoseconds{700});
    below.advance(Nanoseconds{1});
    EXPECT_EQ(clock.now(), Nanoseconds{701});
}

TEST(AttendedClock, WhoLooksWhenItSaysMissesNothing) {
    ManualClock below;
    AttendedClock clock(below);
    clock.at_most(Nanoseconds{100});
    below.advance(Nanoseconds{1000});
    const Nanoseconds then = clock.now() + Nanoseconds{250};
    for (const int step : {100, 100, 50}) {
        const Nanoseconds at = clock.look_at(then);
        EXPECT_EQ(at, below.now() + Nanoseconds{step});
        below.advance(at - below.now());
    }
    EXPECT_EQ(clock.now(), then);
    EXPECT_EQ(clock.look_at(Nanoseconds{0}), below.now() - then);
    EXPECT_EQ(clock.look_at(Nanoseconds::max()), Nanoseconds::max());
}

} // namespace
} // namespace adaptib
