// SPDX-License-Identifier: BSD-3-Clause
// Units: time for a size at a rate, rounding.
#include "base/units.h"

#include <gtest/gtest.h>

namespace adaptib {
namespace {

TEST(Units, TimeForASizeAtARate) {
    struct {
        Bytes size;
        std::uint64_t rate;
        std::int64_t expected; // nanoseconds
    } const cases[] = {
        {0, 1, 0},
        {1, 1, 1000000000},
        {1000, 1000000000, 1000},
        {1 * kMiB, 1000000000, 1048576},
        {1, 10000000000u, 0}, // below one nanosecond
        {3 * kGiB, 1 * kGiB, 3000000000},
        {std::uint64_t{1} << 50, std::uint64_t{1} << 30, 1048576000000000},
    };
    for (const auto& one : cases) {
        EXPECT_EQ(time_for(one.size, BytesPerSecond{one.rate}).count(), one.expected)
            << one.size << " B at " << one.rate << " B/s";
    }
}

TEST(Units, ARateOfZeroIsNotLimited) {
    EXPECT_EQ(time_for(kGiB, BytesPerSecond{}), Nanoseconds{0});
}

TEST(Units, RatesCompareByValue) {
    EXPECT_LT(BytesPerSecond{1}, BytesPerSecond{2});
    EXPECT_EQ(BytesPerSecond{5}, BytesPerSecond{5});
}

TEST(Units, RoundUp) {
    struct {
        Bytes value;
        Bytes multiple;
        Bytes expected;
    } const cases[] = {
        {0, 64, 0},         {1, 64, 64},
        {63, 64, 64},       {64, 64, 64},
        {65, 64, 128},      {7, 1, 7},
        {10, 3, 12},        {kGiB + 1, kGiB, 2 * kGiB},
        {4097, 4096, 8192}, {std::uint64_t{1} << 40, kMiB, std::uint64_t{1} << 40},
    };
    for (const auto& one : cases) {
        EXPECT_EQ(round_up(one.value, one.multiple), one.expected)
            << one.value << " to a multiple of " << one.multiple;
    }
}

TEST(Units, SizesAreWideEnoughForLargeCounts) {
    static_assert(sizeof(Bytes) == 8);
    EXPECT_EQ(kKiB * kMiB, kGiB);
    EXPECT_EQ(8 * kGiB, 8589934592u);
}

} // namespace
} // namespace adaptib
