// SPDX-License-Identifier: BSD-3-Clause
// Common to tests of the schedulers: subchannels, plans, and checks that hold for each plan.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include "schedule/scheduler.h"

namespace adaptib {

inline bool operator==(const Stripe& a, const Stripe& b) {
    return a.subchannel == b.subchannel && a.offset == b.offset && a.length == b.length;
}

inline std::ostream& operator<<(std::ostream& out, const Stripe& s) {
    return out << s.subchannel << ": " << s.offset << "+" << s.length;
}

using Plan = StripePlan;

inline constexpr Bytes kMaxLength = Bytes{1} << 56;
inline constexpr Bytes kLong = 1'000'000; // every policy that stripes cuts this length

inline std::vector<SubchannelStats> subchannel_stats(std::uint32_t count, Bytes max_stripe) {
    std::vector<SubchannelStats> up;
    for (std::uint32_t i = 0; i < count; ++i) {
        SubchannelStats stats;
        stats.index = stats.port = i;
        stats.rate.value = 1000;
        stats.max_stripe = max_stripe;
        up.push_back(stats);
    }
    return up;
}

inline Plan plan_of(Scheduler& scheduler, Bytes length, const std::vector<SubchannelStats>& up,
                    OpKind op_kind = OpKind::blocking, Direction direction = Direction::read) {
    Plan plan;
    scheduler.plan({length, op_kind, direction}, up, plan);
    return plan;
}

inline SchedulerOptions options(const char* multiplexing, const char* striping = "none",
                                std::uint32_t position = 0, Bytes threshold = 0) {
    SchedulerOptions options;
    options.multiplexing = multiplexing;
    options.striping = striping;
    options.position = position;
    options.striping_threshold = threshold;
    return options;
}

// Bytes of the plan that each subchannel carries.
inline std::vector<Bytes> loads(const Plan& plan, std::size_t count) {
    std::vector<Bytes> loads(count);
    for (const Stripe& stripe : plan) {
        loads.at(stripe.subchannel) += stripe.length;
    }
    return loads;
}

// Checks that a plan covers [0, length) in order, without empty or too long stripes, over
// subchannels that are up.
inline void expect_cover(const Plan& plan, Bytes length, const std::vector<SubchannelStats>& up) {
    Bytes covered = 0;
    for (const Stripe& stripe : plan) {
        const auto stats = std::find_if(up.begin(), up.end(), [&](const SubchannelStats& each) {
            return each.index == stripe.subchannel;
        });
        ASSERT_NE(stats, up.end());
        ASSERT_EQ(stripe.offset, covered);
        ASSERT_GT(stripe.length, 0u);
        ASSERT_LE(stripe.length, stats->max_stripe);
        covered += stripe.length;
    }
    ASSERT_EQ(covered, length);
}

} // namespace adaptib
