// SPDX-License-Identifier: BSD-3-Clause
// Address handles that are not there at once, or lead nowhere after a while, as over RoCE: what
// waits for them, how traffic goes on, and when a peer is given up.
#include <chrono>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;
using fault::Fault;

constexpr int kPatience = 20; // seconds

// Two ranks with a port each, whose datagrams may get lost. Rank 0's fabric has the faults.
class AddressHandles : public testing::Test {
protected:
    void begin(int connect_threshold = 1'000'000) {
        RanksOptions options;
        options.ranks = 2;
        options.world.machine = *machine("connect-ib");
        options.world.machine.offers.reliable_ud = false;
        options.world.machine.offers.dc = false;
        options.world.topology = crossbar(2, {}, links_of(options.world.machine));
        std::string text;
        ASSERT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
        options.parameters.connect_threshold = connect_threshold;
        options.parameters.partition_timeout = kPatience;
        faults_ = std::make_unique<FirstRanksFaults>(options);
        ranks_ = make(std::move(options));
    }
    // The call of rank 0's fabric has that outcome until end_fault().
    void begin_fault(Fault what, Reason reason) {
        faults_->plan.faults.push_back(
            {.fault = what, .rate = 1, .until = faults_->clock.now() + 1ns, .reason = reason});
    }
    void end_fault() { faults_->clock.advance(1ns); }
    bool done_in(const Message& message, Nanoseconds time) {
        return ranks_->run_until([&] { return message.done(); }, time);
    }

    std::unique_ptr<FirstRanksFaults> faults_;
    std::unique_ptr<Ranks> ranks_;
};

struct Obstacle {
    Fault what;
    Reason reason;
};
constexpr Obstacle kObstacles[] = {{Fault::create_ah_waits, Reason::not_connected},
                                   {Fault::create_ah_waits, Reason::unreachable},
                                   {Fault::create_ah_fails, Reason::no_memory}};

TEST_F(AddressHandles, WhatIsSentAtFirstContactWaits) {
    for (const Obstacle& obstacle : kObstacles) {
        SCOPED_TRACE(reason_text(obstacle.reason));
        begin();
        begin_fault(obstacle.what, obstacle.reason);
        Message message(0, 1, 100);
        message.start(*ranks_);
        EXPECT_FALSE(done_in(message, 3s));
        const bool coming = obstacle.reason == Reason::not_connected;
        ASSERT_EQ(ranks_->messages(0).size(), coming ? 0u : 1u);
        if (!coming) {
            EXPECT_NE(ranks_->messages(0)[0].find("cannot be reached yet"), std::string::npos)
                << ranks_->messages(0)[0];
        }
        end_fault();
        EXPECT_TRUE(done_in(message, 300ms));
        EXPECT_EQ(message.got, message.sent);
        EXPECT_EQ(ranks_->counters(0).connections_failed, 0u);
        ranks_.reset();
    }
}

TEST_F(AddressHandles, APeerThatNeverAnswersIsGivenUp) {
    begin();
    begin_fault(Fault::create_ah_waits, Reason::unreachable);
    Message message(0, 1, 100);
    message.start_send(*ranks_, 3, true);
    const auto failed = [&] { return message.send.done; };
    EXPECT_FALSE(ranks_->run_until(failed, 18s));
    EXPECT_TRUE(ranks_->run_until(failed, 4s));
    EXPECT_NE(message.send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    ranks_.reset();
}

// The system's look-up of the path fails, or takes long, when the connection is made.
TEST_F(AddressHandles, AConnectionIsMadeOnceItsPathIsThere) {
    const Obstacle obstacles[] = {{Fault::prepare_path_waits, Reason::not_connected},
                                  {Fault::prepare_path_waits, Reason::unreachable}};
    for (const Obstacle& obstacle : obstacles) {
        for (const std::size_t asking : {0, 1}) {
            SCOPED_TRACE(testing::Message() << reason_text(obstacle.reason) << ' ' << asking);
            begin(2);
            begin_fault(obstacle.what, obstacle.reason);
            for (int i = 0; i < 10; ++i) {
                carry(*ranks_, asking, 1 - asking, 100);
                carry(*ranks_, asking, 1 - asking, 100'000);
                rest(*ranks_, 1ms);
            }
            EXPECT_EQ(ranks_->counters(0).connections_open, 0u);
            end_fault();
            for (int i = 0; i < 1000 && ranks_->counters(0).connections_open == 0; ++i) {
                carry(*ranks_, asking, 1 - asking, 100);
                rest(*ranks_, 1ms);
            }
            for (const std::size_t rank : {0, 1}) {
                EXPECT_EQ(ranks_->counters(rank).connections_open, 1u);
                expect_unbroken(*ranks_, rank);
            }
            ranks_.reset();
        }
    }
}

// A gateway or a bond fails over, or a virtual function is made anew: the MAC address that the
// handle has is nobody's. Probes, by newer handles, are answered.
TEST_F(AddressHandles, DatagramsLeaveAStaleOne) {
    for (const Nanoseconds computes : {0s, 1s}) {
        SCOPED_TRACE(computes.count());
        begin();
        carry(*ranks_, 0, 1, 100);
        rest(*ranks_, 100ms);
        faults_->clock.advance(1s);
        faults_->plan.faults.push_back(
            {.fault = Fault::handles_stale, .from = faults_->clock.now()});
        if (computes.count() > 0) {
            ranks_->compute(1, computes);
        }
        Message message(0, 1, 100);
        message.start(*ranks_);
        EXPECT_TRUE(done_in(message, 2s));
        EXPECT_EQ(message.got, message.sent);
        ranks_.reset();
    }
}

// As before, in a process that sends nothing but acknowledgements: its peer sends the same again
// and again.
TEST_F(AddressHandles, AcknowledgementsLeaveAStaleOne) {
    begin();
    carry(*ranks_, 1, 0, 100);
    rest(*ranks_, 100ms);
    faults_->clock.advance(1s);
    faults_->plan.faults.push_back({.fault = Fault::handles_stale, .from = faults_->clock.now()});
    std::vector<std::unique_ptr<Message>> messages;
    for (int i = 0; i < 1'000; ++i) {
        messages.push_back(std::make_unique<Message>(1, 0, 100));
        messages.back()->start(*ranks_);
    }
    EXPECT_TRUE(done_in(*messages.back(), 2s));
    for (const auto& message : messages) {
        EXPECT_EQ(message->got, message->sent);
    }
}

} // namespace
} // namespace adaptib::sim
