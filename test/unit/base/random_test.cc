// SPDX-License-Identifier: BSD-3-Clause
// Random: the published sequence, repeatable, in range, evenly spread.
#include "base/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace adaptib {
namespace {

TEST(Random, GivesThePublishedSequence) {
    // xoshiro256** whose state is splitmix64's first four numbers of the seed.
    Random zero(0);
    EXPECT_EQ(zero.next(), 0x99ec5f36cb75f2b4u);
    EXPECT_EQ(zero.next(), 0xbf6e1f784956452au);
    EXPECT_EQ(zero.next(), 0x1a5f849d4933e6e0u);
    EXPECT_EQ(zero.next(), 0x6aa594f1262d2d2cu);
}

TEST(Random, RepeatsFromItsSeedOnly) {
    Random a(42);
    Random b(42);
    Random other(43);
    bool differs = false;
    for (int i = 0; i < 1000; ++i) {
        const std::uint64_t value = a.next();
        ASSERT_EQ(value, b.next());
        differs = differs || value != other.next();
    }
    EXPECT_TRUE(differs);
}

TEST(Random, BelowStaysBelowAndReachesEverything) {
    Random random(7);
    for (const std::uint64_t bound : {1u, 2u, 3u, 10u, 100u}) {
        std::vector<int> hits(bound);
        const int draws = 2000 * static_cast<int>(bound);
        for (int i = 0; i < draws; ++i) {
            const std::uint64_t value = random.below(bound);
            ASSERT_LT(value, bound);
            ++hits[value];
        }
        for (std::uint64_t value = 0; value < bound; ++value) {
            EXPECT_GT(hits[value], 1600) << value << " of " << bound;
            EXPECT_LT(hits[value], 2400) << value << " of " << bound;
        }
    }
}

TEST(Random, BelowUsesTheWholeRangeOfLargeBounds) {
    Random random(8);
    const std::uint64_t bound = std::uint64_t{3} << 62;
    int upper_third = 0;
    for (int i = 0; i < 3000; ++i) {
        const std::uint64_t value = random.below(bound);
        ASSERT_LT(value, bound);
        upper_third += value >= (std::uint64_t{1} << 63) ? 1 : 0;
    }
    EXPECT_NEAR(upper_third, 1000, 150);
}

TEST(Random, UnitIsFromZeroToBelowOneWithMeanOneHalf) {
    Random random(9);
    double sum = 0;
    double largest = 0;
    for (int i = 0; i < 100000; ++i) {
        const double value = random.unit();
        ASSERT_GE(value, 0.0);
        ASSERT_LT(value, 1.0);
        sum += value;
        largest = value > largest ? value : largest;
    }
    EXPECT_NEAR(sum / 100000, 0.5, 0.01);
    EXPECT_GT(largest, 0.999);
}

} // namespace
} // namespace adaptib
