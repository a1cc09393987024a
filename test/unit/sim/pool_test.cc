// SPDX-License-Identifier: BSD-3-Clause
// Closed connections that are kept (parameter connect_pool), and what becomes of them.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "simulator/faults/fault.h"
#include "unit/sim/worlds.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

// Rank 0 has room for one connection, and uses it for each of these in turn.
void take_turns(Ranks& ranks, const std::vector<std::size_t>& others) {
    for (const std::size_t other : others) {
        Messages messages;
        for (std::size_t i = 0; i < 200; ++i) { // more than a ring holds
            messages.push_back(std::make_unique<Message>(0, other, 2000 + i, i));
            messages.push_back(std::make_unique<Message>(other, 0, 3000 + i, i));
        }
        for (int tries = 0; ranks.peer(0, other)->session.state != ConnectState::open; ++tries) {
            ASSERT_LT(tries, 200) << other;
            carry(ranks, 0, other, 10'000); // asks for it
            rest(ranks, 1ms);
        }
        carry(ranks, messages);
        rest(ranks, 5ms);
    }
}

constexpr std::uint64_t kOtherBuffers = 2; // of the datagram channel

std::uint32_t queue_pair_of(Ranks& ranks, std::size_t from, std::size_t to) {
    const std::vector<Subchannel>& all = ranks.peer(from, to)->lanes.subchannels;
    return all.empty() ? 0 : all.front().qp->number();
}

RanksOptions one_connection(std::size_t ranks, int pool) {
    RanksOptions options = world_of(ranks);
    options.parameters.ring_bytes = options.parameters.verbs_ring_bytes = 65536;
    options.parameters_of = [=](std::size_t rank, Parameters& parameters) {
        parameters.connect_max = rank == 0 ? 1 : 0;
        parameters.connect_pool = pool;
    };
    return options;
}

TEST(Pool, AClosedConnectionIsMadeOfTheSameQueuePairAndRing) {
    const auto ranks = make(one_connection(3, 128));
    take_turns(*ranks, {1});
    const std::uint32_t here = queue_pair_of(*ranks, 0, 1);
    const std::uint32_t there = queue_pair_of(*ranks, 1, 0);
    const void* ring = ranks->peer(0, 1)->in.ring_memory->address();
    take_turns(*ranks, {2});
    EXPECT_EQ(ranks->counters(0).connections_kept, 1u);
    EXPECT_EQ(ranks->counters(0).queue_pairs, 1u);
    EXPECT_EQ(ranks->counters(0).buffers, kOtherBuffers + 2)
        << "the ring that is kept is memory, too";
    EXPECT_EQ(ranks->counters(0).connections_reused, 0u);
    for (int round = 0; round < 5; ++round) {
        take_turns(*ranks, {1});
        EXPECT_EQ(queue_pair_of(*ranks, 0, 1), here);
        EXPECT_EQ(queue_pair_of(*ranks, 1, 0), there);
        EXPECT_EQ(ranks->peer(0, 1)->in.ring_memory->address(), ring);
        take_turns(*ranks, {2});
    }
    EXPECT_EQ(ranks->counters(0).connections_reused, 10u);
    EXPECT_EQ(ranks->counters(1).connections_reused, 5u);
    EXPECT_EQ(ranks->counters(0).connections_most, 1u);
    EXPECT_GT(ranks->counters(0).ring_sent, 1000u);
    EXPECT_NE(ranks->core(0).report().find("kept for reuse 1, reused 10"), std::string::npos)
        << ranks->core(0).report();
    nothing_bad(*ranks);
}

TEST(Pool, NothingIsKeptWithoutAPool) {
    const auto ranks = make(one_connection(3, 0));
    take_turns(*ranks, {1, 2, 1, 2});
    for (std::size_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(ranks->counters(rank).connections_kept, 0u);
        EXPECT_EQ(ranks->counters(rank).connections_reused, 0u);
        EXPECT_EQ(ranks->counters(rank).buffers,
                  kOtherBuffers + ranks->counters(rank).connections_open);
    }
    EXPECT_EQ(ranks->counters(0).connections_closed, 3u);
    nothing_bad(*ranks);
}

TEST(Pool, WhoWasClosedLongestAgoIsGivenUpFirst) {
    const auto ranks = make(one_connection(5, 2));
    take_turns(*ranks, {1, 2, 3, 4}); // 1's is destroyed, 2's and 3's are kept
    EXPECT_EQ(ranks->counters(0).connections_kept, 2u);
    EXPECT_EQ(ranks->counters(0).buffers, kOtherBuffers + 3);
    EXPECT_EQ(ranks->peer(0, 1)->in.ring_memory, nullptr);
    take_turns(*ranks, {1});
    EXPECT_EQ(ranks->counters(0).connections_reused, 0u);
    EXPECT_EQ(ranks->counters(1).connections_reused, 1u) << "the other side has kept its own";
    take_turns(*ranks, {3}); // 3's waits for its use while 1's is closed, so 4's is destroyed
    EXPECT_EQ(ranks->counters(0).connections_reused, 1u);
    nothing_bad(*ranks);
}

TEST(Pool, OneSideKeepsTheOtherDoesNot) {
    RanksOptions options = one_connection(3, 128);
    options.parameters_of = [](std::size_t rank, Parameters& parameters) {
        parameters.connect_max = rank == 0 ? 1 : 0;
        parameters.connect_pool = rank == 1 ? 0 : 128;
    };
    const auto ranks = make(std::move(options));
    take_turns(*ranks, {1, 2, 1, 2, 1});
    EXPECT_EQ(ranks->counters(0).connections_reused, 3u);
    EXPECT_EQ(ranks->counters(1).connections_reused, 0u);
    EXPECT_GE(ranks->counters(2).connections_reused, 1u); // more if an attempt at first was in vain
    nothing_bad(*ranks);
}

// Kept connections are in nobody's way: a device that has no room for another queue pair, or no
// memory for a ring, gets back those that nobody uses.
TEST(Pool, GivesWayToConnectionsThatThereIsNoRoomForOtherwise) {
    for (const fault::Fault what : {fault::Fault::create_qp_fails, fault::Fault::allocate_fails}) {
        SCOPED_TRACE(static_cast<int>(what));
        RanksOptions options = one_connection(4, 128);
        FirstRanksFaults faults(options);
        const auto ranks = make(std::move(options));
        take_turns(*ranks, {1, 2});
        ASSERT_EQ(ranks->counters(0).connections_kept, 1u);
        faults.plan.faults.emplace_back().fault = what; // the next call fails
        take_turns(*ranks, {3});                        // 2's is closed for it, 1's is destroyed
        EXPECT_EQ(faults.log.count(what), 1u);
        EXPECT_EQ(ranks->counters(0).connections_kept, 1u);
        EXPECT_EQ(ranks->peer(0, 1)->in.ring_memory, nullptr);
        EXPECT_NE(ranks->peer(0, 2)->in.ring_memory, nullptr);
        EXPECT_EQ(ranks->counters(0).connections_open, 1u);
        EXPECT_TRUE(ranks->messages(0).empty()) << ranks->messages(0).front();
        take_turns(*ranks, {1, 2});
    }
}

TEST(Pool, WhoPartsLeavesNothingBehind) {
    const auto ranks = make(one_connection(3, 128));
    take_turns(*ranks, {1, 2});
    ASSERT_EQ(ranks->counters(1).connections_kept, 1u);
    ranks->core(0).protocol().disconnects().release(*ranks->peer(0, 1));
    ranks->core(1).protocol().disconnects().release(*ranks->peer(1, 0));
    rest(*ranks, 10ms);
    EXPECT_EQ(ranks->counters(1).connections_kept, 0u);
    EXPECT_EQ(ranks->counters(1).buffers, kOtherBuffers);
    EXPECT_EQ(ranks->counters(0).connections_kept, 0u);
    EXPECT_EQ(ranks->counters(0).buffers, kOtherBuffers + 1);
    take_turns(*ranks, {2});
    nothing_bad(*ranks);
}

} // namespace
} // namespace adaptib::sim
