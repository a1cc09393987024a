// SPDX-License-Identifier: BSD-3-Clause
// GatherCosts: the least number of uses that pays, and the measurement with a clock of the test's.
#include "memory/gather_costs.h"

#include <gtest/gtest.h>

#include "memory/gather_trial.h"
#include "unit/null_rail.h"

namespace adaptib {
namespace {

class GatherCostsTest : public testing::Test {
protected:
    // A copy takes 10 ns and one more for 16 bytes, a registration 100 ns a page beside its start.
    GatherTrial trial(Nanoseconds registration) {
        GatherTrial trial;
        trial.copy = [this](std::byte*, const std::byte*, Bytes length) {
            clock_.advance(Nanoseconds{10 + static_cast<std::int64_t>(length / 16)});
        };
        trial.registration = [this, registration](void*, Bytes length) {
            clock_.advance(registration +
                           Nanoseconds{static_cast<std::int64_t>(length / 4096) * 100});
            return registers_;
        };
        trial.lookup = [this] { clock_.advance(Nanoseconds{8}); };
        return trial;
    }
    ManualClock clock_;
    bool registers_ = true;
};

TEST_F(GatherCostsTest, IndexIsOfTheNextSmallerSize) {
    EXPECT_EQ(GatherCosts::index(128), 0u);
    EXPECT_EQ(GatherCosts::index(255), 0u);
    EXPECT_EQ(GatherCosts::index(256), 1u);
    EXPECT_EQ(GatherCosts::kSizes[GatherCosts::index(8191)], 7168u);
    EXPECT_EQ(GatherCosts::kSizes[GatherCosts::index(1 << 20)], 16384u);
}

// n > R / (C - V - H)
TEST_F(GatherCostsTest, LeastUses) {
    GatherCosts costs;
    costs.lookup = 10;
    const auto uses = [&](double copy, double registration) {
        costs.copy[0] = copy;
        costs.registration[0] = registration;
        return costs.least_uses(128);
    };
    EXPECT_EQ(uses(110, 1000), 11u) << "with ten, both ways cost the same";
    EXPECT_EQ(uses(110, 999), 10u);
    EXPECT_EQ(uses(110, 0), 1u);
    EXPECT_EQ(uses(10, 1000), GatherCosts::kNever);
    EXPECT_EQ(uses(5, 1000), GatherCosts::kNever);
    EXPECT_EQ(uses(10.0001, 1e9), GatherCosts::kNever) << "more than can be counted";
    costs.handling = 50;
    EXPECT_EQ(uses(110, 1000), 21u);
    EXPECT_EQ(uses(60, 1000), GatherCosts::kNever);
}

TEST_F(GatherCostsTest, AreMeasured) {
    const GatherCosts costs = measure_gather_costs(clock_, trial(std::chrono::microseconds{20}));
    EXPECT_DOUBLE_EQ(costs.lookup, 8);
    EXPECT_DOUBLE_EQ(costs.handling, 40 * 8) << "on a slow processor both take longer";
    for (std::size_t i = 0; i < GatherCosts::kSizes.size(); ++i) {
        const auto bytes = static_cast<double>(GatherCosts::kSizes[i]);
        EXPECT_DOUBLE_EQ(costs.copy[i], 10 + bytes / 16);
        EXPECT_DOUBLE_EQ(costs.registration[i],
                         20'100 + 100 * static_cast<double>(GatherCosts::kSizes[i] / 4096));
    }
}

// A registration that takes long is not repeated; copies that would come too late are assumed.
TEST_F(GatherCostsTest, TakeAboutAMillisecond) {
    const GatherCosts costs = measure_gather_costs(clock_, trial(std::chrono::milliseconds{1}));
    EXPECT_LT(clock_.now(), std::chrono::milliseconds{3});
    EXPECT_DOUBLE_EQ(costs.registration[0], 1'000'100);
    EXPECT_EQ(costs.copy, GatherCosts::assumed().copy);
}

TEST_F(GatherCostsTest, RefusedRegistrationsAreAssumed) {
    registers_ = false;
    const GatherCosts costs = measure_gather_costs(clock_, trial(std::chrono::microseconds{20}));
    EXPECT_EQ(costs.registration, GatherCosts::assumed().registration);
    EXPECT_DOUBLE_EQ(costs.lookup, 8);
    EXPECT_GT(GatherCosts::assumed().copy.front(), 0);
    EXPECT_GT(GatherCosts::assumed().copy.back(), GatherCosts::assumed().copy.front());
}

// A rail that registers nothing: the rest is measured. The bounds are wide, for a busy machine.
TEST_F(GatherCostsTest, OfThisHost) {
    const MonotonicClock clock;
    test::NullRail rail;
    Rail* const rails[] = {&rail};
    const GatherCosts costs = measure_gather_costs(clock, gather_trial(rails, {0, 1}));
    EXPECT_EQ(costs.registration, GatherCosts::assumed().registration);
    EXPECT_GT(costs.copy.back(), costs.copy.front());
    EXPECT_GT(costs.lookup, 0.1);
    EXPECT_LT(costs.lookup, 1000);
}

} // namespace
} // namespace adaptib
