// SPDX-License-Identifier: BSD-3-Clause
// Schedulers: plans cover their transfer exactly, and are the ones that the policy says.
#include "schedule/scheduler.h"

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

namespace adaptib {

static bool operator==(const Stripe& a, const Stripe& b) {
    return a.subchannel == b.subchannel && a.offset == b.offset && a.length == b.length;
}

static std::ostream& operator<<(std::ostream& out, const Stripe& s) {
    return out << s.subchannel << ": " << s.offset << "+" << s.length;
}

namespace {

using Plan = std::vector<Stripe>;

constexpr Bytes kMaxLength = Bytes{1} << 56;

std::vector<SubchannelView> views(std::uint32_t count, Bytes max_stripe) {
    std::vector<SubchannelView> up;
    for (std::uint32_t i = 0; i < count; ++i) {
        SubchannelView view;
        view.index = i;
        view.rate.value = 1000;
        view.max_stripe = max_stripe;
        up.push_back(view);
    }
    return up;
}

Plan plan_of(Scheduler& scheduler, Bytes length, const std::vector<SubchannelView>& up,
             Marker marker = Marker::blocking) {
    Plan plan;
    scheduler.plan(length, marker, up, plan);
    return plan;
}

TEST(Schedule, AnUnknownPolicyIsNone) {
    EXPECT_NE(make_scheduler("binding", {}), nullptr);
    EXPECT_NE(make_scheduler("round_robin", {}), nullptr);
    EXPECT_NE(make_scheduler("even", {}), nullptr);
    for (const char* unknown : {"", "Binding", "bindin", "binding ", "evenly", "round"}) {
        EXPECT_EQ(make_scheduler(unknown, {}), nullptr) << unknown;
    }
}

TEST(Binding, TakesOneSubchannelForEverything) {
    const auto scheduler = make_scheduler("binding", {0, 0});
    EXPECT_EQ(plan_of(*scheduler, 1, views(1, 100)), (Plan{{0, 0, 1}}));
    EXPECT_EQ(plan_of(*scheduler, 100, views(3, 100)), (Plan{{0, 0, 100}}));
    EXPECT_EQ(plan_of(*scheduler, kMaxLength, views(1, UINT64_MAX)), (Plan{{0, 0, kMaxLength}}));
}

TEST(Binding, CutsAtTheLongestWorkRequest) {
    const auto scheduler = make_scheduler("binding", {0, 0});
    const auto up = views(1, 100);
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{0, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 101, up), (Plan{{0, 0, 100}, {0, 100, 1}}));
    EXPECT_EQ(plan_of(*scheduler, 200, up), (Plan{{0, 0, 100}, {0, 100, 100}}));
    EXPECT_EQ(plan_of(*scheduler, 250, up), (Plan{{0, 0, 100}, {0, 100, 100}, {0, 200, 50}}));
    EXPECT_EQ(plan_of(*scheduler, 3, views(1, 1)), (Plan{{0, 0, 1}, {0, 1, 1}, {0, 2, 1}}));
    const Bytes half = Bytes{1} << 31;
    EXPECT_EQ(plan_of(*scheduler, 2 * half + 7, views(1, half)),
              (Plan{{0, 0, half}, {0, half, half}, {0, 2 * half, 7}}));
}

TEST(Binding, PositionsAreSpreadOverTheSubchannels) {
    for (std::uint32_t position = 0; position < 9; ++position) {
        const auto scheduler = make_scheduler("binding", {position, 0});
        EXPECT_EQ(plan_of(*scheduler, 10, views(3, 100)), (Plan{{position % 3, 0, 10}}));
        EXPECT_EQ(plan_of(*scheduler, 10, views(1, 100)), (Plan{{0, 0, 10}}));
    }
    const auto last = make_scheduler("binding", {UINT32_MAX, 0});
    EXPECT_EQ(plan_of(*last, 10, views(2, 100)), (Plan{{1, 0, 10}}));
}

TEST(Binding, NamesTheSubchannelNotItsPlaceAmongThoseThatAreUp) {
    auto up = views(2, 100);
    up[0].index = 5;
    up[1].index = 7;
    up[1].max_stripe = 6;
    EXPECT_EQ(plan_of(*make_scheduler("binding", {0, 0}), 10, up), (Plan{{5, 0, 10}}));
    EXPECT_EQ(plan_of(*make_scheduler("binding", {1, 0}), 10, up), (Plan{{7, 0, 6}, {7, 6, 4}}));
}

TEST(Binding, IsTheSamePlanForEveryMarkerAndEachTime) {
    const auto scheduler = make_scheduler("binding", {1, 0});
    const Plan expected{{1, 0, 100}, {1, 100, 20}};
    for (int round = 0; round < 3; ++round) {
        for (const Marker marker : {Marker::blocking, Marker::non_blocking, Marker::collective}) {
            EXPECT_EQ(plan_of(*scheduler, 120, views(2, 100), marker), expected);
        }
    }
}

TEST(Binding, AppendsToThePlan) {
    const auto scheduler = make_scheduler("binding", {0, 0});
    Plan plan{{9, 1, 2}};
    scheduler->plan(5, Marker::blocking, views(1, 100), plan);
    EXPECT_EQ(plan, (Plan{{9, 1, 2}, {0, 0, 5}}));
}

TEST(Binding, CoversEveryLengthExactly) {
    const auto scheduler = make_scheduler("binding", {2, 0});
    for (Bytes length = 1; length < 300; ++length) {
        for (const Bytes most : {Bytes{1}, Bytes{2}, Bytes{63}, Bytes{64}, Bytes{65}, Bytes{299}}) {
            Bytes covered = 0;
            for (const Stripe& stripe : plan_of(*scheduler, length, views(4, most))) {
                ASSERT_EQ(stripe.subchannel, 2u);
                ASSERT_EQ(stripe.offset, covered);
                ASSERT_GT(stripe.length, 0u);
                ASSERT_LE(stripe.length, most);
                covered += stripe.length;
            }
            ASSERT_EQ(covered, length);
        }
    }
}

TEST(RoundRobin, TakesTheNextSubchannelEachTime) {
    const auto scheduler = make_scheduler("round_robin", {1, 0});
    const auto up = views(3, 100);
    EXPECT_EQ(plan_of(*scheduler, 64, up), (Plan{{1, 0, 64}}));
    EXPECT_EQ(plan_of(*scheduler, 130, up), (Plan{{2, 0, 100}, {2, 100, 30}}));
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{0, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{1, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 99, views(1, 100)), (Plan{{0, 0, 99}}));
}

// Atomics, among others.
TEST(Spreading, NeverConcernsTheShortest) {
    for (const char* policy : {"round_robin", "even"}) {
        const auto scheduler = make_scheduler(policy, {4, 1});
        for (const Bytes length : {1, 8, 63, 8, 8}) {
            EXPECT_EQ(plan_of(*scheduler, length, views(3, 100)), (Plan{{1, 0, length}})) << policy;
        }
    }
}

TEST(Even, CutsIntoEqualParts) {
    const auto scheduler = make_scheduler("even", {0, 1024});
    EXPECT_EQ(plan_of(*scheduler, 2048, views(2, kMiB)), (Plan{{0, 0, 1024}, {1, 1024, 1024}}));
    EXPECT_EQ(plan_of(*scheduler, 1024, views(4, kMiB)),
              (Plan{{0, 0, 256}, {1, 256, 256}, {2, 512, 256}, {3, 768, 256}}));
    // Rounded to cache lines: the last part is what is left.
    EXPECT_EQ(plan_of(*scheduler, 1025, views(2, kMiB)), (Plan{{0, 0, 576}, {1, 576, 449}}));
    EXPECT_EQ(plan_of(*scheduler, 5000, views(1, kMiB)), (Plan{{0, 0, 5000}}));
    EXPECT_EQ(plan_of(*scheduler, 2048, views(2, 1000)),
              (Plan{{0, 0, 1000}, {0, 1000, 24}, {1, 1024, 1000}, {1, 2024, 24}}));
    EXPECT_EQ(plan_of(*make_scheduler("even", {3, 1024}), 2048, views(2, kMiB)),
              (Plan{{1, 0, 1024}, {0, 1024, 1024}}));
}

TEST(Even, ShorterOnesTakeTurns) {
    const auto scheduler = make_scheduler("even", {0, 1024});
    EXPECT_EQ(plan_of(*scheduler, 1023, views(2, kMiB)), (Plan{{0, 0, 1023}}));
    EXPECT_EQ(plan_of(*scheduler, 2048, views(2, kMiB)), (Plan{{0, 0, 1024}, {1, 1024, 1024}}));
    EXPECT_EQ(plan_of(*scheduler, 100, views(2, kMiB)), (Plan{{1, 0, 100}}));
    EXPECT_EQ(plan_of(*scheduler, 100, views(2, kMiB)), (Plan{{0, 0, 100}}));
}

TEST(Spreading, CoversEveryLengthExactly) {
    for (const char* policy : {"round_robin", "even"}) {
        const auto scheduler = make_scheduler(policy, {2, 100});
        for (Bytes length = 1; length < 1500; ++length) {
            for (const Bytes most : {Bytes{1}, Bytes{63}, Bytes{64}, Bytes{4096}}) {
                Bytes covered = 0;
                for (const Stripe& stripe : plan_of(*scheduler, length, views(5, most))) {
                    ASSERT_LT(stripe.subchannel, 5u);
                    ASSERT_EQ(stripe.offset, covered);
                    ASSERT_GT(stripe.length, 0u);
                    ASSERT_LE(stripe.length, most);
                    covered += stripe.length;
                }
                ASSERT_EQ(covered, length) << policy;
            }
        }
    }
}

} // namespace
} // namespace adaptib
