// SPDX-License-Identifier: BSD-3-Clause
// LentMemory: memory is found only if one range covers it and has the rights, and only while that
// range is lent.
#include "memory/lent_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace adaptib::test {
namespace {

constexpr std::uint32_t kRead = 1;
constexpr std::uint32_t kWrite = 2;

LentMemory::Range range(std::uintptr_t begin, Bytes length, std::uint32_t access) {
    LentMemory::Range made;
    made.begin = begin;
    made.length = length;
    made.access = access;
    return made;
}

TEST(LentMemory, IsFoundWithinOneRangeByItsRights) {
    LentMemory lent;
    LentMemory::Range first = range(0x10000, 0x1000, kRead);
    LentMemory::Range behind = range(0x11000, 0x1000, kRead | kWrite);
    lent.lend(first);
    lent.lend(behind);
    EXPECT_EQ(lent.find(0x10010, 0x100, kRead), reinterpret_cast<std::byte*>(0x10010));
    EXPECT_EQ(lent.find(0x10000, 0x1000, kRead), reinterpret_cast<std::byte*>(0x10000));
    EXPECT_EQ(lent.find(0x10000, 0x1001, kRead), nullptr) << "two ranges cover it";
    EXPECT_EQ(lent.find(0xffff, 0x10, kRead), nullptr);
    EXPECT_EQ(lent.find(0x10000, 0x10, kWrite), nullptr);
    EXPECT_EQ(lent.find(0x11000, 0x10, kRead | kWrite), reinterpret_cast<std::byte*>(0x11000));
    EXPECT_EQ(lent.find(0x10010, ~Bytes{0}, kRead), nullptr);
    lent.take_back(behind);
    EXPECT_EQ(lent.find(0x11000, 0x10, kRead), nullptr);
    lent.take_back(first);
    EXPECT_EQ(lent.find(0x10000, 0x10, kRead), nullptr);
}

TEST(LentMemory, TheSearchIsBounded) {
    LentMemory lent;
    std::vector<LentMemory::Range> ranges;
    for (std::uintptr_t i = 0; i < 65; ++i) {
        ranges.push_back(range(0x10000 * (i + 1), 0x1000, kRead));
    }
    for (LentMemory::Range& made : ranges) {
        lent.lend(made);
    }
    EXPECT_NE(lent.find(ranges[63].begin, 8, kRead), nullptr);
    EXPECT_EQ(lent.find(ranges[64].begin, 8, kRead), nullptr);
    lent.take_back(ranges[0]);
    EXPECT_NE(lent.find(ranges[64].begin, 8, kRead), nullptr);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
        lent.take_back(ranges[i]);
    }
}

} // namespace
} // namespace adaptib::test
