// SPDX-License-Identifier: BSD-3-Clause
#include "base/invariant.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/units.h"

namespace adaptib {
namespace {

enum class Color : std::uint8_t { red = 7 };

TEST(InvariantDeathTest, WhatDoesNotHoldIsSaidWithItsValues) {
    const Bytes used = 9;
    const Bytes size = 8;
    ADAPTIB_INVARIANT(size <= used, "this holds", size, used);
    EXPECT_DEATH(
        ADAPTIB_INVARIANT(used <= size, "no more is used than there is", used, size),
        "no more is used than there is. .*invariant_test.cc.*used <= size; used, size = 9, 8");
    EXPECT_DEATH(ADAPTIB_INVARIANT(used == size, "they are one"),
                 "they are one. .*used == size\\)");
    EXPECT_DEATH(ADAPTIB_INVARIANT(false, "kinds", Nanoseconds{5}, Color::red,
                                   static_cast<const char*>(nullptr)),
                 "= 5, 7, 0");
}

TEST(InvariantDeathTest, WhatIsGivenIsPrintedBehindIt) {
    on_broken_invariant([] { std::fputs("the latest events\n", stderr); });
    EXPECT_DEATH(ADAPTIB_INVARIANT(false, "none"), "none(.|\n)*the latest events");
    on_broken_invariant(nullptr);
}

TEST(InvariantDeathTest, AuditsRunInTestBuilds) {
    std::uint32_t evaluated = 0;
    ADAPTIB_AUDIT(++evaluated != 0, "counted");
#if defined(ADAPTIB_AUDITS)
    EXPECT_EQ(evaluated, 1u);
    EXPECT_DEATH(ADAPTIB_AUDIT(evaluated == 2, "a sum", evaluated), "a sum");
#else
    EXPECT_EQ(evaluated, 0u);
#endif
}

} // namespace
} // namespace adaptib
