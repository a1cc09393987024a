// SPDX-License-Identifier: BSD-3-Clause
// measure_copies: the result from disturbed times, and the real one of this host.
#include "fabric/shm/copy_costs.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace adaptib::shm {

namespace {

class CopyCostsTest : public testing::Test {
protected:
    // Copies that take times set by the test; each third copy takes `disturbance` longer.
    CopyTrial trial(Nanoseconds disturbance) {
        CopyTrial made;
        made.single = [this, disturbance](std::byte*, const std::byte*, Bytes length) {
            take(Nanoseconds{400 + static_cast<std::int64_t>(length / 32)}, disturbance);
            return ++singles_ <= allowed_;
        };
        made.plain = [this, disturbance](std::byte*, const std::byte*, Bytes length) {
            take(Nanoseconds{static_cast<std::int64_t>(length / 64)}, disturbance);
        };
        return made;
    }
    void take(Nanoseconds time, Nanoseconds disturbance) {
        clock_.advance(time + (++copies_ % 3 == 0 ? disturbance : Nanoseconds{0}));
    }

    ManualClock clock_;
    int copies_ = 0;
    int singles_ = 0;
    int allowed_ = 1000;
};

TEST_F(CopyCostsTest, TheLeastTimeCounts) {
    const auto costs = measure_copies(clock_, trial(std::chrono::microseconds{10}));
    ASSERT_TRUE(costs.has_value());
    for (std::size_t i = 0; i < CopyCosts::kSizes.size(); ++i) {
        const auto bytes = static_cast<std::int64_t>(CopyCosts::kSizes[i]);
        EXPECT_EQ(costs->single[i].count(), 400 + bytes / 32);
        EXPECT_EQ(costs->plain[i].count(), bytes / 64);
    }
    EXPECT_LT(clock_.now(), std::chrono::microseconds{500});
}

TEST_F(CopyCostsTest, GivesUpWhereItWouldTakeLong) {
    EXPECT_FALSE(measure_copies(clock_, trial(std::chrono::milliseconds{2})).has_value());
    EXPECT_LT(clock_.now(), std::chrono::milliseconds{5}) << "at the first such time";
}

TEST_F(CopyCostsTest, NoneWhereSingleCopiesAreRefused) {
    allowed_ = 0;
    EXPECT_FALSE(measure_copies(clock_, trial(Nanoseconds{0})).has_value());
    EXPECT_EQ(singles_, 1);
}

// Measures the real system, several times, since other processes may have the processor.
TEST_F(CopyCostsTest, OfThisHost) {
    const MonotonicClock clock;
    for (int attempt = 0; attempt < 1000; ++attempt) {
        if (const auto costs = measure_copies(clock)) {
            for (std::size_t i = 0; i < CopyCosts::kSizes.size(); ++i) {
                EXPECT_GT(costs->single[i].count(), 0);
                EXPECT_GT(costs->plain[i].count(), 0);
                EXPECT_LT(costs->single[i], std::chrono::microseconds{500});
            }
            return;
        }
    }
    GTEST_SKIP() << "single copies are refused, or slower than is of use here";
}

} // namespace

} // namespace adaptib::shm
