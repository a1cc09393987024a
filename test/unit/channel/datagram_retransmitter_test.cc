// SPDX-License-Identifier: BSD-3-Clause
// Acknowledgements, repeats and other paths of datagrams (channel/datagram_sender.h,
// channel/datagram_retransmitter.h).
#include "channel/datagram_retransmitter.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "unit/channel/datagram_rail.h"

namespace adaptib::test {
namespace {

using std::chrono::milliseconds;
using PathFailure = DatagramRetransmitter::PathFailure;
using Standing = DatagramRetransmitter::Standing;

class Retransmitter : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(sender.open(rails, 256, 256, false).ok());
        target.handle = std::make_unique<CountedHandle>(handles);
        target.qp = 5;
        target.key = 6;
        target.name = 7;
        retransmitter.on_failure(
            [this](std::uint64_t to, WorkStatus) { lost = static_cast<int>(to); });
    }
    ~Retransmitter() override { retransmitter.forget(target); }
    void tolerate() {
        retransmitter.tolerate(
            milliseconds{800}, [this](std::uint64_t) { return &target; },
            [this](DatagramTarget&, PathFailure why, WorkStatus) { failure = why; },
            [this](DatagramTarget&) { ++answers; });
    }
    void send() {
        if (target.link == nullptr) {
            target.link = std::make_unique<DatagramLink>(target);
        }
        SendSlots& slots = sender.slots();
        const std::uint32_t slot = slots.next();
        DatagramHeader prefix = sender.prefix_for(target);
        prefix.number = target.link->add(slot, clock.now());
        MessageHeader header;
        header.type = MessageType::eager;
        slots.put(slot, target.name, prefix, header);
        slots.retain(slot);
        slots.set_posted_at(slot, clock.now());
        ASSERT_TRUE(sender.post(target, slot).ok());
        slots.take();
        retransmitter.on_sent(*target.link);
    }
    // Completes all sends of the first rail.
    void end_sends() {
        std::array<WorkCompletion, 64> batch;
        while (first.ended < first.sends.size()) {
            first.end_send();
        }
        for (std::size_t left = sender.port(0).poll(batch), i = 0; i < left; ++i) {
            sender.on_ended(DatagramPort::index_of(batch[i]), 0);
        }
    }
    // Lets the target's datagram `number` arrive, which acknowledges all before `expected`.
    bool arrive(std::uint32_t number, std::uint32_t expected) {
        DatagramHeader prefix;
        prefix.number = number;
        prefix.expected = expected;
        const MessageHeader header;
        return retransmitter.accept(target, {prefix, 0, number == 0 ? nullptr : &header, nullptr});
    }
    void wait() {
        clock.advance(retransmitter.deadline() - clock.now());
        retransmitter.run_timers();
    }

    ManualClock clock;
    Counters counters;
    DatagramRail first{"d0:1"};
    DatagramRail second{"d1:1"};
    std::array<Rail*, 2> rails{&first, &second};
    int handles = 0;
    DatagramSender sender{3, {1, 2}, clock, counters};
    DatagramTarget target;
    DatagramRetransmitter retransmitter{sender, clock, counters};
    int lost = 0;
    int answers = 0;
    std::optional<PathFailure> failure;
};

TEST_F(Retransmitter, TheSenderNumbersWhatMayMove) {
    EXPECT_FALSE(sender.reliable()) << "there are two rails";
    EXPECT_EQ(sender.capacity(), 512 - sizeof(DatagramHeader) - sizeof(MessageHeader));
    send();
    ASSERT_EQ(first.sends.size(), 1u);
    const DatagramHeader prefix = first.sends[0].prefix();
    EXPECT_EQ(prefix.source, 1u);
    EXPECT_EQ(prefix.source_key, 2u);
    EXPECT_EQ(prefix.target_key, 6u);
    EXPECT_EQ(prefix.number, 1u);
    EXPECT_EQ(prefix.rail, 3u);
}

TEST_F(Retransmitter, AHandleOutlivesTheSendsOfATargetThatIsReleased) {
    send();
    retransmitter.release(target);
    EXPECT_EQ(target.handle, nullptr);
    EXPECT_EQ(handles, 1) << "the adapter still uses it";
    end_sends();
    sender.drop_retired();
    EXPECT_EQ(handles, 0);
}

TEST_F(Retransmitter, SendsAgainUntilItIsAcknowledged) {
    EXPECT_EQ(retransmitter.deadline(), Nanoseconds::max());
    send();
    EXPECT_TRUE(retransmitter.owes(target));
    wait();
    EXPECT_EQ(first.sends.size(), 1u) << "the adapter has not sent it yet";
    end_sends();
    wait();
    ASSERT_EQ(first.sends.size(), 2u);
    EXPECT_EQ(first.sends[1].prefix().number, 1u);
    EXPECT_EQ(counters.datagram_repeated, 1u);
    EXPECT_FALSE(arrive(0, 2));
    EXPECT_FALSE(retransmitter.owes(target));
    EXPECT_EQ(retransmitter.deadline(), Nanoseconds::max());
    end_sends();
    EXPECT_FALSE(sender.slots().posted(sender.slots().next()));
}

TEST_F(Retransmitter, DeliversOnceAndAcknowledgesAlone) {
    EXPECT_TRUE(arrive(1, 1));
    retransmitter.acknowledge_alone();
    ASSERT_EQ(first.sends.size(), 1u);
    EXPECT_EQ(first.sends[0].bytes.size(), sizeof(DatagramHeader));
    EXPECT_EQ(first.sends[0].prefix().expected, 2u);
    EXPECT_FALSE(arrive(1, 1));
    EXPECT_EQ(counters.datagram_doubled, 1u);
}

TEST_F(Retransmitter, ATargetThatTheOwnerReportsLostIsGivenUp) {
    Standing standing = Standing::present;
    retransmitter.judge_by([&](DatagramTarget&, Nanoseconds) { return standing; });
    send();
    end_sends();
    for (int i = 0; i < 5; ++i) {
        wait();
        end_sends();
    }
    EXPECT_EQ(lost, 0);
    standing = Standing::lost;
    wait();
    EXPECT_EQ(lost, 7);
    EXPECT_FALSE(target.link->unacknowledged());
    EXPECT_EQ(retransmitter.deadline(), Nanoseconds::max());
}

TEST_F(Retransmitter, ATargetThatDoesNotAnswerIsDoubtedAndMoved) {
    tolerate();
    send();
    end_sends();
    for (int i = 0; i < 100 && !failure; ++i) {
        wait();
        end_sends();
    }
    EXPECT_EQ(failure, PathFailure::unanswered);
    EXPECT_TRUE(target.doubted);
    ASSERT_TRUE(second.sends.empty());
    retransmitter.move(target, 1, std::make_unique<CountedHandle>(handles), 15);
    ASSERT_EQ(second.sends.size(), 1u);
    EXPECT_EQ(second.sends[0].remote_qp, 15u);
    EXPECT_EQ(second.sends[0].prefix().rail, 4u);
    EXPECT_EQ(counters.datagram_moves, 1u);
    EXPECT_EQ(handles, 1) << "the old handle is not in use";
    arrive(0, 2);
    EXPECT_EQ(answers, 1);
    EXPECT_FALSE(target.doubted);
}

TEST_F(Retransmitter, ASendThatTheAdapterDoesNotEndRestartsThePort) {
    tolerate();
    clock.advance(milliseconds{1}); // a time of zero is no time
    send();
    for (int i = 0; i < 100 && !failure; ++i) {
        wait();
    }
    EXPECT_EQ(failure, PathFailure::stuck);
    EXPECT_EQ(counters.datagram_restarts, 1u);
    EXPECT_TRUE(sender.port(0).ready());
    retransmitter.restart_if_stuck(0, clock.now());
    EXPECT_EQ(counters.datagram_restarts, 1u) << "nothing is under way any more";
}

TEST_F(Retransmitter, AFailedSendIsTheTargetsEndOrItsPathsFault) {
    retransmitter.on_failed_send(0, 7, WorkStatus::local_qp_error);
    EXPECT_EQ(lost, 7) << "without fault tolerance";
    lost = 0;
    tolerate();
    retransmitter.on_failed_send(0, 7, WorkStatus::retry_exceeded);
    EXPECT_EQ(lost, 7) << "the fabric knows";
    EXPECT_FALSE(sender.port(0).broken());
    lost = 0;
    first.state = QpState::error;
    retransmitter.on_failed_send(0, 7, WorkStatus::local_qp_error);
    EXPECT_TRUE(sender.port(0).broken());
    EXPECT_FALSE(failure);
    retransmitter.mend(0);
    EXPECT_EQ(failure, PathFailure::failed);
    EXPECT_TRUE(sender.port(0).ready());
    EXPECT_FALSE(sender.port(0).broken());
    EXPECT_EQ(lost, 0);
}

// A restart would lose the datagrams of others, which nobody sends again.
TEST_F(Retransmitter, OverAReliableRailOnlyTargetsWithNumbersMoveAndNothingRestarts) {
    DatagramRail rail;
    rail.promise(Capability::reliable_ud);
    Rail* const only = &rail;
    DatagramSender reliable{0, {1, 2}, clock, counters};
    ASSERT_TRUE(reliable.open({&only, 1}, 256, 256, false).ok());
    ASSERT_TRUE(reliable.reliable());
    DatagramRetransmitter mixed{reliable, clock, counters};
    mixed.on_failure([this](std::uint64_t to, WorkStatus) { lost = static_cast<int>(to); });
    mixed.tolerate(
        milliseconds{800}, [this](std::uint64_t) { return &target; },
        [this](DatagramTarget&, PathFailure why, WorkStatus) { failure = why; },
        [](DatagramTarget&) {});
    mixed.on_failed_send(0, 7, WorkStatus::remote_operation_error);
    EXPECT_EQ(lost, 7) << "without numbers";
    lost = 0;
    target.numbered = true;
    mixed.on_failed_send(0, 7, WorkStatus::remote_operation_error);
    mixed.mend(0);
    EXPECT_EQ(failure, PathFailure::failed);
    EXPECT_EQ(lost, 0);
    SendSlots& slots = reliable.slots();
    slots.put(slots.next(), 9, reliable.prefix_for(target), MessageHeader{});
    clock.advance(milliseconds{1});
    slots.set_posted_at(slots.next(), clock.now());
    ASSERT_TRUE(reliable.post(target, slots.next()).ok());
    slots.take();
    clock.advance(std::chrono::hours{1});
    mixed.restart_if_stuck(0, clock.now());
    EXPECT_EQ(counters.datagram_restarts, 0u);
}

// Either their path is doubted, or their process computes.
TEST_F(Retransmitter, SlotsGrowWhileTargetsThatDoNotAnswerHaveThem) {
    tolerate();
    std::array<DatagramTarget, SendSlots::kBlock / DatagramLink::kWindow / 2> targets;
    while (!sender.slots().none_free()) {
        sender.slots().take();
    }
    std::uint32_t slot = 0;
    for (DatagramTarget& each : targets) {
        each.link = std::make_unique<DatagramLink>(each);
        for (std::uint32_t i = 0; i < DatagramLink::kWindow; ++i, ++slot) {
            each.link->add(slot, clock.now());
            sender.slots().retain(slot);
        }
        retransmitter.on_sent(*each.link);
        EXPECT_TRUE(sender.slots().none_free());
        if (&each == &targets.front()) {
            each.doubted = true;
        } else {
            std::uint32_t tries = 0;
            for (int i = 0; i < 10; ++i) {
                clock.advance(std::chrono::seconds{1});
                static_cast<void>(each.link->to_repeat(clock.now(), tries));
            }
        }
        retransmitter.run_timers();
    }
    EXPECT_EQ(sender.slots().size(), 2 * SendSlots::kBlock);
    EXPECT_FALSE(sender.slots().none_free());
    for (DatagramTarget& each : targets) {
        retransmitter.forget(each);
    }
    EXPECT_EQ(retransmitter.deadline(), Nanoseconds::max());
}

} // namespace
} // namespace adaptib::test
