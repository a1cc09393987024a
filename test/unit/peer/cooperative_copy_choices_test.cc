// SPDX-License-Identifier: BSD-3-Clause
// CooperativeCopyChoices: patterns and sizes are learned apart, and a size that begins starts with
// what the next one knows.
#include "peer/cooperative_copy_choices.h"

#include <gtest/gtest.h>

namespace adaptib::test {
namespace {

using Choices = CooperativeCopyChoices;
using Pattern = Choices::Pattern;

// Operations of a size at such costs, until the choice is settled.
void learn(WayChoice& choice, Nanoseconds alone, Nanoseconds cooperative, Nanoseconds staged) {
    const Nanoseconds costs[] = {alone, cooperative, staged};
    for (int i = 0; i < 200; ++i) {
        const WayChoice::Way way = choice.choose();
        if (choice.timed()) {
            choice.note(way, costs[way]);
        }
    }
}

TEST(CooperativeCopyChoices, ASizeBeginsWithItsNeighbor) {
    for (const std::size_t known : {std::size_t{2}, std::size_t{4}}) {
        Choices choices;
        learn(choices.find(Pattern::message, known), Nanoseconds{9000}, Nanoseconds{5000},
              Nanoseconds{7000});
        EXPECT_EQ(choices.find(Pattern::message, 3).better(), Choices::kCooperative);
        EXPECT_EQ(choices.find(Pattern::get, 3).better(), Choices::kAlone) << "another pattern";
    }
}

TEST(CooperativeCopyChoices, TheSmallestAndTheLargestHaveOneNeighbor) {
    Choices choices;
    EXPECT_EQ(choices.find(Pattern::put, 0).better(), Choices::kAlone);
    EXPECT_EQ(choices.find(Pattern::put, Choices::kSizes - 1).better(), Choices::kAlone);
    Choices others;
    learn(others.find(Pattern::put, Choices::kSizes - 2), Nanoseconds{9000}, Nanoseconds{9500},
          Nanoseconds{3000});
    EXPECT_EQ(others.find(Pattern::put, Choices::kSizes - 1).better(), Choices::kStaged);
}

TEST(CooperativeCopyChoices, WhatASizeHasLearnedStays) {
    Choices choices;
    learn(choices.find(Pattern::stream, 1), Nanoseconds{4000}, Nanoseconds{5000},
          Nanoseconds{6000});
    learn(choices.find(Pattern::stream, 2), Nanoseconds{9000}, Nanoseconds{5000},
          Nanoseconds{6000});
    EXPECT_EQ(choices.find(Pattern::stream, 1).better(), Choices::kAlone);
    EXPECT_EQ(choices.find(Pattern::stream, 2).better(), Choices::kCooperative);
}

} // namespace
} // namespace adaptib::test
