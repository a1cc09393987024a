// SPDX-License-Identifier: BSD-3-Clause
// A flush (protocol/flush_epochs.h) waits for all operations started before it, and ends
// although others go on.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "base/random.h"
#include "protocol/flush_epochs.h"

namespace adaptib {
namespace {

constexpr std::size_t kWindow = 8;

TEST(FlushEpochs, WhatIsNotUnderWayIsNotWaitedFor) {
    FlushEpochs epochs;
    EXPECT_EQ(epochs.under_way(), 0u);
    const std::uint64_t first = epochs.enter();
    EXPECT_EQ(epochs.under_way(), 1u);
    const std::uint64_t mark = epochs.mark();
    EXPECT_FALSE(epochs.passed(mark));
    const std::uint64_t later = epochs.enter();
    EXPECT_FALSE(epochs.passed(mark));
    epochs.leave(first);
    EXPECT_TRUE(epochs.passed(mark)) << "waits for what was started after it";
    EXPECT_EQ(epochs.under_way(), 1u);
    epochs.leave(later);
    EXPECT_EQ(epochs.under_way(), 0u);
    EXPECT_TRUE(epochs.passed(mark));
}

// The first in is the first out, and some are always outstanding: waiting until none
// is would never end.
TEST(FlushEpochs, EndsWhileOthersAreStarted) {
    FlushEpochs epochs;
    std::deque<std::uint64_t> open;
    for (std::size_t i = 0; i < kWindow; ++i) {
        open.push_back(epochs.enter());
    }
    for (int flush = 0; flush < 100; ++flush) {
        const std::uint64_t mark = epochs.mark();
        std::size_t waited = 0;
        for (; !epochs.passed(mark); ++waited) {
            ASSERT_LT(waited, 3 * kWindow) << "flush " << flush;
            open.push_back(epochs.enter());
            epochs.leave(open.front());
            open.pop_front();
        }
        EXPECT_GE(waited, kWindow) << "flush " << flush << " did not wait for what was under way";
    }
}

// Several flushes at a time, and operations that end in any order.
TEST(FlushEpochs, NoneEndsBeforeWhatItWaitsFor) {
    struct Operation {
        std::uint64_t number;
        std::uint64_t epoch;
    };
    struct Flush {
        std::uint64_t mark;
        std::uint64_t before; // operations with lower numbers were started before it
    };
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Random random(seed);
        FlushEpochs epochs;
        std::vector<Operation> open;
        std::vector<Flush> flushes;
        std::uint64_t next = 0;
        std::uint64_t ended = 0;
        for (int step = 0; step < 2000; ++step) {
            switch (random.below(4)) {
            case 0:
                if (open.size() < 2 * kWindow) {
                    open.push_back({next++, epochs.enter()});
                }
                break;
            case 1:
                if (!open.empty()) {
                    const std::size_t which = random.below(open.size());
                    epochs.leave(open[which].epoch);
                    open[which] = open.back();
                    open.pop_back();
                }
                break;
            case 2:
                if (flushes.size() < 4) {
                    flushes.push_back({epochs.mark(), next});
                }
                break;
            default:
                if (!flushes.empty()) {
                    const std::size_t which = random.below(flushes.size());
                    if (epochs.passed(flushes[which].mark)) {
                        for (const Operation& each : open) {
                            ASSERT_GE(each.number, flushes[which].before) << "seed " << seed;
                        }
                        flushes[which] = flushes.back();
                        flushes.pop_back();
                        ++ended;
                    }
                }
                break;
            }
            EXPECT_EQ(epochs.under_way(), open.size());
        }
        EXPECT_GT(ended, 10u) << "seed " << seed;
    }
}

} // namespace
} // namespace adaptib
