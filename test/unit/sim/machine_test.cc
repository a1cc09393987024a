// SPDX-License-Identifier: BSD-3-Clause
// The machine models: complete, consistent, and true to the sources that they were derived from.
#include "fabric/sim/machine.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace adaptib::sim {
namespace {

// 8 bytes written into memory that the target polls: the way through an idle network.
double smallest_latency(const MachineModel& m, std::int64_t switches) {
    const Nanoseconds time = m.copy_start + m.post + m.doorbell + m.work_request +
                             m.cable * (switches + 1) + m.switch_latency * switches +
                             m.receive_work + m.copy_start;
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
         {m.post_receive, m.poll_completion, m.signal, m.copy_start, m.registration,
          m.registration_page, m.doorbell, m.work_request, m.receive_work, m.ack, m.qp_miss,
          m.switch_latency, m.dc_connect, m.dc_disconnect, m.dc_nack_backoff, m.migrate,
          m.load_alternate}) {
        EXPECT_GE(time.count(), 0);
    }
    // A world in which neither posting nor polling takes time may stand still.
    EXPECT_GT(m.post.count(), 0);
    EXPECT_GT(m.poll_empty.count(), 0);
    EXPECT_GT(m.cable.count(), 0);
}

TEST_P(Machine, RatesFitTogether) {
    const MachineModel& m = GetParam();
    EXPECT_GT(m.port_rate.value, 0u);
    EXPECT_GT(m.copy_rate.value, 0u);
    EXPECT_GE(m.engines, 1u);
    if (m.engine_rate.value != 0) {
        EXPECT_LE(m.engine_rate, m.port_rate);
        if (m.engines > 1) { // several engines have to be worth something
            EXPECT_LT(m.engine_rate, m.port_rate);
            EXPECT_GE(m.engines * m.engine_rate.value, m.port_rate.value);
        }
    }
    if (m.bus_rate.value != 0 && m.engine_rate.value != 0) {
        EXPECT_GE(m.bus_rate, m.engine_rate);
    }
    EXPECT_FALSE(m.bus_half_duplex && m.bus_rate.value == 0);
    const LinkModel links = links_of(m);
    EXPECT_EQ(links.host_rate, m.port_rate);
    EXPECT_EQ(links.switch_rate, m.port_rate);
    EXPECT_EQ(links.cable, m.cable);
    EXPECT_EQ(links.switch_latency, m.switch_latency);
}

TEST_P(Machine, LimitsAreUsable) {
    const MachineModel& m = GetParam();
    EXPECT_GE(m.mtu, 256u); // InfiniBand's smallest
    EXPECT_LE(m.inline_bytes, m.mtu);
    EXPECT_GE(m.max_gather, 1u);
    EXPECT_GE(m.max_send_depth, 16u);
    EXPECT_EQ(m.max_reads != 0, m.read || m.atomics);
    EXPECT_TRUE(m.rc);
    EXPECT_TRUE(!m.reliable_ud || m.ud);
}

TEST_P(Machine, WhatItHasCostsSomethingAndWhatNotDoesNot) {
    const MachineModel& m = GetParam();
    EXPECT_EQ(m.dc, m.dc_responders != 0);
    EXPECT_EQ(m.dc, m.dc_connect.count() != 0);
    EXPECT_EQ(m.dc, m.dc_disconnect.count() != 0);
    EXPECT_EQ(m.dc, m.dc_nack_backoff.count() != 0);
    EXPECT_EQ(m.migration, m.migrate.count() != 0);
    EXPECT_EQ(m.migration, m.load_alternate.count() != 0);
    EXPECT_EQ(m.qp_cache != 0, m.qp_miss.count() != 0);
    EXPECT_EQ(m.registration.count() != 0, m.registration_page.count() != 0);
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
    EXPECT_EQ(connect_ib.post_receive + connect_ib.poll_completion, Nanoseconds{100}); // AQPS: d
    const MachineModel& ibm = *machine("ibm-12x");
    EXPECT_NEAR(smallest_latency(ibm, 1), 3'200, 200); // stated as assumed
    const MachineModel& here = *machine("here");
    EXPECT_NEAR(smallest_latency(here, 1), 212, 10); // the README's table
}

} // namespace
} // namespace adaptib::sim
