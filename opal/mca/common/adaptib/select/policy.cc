// SPDX-License-Identifier: BSD-3-Clause
// Planning of channels from the parameters (select/policy.h).
#include "select/policy.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/invariant.h"

namespace adaptib {

namespace {

std::string name_of(const char* parameter) {
    return std::string("opal_common_adaptib_") + parameter;
}

// Returns the policy that replaces one that needs DC queue pairs which the devices do not have.
std::string_view without_dc(std::string_view policy, const ChannelBounds& bounds,
                            ChannelPlan& plan) {
    const bool needs = policy == "dc_on_demand" || policy == "fixed:shared_ring";
    if (!needs || bounds.dynamically_connected) {
        return policy;
    }
    const std::string_view instead = policy == "dc_on_demand" ? "ud" : "fixed:shared_sendrecv";
    plan.notices.push_back(
        name_of("channel_policy") + " is " + std::string(policy) +
        ", which needs dynamically connected queue pairs. No device in use offers "
        "channels over them, so small messages take the shared queue, as with " +
        std::string(instead) + ".");
    return instead;
}

void limit_connections(const ChannelBounds& bounds, ChannelPlan& plan) {
    const std::uint64_t most = std::max<std::uint64_t>(bounds.queue_pairs / bounds.paths, 1);
    if (bounds.queue_pairs == 0 || plan.connections <= most) {
        return;
    }
    plan.notices.push_back(name_of("connect_max") + " is " + std::to_string(plan.connections) +
                           ", but the device has " + std::to_string(bounds.queue_pairs) +
                           " queue pairs, of which a connection takes " +
                           std::to_string(bounds.paths) + ": at most " + std::to_string(most) +
                           " peers are connected at the same time.");
    plan.connections = most;
}

// Limits the pool to the queue pairs that connections leave. If their number is not limited, pooled
// ones give way to connections.
void limit_pool(const ChannelBounds& bounds, ChannelPlan& plan) {
    const std::uint64_t all = bounds.queue_pairs / bounds.paths;
    const std::uint64_t most = all - std::min(all, plan.connections);
    if (bounds.queue_pairs == 0 || plan.kept <= most) {
        return;
    }
    plan.kept = most;
    ADAPTIB_INVARIANT(most == 0 || plan.connections + plan.kept <= all,
                      "connections and kept ones together have queue pairs", plan.connections,
                      plan.kept, all);
}

} // namespace

ChannelPlan plan_channels(const Parameters& parameters, const ChannelBounds& bounds) {
    ADAPTIB_INVARIANT(bounds.paths > 0, "a connection has a queue pair", bounds.paths);
    ChannelPlan plan;
    const std::string_view policy = without_dc(parameters.channel_policy, bounds, plan);
    plan.period = std::chrono::milliseconds(parameters.channel_period);
    plan.connections = static_cast<std::uint64_t>(parameters.connect_max);
    plan.rings = static_cast<std::uint64_t>(parameters.ring_max);
    plan.connect_threshold = static_cast<std::uint64_t>(parameters.connect_threshold);
    plan.kept = static_cast<std::uint64_t>(parameters.connect_pool);
    limit_connections(bounds, plan);
    limit_pool(bounds, plan);
    const bool at_once = policy == "fixed:rc_ring" || policy == "fixed:shared_ring";
    if (policy == "ud" || policy == "fixed:shared_sendrecv") {
        plan.rings = 0;
    } else if (plan.rings == 0 && at_once) {
        plan.notices.push_back(
            name_of("channel_policy") + " is " + std::string(policy) + ", but " +
            name_of("ring_max") +
            " is 0, so no peer gets a ring: small messages take the shared queue, as with ud.");
    } else if (plan.rings == 0 && plan.connections > 0) {
        plan.notices.push_back(
            name_of("connect_max") + " is " + std::to_string(plan.connections) + ", but " +
            name_of("ring_max") +
            " is 0, so no peer gets a ring, and none is chosen for a connection: small messages "
            "take the shared queue, and only large messages and one-sided operations connect.");
    }
    const bool shares = policy == "dc_on_demand" || policy == "fixed:shared_ring";
    if (bounds.dynamically_connected) {
        plan.sharing = shares ? Sharing::all : policy == "aqps" ? Sharing::spare : Sharing::never;
    }
    if (plan.rings == 0) {
        plan.connect_threshold = ChannelPlan::kNever;
    } else if (at_once) {
        plan.connect_threshold = 0;
    }
    plan.selects = policy == "aqps" && plan.rings > 0;
    return plan;
}

} // namespace adaptib
