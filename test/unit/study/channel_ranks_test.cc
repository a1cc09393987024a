// SPDX-License-Identifier: BSD-3-Clause
// Ranks that receive by the channels of AQPS: who gets which channel, and that budgets are kept.
#include "study/channel_ranks.h"

#include <gtest/gtest.h>

namespace adaptib::study {
namespace {

using namespace std::chrono_literals;

struct Ran {
    Nanoseconds time;
    ChannelRanks::Totals totals;
};

// Both programs, one after the other; a run ends only when all has arrived, in order.
Ran run(Method method, const ChannelLimits& limits) {
    const Study study("test", "test", "connect-ib");
    ChannelOptions options;
    options.machine = *sim::machine("connect-ib");
    options.ranks = 9;
    options.method = method;
    options.limits = limits;
    options.period = 300us;
    ChannelRanks ranks(study, options);
    std::uint32_t notices = 0;
    Nanoseconds time = ranks.run(one_to_all(9, 20'000, notices));
    time += ranks.run(all_to_one(9, 20'000, notices));
    return {time, ranks.totals()};
}

std::uint64_t messages(const Ran& ran, Kind kind) {
    return ran.totals.messages[static_cast<std::size_t>(kind)];
}

TEST(ChannelRanks, OnDemandTheFirstMessageDecides) {
    const Ran dc = run(Method::dc_on_demand, {});
    EXPECT_EQ(dc.totals.connected_most, 0u);
    EXPECT_EQ(messages(dc, Kind::connected_ring), 0u);
    EXPECT_GT(messages(dc, Kind::shared_ring), 39'000u);
    const Ran rc = run(Method::rc_on_demand, {});
    EXPECT_EQ(rc.totals.connected_most, 8u);
    EXPECT_EQ(messages(rc, Kind::shared_ring), 0u);
    EXPECT_GT(messages(rc, Kind::connected_ring), 39'000u);
    EXPECT_EQ(rc.totals.selections, 0u);
}

TEST(ChannelRanks, SelectionKeepsItsBudgets) {
    const Ran few = run(Method::aqps, {256, 2, true});
    EXPECT_GT(few.totals.selections, 0u);
    EXPECT_GT(messages(few, Kind::shared_sendrecv), 0u) << "until the first period is over";
    EXPECT_GT(messages(few, Kind::shared_ring), 1000u);
    EXPECT_GT(messages(few, Kind::connected_ring), 1000u);
    EXPECT_LE(few.totals.connected_most, 4u) << "2 to write over, 2 to read from";
    const Ran none = run(Method::aqps, {0, 0, true});
    EXPECT_EQ(messages(none, Kind::shared_ring) + messages(none, Kind::connected_ring), 0u);
    EXPECT_GT(none.time, few.time) << "rings are worth it";
}

TEST(ChannelRanks, TheSameSeedGivesTheSameRun) {
    EXPECT_EQ(run(Method::aqps, {}).time, run(Method::aqps, {}).time);
}

} // namespace
} // namespace adaptib::study
