// SPDX-License-Identifier: BSD-3-Clause
// The pauses and the outgoing flow of a simulated queue pair, without a world.
#include <gtest/gtest.h>

#include <vector>

#include "fabric/qp_rules.h"
#include "simulator/network/request_flow.h"
#include "simulator/network/retry_timer.h"

namespace adaptib::sim {
namespace {

using Pause = RetryTimer::Pause;

class RetryTimers : public ::testing::Test, protected RetryTimer::Listener {
protected:
    void on_retry(Pause why) override { ended_.push_back(why); }
    // Runs what happens until that time.
    void run_until(Nanoseconds when) {
        while (!simulator_.idle() && simulator_.next() <= when) {
            simulator_.step();
        }
        simulator_.advance(when);
    }

    Simulator simulator_;
    std::vector<Pause> ended_;
    RetryTimer timer_{simulator_, *this};
    QpAttributes attributes_;
};

TEST_F(RetryTimers, APauseEndsAtItsTimeWithItsReason) {
    EXPECT_FALSE(timer_.paused());
    timer_.wait(Pause::target_busy, Nanoseconds{100});
    run_until(Nanoseconds{99});
    EXPECT_TRUE(timer_.paused());
    EXPECT_TRUE(ended_.empty());
    run_until(Nanoseconds{100});
    EXPECT_FALSE(timer_.paused());
    EXPECT_EQ(ended_, std::vector{Pause::target_busy});
}

TEST_F(RetryTimers, GivesUpAfterTheRetriesThatAreAllowed) {
    attributes_.timeout = 3; // 4096 ns << 3
    attributes_.retry_count = 2;
    for (int retry = 1; retry <= 3; ++retry) {
        EXPECT_FALSE(timer_.gives_up(attributes_)) << retry;
        timer_.no_answer(attributes_);
        run_until(Nanoseconds{retry * 8 * 4096 - 1});
        EXPECT_TRUE(timer_.paused());
        run_until(Nanoseconds{retry * 8 * 4096});
    }
    EXPECT_EQ(ended_, std::vector(3, Pause::no_answer));
    EXPECT_TRUE(timer_.gives_up(attributes_));
    timer_.answered();
    EXPECT_FALSE(timer_.gives_up(attributes_)) << "an answer counts from 0 again";
}

TEST_F(RetryTimers, WithoutATimeoutItTriesForEver) {
    attributes_.timeout = 0;
    attributes_.retry_count = 0;
    timer_.no_answer(attributes_);
    timer_.no_answer(attributes_);
    EXPECT_FALSE(timer_.gives_up(attributes_));
    EXPECT_EQ(timer_.when(), Nanoseconds{std::int64_t{4096} << 14});
}

TEST_F(RetryTimers, CountsMissingReceivesOnTheirOwn) {
    attributes_.timeout = 1;
    attributes_.retry_count = 0;
    attributes_.rnr_retry = 1;
    EXPECT_FALSE(timer_.gives_up_on_receive(attributes_));
    timer_.no_receive(Nanoseconds{10});
    EXPECT_TRUE(timer_.gives_up_on_receive(attributes_));
    EXPECT_FALSE(timer_.gives_up(attributes_));
    attributes_.rnr_retry = 7;
    EXPECT_FALSE(timer_.gives_up_on_receive(attributes_)) << "7 means for ever";
}

TEST_F(RetryTimers, AReceiveEndsOnlyThePauseThatWaitsForIt) {
    timer_.no_receive_until_posted(Nanoseconds{50});
    EXPECT_TRUE(timer_.paused());
    EXPECT_TRUE(simulator_.idle()) << "nothing ends it but a receive";
    timer_.receive_posted();
    run_until(Nanoseconds{49});
    EXPECT_TRUE(timer_.paused()) << "posted, but too early";
    run_until(Nanoseconds{50});
    EXPECT_EQ(ended_, std::vector{Pause::no_receive});

    timer_.receive_posted();
    EXPECT_TRUE(simulator_.idle()) << "is not paused";
    timer_.wait(Pause::no_answer, Nanoseconds{90});
    timer_.receive_posted();
    EXPECT_EQ(timer_.when(), Nanoseconds{90}) << "waits for something else";
}

TEST_F(RetryTimers, ACancelledPauseEndsWithoutACall) {
    timer_.wait(Pause::doorbell, Nanoseconds{20});
    timer_.cancel();
    EXPECT_FALSE(timer_.paused());
    run_until(Nanoseconds{100});
    EXPECT_TRUE(ended_.empty());
}

class RequestFlows : public ::testing::Test, protected RequestFlow::Listener {
protected:
    static constexpr BytesPerSecond kRate{1'000'000'000}; // a byte per nanosecond

    void on_flow_begins() override {
        ++begun_;
        flow_.start({}, 1000, kRate);
    }
    void on_flow_through() override {
        EXPECT_FALSE(flow_.leaving()) << "the next request may leave";
        through_at_ = simulator_.now();
    }
    void run() {
        while (simulator_.step()) {
        }
    }

    Simulator simulator_;
    Topology topology_;
    Flows flows_{simulator_, topology_};
    int begun_ = 0;
    Nanoseconds through_at_{0};
    RequestFlow flow_{simulator_, flows_, *this};
};

TEST_F(RequestFlows, LeavesFromItsTurnAtTheEngineToItsLastByte) {
    flow_.begin_at(Nanoseconds{500});
    EXPECT_TRUE(flow_.leaving());
    EXPECT_FALSE(flow_.active());
    run();
    EXPECT_EQ(begun_, 1);
    EXPECT_EQ(through_at_, Nanoseconds{1500});
    EXPECT_FALSE(flow_.leaving());
}

TEST_F(RequestFlows, IsStoppedBeforeItBeginsAndUnderWayAndBeginsAgain) {
    flow_.begin_at(Nanoseconds{500});
    flow_.stop();
    EXPECT_FALSE(flow_.leaving());
    run();
    EXPECT_EQ(begun_, 0);

    flow_.begin_at(Nanoseconds{600});
    simulator_.step();
    ASSERT_TRUE(flow_.active());
    flow_.stop();
    EXPECT_FALSE(flow_.leaving());
    EXPECT_FALSE(flow_.active());
    run();
    EXPECT_EQ(through_at_, Nanoseconds{0}) << "the stopped flow does not end";

    flow_.begin_at(Nanoseconds{700});
    run();
    EXPECT_EQ(begun_, 2);
    EXPECT_EQ(through_at_, Nanoseconds{1700}) << "from its first byte on";
}

// Values of `enum ib_rnr_timeout` in ib_verbs.h of Linux, of InfiniBand's table of RNR
// NAK timers.
TEST(RnrTime, IsThatOfTheSpecification) {
    using std::chrono::microseconds;
    EXPECT_EQ(rnr_time(0), microseconds{655'360});
    EXPECT_EQ(rnr_time(1), microseconds{10});
    EXPECT_EQ(rnr_time(5), microseconds{60});
    EXPECT_EQ(rnr_time(12), microseconds{640});
    EXPECT_EQ(rnr_time(14), microseconds{1'280});
    EXPECT_EQ(rnr_time(31), microseconds{491'520});
}

} // namespace
} // namespace adaptib::sim
