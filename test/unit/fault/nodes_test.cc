// SPDX-License-Identifier: BSD-3-Clause
// Faults of rails and of the node, wake-up times for a driver, and the times at which
// rows of a plan apply.
#include <algorithm>

#include "memory/window.h"
#include "unit/fault/nodes.h"

namespace adaptib::test {
namespace {

using fault::Fault;

// -------------------------------------------------------------------------------------------------
// Rails

constexpr Nanoseconds kPatience{2 * 4096 * 256}; // Nodes::connect: timeout 8, retry_count 1

TEST(FaultRails, DownAndUpAtTheirTimes) {
    fault::FaultPlan plan;
    plan.faults = {{.fault = Fault::rail_down, .from = Nanoseconds{100}, .rail = 1},
                   {.fault = Fault::rail_up, .from = Nanoseconds{300}, .rail = 1}};
    Nodes nodes(plan, 3);
    Event event;
    EXPECT_FALSE(nodes.fabric[0]->poll_event(event));
    nodes.clock.advance(Nanoseconds{100});
    ASSERT_TRUE(nodes.fabric[0]->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::port_error);
    EXPECT_EQ(event.rail, 1u);
    EXPECT_FALSE(nodes.fabric[0]->poll_event(event)) << "one event per change";
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(nodes.rail(0, i).state(), i == 1 ? PortState::down : PortState::active);
    }
    nodes.clock.advance(Nanoseconds{200});
    EXPECT_EQ(nodes.rail(0, 1).state(), PortState::active);
    ASSERT_TRUE(nodes.fabric[0]->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::port_active);
    EXPECT_EQ(nodes.log.count(Fault::rail_down), 1u);
    EXPECT_EQ(nodes.log.count(Fault::rail_up), 1u);
}

TEST(FaultRails, AShortOutageLosesNothing) {
    Connected nodes;
    nodes.write(0);
    nodes.plan_fault({.fault = Fault::rail_down, .from = nodes.clock.now()});
    EXPECT_FALSE(nodes.a.qp->usable());
    std::uint64_t inlined = 0x0101010101010101; // copied at once
    const Gather gather{&inlined, sizeof inlined, 0};
    SendWork work;
    work.wr_id = 1;
    work.opcode = Opcode::write;
    work.flags = kSignaled | kInline;
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = reinterpret_cast<std::uintptr_t>(nodes.memory(1, 8));
    work.remote_key = nodes.regions[1][0]->remote_key();
    ASSERT_TRUE(nodes.a.qp->post_send(work).ok());
    inlined = 0;
    nodes.write(2);
    nodes.clock.advance(kPatience - Nanoseconds{1});
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_EQ(ids(nodes.a.got), std::vector<std::uint64_t>{0}) << "was on its way already";
    EXPECT_FALSE(nodes.written(1));
    nodes.plan_fault({.fault = Fault::rail_up, .from = nodes.clock.now()});
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_EQ(ids(nodes.a.got), (std::vector<std::uint64_t>{0, 1, 2}));
    EXPECT_EQ(statuses(nodes.a.got), std::vector<WorkStatus>(3, WorkStatus::success));
    EXPECT_TRUE(nodes.written(1));
    EXPECT_TRUE(nodes.written(2));
    EXPECT_TRUE(nodes.a.qp->usable());
}

TEST(FaultRails, ALongOneEndsInRetryExceeded) {
    Connected nodes;
    ASSERT_TRUE(nodes.post_receive(nodes.a, 100, 0, 8).ok());
    nodes.plan_fault({.fault = Fault::rail_down, .from = nodes.clock.now()});
    for (std::uint64_t i = 0; i < 3; ++i) {
        nodes.write(i);
    }
    nodes.clock.advance(kPatience);
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_EQ(ids(nodes.a.got), (std::vector<std::uint64_t>{0, 1, 2, 100}));
    EXPECT_EQ(statuses(nodes.a.got),
              (std::vector<WorkStatus>{WorkStatus::retry_exceeded, WorkStatus::flushed,
                                       WorkStatus::flushed, WorkStatus::flushed}));
    nodes.plan_fault({.fault = Fault::rail_up, .from = nodes.clock.now()});
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_EQ(nodes.a.qp->query().state, QpState::error) << "stays dead";
    EXPECT_FALSE(nodes.written(0));
}

TEST(FaultRails, ASilentOneSaysNothingAnyMore) {
    Connected nodes;
    ASSERT_TRUE(nodes.post_receive(nodes.a, 100, 0, 8).ok());
    nodes.write(0);
    nodes.plan_fault({.fault = Fault::rail_silent, .from = nodes.clock.now()});
    nodes.write(1);
    nodes.clock.advance(100 * kPatience);
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_FALSE(nodes.written(1));
    nodes.plan_fault({.fault = Fault::rail_up, .from = nodes.clock.now()});
    nodes.write(2);
    QpAttributes attributes;
    attributes.state = QpState::error;
    ASSERT_TRUE(nodes.a.qp->modify(attributes, kQpState).ok());
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_TRUE(nodes.a.got.empty()) << "not even flushed, nor once the rail is back";
    EXPECT_FALSE(nodes.written(2));
    Event event;
    EXPECT_FALSE(nodes.fabric[0]->poll_event(event));
    EXPECT_EQ(nodes.log.count(Fault::rail_silent), 1u);
    EXPECT_EQ(nodes.log.count(Fault::rail_up), 1u);
    End a = nodes.end(0, QpType::rc);
    End b = nodes.end(1, QpType::rc);
    nodes.connect(a, b);
    ASSERT_TRUE(nodes.post(a, 7, Opcode::write, 64, 8).ok());
    nodes.poll({&a, &b});
    EXPECT_EQ(ids(a.got), std::vector<std::uint64_t>{7}) << "a new queue pair works";
}

TEST(FaultRails, WhatWaitsForTheRailMayFailAsWell) {
    Connected nodes;
    nodes.plan_fault({.fault = Fault::request_fails_done, .nth = 2});
    nodes.plan_fault({.fault = Fault::rail_down, .from = nodes.clock.now()});
    for (std::uint64_t i = 0; i < 4; ++i) {
        nodes.write(i);
    }
    nodes.plan_fault({.fault = Fault::rail_up, .from = nodes.clock.now()});
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_EQ(statuses(nodes.a.got),
              (std::vector<WorkStatus>{WorkStatus::success, WorkStatus::retry_exceeded,
                                       WorkStatus::flushed, WorkStatus::flushed}));
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(nodes.written(i), i < 2) << i;
    }
}

TEST(FaultRails, AQueueOfADeadRailFillsUp) {
    Connected nodes;
    nodes.plan_fault({.fault = Fault::rail_down, .from = nodes.clock.now()});
    std::size_t taken = 0;
    Status status;
    while (taken < 1000 && (status = nodes.post(nodes.a, taken, Opcode::write, 0, 8)).ok()) {
        ++taken;
    }
    EXPECT_EQ(status, Status::again(Reason::queue_full));
    EXPECT_EQ(taken, 128u);
}

TEST(FaultRails, TheOtherRailGoesOnAndDatagramsAreLost) {
    fault::FaultPlan plan;
    plan.faults = {{.fault = Fault::rail_down, .from = Nanoseconds{0}, .rail = 0}};
    Connected nodes(plan, 2, 1);
    nodes.write(3);
    End from = nodes.end(0, QpType::ud);
    End to = nodes.end(1, QpType::ud);
    nodes.start_ud(from);
    nodes.start_ud(to);
    ASSERT_TRUE(nodes.post_receive(to, 1, 512, 64).ok());
    ASSERT_TRUE(nodes.post_datagram(from, to, 7, 0, 64).ok());
    nodes.poll({&nodes.a, &nodes.b, &from, &to});
    EXPECT_EQ(statuses(nodes.a.got), std::vector<WorkStatus>{WorkStatus::success});
    EXPECT_TRUE(nodes.written(3));
    EXPECT_EQ(statuses(from.got), std::vector<WorkStatus>{WorkStatus::success});
    EXPECT_TRUE(to.got.empty());
}

// -------------------------------------------------------------------------------------------------
// Death

TEST(FaultDeath, NothingHasAnEffectAndNothingComes) {
    Connected nodes;
    nodes.write(0);
    ASSERT_TRUE(nodes.post_receive(nodes.a, 100, 4096, 8).ok());
    nodes.plan_fault({.fault = Fault::death, .from = nodes.clock.now() + Nanoseconds{10}});
    nodes.clock.advance(Nanoseconds{10});
    EXPECT_FALSE(nodes.a.qp->usable());
    for (std::uint64_t i = 1; i < 300; ++i) { // more than a queue holds
        ASSERT_TRUE(nodes.post(nodes.a, i, Opcode::write, i * 8, 8).ok());
    }
    ASSERT_TRUE(nodes.post(nodes.b, 1, Opcode::send, 0, 8).ok());
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_TRUE(nodes.a.got.empty()) << "not even what was over before";
    EXPECT_FALSE(nodes.written(1));
    EXPECT_TRUE(nodes.b.got.empty()) << "nobody takes it";
    Event event;
    EXPECT_FALSE(nodes.fabric[0]->poll_event(event));
    EXPECT_EQ(nodes.log.count(Fault::death), 1u);
    EXPECT_EQ(nodes.log.entries.size(), 1u);
}

TEST(FaultDeath, AtTheNthRequest) {
    Connected nodes;
    nodes.plan_fault({.fault = Fault::death, .nth = 3});
    for (std::uint64_t i = 0; i < 6; ++i) {
        nodes.write(i);
    }
    nodes.poll({&nodes.a, &nodes.b});
    EXPECT_TRUE(nodes.a.got.empty());
    EXPECT_FALSE(nodes.written(2));
}

// -------------------------------------------------------------------------------------------------
// Drivers that let a node rest

// Polls only at the times that the fabric asks for, as a simulated world does; true if `count`
// completions come.
bool rest_until(Connected& nodes, std::size_t count) {
    for (int turn = 0; turn < 100 && nodes.a.got.size() < count; ++turn) {
        if (nodes.wakes.empty()) {
            return false;
        }
        const auto next = std::min_element(nodes.wakes.begin(), nodes.wakes.end());
        nodes.clock.advance(std::max(*next - nodes.clock.now(), Nanoseconds{0}));
        nodes.wakes.erase(next);
        nodes.poll({&nodes.a}, 1);
    }
    return nodes.a.got.size() == count;
}

TEST(FaultWakes, WhatFailsAtOnceIsLookedAt) {
    Connected nodes;
    nodes.plan_fault({.fault = Fault::request_fails});
    nodes.write(0);
    EXPECT_TRUE(rest_until(nodes, 1));
    EXPECT_EQ(nodes.clock.now(), Nanoseconds{0});
}

TEST(FaultWakes, LateCompletionsAreLookedAtInTime) {
    for (const fault::Delay delay : {fault::Delay{0, Nanoseconds{700}}, fault::Delay{9, {}}}) {
        Connected nodes;
        nodes.plan_fault({.fault = Fault::completion_delayed, .delay = delay});
        nodes.write(0);
        nodes.poll({&nodes.a}, 1);
        EXPECT_TRUE(nodes.a.got.empty());
        EXPECT_TRUE(rest_until(nodes, 1));
        EXPECT_EQ(nodes.clock.now(), delay.time);
    }
}

TEST(FaultWakes, LateDatagramsLeaveInTime) {
    Connected nodes;
    End from = nodes.end(0, QpType::ud);
    End to = nodes.end(1, QpType::ud);
    nodes.start_ud(from);
    nodes.start_ud(to);
    nodes.plan_fault({.fault = Fault::datagram_delayed, .delay = {0, Nanoseconds{300}}});
    ASSERT_TRUE(nodes.post_receive(to, 1, 512, 64).ok());
    ASSERT_TRUE(nodes.post_datagram(from, to, 7, 0, 64).ok());
    nodes.poll({&from}, 1);
    ASSERT_FALSE(nodes.wakes.empty());
    nodes.clock.advance(nodes.wakes.back());
    nodes.poll({&from}, 1);
    nodes.poll({&to});
    EXPECT_EQ(nodes.clock.now(), Nanoseconds{300});
    EXPECT_EQ(to.got.size(), 1u);
}

TEST(FaultWakes, ADeadRailIsGivenUpInTime) {
    Connected nodes;
    nodes.plan_fault({.fault = Fault::rail_down, .from = Nanoseconds{0}});
    nodes.write(0);
    EXPECT_TRUE(rest_until(nodes, 1));
    EXPECT_EQ(statuses(nodes.a.got), std::vector<WorkStatus>{WorkStatus::retry_exceeded});
    EXPECT_EQ(nodes.clock.now(), kPatience);
}

TEST(FaultWakes, ARailComesBackInTime) {
    Connected nodes;
    nodes.plan_fault({.fault = Fault::rail_down, .from = Nanoseconds{0}});
    nodes.plan_fault({.fault = Fault::rail_up, .from = Nanoseconds{5000}});
    nodes.write(0);
    nodes.poll({&nodes.a}, 1);
    ASSERT_NE(std::find(nodes.wakes.begin(), nodes.wakes.end(), Nanoseconds{5000}),
              nodes.wakes.end());
    nodes.clock.advance(Nanoseconds{5000});
    nodes.poll({&nodes.a}); // released now; the fabric below completes it
    EXPECT_EQ(statuses(nodes.a.got), std::vector<WorkStatus>{WorkStatus::success});
}

// -------------------------------------------------------------------------------------------------
// Plans

// Returns the log of 200 writes and 200 datagrams under `plan`.
fault::FaultLog run_plan(const fault::FaultPlan& plan) {
    Connected nodes(plan);
    End from = nodes.end(0, QpType::ud);
    End to = nodes.end(1, QpType::ud);
    nodes.start_ud(from);
    nodes.start_ud(to);
    for (std::uint64_t i = 0; i < 200; ++i) {
        static_cast<void>(nodes.post(nodes.a, i, Opcode::write, i * 8, 8));
        static_cast<void>(nodes.post_receive(to, i, 8192, 64));
        static_cast<void>(nodes.post_datagram(from, to, i, 0, 64));
        nodes.poll({&nodes.a, &nodes.b, &from, &to}, 2);
        nodes.clock.advance(Nanoseconds{10});
    }
    fault::FaultLog log = nodes.log;
    log.locked = 0;
    return log;
}

fault::FaultPlan everything(std::uint64_t seed) {
    fault::FaultPlan plan;
    plan.seed = seed;
    for (std::size_t i = 0; i < fault::kFaults; ++i) {
        const auto fault = static_cast<Fault>(i);
        const bool set_up = fault >= Fault::create_cq_fails && fault <= Fault::modify_fails;
        const bool rare = fault == Fault::death || fault == Fault::datagram_fails ||
                          fault == Fault::request_fails || fault == Fault::request_fails_done;
        plan.faults.push_back({.fault = fault,
                               .rate = rare ? 0.002 : 0.05,
                               .from = Nanoseconds{set_up ? 1 : 0},
                               .delay = {3, Nanoseconds{5}}});
    }
    return plan;
}

TEST(FaultPlans, TheSameSeedGivesTheSameFaults) {
    std::size_t different = 0;
    std::vector<fault::FaultLog::Entry> last;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        const fault::FaultLog log = run_plan(everything(seed));
        EXPECT_GT(log.entries.size(), 0u);
        EXPECT_EQ(log.entries, run_plan(everything(seed)).entries) << seed;
        different += log.entries != last ? 1 : 0;
        last = log.entries;
    }
    EXPECT_EQ(different, 30u);
}

TEST(FaultPlans, ARowHasItsTime) {
    fault::FaultPlan plan;
    plan.faults = {{.fault = Fault::datagram_lost,
                    .rate = 1,
                    .from = Nanoseconds{500},
                    .until = Nanoseconds{700}},
                   {.fault = Fault::datagram_doubled, .nth = 2, .from = Nanoseconds{1000}},
                   {.fault = Fault::datagram_delayed, .from = Nanoseconds{1500}}};
    const fault::FaultLog log = run_plan(plan);
    EXPECT_EQ(log.count(Fault::datagram_lost), 20u);
    for (std::size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(log.entries[i].when, Nanoseconds{500 + 10 * static_cast<std::int64_t>(i)});
    }
    ASSERT_EQ(log.entries.size(), 22u);
    EXPECT_EQ(log.entries[20],
              (fault::FaultLog::Entry{Fault::datagram_doubled, 0, Nanoseconds{1010}}));
    EXPECT_EQ(log.entries[21],
              (fault::FaultLog::Entry{Fault::datagram_delayed, 0, Nanoseconds{1500}}));
}

TEST(FaultPlans, ARowHasItsRail) {
    fault::FaultPlan plan;
    plan.faults = {{.fault = Fault::create_cq_fails, .nth = 2, .rail = 1}};
    Nodes nodes(plan, 2);
    std::unique_ptr<CompletionQueue> out;
    for (int i = 1; i <= 3; ++i) {
        EXPECT_TRUE(nodes.rail(0, 0).create_cq(8, out).ok());
        EXPECT_EQ(nodes.rail(0, 1).create_cq(8, out).ok(), i != 2);
    }
    ASSERT_EQ(nodes.log.entries.size(), 1u);
    EXPECT_EQ(nodes.log.entries[0].rail, 1u);
}

// Memory is registered with all rails; a rail whose device has failed must not
// make the others fail.
TEST(Registrations, ADeviceThatFailedIsLeftOut) {
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteRead;
    Nodes nodes({}, 2);
    Rail* const rails[] = {&nodes.rail(0, 0), &nodes.rail(0, 1)};
    std::uint64_t words[8] = {};
    Registration registration;
    ASSERT_TRUE(registration.make(rails, words, sizeof words, kAccess).ok());
    EXPECT_NE(registration.remote_key(0), 0u);
    nodes.plan_fault({.fault = Fault::device_fails, .from = Nanoseconds{0}, .rail = 0});
    EXPECT_EQ(nodes.rail(0, 0).state(), PortState::down);
    ASSERT_TRUE(registration.make(rails, words, sizeof words, kAccess).ok());
    EXPECT_EQ(registration.key_count(), 2u);
    EXPECT_EQ(registration.remote_key(0), 0u);
    EXPECT_EQ(registration.local_key(0), 0u);
    EXPECT_NE(registration.remote_key(1), 0u);
    std::unique_ptr<MemoryRegion> memory;
    EXPECT_TRUE(allocate_from(rails, {0, 2}, 4096, kAccess, memory).ok());
    WindowTable windows;
    OpenWindow window;
    ASSERT_TRUE(windows.open(window, rails, words, sizeof words, kLocalWrite).ok());
    EXPECT_TRUE(
        windows.has_word(window.memory().remote_key(1), reinterpret_cast<std::uintptr_t>(words)));

    nodes.plan_fault({.fault = Fault::device_fails, .from = Nanoseconds{0}, .rail = 1});
    EXPECT_EQ(nodes.rail(0, 1).state(), PortState::down);
    EXPECT_EQ(registration.make(rails, words, sizeof words, kAccess),
              Status::error(Reason::no_device));
    EXPECT_EQ(registration.key_count(), 0u);
    EXPECT_EQ(allocate_from(rails, {0, 2}, 4096, kAccess, memory),
              Status::error(Reason::no_device));
}

} // namespace
} // namespace adaptib::test
