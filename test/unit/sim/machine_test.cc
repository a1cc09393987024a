// SPDX-License-Identifier: BSD-3-Clause
// The machine models: complete, consistent, and true to the sources that they were derived from.
#include "simulator/network/machine.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace adaptib::sim {
namespace {

// 8 bytes written into memory that the target polls: the way through an idle network.
double smallest_latency(const MachineModel& m, std::int64_t switches) {
    const Nanoseconds time = m.processor.copy_start + m.processor.post + m.adapter.doorbell +
                             m.adapter.work_request + m.wire.cable * (switches + 1) +
                             m.wire.switch_latency * switches + m.adapter.receive_work +
                             m.processor.copy_start;
    return static_cast<double>(time.count()); // nanoseconds
}

class Machine : public testing::TestWithParam<MachineModel> {};

INSTANTIATE_TEST_SUITE_P(Models, Machine, testing::ValuesIn(machines().begin(), machines().end()),
                         [](const auto& info) {
                             std::string name(info.param.name);
                             std::erase(name, '-');
                             return name;
                         });

TEST_P(Machine, IsFoundByItsName) {
    const MachineModel* found = machine(GetParam().name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->name, GetParam().name);
}

TEST_P(Machine, TimesAreNotNegative) {
    const MachineModel& m = GetParam();
    for (const Nanoseconds time :
         {m.processor.post_receive, m.processor.poll_completion, m.processor.signal,
          m.processor.copy_start, m.processor.registration, m.processor.registration_page,
          m.adapter.doorbell, m.adapter.work_request, m.adapter.receive_work, m.adapter.ack,
          m.adapter.qp_miss, m.wire.switch_latency, m.dc.connect, m.dc.disconnect,
          m.dc.nack_backoff, m.path_migration.migrate, m.path_migration.load_alternate}) {
        EXPECT_GE(time.count(), 0);
    }
    // A world in which neither posting nor polling takes time may stand still.
    EXPECT_GT(m.processor.post.count(), 0);
    EXPECT_GT(m.processor.poll_empty.count(), 0);
    EXPECT_GT(m.wire.cable.count(), 0);
}

TEST_P(Machine, RatesFitTogether) {
    const MachineModel& m = GetParam();
    EXPECT_GT(m.adapter.port_rate.value, 0u);
    EXPECT_GT(m.processor.copy_rate.value, 0u);
    EXPECT_GE(m.adapter.engines, 1u);
    if (m.adapter.engine_rate.value != 0) {
        EXPECT_LE(m.adapter.engine_rate, m.adapter.port_rate);
        if (m.adapter.engines > 1) { // several engines have to be worth something
            EXPECT_LT(m.adapter.engine_rate, m.adapter.port_rate);
            EXPECT_GE(m.adapter.engines * m.adapter.engine_rate.value, m.adapter.port_rate.value);
        }
    }
    if (m.adapter.bus_rate.value != 0 && m.adapter.engine_rate.value != 0) {
        EXPECT_GE(m.adapter.bus_rate, m.adapter.engine_rate);
    }
    EXPECT_FALSE(m.adapter.bus_half_duplex && m.adapter.bus_rate.value == 0);
    const LinkModel links = links_of(m);
    EXPECT_EQ(links.host_rate, m.adapter.port_rate);
    EXPECT_EQ(links.switch_rate, m.adapter.port_rate);
    EXPECT_EQ(links.cable, m.wire.cable);
    EXPECT_EQ(links.switch_latency, m.wire.switch_latency);
}

TEST_P(Machine, LimitsAreUsable) {
    const MachineModel& m = GetParam();
    EXPECT_GE(m.limits.mtu, 256u); // InfiniBand's smallest
    EXPECT_LE(m.limits.inline_bytes, m.limits.mtu);
    EXPECT_GE(m.limits.max_gather, 1u);
    EXPECT_GE(m.limits.max_send_depth, 16u);
    EXPECT_EQ(m.limits.max_reads != 0, m.offers.read || m.offers.atomics);
    EXPECT_TRUE(m.offers.rc);
    EXPECT_TRUE(!m.offers.reliable_ud || m.offers.ud);
}

TEST_P(Machine, WhatItHasCostsSomethingAndWhatNotDoesNot) {
    const MachineModel& m = GetParam();
    EXPECT_EQ(m.offers.dc, m.dc.responders != 0);
    EXPECT_EQ(m.offers.dc, m.dc.connect.count() != 0);
    EXPECT_EQ(m.offers.dc, m.dc.disconnect.count() != 0);
    EXPECT_EQ(m.offers.dc, m.dc.nack_backoff.count() != 0);
    EXPECT_EQ(m.offers.migration, m.path_migration.migrate.count() != 0);
    EXPECT_EQ(m.offers.migration, m.path_migration.load_alternate.count() != 0);
    EXPECT_EQ(m.adapter.qp_cache != 0, m.adapter.qp_miss.count() != 0);
    EXPECT_EQ(m.processor.registration.count() != 0, m.processor.registration_page.count() != 0);
}

TEST(Machines, NamesAreUnique) {
    std::set<std::string_view> names;
    for (const MachineModel& m : machines()) {
        EXPECT_FALSE(m.name.empty());
        EXPECT_TRUE(names.insert(m.name).second) << m.name;
    }
    EXPECT_EQ(names, (std::set<std::string_view>{"connect-ib", "here", "ibm-12x", "infinihost",
                                                 "infinihost-iii"}));
    EXPECT_EQ(machine("connectib"), nullptr);
    EXPECT_EQ(machine(""), nullptr);
}

// The derived numbers (machine.cc) reproduce what their sources say.
TEST(Machines, GiveTheirSourcesAgain) {
    const MachineModel& infinihost = *machine("infinihost");
    EXPECT_NEAR(smallest_latency(infinihost, 1), 6'000, 100); // Vishnu 4.3.2
    const MachineModel& connect_ib = *machine("connect-ib");
    EXPECT_NEAR(smallest_latency(connect_ib, 1), 800, 100); // stated as assumed
    EXPECT_EQ(connect_ib.processor.post_receive + connect_ib.processor.poll_completion,
              Nanoseconds{100}); // AQPS: d
    const MachineModel& ibm = *machine("ibm-12x");
    EXPECT_NEAR(smallest_latency(ibm, 1), 3'200, 200); // stated as assumed
    const MachineModel& here = *machine("here");
    EXPECT_NEAR(smallest_latency(here, 1), 212, 10); // docs/performance.md
}

} // namespace
} // namespace adaptib::sim
