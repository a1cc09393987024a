// SPDX-License-Identifier: BSD-3-Clause
// The plans that follow from channel_policy and its budgets, and the notices where a
// device cannot do it.
#include "select/policy.h"

#include <gtest/gtest.h>

namespace adaptib {
namespace {

using namespace std::chrono_literals;

ChannelPlan plan(const std::string& policy, const ChannelBounds& bounds = {}, int ring_max = 256,
                 int connect_max = 0) {
    std::string text = policy;
    Parameters parameters = default_parameters();
    parameters.channel_policy = text.data();
    parameters.ring_max = ring_max;
    parameters.connect_max = connect_max;
    std::string problem;
    EXPECT_TRUE(check_parameters(parameters, problem)) << problem;
    return plan_channels(parameters, bounds);
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(ChannelPolicy, EachKnownValueMeansSomethingElse) {
    const ChannelPlan aqps = plan("aqps");
    EXPECT_TRUE(aqps.selects);
    EXPECT_EQ(aqps.period, 1s);
    EXPECT_EQ(aqps.connect_threshold, 16u);
    EXPECT_EQ(aqps.rings, 256u);
    const ChannelPlan rc = plan("rc_on_demand");
    EXPECT_FALSE(rc.selects);
    EXPECT_EQ(rc.connect_threshold, 16u);
    EXPECT_EQ(rc.rings, 256u);
    const ChannelPlan ring = plan("fixed:rc_ring");
    EXPECT_FALSE(ring.selects);
    EXPECT_EQ(ring.connect_threshold, 0u);
    EXPECT_EQ(ring.rings, 256u);
    for (const char* shared : {"ud", "fixed:shared_sendrecv"}) {
        const ChannelPlan queue = plan(shared);
        EXPECT_FALSE(queue.selects);
        EXPECT_EQ(queue.connect_threshold, ChannelPlan::kNever);
        EXPECT_EQ(queue.rings, 0u);
    }
    for (const char* silent : {"aqps", "rc_on_demand", "ud", "fixed:rc_ring"}) {
        EXPECT_TRUE(plan(silent).notices.empty()) << silent;
    }
}

TEST(ChannelPolicy, OtherValuesAreRefused) {
    for (const char* wrong : {"", "dc", "fixed", "fixed:", "fixed:ud", "AQPS", "rc"}) {
        std::string text = wrong;
        Parameters parameters = default_parameters();
        parameters.channel_policy = text.data();
        std::string problem;
        EXPECT_FALSE(check_parameters(parameters, problem)) << wrong;
        EXPECT_TRUE(has(problem, "fixed:shared_ring")) << problem;
    }
    Parameters parameters = default_parameters();
    parameters.channel_period = 0;
    std::string problem;
    EXPECT_FALSE(check_parameters(parameters, problem));
    EXPECT_TRUE(has(problem, "opal_common_adaptib_channel_period")) << problem;
    EXPECT_TRUE(has(problem, "1..3600000 milliseconds")) << problem;
}

TEST(ChannelPolicy, WithoutDcTheSharedQueueStandsInAndOneMessageSaysSo) {
    for (const char* policy : {"dc_on_demand", "fixed:shared_ring"}) {
        const ChannelPlan without = plan(policy);
        EXPECT_EQ(without.rings, 0u);
        EXPECT_EQ(without.connect_threshold, ChannelPlan::kNever);
        ASSERT_EQ(without.notices.size(), 1u);
        EXPECT_TRUE(has(without.notices[0], policy)) << without.notices[0];
        EXPECT_TRUE(has(without.notices[0], "dynamically connected")) << without.notices[0];
        EXPECT_TRUE(has(without.notices[0], "shared queue")) << without.notices[0];
        ChannelBounds bounds;
        bounds.dynamically_connected = true;
        EXPECT_TRUE(plan(policy, bounds).notices.empty());
        EXPECT_EQ(plan(policy, bounds).rings, 256u);
        EXPECT_EQ(plan(policy, bounds).sharing, Sharing::all);
        EXPECT_EQ(without.sharing, Sharing::never);
    }
}

TEST(ChannelPolicy, WhereThereIsDcItIsForAllOrForTheRestOrForNobody) {
    ChannelBounds bounds;
    bounds.dynamically_connected = true;
    EXPECT_EQ(plan("aqps", bounds).sharing, Sharing::spare);
    EXPECT_EQ(plan("aqps").sharing, Sharing::never);
    for (const char* other : {"rc_on_demand", "fixed:rc_ring", "ud", "fixed:shared_sendrecv"}) {
        EXPECT_EQ(plan(other, bounds).sharing, Sharing::never) << other;
    }
    EXPECT_EQ(plan("fixed:shared_ring", bounds).connect_threshold, 0u);
    EXPECT_EQ(plan("dc_on_demand", bounds).connect_threshold, 16u);
    EXPECT_EQ(plan("fixed:shared_ring", bounds, 0).notices.size(), 1u);
}

TEST(ChannelPolicy, WithoutRingsNobodyIsSelectedOrConnectedForThem) { // tau = 0
    for (const char* policy : {"aqps", "rc_on_demand", "fixed:rc_ring"}) {
        const ChannelPlan none = plan(policy, {}, 0);
        EXPECT_FALSE(none.selects);
        EXPECT_EQ(none.connect_threshold, ChannelPlan::kNever);
        EXPECT_EQ(none.notices.size(), std::string(policy) == "fixed:rc_ring" ? 1u : 0u) << policy;
    }
    const std::string notice = plan("fixed:rc_ring", {}, 0).notices.at(0);
    EXPECT_TRUE(has(notice, "fixed:rc_ring, but opal_common_adaptib_ring_max is 0")) << notice;
    EXPECT_TRUE(plan("ud", {}, 0).notices.empty()) << "it is what was asked for";
    EXPECT_TRUE(plan("ud", {}, 0, 2).notices.empty());
    for (const char* policy : {"aqps", "rc_on_demand"}) { // h without tau
        const ChannelPlan few = plan(policy, {}, 0, 2);
        EXPECT_EQ(few.connections, 2u) << "large messages have them";
        ASSERT_EQ(few.notices.size(), 1u) << policy;
        EXPECT_TRUE(has(few.notices[0], "opal_common_adaptib_connect_max is 2, but "
                                        "opal_common_adaptib_ring_max is 0"))
            << few.notices[0];
        EXPECT_TRUE(has(few.notices[0], "large messages")) << few.notices[0];
        EXPECT_TRUE(plan(policy, {}, 1, 2).notices.empty());
    }
    EXPECT_EQ(plan("fixed:rc_ring", {}, 0, 2).notices.size(), 1u) << "one is enough";
}

TEST(ChannelPolicy, TheDeviceBoundsConnections) { // h
    ChannelBounds bounds;
    bounds.queue_pairs = 1000;
    bounds.paths = 2;
    EXPECT_EQ(plan("aqps", bounds, 256, 0).connections, 0u);
    EXPECT_EQ(plan("aqps", bounds, 256, 500).connections, 500u);
    EXPECT_TRUE(plan("aqps", bounds, 256, 500).notices.empty());
    const ChannelPlan more = plan("aqps", bounds, 256, 65'536);
    EXPECT_EQ(more.connections, 500u);
    ASSERT_EQ(more.notices.size(), 1u);
    EXPECT_TRUE(has(more.notices[0], "opal_common_adaptib_connect_max is 65536"))
        << more.notices[0];
    EXPECT_TRUE(has(more.notices[0], "1000 queue pairs")) << more.notices[0];
    EXPECT_TRUE(has(more.notices[0], "at most 500 peers")) << more.notices[0];
    bounds.queue_pairs = 1; // Fewer than a connection takes: the limit is one, and not none.
    EXPECT_EQ(plan("aqps", bounds, 256, 7).connections, 1u);
    bounds.queue_pairs = 0; // not known
    EXPECT_EQ(plan("aqps", bounds, 256, 65'536).connections, 65'536u);
}

TEST(ChannelPolicy, TheDeviceBoundsWhatIsKept) { // pi
    const auto keeping = [](int pool, int connect_max, std::uint64_t queue_pairs) {
        Parameters parameters = default_parameters();
        parameters.connect_pool = pool;
        parameters.connect_max = connect_max;
        ChannelBounds bounds;
        bounds.queue_pairs = queue_pairs;
        bounds.paths = 2;
        return plan_channels(parameters, bounds);
    };
    EXPECT_EQ(keeping(128, 0, 0).kept, 128u);
    EXPECT_EQ(keeping(0, 100, 1000).kept, 0u);
    EXPECT_EQ(keeping(400, 100, 1000).kept, 400u);
    EXPECT_EQ(keeping(65'536, 100, 1000).kept, 400u);
    EXPECT_EQ(keeping(128, 450, 1000).kept, 50u);
    EXPECT_EQ(keeping(128, 700, 1000).kept, 0u); // 500 are connections
}

} // namespace
} // namespace adaptib
