// SPDX-License-Identifier: BSD-3-Clause
// The list of requests and the DC connection of a simulated queue pair, without a world.
#include "simulator/network/requests.h"

#include <gtest/gtest.h>

#include "simulator/network/dc_link.h"

namespace adaptib::sim {
namespace {

Request& post(RequestList& list, Opcode opcode) {
    Request& request = list.push();
    request.work.opcode = opcode;
    request.work.flags = 0;
    request.known = false;
    return request;
}

TEST(RequestList, RequestsArriveInOrderAndNoEarlierThanTheOnesBefore) {
    RequestList list(4);
    post(list, Opcode::send);
    post(list, Opcode::send);
    list.put_on_wire(list[0], Nanoseconds{50});
    list.put_on_wire(list[1], Nanoseconds{30});
    EXPECT_EQ(list[1].arrives, Nanoseconds{50});
    EXPECT_EQ(list.sent(), 2u);
    list.arrive();
    EXPECT_EQ(list.arrived(), 1u);
    list.pop();
    EXPECT_EQ(list.arrived(), 0u);
    EXPECT_EQ(list.sent(), 1u);
}

TEST(RequestList, ReadsLimitWhatMayLeave) {
    RequestList list(4);
    post(list, Opcode::read);
    post(list, Opcode::read);
    EXPECT_TRUE(list.may_leave(list[0], 1));
    list.put_on_wire(list[0], Nanoseconds{1});
    EXPECT_FALSE(list.may_leave(list[1], 1));
    EXPECT_TRUE(list.may_leave(list[1], 2));
    list[1].work.flags = kFence;
    EXPECT_FALSE(list.may_leave(list[1], 2));
    list.take_back(0);
    EXPECT_EQ(list.sent(), 0u);
    EXPECT_TRUE(list.may_leave(list[1], 1)) << "nothing is on its way any more";
}

TEST(RequestList, TellsOnceAllBeforeHaveBeenAnswered) {
    RequestList list(4);
    for (int i = 0; i < 3; ++i) {
        list.put_on_wire(post(list, Opcode::send), Nanoseconds{i});
    }
    const auto last = [&](const Request& request) { return &request == &list[2]; };
    Nanoseconds when{0};
    EXPECT_FALSE(list.next_to_tell(last, when)) << "has not arrived";
    for (std::size_t i : {0u, 1u, 2u}) {
        list.arrive();
        list[i].known = i != 1;
        list[i].answered = Nanoseconds{i == 0 ? 90 : 40};
    }
    EXPECT_FALSE(list.next_to_tell(last, when)) << "one before has no answer";
    list[1].known = true;
    ASSERT_TRUE(list.next_to_tell(last, when));
    EXPECT_EQ(when, Nanoseconds{90});
}

TEST(DcLink, ATargetServesNoMoreInitiatorsThanItCan) {
    DcLink target;
    DcLink one;
    DcLink two;
    one.connect(7);
    two.connect(7);
    EXPECT_TRUE(one.get_served(target, 1));
    EXPECT_FALSE(two.get_served(target, 1));
    EXPECT_TRUE(two.get_served(target, 2));
    one.let_others_be_served(&target);
    two.let_others_be_served(&target);
    EXPECT_TRUE(one.get_served(target, 1));
}

TEST(DcLink, ATargetRemembersTheInitiatorThatItServedLast) {
    DcLink target;
    DcLink one;
    DcLink two;
    one.connect(7);
    EXPECT_FALSE(one.is_remembered(&target));
    ASSERT_TRUE(one.get_served(target, 1));
    one.let_others_be_served(&target);
    EXPECT_TRUE(one.is_remembered(&target));
    two.connect(7);
    ASSERT_TRUE(two.get_served(target, 1));
    EXPECT_FALSE(one.is_remembered(&target));
    EXPECT_TRUE(two.is_remembered(&target));
    two.forget_target();
    EXPECT_EQ(two.remote(), 0u);
    EXPECT_FALSE(two.is_remembered(&target));
}

TEST(DcLink, ATargetThatWasResetHasForgottenItsInitiators) {
    DcLink target;
    DcLink one;
    DcLink two;
    one.connect(7);
    two.connect(7);
    ASSERT_TRUE(one.get_served(target, 1));
    target.forget_initiators();
    ASSERT_TRUE(two.get_served(target, 1));
    one.let_others_be_served(&target); // counts nothing down: the target does not serve it
    EXPECT_FALSE(one.get_served(target, 1));
}

} // namespace
} // namespace adaptib::sim
