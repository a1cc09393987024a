// SPDX-License-Identifier: BSD-3-Clause
// The virtual adapter's copies that a program sees in the order of addresses.
#include "simulator/adapter/in_order.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adaptib::hca {
namespace {

std::vector<std::uint64_t> pieces(std::uintptr_t to, std::uint64_t bytes) {
    std::vector<std::uint64_t> lengths;
    while (bytes > 0) {
        lengths.push_back(next_in_order(to, bytes));
        to += lengths.back();
        bytes -= lengths.back();
    }
    return lengths;
}

TEST(InOrder, APieceEndsWithItsLineAndTheLastWordComesLast) {
    using Lengths = std::vector<std::uint64_t>;
    EXPECT_EQ(pieces(0x1000, 1), (Lengths{1}));
    EXPECT_EQ(pieces(0x1000, 8), (Lengths{8}));
    EXPECT_EQ(pieces(0x1000, 9), (Lengths{1, 8}));
    EXPECT_EQ(pieces(0x1000, 64), (Lengths{56, 8}));
    EXPECT_EQ(pieces(0x1000, 65), (Lengths{64, 1}));
    EXPECT_EQ(pieces(0x103c, 200), (Lengths{4, 64, 64, 64, 4}));
}

// More than one call of the system takes, from and to any place of a line.
TEST(InOrder, AllBytesArriveAndNoOthersChange) {
    constexpr std::size_t kRoom = 40'000;
    std::vector<std::uint8_t> from(kRoom);
    for (std::size_t i = 0; i < kRoom; ++i) {
        from[i] = static_cast<std::uint8_t>(i * 7 + i / 256 + 1);
    }
    for (const std::size_t bytes : {1u, 7u, 63u, 64u, 4096u, 8192u, 8200u, 33'333u}) {
        for (const std::size_t at : {0u, 1u, 63u}) {
            std::vector<std::uint8_t> to(kRoom, 0);
            ASSERT_TRUE(copy_in_order(to.data() + at, from.data() + 5, bytes));
            EXPECT_TRUE(std::equal(from.begin() + 5, from.begin() + 5 + bytes, to.begin() + at));
            EXPECT_EQ(std::count(to.begin(), to.begin() + at, 0), static_cast<long>(at));
            EXPECT_EQ(std::count(to.begin() + at + bytes, to.end(), 0),
                      static_cast<long>(kRoom - at - bytes));
        }
    }
}

TEST(InOrder, MemoryThatIsGoneIsNoEndOfTheProcess) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const memory =
        mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const bytes = static_cast<std::uint8_t*>(memory);
    ASSERT_EQ(munmap(bytes + page, page), 0);
    const std::vector<std::uint8_t> from(page, 1);
    EXPECT_FALSE(copy_in_order(bytes + page - 100, from.data(), 200));
    EXPECT_TRUE(copy_in_order(bytes + page - 100, from.data(), 100));
    munmap(memory, page);
}

} // namespace
} // namespace adaptib::hca
