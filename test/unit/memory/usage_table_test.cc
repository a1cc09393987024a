// SPDX-License-Identifier: BSD-3-Clause
// UsageTable: buffers are told apart, found, aged, and forgotten by range; it grows if that pays.
#include "memory/usage_table.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"

namespace adaptib {
namespace {

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

constexpr std::uintptr_t kBase = 0x7f12'3456'7000;
constexpr std::size_t kLeastSlots = 4096;

// Adds buffers and makes those frequent for which `frequent` says so; returns how many are known.
template <class F>
std::size_t fill(UsageTable& table, std::size_t count, Bytes apart, F&& frequent) {
    for (std::size_t i = 0; i < count; ++i) {
        UsageTable::Slot* const slot = table.add(at(kBase + i * apart));
        if (slot != nullptr && frequent(i)) {
            table.make_frequent(*slot, static_cast<std::uint32_t>(i));
        }
    }
    return table.known();
}

TEST(UsageTableCases, FindsWhatWasAdded) {
    UsageTable table;
    EXPECT_EQ(table.find(at(kBase)), nullptr);
    EXPECT_EQ(table.bytes(), 0u) << "no memory before the first buffer";
    UsageTable::Slot* const slot = table.add(at(kBase));
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(table.find(at(kBase)), slot);
    EXPECT_EQ(table.find(at(kBase + 15)), slot) << "the same 16 bytes";
    EXPECT_EQ(table.find(at(kBase + 16)), nullptr);
    EXPECT_EQ(table.find(at(kBase + 512)), nullptr);
    EXPECT_EQ(table.find(at(kBase + (std::uintptr_t{1} << 47))), nullptr);
    EXPECT_EQ(table.slots(), kLeastSlots);
}

TEST(UsageTableCases, ProgressAddsUp) {
    UsageTable table;
    UsageTable::Slot& slot = *table.add(at(kBase));
    EXPECT_FALSE(slot.advance(UsageTable::kFull - 2));
    EXPECT_TRUE(slot.advance(1));
    EXPECT_FALSE(slot.is_frequent());
    table.make_frequent(slot, 17);
    EXPECT_TRUE(slot.is_frequent());
    EXPECT_EQ(slot.value(), 17u);
    EXPECT_EQ(table.find(at(kBase)), &slot) << "the tag stays";
    EXPECT_EQ(table.frequent(), 1u);
    table.make_ordinary(slot);
    EXPECT_EQ(table.frequent(), 0u);
    EXPECT_EQ(slot.progress(), 1u);
}

// Slots move to other buckets as the table grows, and keep their contents.
TEST(UsageTableCases, GrowsWithFrequentBuffers) {
    for (const Bytes apart : {128u, 512u, 720u, 4096u, 1u << 20}) {
        UsageTable table;
        constexpr std::size_t kBuffers = 20'000;
        const std::size_t known = fill(table, kBuffers, apart, [](std::size_t) { return true; });
        EXPECT_EQ(known, kBuffers) << apart;
        for (std::size_t i = 0; i < kBuffers; ++i) {
            const UsageTable::Slot* const slot = table.find(at(kBase + i * apart));
            ASSERT_NE(slot, nullptr) << i;
            EXPECT_EQ(slot->value(), i);
        }
    }
}

TEST(UsageTableCases, KnowsAHundredThousandInOneMebibyte) {
    UsageTable table;
    const std::size_t known = fill(table, 104'000, 4096, [](std::size_t i) { return i % 4 == 0; });
    EXPECT_GE(known, 100'000u);
    EXPECT_LE(table.bytes(), kMiB);
}

// A program without reuse: the table stays small, and those that leave make room for others.
TEST(UsageTableCases, StaysSmallWithoutFrequentBuffers) {
    UsageTable table;
    fill(table, 1'000'000, 4096, [](std::size_t) { return false; });
    EXPECT_EQ(table.slots(), kLeastSlots);
    fill(table, 1'000'000, 720, [](std::size_t i) { return i < 700; });
    EXPECT_EQ(table.slots(), kLeastSlots) << "less than a fifth is not enough";
    EXPECT_LE(table.known(), kLeastSlots);
}

TEST(UsageTableCases, AgeingSparesWhatIsUsed) {
    UsageTable table;
    const void* const often = at(kBase + (std::uintptr_t{1} << 40));
    table.add(often)->advance(UsageTable::kFull / 2);
    std::size_t lasted = 0;
    for (std::size_t i = 0; table.find(often) != nullptr && i < 1'000'000; ++i) {
        table.add(at(kBase + i * 4096));
        lasted = i;
    }
    EXPECT_GT(lasted, 30'000u);
    EXPECT_LT(lasted, 900'000u) << "what is never used again leaves in the end";
}

TEST(UsageTableCases, ForgetsByRange) {
    // The last range visits each bucket instead of each block.
    for (const Bytes length : {Bytes{512}, Bytes{8192}, Bytes{1} << 20, Bytes{1} << 30}) {
        UsageTable table;
        constexpr std::size_t kBuffers = 3000;
        fill(table, kBuffers, 1024, [](std::size_t i) { return i % 2 == 0; });
        const std::uintptr_t begin = kBase + 64 * 1024;
        std::size_t frequent = 0;
        std::size_t in_range = 0;
        const std::size_t known = table.known();
        for (std::size_t i = 0; i < kBuffers; ++i) {
            const std::uintptr_t address = kBase + i * 1024;
            in_range += address >= begin && address < begin + length && table.find(at(address));
        }
        table.forget(begin, begin + length, [&](std::uint32_t value) {
            EXPECT_EQ(value % 2, 0u);
            ++frequent;
        });
        EXPECT_EQ(table.known(), known - in_range);
        EXPECT_EQ(frequent, (in_range + 1) / 2);
        for (std::size_t i = 0; i < kBuffers; ++i) {
            const std::uintptr_t address = kBase + i * 1024;
            if (address >= begin && address < begin + length) {
                EXPECT_EQ(table.find(at(address)), nullptr) << i;
            }
        }
        EXPECT_NE(table.find(at(kBase)), nullptr) << "in front of the range";
    }
}

// Against a map: no buffer is taken for another one, and counts are right.
TEST(UsageTableCases, AgreesWithAMap) {
    Random random(7);
    UsageTable table;
    std::map<std::uintptr_t, bool> frequent;
    for (int step = 0; step < 200'000; ++step) {
        const std::uintptr_t address = kBase + random.below(40'000) * 16 * (1 + random.below(7));
        if (random.below(1000) == 0) {
            const std::uintptr_t end = address + 512 * (1 + random.below(100));
            const std::uintptr_t first = address / 512 * 512; // whole blocks
            table.forget(first, end, [](std::uint32_t) {});
            frequent.erase(frequent.lower_bound(first),
                           frequent.lower_bound((end + 511) / 512 * 512));
            continue;
        }
        UsageTable::Slot* slot = table.find(at(address));
        const auto known = frequent.find(address);
        if (slot != nullptr) {
            ASSERT_NE(known, frequent.end());
            ASSERT_EQ(slot->is_frequent(), known->second);
        } else {
            ASSERT_TRUE(known == frequent.end() || !known->second) << "frequent ones do not age";
            frequent.erase(address);
            slot = table.add(at(address));
        }
        if (slot != nullptr) {
            const bool make = random.below(2) == 0;
            make ? table.make_frequent(*slot, 1) : table.make_ordinary(*slot);
            frequent[address] = make;
        }
    }
    EXPECT_GT(table.known(), 1000u);
}

} // namespace
} // namespace adaptib
