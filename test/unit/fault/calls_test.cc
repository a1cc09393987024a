// SPDX-License-Identifier: BSD-3-Clause
// Calls that fail: the nth, at random, or for lack of memory; and capabilities that a rail lacks.
#include <functional>

#include "unit/fault/nodes.h"

namespace adaptib::test {
namespace {

using fault::Fault;

struct CallCase {
    const char* name;
    Fault fault;
    std::function<Status(Nodes&)> call;
};
std::vector<CallCase> call_cases() {
    return {
        {"cq", Fault::create_cq_fails,
         [](Nodes& nodes) {
             std::unique_ptr<CompletionQueue> out;
             return nodes.rail(0).create_cq(8, out);
         }},
        {"srq", Fault::create_srq_fails,
         [](Nodes& nodes) {
             std::unique_ptr<SharedReceiveQueue> out;
             return nodes.rail(0).create_srq(8, out);
         }},
        {"qp", Fault::create_qp_fails,
         [](Nodes& nodes) {
             const End other = nodes.end(1, QpType::rc);
             std::unique_ptr<CompletionQueue> cq;
             std::unique_ptr<QueuePair> out;
             EXPECT_TRUE(nodes.rail(0).create_cq(8, cq).ok());
             QpInit init;
             init.send_cq = init.receive_cq = cq.get();
             init.send_depth = init.receive_depth = 4;
             return nodes.rail(0).create_qp(init, out);
         }},
        {"ah", Fault::create_ah_fails,
         [](Nodes& nodes) {
             std::unique_ptr<AddressHandle> out;
             PathSpec path;
             path.remote = nodes.rail(1).address();
             return nodes.rail(0).create_ah(path, out);
         }},
        {"register", Fault::register_fails,
         [](Nodes& nodes) {
             std::unique_ptr<MemoryRegion> out;
             return nodes.rail(0).register_memory(nodes.memory(0), 8, 0, out);
         }},
        {"allocate", Fault::allocate_fails,
         [](Nodes& nodes) {
             std::unique_ptr<MemoryRegion> out;
             return nodes.rail(0).allocate(8, 0, out);
         }},
        {"modify", Fault::modify_fails,
         [](Nodes& nodes) {
             End e = nodes.end(0, QpType::ud);
             QpAttributes attributes;
             attributes.state = QpState::init;
             const Status status = e.qp->modify(attributes, kQpState | kQpKey);
             EXPECT_EQ(e.qp->query().state, status.ok() ? QpState::init : QpState::reset);
             attributes.state = QpState::error;
             EXPECT_TRUE(e.qp->modify(attributes, kQpState).ok()) << "is spared";
             return status;
         }},
        {"post_receive", Fault::receive_refused,
         [](Nodes& nodes) {
             End e = nodes.end(0, QpType::ud);
             nodes.start_ud(e);
             return nodes.post_receive(e, 1, 0, 8);
         }},
    };
}

class FaultCalls : public testing::TestWithParam<CallCase> {
protected:
    static Status refusal() {
        return GetParam().fault == Fault::receive_refused ? Status::again(Reason::queue_full)
                                                          : Status::error(Reason::no_permission);
    }
};
INSTANTIATE_TEST_SUITE_P(Each, FaultCalls, testing::ValuesIn(call_cases()),
                         [](const testing::TestParamInfo<CallCase>& param) {
                             return std::string(param.param.name);
                         });

TEST_P(FaultCalls, TheNthFails) {
    Nodes nodes;
    nodes.plan_fault({.fault = GetParam().fault, .nth = 3, .reason = Reason::no_permission});
    for (int i = 1; i <= 5; ++i) {
        EXPECT_EQ(GetParam().call(nodes), i == 3 ? refusal() : kOk) << i;
    }
    EXPECT_EQ(nodes.log.count(GetParam().fault), 1u);
    EXPECT_EQ(nodes.log.entries.size(), 1u);
}

TEST_P(FaultCalls, AtRandom) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        fault::FaultPlan plan;
        plan.seed = seed;
        Nodes nodes(plan);
        nodes.plan_fault({.fault = GetParam().fault, .rate = 0.3, .reason = Reason::no_permission});
        std::size_t failed = 0;
        for (int i = 0; i < 100; ++i) {
            const Status status = GetParam().call(nodes);
            failed += status.ok() ? 0 : 1;
            EXPECT_TRUE(status.ok() || status == refusal());
        }
        EXPECT_EQ(nodes.log.count(GetParam().fault), failed);
        EXPECT_GT(failed, 10u);
        EXPECT_LT(failed, 55u);
    }
}

TEST(FaultCalls, LockedMemoryIsLimited) {
    Nodes nodes;
    nodes.plan.locked_limit = 100;
    std::unique_ptr<MemoryRegion> first;
    std::unique_ptr<MemoryRegion> second;
    ASSERT_TRUE(nodes.rail(0).register_memory(nodes.memory(0), 60, 0, first).ok());
    EXPECT_EQ(nodes.log.locked, 60u);
    EXPECT_EQ(nodes.rail(0).register_memory(nodes.memory(0), 41, 0, second),
              Status::error(Reason::no_memory));
    ASSERT_TRUE(nodes.rail(0).register_memory(nodes.memory(0), 40, 0, second).ok());
    first.reset();
    EXPECT_EQ(nodes.log.locked, 40u);
    ASSERT_TRUE(nodes.rail(0).register_memory(nodes.memory(0), 60, 0, first).ok());
    EXPECT_EQ(nodes.log.count(Fault::register_fails), 1u);
}

TEST(FaultCalls, WhatARailLacksItDoesNotShow) {
    fault::FaultPlan plan;
    plan.lacks = static_cast<std::uint32_t>(Capability::direct);
    Connected nodes(plan);
    EXPECT_FALSE(nodes.rail(0).info().has(Capability::direct));
    EXPECT_TRUE(nodes.rail(1).info().has(Capability::direct));
    std::unique_ptr<MemoryRegion> region;
    ASSERT_TRUE(nodes.rail(1).allocate(64, kLocalWrite | kRemoteWrite, region).ok());
    const auto address = reinterpret_cast<std::uintptr_t>(region->address());
    EXPECT_EQ(nodes.a.qp->map(address, 64, region->remote_key()), nullptr);
}

} // namespace
} // namespace adaptib::test
