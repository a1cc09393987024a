// SPDX-License-Identifier: BSD-3-Clause
// EagerLimit: the limit follows from the measured times, even if some of them are disturbed.
#include "schedule/eager_limit.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace adaptib {

namespace {

constexpr Bytes kStart = 4096;
constexpr Bytes kMost = 32768;

// Returns the costs of a host where a system call takes 500 ns and 0.05 ns a byte, and a plain copy
// 0.02 ns a byte: a message of n bytes is copied twice if a byte on its way into the ring costs at
// most 500 / n + 0.03 ns.
CopyCosts costs() {
    CopyCosts made;
    for (std::size_t i = 0; i < CopyCosts::kSizes.size(); ++i) {
        const auto bytes = static_cast<std::int64_t>(CopyCosts::kSizes[i]);
        made.single[i] = Nanoseconds{500 + bytes / 20};
        made.plain[i] = Nanoseconds{bytes / 50};
    }
    return made;
}

void note(EagerLimit& learnt, double ns_a_byte, int times = 7) {
    constexpr Bytes kBytes = 4000;
    for (int i = 0; i < times; ++i) {
        learnt.note(kBytes, Nanoseconds{static_cast<std::int64_t>(ns_a_byte * kBytes)});
    }
}

Bytes limit_at(double ns_a_byte) {
    EagerLimit learnt(costs(), kStart, kMost);
    note(learnt, ns_a_byte);
    return learnt.limit();
}

TEST(EagerLimit, LimitFollowsFromCosts) {
    EXPECT_EQ(limit_at(0.25), 4096u) << "two copies cost more than one and the system call";
    EXPECT_EQ(limit_at(0.110), 4096u) << "6 KiB: 0.111, but not by the margin";
    EXPECT_EQ(limit_at(0.095), 6144u);
    EXPECT_EQ(limit_at(0.078), 8192u) << "0.091 less the margin; 12 KiB: 0.071";
    EXPECT_EQ(limit_at(0.054), 16384u);
    EXPECT_EQ(limit_at(0.02), 32768u);
    EXPECT_EQ(limit_at(0.0), 32768u);
}

TEST(EagerLimit, KnowsNothingAtFirst) {
    EagerLimit learnt(costs(), kStart, kMost);
    EXPECT_EQ(learnt.limit(), kStart);
    note(learnt, 0.0, 6);
    EXPECT_EQ(learnt.limit(), kStart) << "six times are not enough";
    note(learnt, 0.0, 1);
    EXPECT_EQ(learnt.limit(), kMost);
}

TEST(EagerLimit, DoesNotLeaveItsBounds) {
    EagerLimit small(costs(), kStart, 10000);
    note(small, 0.0);
    EXPECT_EQ(small.limit(), 8192u) << "the largest size that the ring bears";
    EagerLimit none(costs(), 1000, 500);
    note(none, 0.0);
    EXPECT_EQ(none.limit(), 1000u) << "a ring that bears no more than the start";
    EXPECT_EQ(none.most(), 1000u);
    EagerLimit dear(costs(), 1000, kMost);
    note(dear, 1000.0);
    EXPECT_EQ(dear.limit(), 1000u);
}

TEST(EagerLimit, StopsAtTheFirstSizeThatDoesNotPay) {
    CopyCosts slow_at_first = costs();
    slow_at_first.single[0] = slow_at_first.plain[0];
    EagerLimit learnt(slow_at_first, 1000, kMost);
    note(learnt, 0.02);
    EXPECT_EQ(learnt.limit(), 1000u);
}

TEST(EagerLimit, OutliersSayNothing) {
    EagerLimit learnt(costs(), kStart, kMost);
    for (int round = 0; round < 20; ++round) {
        note(learnt, 0.054, 4);
        note(learnt, 1000.0, 3); // another process had its turn
        EXPECT_EQ(learnt.limit(), 16384u);
    }
}

TEST(EagerLimit, FollowsAChange) {
    EagerLimit learnt(costs(), kStart, kMost);
    note(learnt, 0.02);
    EXPECT_EQ(learnt.limit(), 32768u);
    note(learnt, 0.2, 4);
    EXPECT_EQ(learnt.limit(), 4096u) << "the processor moved away: four of seven say so";
    note(learnt, 0.02, 4);
    EXPECT_EQ(learnt.limit(), 32768u);
}

// Costs around the bound of a size leave the limit where it is.
TEST(EagerLimit, DoesNotSwing) {
    constexpr double kAt8K = 500.0 / 8192 + 0.03;
    EagerLimit up(costs(), kStart, kMost);
    note(up, 0.95 * kAt8K);
    EXPECT_EQ(up.limit(), 6144u);
    EagerLimit down(costs(), kStart, kMost);
    note(down, 0.8 * kAt8K);
    EXPECT_EQ(down.limit(), 8192u);
    for (int round = 0; round < 20; ++round) {
        note(down, (round % 2 == 0 ? 1.05 : 0.95) * kAt8K);
        EXPECT_EQ(down.limit(), 8192u);
    }
    note(down, 1.2 * kAt8K);
    EXPECT_EQ(down.limit(), 6144u);
}

// If a system call takes no longer than a copy (a broken clock), the limit stays at its start.
TEST(EagerLimit, CallsThatCostNothing) {
    CopyCosts equal;
    EagerLimit learnt(equal, kStart, kMost);
    note(learnt, 0.01);
    EXPECT_EQ(learnt.limit(), kStart);
}

TEST(EagerLimit, TimesSomeAndTriesSome) {
    EagerLimit learnt(costs(), kStart, kMost);
    EXPECT_TRUE(learnt.times()) << "nothing is known: each is timed";
    int tries = 0;
    for (int i = 0; i < 80; ++i) {
        tries += learnt.explore() ? 1 : 0;
    }
    EXPECT_EQ(tries, 1 + (80 - 8) / 2) << "the eighth, and each second one behind it";
    note(learnt, 0.2);
    int times = 0;
    tries = 0;
    for (int i = 0; i < 25600; ++i) {
        if (learnt.times()) {
            ++times;
            note(learnt, 0.2, 1);
        }
        tries += learnt.explore() ? 1 : 0;
    }
    EXPECT_EQ(times, 1600);
    EXPECT_EQ(tries, 100);
}

} // namespace

} // namespace adaptib
