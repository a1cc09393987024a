// SPDX-License-Identifier: BSD-3-Clause
// Times of stripes, of complete cores over a simulated network with two equal rails: the weights
// that they teach make both rails end at the same time.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

RanksOptions two_rails() {
    RanksOptions options;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(2, {.adapters = 2}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    return options;
}

// Returns the first rail's share of the bytes that rank 1 reads, in long messages.
double share_of_first(Ranks& ranks) {
    return ranks.peer(1, 0)->lanes.scheduler->weight(Mix::reads, 0);
}

// An adapter works off requests while others are posted: the second rail begins when the first
// rail's request is posted already. If each stripe's time began when it was posted itself, or
// later, both rails would seem to be equally fast.
TEST(StripeTimes, BeginBeforeTheFirstPost) {
    RanksOptions options = two_rails();
    options.world.machine.processor.post = 10us;
    const auto ranks = make(std::move(options));
    for (int i = 0; i < 40; ++i) {
        carry(*ranks, 0, 1, 256 * kKiB);
    }
    EXPECT_NEAR(share_of_first(*ranks), 0.63, 0.03); // 10 us of 256 KiB more
}

} // namespace
} // namespace adaptib::sim
