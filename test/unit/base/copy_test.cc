// SPDX-License-Identifier: BSD-3-Clause
// copy_small at all lengths and offsets of both sides: it writes those bytes and no others.
#include "base/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace adaptib {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::byte kUntouched{0xee};

// Returns the first byte of a page inside `memory`.
std::byte* page_of(std::vector<std::byte>& memory) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (kPage - at % kPage) % kPage;
}

// `to` and `from` are offsets from the beginning of a page.
void expect_copied(std::size_t bytes, std::size_t to, std::size_t from) {
    std::vector<std::byte> sources(kPage + from + bytes);
    for (std::size_t i = 0; i < sources.size(); ++i) {
        sources[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
    std::vector<std::byte> targets(kPage + to + bytes + 64, kUntouched);
    std::byte* const begin = page_of(targets) + to;
    const std::byte* const source = page_of(sources) + from;
    copy_small(begin, source, bytes);
    ASSERT_TRUE(std::equal(source, source + bytes, begin));
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    ASSERT_TRUE(std::all_of(targets.data(), begin, untouched));
    ASSERT_TRUE(std::all_of(begin + bytes, targets.data() + targets.size(), untouched));
}

TEST(Copy, CopiesOfAFewBytes) {
    for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
        SCOPED_TRACE(bytes);
        ASSERT_NO_FATAL_FAILURE(expect_copied(bytes, bytes % 3, bytes % 5));
    }
}

// Includes sizes that may be copied in parts, and targets that lie close behind the source's offset
// within a page.
TEST(Copy, CopiesOfManyBytes) {
    for (const std::size_t bytes :
         {2047u, 2048u, 2049u, 4000u, 4096u, 4097u, 6144u, 6145u, 8192u, 70'001u}) {
        for (const std::size_t behind : {0u, 1u, 15u, 16u, 31u, 32u, 4095u}) {
            SCOPED_TRACE(bytes);
            SCOPED_TRACE(behind);
            ASSERT_NO_FATAL_FAILURE(expect_copied(bytes, kPage + 64 + behind, 64));
        }
    }
}

} // namespace
} // namespace adaptib
