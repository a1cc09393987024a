// SPDX-License-Identifier: BSD-3-Clause
// Costs of channels, from literal times.
#include "select/cost_meter.h"

#include <gtest/gtest.h>

namespace adaptib {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSamples = CostMeter::kSamples;

void feed(CostMeter& meter, std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
        meter.add_rings(60ns, 20ns, 8, 0);  // 5 ns a ring
        meter.add_credit(90ns, 20ns);       // 70 ns
        meter.add_queue(920ns, 20ns, 3);    // 300 ns a message
        meter.add_rings(455ns, 20ns, 8, 4); // 7 rings in vain, then 100 ns a message
    }
}

TEST(CostMeter, WhatWasNotMeasuredIsTheModels) {
    const ChannelCosts model;
    CostMeter meter;
    feed(meter, kSamples - 1);
    const ChannelCosts costs = meter.costs(model, 0);
    EXPECT_EQ(costs.poll, model.poll);
    EXPECT_EQ(costs.credit, model.credit);
    EXPECT_EQ(costs.connected_ring, model.connected_ring);
    EXPECT_EQ(costs.shared_ring, model.shared_ring);
    EXPECT_EQ(costs.ring_messages, model.ring_messages);
}

TEST(CostMeter, TheMachinesCostsTakeThePlaceOfTheModels) {
    CostMeter meter;
    feed(meter, 2 * kSamples);
    const ChannelCosts costs = meter.costs({}, 40);
    EXPECT_DOUBLE_EQ(costs.poll, 5);
    EXPECT_DOUBLE_EQ(costs.credit, 70);
    EXPECT_DOUBLE_EQ(costs.connected_ring, 200);
    EXPECT_DOUBLE_EQ(costs.shared_ring, 200 * 100 / 150.0); // in the ratio of d to r in the model
    EXPECT_DOUBLE_EQ(costs.ring_messages, 40);
    EXPECT_EQ(costs.establish, ChannelCosts{}.establish);
    EXPECT_GT(meter.samples(), 6 * kSamples);
}

TEST(CostMeter, TheSavingOfASharedRingFollowsTheModel) {
    CostMeter meter;
    feed(meter, 2 * kSamples);
    ChannelCosts model;
    model.connected_ring = 0.5;
    model.shared_ring = 0.25;
    EXPECT_DOUBLE_EQ(meter.costs(model, 0).shared_ring, 100);
    model.connected_ring = 0;
    EXPECT_EQ(meter.costs(model, 0).shared_ring, 0);
}

TEST(CostMeter, InterruptionsChangeNothing) {
    CostMeter meter;
    for (std::size_t i = 0; i < 4 * kSamples; ++i) {
        if (i % 3 == 0) {
            meter.add_rings(4ms, 20ns, 8, 0);
            meter.add_credit(4ms, 20ns);
            meter.add_queue(4ms, 20ns, 1);
            meter.add_rings(4ms, 20ns, 8, 1);
        }
        feed(meter, 1);
    }
    EXPECT_DOUBLE_EQ(meter.costs({}, 0).poll, 5);
    EXPECT_DOUBLE_EQ(meter.costs({}, 0).credit, 70);
    EXPECT_DOUBLE_EQ(meter.costs({}, 0).connected_ring, 200);
}

TEST(CostMeter, TheMachineMayChange) {
    CostMeter meter;
    feed(meter, 10 * kSamples);
    for (std::size_t i = 0; i < kSamples; ++i) {
        meter.add_rings(180ns, 20ns, 8, 0);
    }
    EXPECT_DOUBLE_EQ(meter.costs({}, 0).poll, 20);
}

// A clock that stood still, or ran backwards, and rings that save nothing.
TEST(CostMeter, CostsAreNeverNegativeNorWithoutBounds) {
    CostMeter meter;
    for (std::size_t i = 0; i < 2 * kSamples; ++i) { // the first times of messages do not count
        meter.add_rings(0ns, 50ns, 4, 0);
        meter.add_credit(-5ns, 0ns);
        meter.add_queue(10ns, 0ns, 1);
        meter.add_rings(10s, 0ns, 4, 1);
        meter.add_rings(10s, 0ns, 0, 0); // no ring, so nothing to learn
        meter.add_queue(10s, 0ns, 0);
    }
    const ChannelCosts costs = meter.costs({}, 0.5);
    EXPECT_EQ(costs.poll, 0);
    EXPECT_EQ(costs.credit, 0);
    EXPECT_DOUBLE_EQ(costs.connected_ring, 15); // a tenth of the model's
    EXPECT_DOUBLE_EQ(costs.shared_ring, 10);
    EXPECT_EQ(costs.ring_messages, 16);
}

// The meter wants looks until it has enough of a kind in a period, or many were in vain.
TEST(CostMeter, WantsSomeOfEachPeriod) {
    CostMeter meter;
    for (int period = 0; period < 2; ++period) {
        for (std::size_t i = 0; i < kSamples; ++i) {
            EXPECT_TRUE(meter.wants_rings());
            EXPECT_TRUE(meter.wants_queue());
            EXPECT_TRUE(meter.wants_credits());
            feed(meter, 1);
        }
        EXPECT_FALSE(meter.wants_rings());
        EXPECT_FALSE(meter.wants_queue());
        EXPECT_FALSE(meter.wants_credits());
        meter.begin_period();
        for (std::size_t i = 0; i < CostMeter::kMostLooks; ++i) {
            EXPECT_EQ(meter.wants_rings(), i < 2 * kSamples) << i;
            EXPECT_TRUE(meter.wants_queue());
            meter.add_rings(60ns, 20ns, 8, i % 2);
        }
        EXPECT_FALSE(meter.wants_queue()) << "nothing came from it";
        meter.begin_period();
        for (std::size_t i = 0; i < CostMeter::kMostLooks; ++i) {
            EXPECT_TRUE(meter.wants_rings());
            meter.add_rings(60ns, 20ns, 8, 0);
        }
        EXPECT_FALSE(meter.wants_rings()) << "all in vain";
        meter.begin_period();
    }
}

} // namespace
} // namespace adaptib
