// SPDX-License-Identifier: BSD-3-Clause
#include "base/inline_vector.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <span>

namespace adaptib {
namespace {

using Numbers = InlineVector<std::uint64_t, 2>;

TEST(InlineVector, BeginsEmptyAndInside) {
    const Numbers numbers;
    EXPECT_TRUE(numbers.empty());
    EXPECT_EQ(numbers.size(), 0u);
    EXPECT_EQ(numbers.begin(), numbers.end());
    EXPECT_TRUE(numbers.is_inline());
}

TEST(InlineVector, AllocatesOnlyForMoreThanItHoldsInside) {
    Numbers numbers;
    numbers.push_back(3);
    numbers.push_back(4);
    EXPECT_TRUE(numbers.is_inline());
    numbers.push_back(5);
    EXPECT_FALSE(numbers.is_inline());
    EXPECT_EQ(numbers, (Numbers{3, 4, 5}));
}

TEST(InlineVector, KeepsItsValuesAsItGrows) {
    Numbers numbers;
    for (std::uint64_t i = 0; i < 1000; ++i) {
        numbers.push_back(i);
        ASSERT_EQ(numbers.size(), i + 1);
        ASSERT_EQ(numbers.front(), 0u);
        ASSERT_EQ(numbers.back(), i);
    }
    for (std::uint64_t i = 0; i < 1000; ++i) {
        ASSERT_EQ(numbers[i], i);
    }
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), 499'500u);
}

TEST(InlineVector, AValueOfItsOwnCanBeAppendedAsItGrows) {
    Numbers numbers{7, 8};
    numbers.push_back(numbers[0]);
    EXPECT_EQ(numbers, (Numbers{7, 8, 7}));
}

TEST(InlineVector, IsFilledAgainAfterClear) {
    Numbers numbers{1, 2, 3};
    numbers.clear();
    EXPECT_TRUE(numbers.empty());
    EXPECT_FALSE(numbers.is_inline()); // it keeps its memory
    numbers.push_back(9);
    EXPECT_EQ(numbers, (Numbers{9}));
}

TEST(InlineVector, CopiesAreIndependent) {
    for (const Numbers& from : {Numbers{}, Numbers{1}, Numbers{1, 2, 3}}) {
        Numbers copy = from;
        EXPECT_EQ(copy, from);
        copy.push_back(4);
        EXPECT_EQ(copy.size(), from.size() + 1);
        EXPECT_NE(copy.begin(), from.begin());
    }
}

TEST(InlineVector, AssignmentReplacesTheValues) {
    Numbers numbers{1, 2, 3};
    numbers = Numbers{4};
    EXPECT_EQ(numbers, (Numbers{4}));
    numbers = Numbers{5, 6, 7, 8, 9};
    EXPECT_EQ(numbers, (Numbers{5, 6, 7, 8, 9}));
    const Numbers& same = numbers;
    numbers = same;
    EXPECT_EQ(numbers, (Numbers{5, 6, 7, 8, 9}));
}

TEST(InlineVector, DiffersByValueAndByLength) {
    EXPECT_FALSE((Numbers{1, 2} == Numbers{1, 3}));
    EXPECT_FALSE((Numbers{1, 2} == Numbers{1}));
    EXPECT_TRUE((Numbers{} == Numbers{}));
}

TEST(InlineVector, IsASpan) {
    Numbers numbers{1, 2, 3};
    const std::span<const std::uint64_t> all(numbers);
    EXPECT_EQ(all.size(), 3u);
    EXPECT_EQ(all.subspan(1).front(), 2u);
}

TEST(InlineVector, ItsElementsCanBeChanged) {
    Numbers numbers{1, 2};
    numbers[1] = 5;
    for (std::uint64_t& number : numbers) {
        ++number;
    }
    EXPECT_EQ(numbers, (Numbers{2, 6}));
}

} // namespace
} // namespace adaptib
