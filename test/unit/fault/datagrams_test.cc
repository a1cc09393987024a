// SPDX-License-Identifier: BSD-3-Clause
// Faults of datagrams: the log tells exactly what arrives.
#include <algorithm>
#include <map>
#include <numeric>

#include "unit/fault/nodes.h"

namespace adaptib::test {
namespace {

using fault::Fault;

constexpr std::size_t kSlot = 64;      // bytes of a datagram here
constexpr std::size_t kReceives = 100; // posted at the receiver, one slot each

class Datagrams : public testing::Test {
protected:
    explicit Datagrams(fault::FaultPlan plan = {}) : nodes_(std::move(plan)) {
        a_ = nodes_.end(0, QpType::ud);
        b_ = nodes_.end(1, QpType::ud);
        nodes_.start_ud(a_);
        nodes_.start_ud(b_);
        for (std::size_t i = 0; i < kReceives; ++i) {
            EXPECT_TRUE(nodes_.post_receive(b_, i, i * kSlot, kSlot).ok());
        }
    }
    // Sends datagram i from slot i of the sender's memory, which is free again once the
    // completion is there.
    void send(std::size_t i) {
        for (std::size_t byte = 0; byte < kSlot; ++byte) {
            *nodes_.memory(0, i * kSlot + byte) = expected(i, byte);
        }
        ASSERT_TRUE(nodes_.post_datagram(a_, b_, i, i * kSlot, kSlot).ok());
    }
    void wipe(std::size_t i) { std::fill_n(nodes_.memory(0, i * kSlot), kSlot, std::byte{0xee}); }
    static std::byte expected(std::size_t i, std::size_t byte) {
        return static_cast<std::byte>(i * 7 + byte);
    }
    std::size_t wrong_bytes(std::size_t receive, std::size_t i) {
        std::size_t wrong = 0;
        for (std::size_t byte = 0; byte < kSlot; ++byte) {
            wrong += *nodes_.memory(1, receive * kSlot + byte) != expected(i, byte) ? 1 : 0;
        }
        return wrong;
    }
    // Datagram that each receive got; kReceives: none of them, as a whole.
    std::vector<std::size_t> arrived() {
        std::vector<std::size_t> out;
        for (const WorkCompletion& completion : b_.got) {
            EXPECT_EQ(completion.status, WorkStatus::success);
            EXPECT_EQ(completion.length, kSlot);
            EXPECT_EQ(completion.source_qp, a_.qp->number());
            std::size_t i = 0;
            while (i < kReceives && wrong_bytes(completion.wr_id, i) != 0) {
                ++i;
            }
            out.push_back(i);
        }
        return out;
    }
    void expect_all_sent(std::size_t count) {
        ASSERT_EQ(a_.got.size(), count);
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(a_.got[i].wr_id, i) << "in posting order";
            EXPECT_EQ(a_.got[i].status, WorkStatus::success);
        }
    }

    Nodes nodes_;
    End a_;
    End b_;
};

TEST_F(Datagrams, TheThirdIsLost) {
    nodes_.plan_fault({.fault = Fault::datagram_lost, .nth = 3});
    for (std::size_t i = 0; i < 6; ++i) {
        send(i);
    }
    nodes_.poll({&a_, &b_});
    expect_all_sent(6);
    EXPECT_EQ(arrived(), (std::vector<std::size_t>{0, 1, 3, 4, 5}));
    EXPECT_EQ(nodes_.log.entries.size(), 1u);
    EXPECT_EQ(nodes_.log.count(Fault::datagram_lost), 1u);
}

TEST_F(Datagrams, TheSecondComesTwice) {
    nodes_.plan_fault({.fault = Fault::datagram_doubled, .nth = 2});
    for (std::size_t i = 0; i < 3; ++i) {
        send(i);
    }
    nodes_.poll({&a_, &b_});
    expect_all_sent(3);
    EXPECT_EQ(arrived(), (std::vector<std::size_t>{0, 1, 1, 2}));
}

TEST_F(Datagrams, ALateOneIsOvertakenAndKeepsWhatItWas) {
    nodes_.plan_fault({.fault = Fault::datagram_delayed, .nth = 1, .delay = {10, {}}});
    send(0);
    nodes_.poll({&a_}, 1);
    ASSERT_EQ(ids(a_.got), std::vector<std::uint64_t>{0}) << "it left, as far as one can see";
    wipe(0);
    send(1);
    send(2);
    nodes_.poll({&a_}, 8);
    nodes_.poll({&b_});
    EXPECT_EQ(arrived(), (std::vector<std::size_t>{1, 2}));
    nodes_.poll({&a_}, 1);
    nodes_.poll({&b_});
    EXPECT_EQ(arrived(), (std::vector<std::size_t>{1, 2, 0}));
    nodes_.poll({&a_});
    expect_all_sent(3);
}

TEST_F(Datagrams, ALateOneWaitsForItsTime) {
    nodes_.plan_fault({.fault = Fault::datagram_delayed, .nth = 1, .delay = {0, Nanoseconds{500}}});
    send(0);
    nodes_.clock.advance(Nanoseconds{499});
    nodes_.poll({&a_, &b_});
    EXPECT_TRUE(arrived().empty());
    nodes_.clock.advance(Nanoseconds{1});
    nodes_.poll({&a_, &b_});
    EXPECT_EQ(arrived(), std::vector<std::size_t>{0});
}

TEST_F(Datagrams, SomeBytesAreOthers) {
    nodes_.plan_fault({.fault = Fault::datagram_corrupted, .nth = 2, .bytes = 5});
    for (std::size_t i = 0; i < 3; ++i) {
        send(i);
    }
    nodes_.poll({&a_, &b_});
    expect_all_sent(3);
    EXPECT_EQ(arrived(), (std::vector<std::size_t>{0, kReceives, 2}));
    EXPECT_GE(wrong_bytes(1, 1), 1u);
    EXPECT_LE(wrong_bytes(1, 1), 5u);
    for (std::size_t byte = 0; byte < kSlot; ++byte) {
        EXPECT_EQ(*nodes_.memory(0, kSlot + byte), expected(1, byte)) << "the sender's own bytes";
    }
}

TEST_F(Datagrams, WhatHasNoBytesCannotBeCorrupted) {
    nodes_.plan_fault({.fault = Fault::datagram_corrupted, .rate = 1});
    ASSERT_TRUE(nodes_.post_datagram(a_, b_, 0, 0, 0).ok());
    nodes_.poll({&a_, &b_});
    EXPECT_EQ(b_.got.size(), 1u);
    EXPECT_TRUE(nodes_.log.entries.empty());
}

TEST_F(Datagrams, AFailureBreaksTheQueuePair) {
    nodes_.plan_fault(
        {.fault = Fault::datagram_fails, .nth = 2, .status = WorkStatus::local_qp_error});
    ASSERT_TRUE(nodes_.post_receive(a_, 50, 0, kSlot).ok());
    for (std::size_t i = 0; i < 4; ++i) {
        send(i);
    }
    nodes_.poll({&a_, &b_});
    EXPECT_EQ(arrived(), std::vector<std::size_t>{0});
    EXPECT_EQ(a_.qp->query().state, QpState::error);
    ASSERT_EQ(a_.got.size(), 5u);
    std::map<std::uint64_t, WorkStatus> ended;
    for (const WorkCompletion& completion : a_.got) {
        ended[completion.wr_id] = completion.status;
    }
    EXPECT_EQ(ended, (std::map<std::uint64_t, WorkStatus>{{0, WorkStatus::success},
                                                          {1, WorkStatus::local_qp_error},
                                                          {2, WorkStatus::flushed},
                                                          {3, WorkStatus::flushed},
                                                          {50, WorkStatus::flushed}}));
}

fault::FaultPlan random_plan(std::uint64_t seed) {
    fault::FaultPlan plan;
    plan.seed = seed;
    plan.faults = {{.fault = Fault::datagram_lost, .rate = 0.1},
                   {.fault = Fault::datagram_doubled, .rate = 0.1},
                   {.fault = Fault::datagram_delayed, .rate = 0.1, .delay = {7, {}}},
                   {.fault = Fault::datagram_corrupted, .rate = 0.1, .bytes = 3},
                   {.fault = Fault::send_refused, .rate = 0.1}};
    return plan;
}

class RandomDatagrams : public Datagrams, public testing::WithParamInterface<std::uint64_t> {
protected:
    RandomDatagrams() : Datagrams(random_plan(GetParam())) {}
};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomDatagrams, testing::Range<std::uint64_t>(1, 41));

TEST_P(RandomDatagrams, CountsAgreeWithTheLog) {
    constexpr std::size_t kSent = 60;
    std::size_t refused = 0;
    for (std::size_t i = 0; i < kSent; ++i) {
        for (std::size_t byte = 0; byte < kSlot; ++byte) {
            *nodes_.memory(0, i * kSlot + byte) = expected(i, byte);
        }
        Status status;
        while (!(status = nodes_.post_datagram(a_, b_, i, i * kSlot, kSlot)).ok()) {
            ASSERT_EQ(status, Status::again(Reason::queue_full));
            ++refused;
        }
        nodes_.poll({&a_, &b_}, 1);
    }
    nodes_.poll({&a_, &b_});
    expect_all_sent(kSent);
    const std::vector<std::size_t> got = arrived();
    const fault::FaultLog& log = nodes_.log;
    EXPECT_EQ(refused, log.count(Fault::send_refused));
    EXPECT_EQ(got.size(),
              kSent - log.count(Fault::datagram_lost) + log.count(Fault::datagram_doubled));
    std::map<std::size_t, std::size_t> times;
    std::size_t late = 0;
    std::size_t newest = 0;
    for (const std::size_t i : got) {
        ++times[i];
        late += i < newest ? 1 : 0;
        newest = i == kReceives ? newest : std::max(newest, i);
    }
    EXPECT_EQ(times[kReceives], log.count(Fault::datagram_corrupted));
    EXPECT_EQ(
        std::count_if(times.begin(), times.end(),
                      [](const auto& one) { return one.first != kReceives && one.second == 2; }),
        static_cast<std::ptrdiff_t>(log.count(Fault::datagram_doubled)));
    EXPECT_LE(late, log.count(Fault::datagram_delayed));
    EXPECT_GT(log.entries.size(), 0u);
}

} // namespace
} // namespace adaptib::test
