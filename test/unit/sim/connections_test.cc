// SPDX-License-Identifier: BSD-3-Clause
// Connection management of complete cores over a simulated network: connections from the start,
// limits, closing of idle connections, and traffic to peers that cannot be connected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simulator/faults/fault.h"
#include "unit/sim/open_memory.h"
#include "unit/sim/worlds.h"

namespace adaptib::sim {
namespace {

using Request = test::TestRequest;
using namespace std::chrono_literals;

char kPartial[] = "partial";
char kStatic[] = "static";
char kPut[] = "put";
char kRcOnDemand[] = "rc_on_demand";
char kUd[] = "ud";

// Devices whose queue pairs take different numbers of reads at a time: no target gets more than it
// takes.
TEST(Reads, AreNoMoreThanEitherEndTakes) {
    RanksOptions options = world_of(3);
    options.parameters.connect_threshold = 1;
    FirstRanksFaults faults(options);
    faults.plan.max_reads = 2;
    const auto ranks = make(std::move(options));
    Messages messages;
    for (std::size_t i = 0; i < 60; ++i) {
        messages.push_back(
            std::make_unique<Message>(i % 3, (i + 1 + i / 3 % 2) % 3, 20'000 + i, i));
    }
    carry(*ranks, messages);
    for (std::size_t rank = 0; rank < ranks->size(); ++rank) {
        expect_unbroken(*ranks, rank);
        EXPECT_EQ(ranks->counters(rank).repairs, 0u);
        EXPECT_EQ(ranks->counters(rank).paths_failed, 0u);
        EXPECT_GT(ranks->counters(rank).rdma_read, 0u);
    }
}

// -------------------------------------------------------------------------------------------------
// The start

struct StartCase {
    char* mode;
    std::size_t ranks;
    std::uint64_t connections; // of each rank
};

class Start : public testing::TestWithParam<StartCase> {};
INSTANTIATE_TEST_SUITE_P(Modes, Start,
                         testing::Values(StartCase{nullptr, 16, 0}, StartCase{kPartial, 2, 1},
                                         StartCase{kPartial, 16, 7}, StartCase{kPartial, 32, 9},
                                         StartCase{kPartial, 5, 4}, StartCase{kPartial, 23, 10},
                                         StartCase{kStatic, 2, 1}, StartCase{kStatic, 16, 15},
                                         StartCase{kStatic, 33, 32}));

TEST_P(Start, ConnectsWhomTheModeNames) {
    for (const double loss : {0.0, 0.1}) {
        SCOPED_TRACE(loss);
        RanksOptions options = world_of(GetParam().ranks);
        options.world.machine.offers.reliable_ud = loss == 0;
        options.world.datagram_loss = options.world.datagram_late = loss;
        if (GetParam().mode != nullptr) {
            options.parameters.connect = GetParam().mode;
        }
        const auto ranks = make(std::move(options));
        rest(*ranks, 1s);
        EXPECT_TRUE(ranks->idle());
        for (std::size_t rank = 0; rank < ranks->size(); ++rank) {
            EXPECT_EQ(ranks->counters(rank).connections_open, GetParam().connections) << rank;
            EXPECT_EQ(ranks->counters(rank).queue_pairs, GetParam().connections) << rank;
        }
        nothing_bad(*ranks);
    }
}

TEST(Connections, TrafficDoesNotWaitForTheStart) {
    RanksOptions options = world_of(33);
    options.parameters.connect = kStatic;
    const auto ranks = make(std::move(options));
    carry(*ranks, 0, 32, 100); // at once, by datagrams
    carry(*ranks, 0, 31, 100'000);
    rest(*ranks, 1s);
    EXPECT_EQ(ranks->counters(0).connections_open, 32u);
    nothing_bad(*ranks);
}

TEST(Connections, TheStartKeepsTheLimit) {
    RanksOptions options = world_of(16);
    options.parameters.connect = kStatic;
    options.parameters.connect_max = 4;
    const auto ranks = make(std::move(options));
    rest(*ranks, 1s);
    for (std::size_t rank = 0; rank < 16; ++rank) {
        EXPECT_LE(ranks->counters(rank).connections_most, 4u);
        EXPECT_EQ(ranks->counters(rank).connections_closed, 0u);
        EXPECT_EQ(ranks->counters(rank).bad_packets, 0u);
    }
}

TEST(Connections, ALargeMessageOrEnoughSmallOnesConnect) {
    const auto ranks = make(world_of(3));
    carry(*ranks, 0, 1, 5000);
    EXPECT_EQ(ranks->counters(0).connections_open, 1u);
    for (int i = 0; i < 15; ++i) {
        carry(*ranks, 0, 2, 8);
        EXPECT_EQ(ranks->counters(0).connections_requested, 1u);
    }
    carry(*ranks, 0, 2, 8);
    rest(*ranks, 1ms);
    EXPECT_EQ(ranks->counters(0).connections_open, 2u);
    // For the large message both ends asked, so only the other connection is timed.
    EXPECT_EQ(ranks->counters(0).connections_timed, 1u);
    EXPECT_GT(ranks->counters(0).connect_nanoseconds, 0u);
    EXPECT_GE(ranks->counters(0).connect_nanoseconds, ranks->counters(0).connect_nanoseconds_most);
}

// -------------------------------------------------------------------------------------------------
// The limit

TEST(Connections, TheOneThatWasIdleLongestIsClosed) {
    RanksOptions options = world_of(4);
    options.parameters.connect_max = 2;
    const auto ranks = make(std::move(options));
    carry(*ranks, 0, 1, 10'000);
    rest(*ranks, 5ms);
    carry(*ranks, 0, 2, 10'000);
    rest(*ranks, 5ms);
    for (int i = 0; i < 1024; ++i) { // the core checks now and then which connections were used
        ranks->core(0).progress();
    }
    rest(*ranks, 5ms);
    carry(*ranks, 0, 1, 10); // so 2 was idle longer
    for (int i = 0; i < 40; ++i) {
        carry(*ranks, 0, 3, 10'000);
        rest(*ranks, 1ms);
    }
    EXPECT_EQ(ranks->peer(0, 3)->session.state, ConnectState::open);
    EXPECT_EQ(ranks->peer(0, 2)->session.state, ConnectState::idle);
    EXPECT_EQ(ranks->peer(0, 1)->session.state, ConnectState::open);
    EXPECT_EQ(ranks->counters(0).connections_most, 2u);
    EXPECT_EQ(ranks->counters(0).connections_closed, 1u);
    EXPECT_EQ(ranks->counters(2).connections_closed, 1u);
    EXPECT_EQ(ranks->counters(2).connections_open, 0u);
    EXPECT_EQ(ranks->counters(2).queue_pairs, 0u);
    EXPECT_EQ(ranks->counters(0).queue_pairs, 2u);
    carry(*ranks, 2, 0, 10'000); // both ends go on
    nothing_bad(*ranks);
}

TEST(Connections, NobodyWaitsForAConnectionWhileNoneIsIdle) {
    for (char* rendezvous : {kPut, default_parameters().rendezvous}) {
        RanksOptions options = world_of(3);
        options.parameters.connect_max = 1;
        options.parameters.rendezvous = rendezvous;
        const auto ranks = make(std::move(options));
        carry(*ranks, 0, 1, 10'000);
        ranks->peer(0, 1)->transfers.users = 1; // an operation that does not end
        for (const std::size_t bytes : {10u, 5000u, 100'000u, 1u << 20}) {
            carry(*ranks, 0, 2, bytes);
            carry(*ranks, 2, 0, bytes);
        }
        EXPECT_GT(ranks->counters(0).fragments_sent, 100u);
        EXPECT_EQ(ranks->counters(0).connections_open, 1u);
        EXPECT_EQ(ranks->counters(0).connections_closed, 0u);
        EXPECT_GT(ranks->counters(0).connections_refused, 0u);
        ranks->peer(0, 1)->transfers.users = 0;
        rest(*ranks, 20ms);
        for (int i = 0; i < 20; ++i) {
            carry(*ranks, 0, 2, 100'000);
            rest(*ranks, 1ms);
        }
        EXPECT_EQ(ranks->peer(0, 2)->session.state, ConnectState::open);
        nothing_bad(*ranks);
    }
}

// Each refused request costs a queue pair and a ring. The rank that refused asks when it has room.
TEST(Connections, WhoIsRefusedAsksLessAndLessOften) {
    RanksOptions options = world_of(3);
    options.parameters.connect_max = 1;
    const auto ranks = make(std::move(options));
    carry(*ranks, 0, 1, 10'000);
    ranks->peer(0, 1)->transfers.users = 1; // an operation that does not end
    const auto both = [&ranks](Nanoseconds time) {
        for (const Nanoseconds end = ranks->now(0) + time; ranks->now(0) < end;) {
            carry(*ranks, 0, 2, 100);
            carry(*ranks, 2, 0, 100);
            rest(*ranks, 1ms);
        }
    };
    both(4s);
    EXPECT_GE(ranks->counters(0).connections_refused, 8u);
    EXPECT_LE(ranks->counters(0).connections_refused, 20u);
    ranks->peer(0, 1)->transfers.users = 0;
    both(20ms);
    EXPECT_EQ(ranks->peer(0, 2)->session.state, ConnectState::open);
    nothing_bad(*ranks);
}

// Rank 0 may have one connection. It exchanges messages with `busy` and `quiet` all the time, ten
// times as many with `busy`.
void talk(Ranks& ranks, std::size_t busy, std::size_t quiet, Nanoseconds time) {
    const Nanoseconds end = ranks.now(0) + time;
    while (ranks.now(0) < end) {
        Messages messages;
        messages.push_back(std::make_unique<Message>(quiet, 0, 8));
        for (int i = 0; i < 10; ++i) {
            messages.push_back(std::make_unique<Message>(busy, 0, 8));
        }
        carry(ranks, messages);
        rest(ranks, 200us);
    }
}

TEST(Connections, TheBusiestHasTheConnection) {
    for (char* policy : {default_parameters().channel_policy, kRcOnDemand}) {
        const bool chosen = policy != kRcOnDemand;
        RanksOptions options = world_of(3);
        options.parameters.connect_max = 1;
        options.parameters.channel_policy = policy;
        options.parameters.channel_period = 20;
        const auto ranks = make(std::move(options));
        carry(*ranks, 1, 0, 10'000); // so 1 has the connection first
        talk(*ranks, 2, 1, 100ms);
        EXPECT_EQ(ranks->peer(0, 1)->session.state == ConnectState::open, !chosen);
        EXPECT_EQ(ranks->peer(0, 2)->session.state == ConnectState::open, chosen);
        EXPECT_EQ(ranks->counters(0).connections_closed, chosen ? 1u : 0u); // once
        talk(*ranks, 1, 2, 200ms);                                          // the pattern changes
        EXPECT_EQ(ranks->peer(0, 1)->session.state, ConnectState::open);
        EXPECT_EQ(ranks->counters(0).connections_closed, chosen ? 2u : 0u);
        EXPECT_EQ(ranks->counters(0).selections > 0, chosen);
        EXPECT_EQ(ranks->counters(0).selections_changed, chosen ? 2u : 0u);
        EXPECT_LE(ranks->counters(0).connections_most, 1u);
        nothing_bad(*ranks);
    }
}

// Rank 2 exchanges many messages with rank 0, which has no room, and needs its only connection for
// long messages to rank 3. It closes that connection for rank 0 once; then not for two periods,
// then not for four, and so on.
TEST(Connections, WhoWasRefusedIsNotChosenForTwoPeriodsThenFour) {
    RanksOptions options = world_of(4);
    options.parameters.connect_max = 1;
    options.parameters.channel_period = 20;
    constexpr Nanoseconds kPeriod = 20ms;
    const auto ranks = make(std::move(options));
    carry(*ranks, 1, 0, 10'000);
    ranks->peer(0, 1)->transfers.users = 1; // an operation that does not end
    carry(*ranks, 2, 3, 100'000);
    const Peer& refused = *ranks->peer(2, 0);
    const auto next_refusal = [&](Nanoseconds patience) {
        const std::uint32_t before = refused.connection.activity.refusals;
        const Nanoseconds start = ranks->now(2);
        while (refused.connection.activity.refusals == before && ranks->now(2) < start + patience) {
            for (int i = 0; i < 10; ++i) {
                carry(*ranks, 2, 0, 8);
            }
            carry(*ranks, 2, 3, 100'000);
            rest(*ranks, 200us);
        }
        return ranks->now(2);
    };
    Nanoseconds last = next_refusal(10 * kPeriod);
    ASSERT_EQ(refused.connection.activity.refusals, 1u);
    for (int periods = 2; periods <= 8; periods *= 2) {
        SCOPED_TRACE(periods);
        EXPECT_NEAR(static_cast<double>((refused.connection.activity.own_after - last).count()),
                    static_cast<double>((periods * kPeriod).count()), 1e6);
        EXPECT_FALSE(refused.connection.activity.chosen);
        const std::uint64_t closed = ranks->counters(2).connections_closed;
        const Nanoseconds next = next_refusal(20 * kPeriod);
        EXPECT_GE(next - last, periods * kPeriod - 1ms);
        EXPECT_LE(next - last, (periods + 2) * kPeriod) << "asked with the next selection";
        EXPECT_EQ(ranks->counters(2).connections_closed, closed + 1) << "once, for that";
        last = next;
    }
    nothing_bad(*ranks);
}

TEST(Connections, WhereThereIsRoomNobodySelects) {
    const auto ranks = make(world_of(3));
    carry(*ranks, 1, 0, 10'000);
    rest(*ranks, 10s);
    carry(*ranks, 1, 0, 10'000);
    EXPECT_EQ(ranks->counters(0).selections, 0u);
}

TEST(Connections, WithSharedQueuesOnlySmallMessagesDoNotConnect) {
    RanksOptions options = world_of(3);
    options.parameters.channel_policy = kUd;
    options.parameters.connect_threshold = 0;
    const auto ranks = make(std::move(options));
    for (int i = 0; i < 100; ++i) {
        carry(*ranks, 0, 1, 8);
    }
    EXPECT_EQ(ranks->counters(0).connections_requested, 0u);
    carry(*ranks, 0, 1, 100'000);
    EXPECT_EQ(ranks->counters(0).connections_open, 1u);
    const std::uint64_t before = ranks->counters(0).ring_sent;
    carry(*ranks, 0, 1, 8);
    EXPECT_EQ(ranks->counters(0).ring_sent, before);
    EXPECT_EQ(ranks->counters(0).rings_open, 0u);
    nothing_bad(*ranks);
}

char kDcOnDemand[] = "dc_on_demand";
char kSharedRing[] = "fixed:shared_ring";
char kSharedSendrecv[] = "fixed:shared_sendrecv";
char kRcRing[] = "fixed:rc_ring";

TEST(Connections, FixedKindsAreUsedFromTheFirstMessageOn) {
    for (char* policy : {kSharedSendrecv, kRcRing}) {
        RanksOptions options = world_of(3);
        options.parameters.channel_policy = policy;
        const auto ranks = make(std::move(options));
        carry(*ranks, 0, 1, 8);
        rest(*ranks, 1ms);
        const bool ring = policy == kRcRing;
        EXPECT_EQ(ranks->counters(0).connections_open, ring ? 1u : 0u);
        for (int i = 0; i < 50; ++i) {
            carry(*ranks, 0, 1, 8);
        }
        EXPECT_EQ(ranks->counters(0).ring_sent, ring ? 50u : 0u);
        EXPECT_EQ(ranks->counters(0).datagram_sent, ring ? 1u : 51u);
        nothing_bad(*ranks);
    }
}

TEST(Connections, WhereNoChannelIsDynamicallyConnectedTheSharedQueueStandsIn) {
    for (char* policy : {kDcOnDemand, kSharedRing}) {
        RanksOptions options = world_of(2);
        options.parameters.channel_policy = policy;
        const auto ranks = make(std::move(options));
        for (int i = 0; i < 50; ++i) {
            carry(*ranks, 0, 1, 8);
        }
        EXPECT_EQ(ranks->counters(0).datagram_sent, 50u);
        EXPECT_EQ(ranks->counters(0).connections_requested, 0u);
        ASSERT_EQ(ranks->messages(0).size(), 1u);
        EXPECT_NE(ranks->messages(0)[0].find(policy), std::string::npos) << ranks->messages(0)[0];
    }
}

TEST(Connections, AStaticStartThatDoesNotFitIsReportedOnce) {
    for (const int most : {0, 3, 7}) {
        RanksOptions options = world_of(8);
        options.parameters.connect = kStatic;
        options.parameters.connect_max = most;
        const auto ranks = make(std::move(options));
        rest(*ranks, 1s);
        EXPECT_EQ(ranks->messages(0).size(), most == 3 ? 1u : 0u);
        if (most == 3) {
            EXPECT_NE(ranks->messages(0)[0].find("allows 3 connections for the 7 peers"),
                      std::string::npos)
                << ranks->messages(0)[0];
        }
        EXPECT_TRUE(ranks->messages(1).empty());
    }
}

TEST(Connections, WhoNeedsTheConnectionKeepsIt) {
    RanksOptions options = world_of(3);
    options.parameters.connect_max = 1;
    options.parameters.connect_threshold = 1;
    const auto ranks = make(std::move(options));
    carry(*ranks, 0, 1, 10'000);
    ranks->peer(1, 0)->transfers.users = 1; // in use at the other end
    for (int i = 0; i < 50; ++i) {
        carry(*ranks, 0, 2, 100);
        carry(*ranks, 0, 1, 100);
        rest(*ranks, 1ms);
    }
    EXPECT_EQ(ranks->counters(0).connections_closed, 0u);
    for (int i = 0; i < 50; ++i) {
        carry(*ranks, 0, 2, 100);
        rest(*ranks, 1ms);
    }
    EXPECT_EQ(ranks->counters(0).connections_closed, 0u);
    EXPECT_EQ(ranks->counters(0).connections_open, 1u);
    ranks->peer(1, 0)->transfers.users = 0;
    for (int i = 0; i < 50; ++i) {
        carry(*ranks, 0, 2, 100);
        rest(*ranks, 1ms);
    }
    EXPECT_EQ(ranks->counters(0).connections_closed, 1u);
    EXPECT_EQ(ranks->peer(0, 2)->session.state, ConnectState::open);
    nothing_bad(*ranks);
}

TEST(Connections, ManyPeersShareFewConnections) {
    for (const double loss : {0.0, 0.2}) {
        for (const int most : {1, 2, 5}) {
            SCOPED_TRACE(std::to_string(loss) + ", " + std::to_string(most));
            RanksOptions options = world_of(8);
            options.seed = options.world.seed = static_cast<std::uint64_t>(most);
            options.world.machine.offers.reliable_ud = loss == 0;
            options.world.datagram_loss = options.world.datagram_late = loss;
            options.parameters.connect_max = most;
            options.parameters.connect_threshold = 2;
            const auto ranks = make(std::move(options));
            for (int round = 0; round < 6; ++round) {
                Messages messages;
                for (std::size_t from = 0; from < 8; ++from) {
                    for (std::size_t step = 1; step < 8; ++step) {
                        const std::size_t bytes = step % 2 == 0 ? 20'000 : 100;
                        messages.push_back(
                            std::make_unique<Message>(from, (from + step) % 8, bytes));
                    }
                }
                carry(*ranks, messages);
                rest(*ranks, 3ms);
            }
            std::uint64_t closed = 0;
            for (std::size_t rank = 0; rank < 8; ++rank) {
                EXPECT_LE(ranks->counters(rank).connections_most, static_cast<unsigned>(most));
                closed += ranks->counters(rank).connections_closed;
            }
            EXPECT_GT(closed, 0u);
            rest(*ranks, 10s);
            EXPECT_TRUE(ranks->idle()); // no rank asks forever
            nothing_bad(*ranks);
        }
    }
}

// Each operation that needs a connection gets one in the end, though each rank may have only one
// and all of them want others.
TEST(Connections, OneSidedOperationsTakeTurns) {
    RanksOptions options = world_of(5);
    options.parameters.connect_max = 1;
    const auto ranks = make(std::move(options));
    OpenMemory memory(*ranks, 5000);
    std::vector<std::unique_ptr<Request>> requests;
    std::vector<std::byte> source(1000, std::byte{7});
    for (std::size_t from = 0; from < 5; ++from) {
        for (std::size_t to = 0; to < 5; ++to) {
            if (from != to) {
                requests.push_back(std::make_unique<Request>());
                memory.start(from, to, OPAL_COMMON_ADAPTIB_PUT, source, *requests.back(),
                             1000 * from);
            }
        }
    }
    ASSERT_TRUE(ranks->run_until(
        [&] {
            return std::all_of(requests.begin(), requests.end(),
                               [](const auto& request) { return request->done; });
        },
        10s));
    for (std::size_t to = 0; to < 5; ++to) {
        for (std::size_t at = 0; at < 5000; ++at) {
            ASSERT_EQ(memory.of(to)[at] == std::byte{7}, at / 1000 != to) << to << " " << at;
        }
    }
    nothing_bad(*ranks);
}

// -------------------------------------------------------------------------------------------------
// A device without room

TEST(Connections, ADeviceWithoutRoomIsReportedOnceAndDoesNotStopTraffic) {
    RanksOptions options = world_of(6);
    FirstRanksFaults faults(options);
    // Rank 0 gets its datagram queue pair and two connections; then 15 calls fail.
    for (std::uint64_t nth = 4; nth < 19; ++nth) {
        faults.plan.faults.push_back({.fault = fault::Fault::create_qp_fails, .nth = nth});
    }
    options.parameters.connect_threshold = 1;
    const auto ranks = make(std::move(options));
    for (int round = 0; round < 3; ++round) {
        Messages messages;
        for (std::size_t other = 1; other < 6; ++other) {
            messages.push_back(std::make_unique<Message>(0, other, 50'000));
            messages.push_back(std::make_unique<Message>(other, 0, 50'000));
        }
        carry(*ranks, messages);
    }
    EXPECT_LE(ranks->counters(0).connections_most, 2u);
    EXPECT_GT(ranks->counters(0).fragments_sent, 0u);
    ASSERT_EQ(ranks->messages(0).size(), 1u);
    EXPECT_NE(ranks->messages(0)[0].find("no room for another connection beside 2"),
              std::string::npos)
        << ranks->messages(0)[0];
    for (int round = 0; round < 200; ++round) {
        for (std::size_t other = 1; other < 6; ++other) {
            carry(*ranks, 0, other, 100);
        }
        rest(*ranks, 10ms);
    }
    EXPECT_EQ(ranks->counters(0).connections_open, 5u) << "the device has room again";
    EXPECT_EQ(ranks->messages(0).size(), 1u);
    EXPECT_EQ(ranks->counters(0).connections_failed, 0u);
}

// A rank cannot do without a loopback connection for atomics or puts to itself: an idle connection
// is closed for it.
TEST(Connections, TheLoopbackGetsRoomFromIdleOnes) {
    RanksOptions options = world_of(3);
    FirstRanksFaults faults(options);
    options.parameters.connect_threshold = 1;
    const auto ranks = make(std::move(options));
    carry(*ranks, 0, 1, 50'000);
    carry(*ranks, 0, 2, 50'000);
    ASSERT_EQ(ranks->counters(0).connections_open, 2u);
    for (std::uint64_t nth = 1; nth <= 4; ++nth) {
        faults.plan.faults.push_back({.fault = fault::Fault::create_qp_fails, .nth = nth});
    }
    Peer* self = nullptr;
    Status status = ranks->core(0).peers().get_loopback(self);
    EXPECT_EQ(status, Status::error(Reason::no_memory));
    for (int tries = 0; tries < 20 && !status.ok(); ++tries) { // tries again, as osc/rdma does
        // Lets time pass, in which the connection to 2 is idle.
        for (int message = 0; message < 3000; ++message) {
            carry(*ranks, 0, 1, 100);
        }
        status = ranks->core(0).peers().get_loopback(self);
    }
    ASSERT_TRUE(status.ok());
    EXPECT_LE(ranks->counters(0).connections_open, 2u) << "one was closed, and this one is open";
    carry(*ranks, 0, 1, 50'000);
    carry(*ranks, 0, 2, 50'000);
}

// -------------------------------------------------------------------------------------------------
// Switches of the channel while messages are in flight

// Ranks 0 and 1 send each other messages all the time; their data is compared, and so is their
// order (all tags are equal). In each step some are in flight while `change` happens. `largest`:
// bytes of the last message in each tenth step.
void stream(Ranks& ranks, int steps, std::size_t largest,
            const std::function<void(int step)>& change) {
    constexpr std::size_t kUnderWay = 2;
    std::vector<Messages> waves;
    const auto arrive = [&](const Messages& wave) {
        ASSERT_TRUE(ranks.run_until(
            [&] {
                return std::all_of(wave.begin(), wave.end(),
                                   [](const auto& message) { return message->done(); });
            },
            10s));
        for (const auto& message : wave) {
            ASSERT_EQ(message->send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            ASSERT_EQ(message->got, message->sent);
        }
    };
    for (int step = 0; step < steps; ++step) {
        Messages& wave = waves.emplace_back();
        for (std::size_t i = 0; i < 12; ++i) {
            const std::size_t bytes = i == 11 && step % 10 == 0 ? largest : 8 + 100 * i;
            const auto number = static_cast<std::size_t>(step) * 16 + i;
            wave.push_back(std::make_unique<Message>(i % 2, 1 - i % 2, bytes, number));
            wave.back()->start(ranks);
        }
        rest(ranks, Nanoseconds{700 * (step % 9)});
        change(step);
        ranks.wake(0);
        ranks.wake(1);
        if (waves.size() > kUnderWay) {
            arrive(waves[waves.size() - 1 - kUnderWay]);
        }
    }
    for (const Messages& wave : waves) {
        arrive(wave);
    }
}

class Switching : public testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Loss, Switching, testing::Values(0.0, 0.2));

TEST_P(Switching, PromotionAndDemotionDisturbNothing) {
    RanksOptions options = world_of(2);
    options.world.machine.offers.reliable_ud = GetParam() == 0;
    options.world.datagram_loss = options.world.datagram_late = GetParam();
    options.parameters.connect_threshold = 1'000'000'000;
    const auto ranks = make(std::move(options));
    stream(*ranks, 400, 30'000, [&](int step) {
        const auto from = static_cast<std::size_t>(step / 4 % 2);
        if (step % 4 == 0) {
            ranks->core(from).selection().promote(*ranks->peer(from, 1 - from));
        } else if (step % 4 == 3) {
            ranks->core(from).selection().demote(*ranks->peer(from, 1 - from));
        }
    });
    EXPECT_GT(ranks->counters(0).connections_closed, 10u);
    EXPECT_GT(ranks->counters(0).ring_sent, 50u);
    EXPECT_GT(ranks->counters(0).datagram_sent, 50u);
    nothing_bad(*ranks);
}

// If a call of the device fails for lack of room while channels are switched, the old channel goes
// on; once there is room, the next switch works.
TEST_P(Switching, WithoutQueuePairsOrMemoryTheOldChannelGoesOn) {
    for (const fault::Fault what : {fault::Fault::create_qp_fails, fault::Fault::allocate_fails,
                                    fault::Fault::register_fails}) {
        SCOPED_TRACE(static_cast<int>(what));
        RanksOptions options = world_of(2);
        options.world.machine.offers.reliable_ud = GetParam() == 0;
        options.world.datagram_loss = options.world.datagram_late = GetParam();
        options.parameters.connect_threshold = 1'000'000'000;
        options.parameters.registration.cache = 0;
        options.parameters.connect_pool = 0; // each connection is made anew
        std::vector<std::unique_ptr<fault::FaultPlan>> plans;
        std::vector<std::unique_ptr<fault::FaultLog>> logs;
        ManualClock clock;
        options.wrap = [&](std::size_t, std::unique_ptr<Fabric> below) {
            plans.push_back(std::make_unique<fault::FaultPlan>());
            logs.push_back(std::make_unique<fault::FaultLog>());
            return fault::with_faults(std::move(below), *plans.back(), clock, *logs.back());
        };
        const auto ranks = make(std::move(options));
        fault::PlannedFault row;
        row.fault = what;
        row.rate = 0.4;
        for (const auto& plan : plans) { // after the start, which has its queue pairs
            plan->faults.push_back(row);
        }
        stream(*ranks, 300, 2000, [&](int step) {
            const auto from = static_cast<std::size_t>(step % 2);
            if (step % 3 == 0) {
                ranks->core(from).selection().promote(*ranks->peer(from, 1 - from));
            } else if (step % 3 == 2) {
                ranks->core(from).selection().demote(*ranks->peer(from, 1 - from));
            }
            if (step % 10 == 9) {
                rest(*ranks, 150ms); // until the device is asked again
            }
        });
        EXPECT_GT(logs[0]->count(what) + logs[1]->count(what), 0u);
        EXPECT_GT(ranks->counters(0).datagram_sent, 50u);
        EXPECT_GT(ranks->counters(0).connections_open + ranks->counters(0).connections_closed, 0u)
            << "some were made";
        for (std::size_t rank = 0; rank < 2; ++rank) {
            EXPECT_EQ(ranks->counters(rank).connections_failed, 0u);
            EXPECT_EQ(ranks->counters(rank).bad_packets, 0u);
        }
    }
}

} // namespace
} // namespace adaptib::sim
