// SPDX-License-Identifier: BSD-3-Clause
// Connections over dynamically connected queue pairs that many peers share (connect/README.md),
// of complete cores over a simulated network: rings and transfers without a queue pair for each
// peer; changes of channel while messages are in flight; errors of an initiator, of a target, of
// ports; lack of room.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulator/faults/fault.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

char kSharedRing[] = "fixed:shared_ring";
char kDcOnDemand[] = "dc_on_demand";
char kRcOnDemand[] = "rc_on_demand";
char kPublished[] = "connect-ib";
char kPut[] = "put";
char kOff[] = "off";

RanksOptions world_of(std::size_t ranks, char* policy = kSharedRing, std::uint32_t ports = 1) {
    RanksOptions options;
    options.ranks = ranks;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(static_cast<std::uint32_t>(ranks), {.ports = ports},
                                      links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.channel_policy = policy;
    return options;
}

const std::size_t kSizes[] = {0, 1, 8, 31, 64, 1000, 4000, 8192, 8193, 65'536, 1'000'000};

bool is_shared(Ranks& ranks, std::size_t from, std::size_t to) {
    const Peer& peer = *ranks.peer(from, to);
    return peer.session.state == ConnectState::open && peer.connection.shared &&
           peer.out.ring != nullptr;
}

// -------------------------------------------------------------------------------------------------
// Traffic

struct Case {
    const char* name;
    char* policy;
    std::uint32_t ports;
    bool put;
    double loss;
};

class Sharing : public testing::TestWithParam<Case> {
protected:
    static RanksOptions options(std::size_t ranks) {
        RanksOptions options = world_of(ranks, GetParam().policy, GetParam().ports);
        options.world.machine.offers.reliable_ud = GetParam().loss == 0;
        options.world.datagram_loss = options.world.datagram_late = GetParam().loss;
        if (GetParam().put) {
            options.parameters.rendezvous = kPut;
        }
        return options;
    }
};
INSTANTIATE_TEST_SUITE_P(Policies, Sharing,
                         testing::Values(Case{"fixed", kSharedRing, 1, false, 0},
                                         Case{"fixed_put", kSharedRing, 1, true, 0},
                                         Case{"on_demand", kDcOnDemand, 1, false, 0},
                                         Case{"two_ports", kSharedRing, 2, false, 0},
                                         Case{"lossy", kDcOnDemand, 2, true, 0.2}),
                         [](const auto& test) { return std::string(test.param.name); });

// More peers than initiators: every rank talks to every other one, with messages of all kinds.
TEST_P(Sharing, AllTalkWithoutQueuePairsOfTheirOwn) {
    constexpr std::size_t kRanks = 13;
    const auto ranks = make(options(kRanks));
    for (int round = 0; round < 3; ++round) {
        Messages messages;
        for (std::size_t from = 0; from < kRanks; ++from) {
            for (std::size_t to = 0; to < kRanks; ++to) {
                for (std::size_t i = 0; from != to && i < 20; ++i) {
                    const std::size_t size = kSizes[(from + to + i) % (std::size(kSizes) - 1)];
                    messages.push_back(std::make_unique<Message>(from, to, size, messages.size()));
                }
            }
        }
        carry(*ranks, messages);
    }
    rest(*ranks, 10ms);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
        EXPECT_EQ(ranks->counters(rank).queue_pairs_most, 0u);
        EXPECT_EQ(ranks->counters(rank).connections_shared, kRanks - 1);
        EXPECT_EQ(ranks->counters(rank).connections_open, kRanks - 1);
        EXPECT_LE(ranks->counters(rank).initiators, 8u * GetParam().ports);
        EXPECT_GT(ranks->counters(rank).ring_sent, 100u);
        EXPECT_EQ(ranks->counters(rank).repairs, 0u);
    }
    EXPECT_TRUE(is_shared(*ranks, 0, 1));
    nothing_bad(*ranks);
}

TEST(SharedRing, OnePolicyConnectsAtOnceTheOtherAfterSomeMessages) {
    for (char* policy : {kSharedRing, kDcOnDemand}) {
        const auto ranks = make(world_of(2, policy));
        carry(*ranks, 0, 1, 8);
        rest(*ranks, 1ms);
        EXPECT_EQ(is_shared(*ranks, 0, 1), policy == kSharedRing);
        for (int i = 0; i < 16; ++i) {
            carry(*ranks, 0, 1, 8);
        }
        rest(*ranks, 1ms);
        EXPECT_TRUE(is_shared(*ranks, 0, 1));
        EXPECT_TRUE(is_shared(*ranks, 1, 0));
        nothing_bad(*ranks);
    }
}

// A burst of unsignaled writes to more peers than the initiator's send queue has places for.
TEST(SharedRing, OneInitiatorCarriesBurstsToAllPeers) {
    RanksOptions options = world_of(40);
    options.parameters.dc_initiators = 1;
    const auto ranks = make(std::move(options));
    Messages messages;
    for (int i = 0; i < 60; ++i) {
        for (std::size_t to = 1; to < 40; ++to) {
            messages.push_back(std::make_unique<Message>(0, to, 8, messages.size()));
        }
    }
    carry(*ranks, messages);
    EXPECT_EQ(ranks->counters(0).initiators, 1u);
    EXPECT_GT(ranks->counters(0).ring_sent, 1000u);
    nothing_bad(*ranks);
}

// Number of a rank's peers on each of its initiators, and on each target that it uses.
struct Spread {
    std::map<std::uint32_t, int> initiators;
    std::map<std::uint32_t, int> targets;
};

Spread spread_of(Ranks& ranks, std::size_t rank) {
    Spread spread;
    for (std::size_t to = 0; to < ranks.size(); ++to) {
        if (to == rank || !is_shared(ranks, rank, to)) {
            continue;
        }
        const Peer& peer = *ranks.peer(rank, to);
        const SharedQueuePair& view = *peer.shared_queue_pair(peer.lanes.subchannels[0]);
        ++spread.initiators[view.number()];
        ++spread.targets[view.own_target()];
    }
    return spread;
}

// Whichever the peers are, each shared queue pair gets the same number of them, within one.
TEST(SharedRing, PeersAreSpreadEvenly) {
    RanksOptions options = world_of(26);
    options.parameters.dc_initiators = 4;
    const auto ranks = make(std::move(options));
    std::size_t peers = 0;
    for (const std::size_t to : {4, 8, 12, 16, 20, 24, 1, 2, 3, 25}) {
        carry(*ranks, 0, to, 8);
        rest(*ranks, 1ms);
        ++peers;
        const Spread spread = spread_of(*ranks, 0);
        const int most = static_cast<int>(peers + 3) / 4;
        EXPECT_EQ(spread.initiators.size(), std::min<std::size_t>(peers, 4));
        EXPECT_EQ(spread.targets.size(), std::min<std::size_t>(peers, 4));
        for (const auto& [number, uses] : spread.initiators) {
            EXPECT_LE(uses, most);
        }
        for (const auto& [number, uses] : spread.targets) {
            EXPECT_LE(uses, most);
        }
    }
    nothing_bad(*ranks);
}

// -------------------------------------------------------------------------------------------------
// Changes of channel

// Sends messages both ways all the time while `change` happens.
void stream(Ranks& ranks, int steps, const std::function<void(int step)>& change) {
    std::vector<Messages> waves;
    for (int step = 0; step < steps; ++step) {
        Messages& wave = waves.emplace_back();
        for (std::size_t i = 0; i < 10; ++i) {
            const std::size_t bytes = i == 9 && step % 10 == 0 ? 30'000 : 8 + 100 * i;
            const auto number = static_cast<std::size_t>(step) * 16 + i;
            wave.push_back(std::make_unique<Message>(i % 2, 1 - i % 2, bytes, number));
            wave.back()->start(ranks);
        }
        rest(ranks, Nanoseconds{700 * (step % 9)});
        change(step);
        ranks.wake(0);
        ranks.wake(1);
        if (waves.size() > 2) {
            const Messages& late = waves[waves.size() - 3];
            ASSERT_TRUE(ranks.run_until([&] { return all_done(late); }, 10s)) << step;
        }
    }
    ASSERT_TRUE(
        ranks.run_until([&] { return std::all_of(waves.begin(), waves.end(), all_done); }, 10s));
    for (const Messages& wave : waves) {
        for (const auto& message : wave) {
            ASSERT_EQ(message->send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            ASSERT_EQ(message->got, message->sent);
        }
    }
}

class SharingSwitches : public testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Loss, SharingSwitches, testing::Values(0.0, 0.2));

// Changes between shared queue, shared ring and a ring of its own, and back, requested by either
// end, sometimes by both at once.
TEST_P(SharingSwitches, UpAndDownWhileMessagesFly) {
    RanksOptions options = world_of(2);
    options.world.machine.offers.reliable_ud = GetParam() == 0;
    options.world.datagram_loss = options.world.datagram_late = GetParam();
    options.parameters.connect_threshold = 1'000'000'000;
    options.parameters.channel_policy = kDcOnDemand;
    const auto ranks = make(std::move(options));
    int shared = 0;
    int own = 0;
    int none = 0;
    Random random(7);
    stream(*ranks, 600, [&](int step) {
        const Peer& peer = *ranks->peer(0, 1);
        shared += peer.session.state == ConnectState::open && peer.connection.shared ? 1 : 0;
        own += peer.session.state == ConnectState::open && !peer.connection.shared ? 1 : 0;
        none += peer.session.state == ConnectState::idle ? 1 : 0;
        const bool up = step / 12 % 2 == 0;
        for (std::size_t from = 0; from < 2; ++from) {
            if (random.below(3) == 0) {
                Core& core = ranks->core(from);
                Peer& other = *ranks->peer(from, 1 - from);
                up ? core.selection().promote(other) : core.selection().demote(other);
            }
        }
    });
    EXPECT_GT(shared, 20);
    EXPECT_GT(own, 20);
    EXPECT_GT(none, 5);
    EXPECT_GT(ranks->counters(0).connections_closed, 20u);
    nothing_bad(*ranks);
}

// -------------------------------------------------------------------------------------------------
// aqps

// Without room for queue pairs for all peers, most of them share; the busiest get queue
// pairs of their own.
TEST(SharedRing, TheBusiestGetQueuePairsTheOthersShare) {
    constexpr std::size_t kRanks = 12;
    char aqps[] = "aqps";
    RanksOptions options = world_of(kRanks, aqps);
    options.parameters.channel_costs = kPublished; // changes of targets cost nothing by these
    options.parameters.connect_max = 3;
    options.parameters.channel_period = 5;
    options.parameters.connect_threshold = 2;
    const auto ranks = make(std::move(options));
    const auto talk = [&](std::size_t busy) { // `busy` to busy+2 are the busy sources of rank 0
        Messages messages;
        for (std::size_t from = 1; from < kRanks; ++from) {
            const std::size_t count = from >= busy && from < busy + 3 ? 60 : 6;
            for (std::size_t i = 0; i < count; ++i) {
                messages.push_back(std::make_unique<Message>(from, 0, 8, messages.size()));
            }
        }
        carry(*ranks, messages);
        rest(*ranks, 200us);
    };
    for (const std::size_t busy : {1u, 9u, 4u}) {
        const std::uint64_t enough = ranks->counters(0).selections + 12;
        while (ranks->counters(0).selections < enough) {
            talk(busy);
        }
        std::size_t rings = 0;
        for (std::size_t from = 1; from < kRanks; ++from) {
            const Peer& peer = *ranks->peer(0, from);
            rings += peer.session.state == ConnectState::open && peer.in.ring.has_value() ? 1 : 0;
            EXPECT_EQ(peer.session.state == ConnectState::open && !peer.connection.shared,
                      from >= busy && from < busy + 3)
                << from << " while from " << busy << " on they are busy";
        }
        EXPECT_EQ(rings, kRanks - 1);
    }
    EXPECT_LE(ranks->counters(0).queue_pairs_most, 3u);
    nothing_bad(*ranks);
}

// A change of targets costs more than a ring saves: a peer that would make another's initiator or
// target change stays with the shared queue, until something large is to go. Peers that are alike
// change places now and then, and one that was refused meanwhile is left alone for up to 64 periods
// (select/README.md): so for a while fewer may share than there are initiators, but never more.
class AlikePeers : public testing::TestWithParam<std::uint64_t> {
protected:
    static constexpr std::size_t kRanks = 6;

    AlikePeers() {
        RanksOptions options = world_of(kRanks, aqps_);
        options.seed = GetParam();
        options.parameters.connect_max = 1;
        options.parameters.dc_initiators = 2;
        options.parameters.channel_period = 5;
        options.parameters.connect_threshold = 2;
        ranks_ = make(std::move(options));
    }
    std::vector<std::size_t> in_state(ConnectState state, bool shared) {
        std::vector<std::size_t> all;
        for (std::size_t from = 1; from < kRanks; ++from) {
            const Peer& peer = *ranks_->peer(0, from);
            if (peer.session.state == state &&
                (state == ConnectState::idle || peer.connection.shared == shared)) {
                all.push_back(from);
            }
        }
        return all;
    }
    void periods(std::uint64_t count) {
        const std::uint64_t enough = ranks_->counters(0).selections + count;
        while (ranks_->counters(0).selections < enough) {
            Messages messages;
            for (std::size_t from = 1; from < kRanks; ++from) {
                for (std::size_t i = 0; i < 60; ++i) {
                    messages.push_back(std::make_unique<Message>(from, 0, 8, messages.size()));
                }
            }
            carry(*ranks_, messages);
            rest(*ranks_, 200us);
        }
    }

    char aqps_[5] = "aqps";
    std::unique_ptr<Ranks> ranks_;
};

// When two share for the first time depends on who is measured when.
TEST_P(AlikePeers, NoMoreShareThanThereAreInitiators) {
    std::size_t most = 0;
    for (int time = 0; time < 8 || (most < 2 && time < 60); ++time) {
        periods(5);
        EXPECT_EQ(in_state(ConnectState::open, false).size(), 1u) << time;
        const std::size_t sharing = in_state(ConnectState::open, true).size();
        EXPECT_GE(sharing, 1u) << time;
        EXPECT_LE(sharing, 2u) << time;
        most = std::max(most, sharing);
    }
    EXPECT_EQ(most, 2u);
    EXPECT_LE(ranks_->counters(0).connections_closed, 6u) << "what is in use stays";
    for (const std::size_t from : in_state(ConnectState::idle, false)) {
        carry(*ranks_, from, 0, 1'000'000);
        carry(*ranks_, from, 0, 1'000'000);
        EXPECT_TRUE(is_shared(*ranks_, 0, from)) << from;
    }
    nothing_bad(*ranks_);
}

INSTANTIATE_TEST_SUITE_P(SharedRing, AlikePeers, testing::Range<std::uint64_t>(1, 7));

// A peer shares while there is no room, and gets queue pairs of its own afterwards.
TEST(SharedRing, WhereThereIsRoomAgainNobodyShares) {
    char aqps[] = "aqps";
    RanksOptions options = world_of(3, aqps);
    options.parameters.connect_max = 1;
    options.parameters.channel_period = 1;
    const auto ranks = make(std::move(options));
    carry(*ranks, 0, 1, 100'000);
    carry(*ranks, 0, 2, 100'000);
    EXPECT_TRUE(is_shared(*ranks, 0, 2));
    ranks->core(0).selection().demote(*ranks->peer(0, 1)); // this peer shares from now on
    const std::uint64_t enough = ranks->counters(0).selections + 3;
    for (int i = 0; i < 10'000 && ranks->counters(0).selections < enough; ++i) {
        carry(*ranks, 0, 2, 8);
        rest(*ranks, 100us);
    }
    const Peer& peer = *ranks->peer(0, 2);
    EXPECT_GE(ranks->counters(0).selections, enough);
    EXPECT_EQ(peer.session.state, ConnectState::open);
    EXPECT_FALSE(peer.connection.shared);
    nothing_bad(*ranks);
}

// Whichever process began: one has room for queue pairs of its own, and asks for them once; the
// other has none, and asks when that changes. Neither closes another connection to ask in vain.
TEST(SharedRing, OfTwoWhoShareTheOneWithoutRoomAsks) {
    for (const bool full_one_begins : {true, false}) {
        SCOPED_TRACE(full_one_begins);
        char aqps[] = "aqps";
        RanksOptions options = world_of(3, aqps);
        options.parameters.channel_costs = kPublished;
        options.parameters.connect_max = 1;
        options.parameters.channel_period = 1;
        options.parameters.connect_threshold = 2;
        const auto ranks = make(std::move(options));
        const auto periods = [&](std::uint64_t count) {
            const std::uint64_t enough = ranks->counters(0).selections + count;
            for (int i = 0; i < 100'000 && ranks->counters(0).selections < enough; ++i) {
                for (int j = 0; j < 4; ++j) {
                    carry(*ranks, 0, 1, 8);
                }
                full_one_begins ? carry(*ranks, 0, 2, 8) : carry(*ranks, 2, 0, 8);
                rest(*ranks, 100us);
            }
            EXPECT_GE(ranks->counters(0).selections, enough);
        };
        carry(*ranks, 0, 1, 100'000);
        periods(5);
        EXPECT_TRUE(is_shared(*ranks, 0, 2));
        const std::uint64_t closed = ranks->counters(0).connections_closed;
        const std::uint64_t refused = ranks->counters(0).connections_refused;
        periods(150); // more than the longest pause after a refusal
        EXPECT_EQ(ranks->counters(0).connections_closed, closed);
        EXPECT_EQ(ranks->counters(0).connections_refused, refused);
        EXPECT_LE(refused, 1u);
        ranks->core(0).selection().demote(*ranks->peer(0, 1)); // room for one of the two
        periods(10);
        EXPECT_NE(is_shared(*ranks, 0, 1), is_shared(*ranks, 0, 2));
        EXPECT_EQ(ranks->counters(0).queue_pairs, 1u);
        nothing_bad(*ranks);
    }
}

TEST(SharedRing, ThePolicyOfConnectionsOfTheirOwnSharesNothing) {
    const auto ranks = make(world_of(3, kRcOnDemand));
    carry(*ranks, 0, 1, 100'000);
    rest(*ranks, 1ms);
    EXPECT_EQ(ranks->counters(0).queue_pairs, 1u);
    EXPECT_EQ(ranks->counters(0).connections_shared, 0u);
    nothing_bad(*ranks);
}

// -------------------------------------------------------------------------------------------------
// Failures

// Requests fail at random, executed or not; requests in flight to other peers come back flushed.
TEST(SharedRing, InitiatorsThatFailLoseNothing) {
    std::uint64_t repairs = 0;
    std::uint64_t replaced = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        constexpr std::size_t kRanks = 5;
        RanksOptions options = world_of(kRanks);
        options.seed = options.world.seed = seed;
        options.parameters.dc_initiators = seed % 2 == 0 ? 1 : 8;
        options.parameters.apm = kOff;
        if (seed % 3 == 0) {
            options.parameters.rendezvous = kPut;
        }
        std::vector<std::unique_ptr<fault::FaultPlan>> plans;
        std::vector<std::unique_ptr<fault::FaultLog>> logs;
        ManualClock clock;
        options.wrap = [&](std::size_t, std::unique_ptr<Fabric> below) {
            plans.push_back(std::make_unique<fault::FaultPlan>());
            logs.push_back(std::make_unique<fault::FaultLog>());
            return fault::with_faults(std::move(below), *plans.back(), clock, *logs.back());
        };
        const auto ranks = make(std::move(options));
        for (const auto& plan : plans) {
            for (const fault::Fault what :
                 {fault::Fault::request_fails, fault::Fault::request_fails_done}) {
                fault::PlannedFault row;
                row.fault = what;
                row.rate = 0.002;
                plan->faults.push_back(row);
            }
        }
        Messages messages;
        Random random(seed);
        for (int round = 0; round < 60; ++round) {
            for (std::size_t i = 0; i < 30; ++i) {
                const std::size_t from = random.below(kRanks);
                const std::size_t to = (from + 1 + random.below(kRanks - 1)) % kRanks;
                messages.push_back(std::make_unique<Message>(
                    from, to, kSizes[random.below(std::size(kSizes))], messages.size()));
                messages.back()->start(*ranks, static_cast<std::int32_t>(random.below(3)));
            }
            rest(*ranks, Nanoseconds{static_cast<std::int64_t>(random.below(3'000'000))});
        }
        ranks->run_until([&] { return all_done(messages); }, 100s);
        expect_arrived(messages);
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            expect_unbroken(*ranks, rank);
            repairs += ranks->counters(rank).repairs;
            replaced += ranks->counters(rank).initiators_replaced;
        }
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_GT(repairs, 20u);
    EXPECT_GT(replaced, 5u);
}

// Packets live for up to 2 s, and the targets of initiators that have failed still take them.
// ADAPTIB_SEEDS: the number of programs.
TEST(SharedRing, WritesThatOutliveTheirInitiatorDoNoDamage) {
    const char* const wanted = std::getenv("ADAPTIB_SEEDS");
    const std::uint64_t seeds = wanted == nullptr ? 8 : std::strtoull(wanted, nullptr, 10);
    const std::uint64_t first = wanted == nullptr ? 41 : 1; // 45 shows the damage
    std::uint64_t repairs = 0;
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        SCOPED_TRACE(seed);
        constexpr std::size_t kRanks = 3;
        const std::uint32_t ports = seed % 3 == 0 ? 1 : 2;
        RanksOptions options = world_of(kRanks, kSharedRing, ports);
        options.seed = options.world.seed = seed;
        options.world.packet_life = 1s;
        options.world.outliving_writes = 1;
        options.parameters.dc_initiators = seed % 2 == 0 ? 1 : 2;
        options.world.machine.offers.reliable_ud = false;
        if (seed % 3 != 0) {
            options.parameters.rendezvous = kPut;
        }
        Random random(seed * 77);
        const auto ranks = make(std::move(options));
        Messages messages = storm(*ranks, random, ports, kSizes);
        expect_arrived(messages);
        for (std::size_t i = 0; i < 100; ++i) { // into the same rings
            messages.push_back(std::make_unique<Message>(i % 3, (i + 1) % 3, 4000, i));
            messages.back()->start(*ranks);
            rest(*ranks, 20ms);
        }
        ranks->run_until([&] { return all_done(messages); }, 10s);
        expect_arrived(messages); // nothing has come into their memory since, either
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            expect_unbroken(*ranks, rank);
            repairs += ranks->counters(rank).repairs;
        }
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_GT(repairs, 2 * seeds);
}

TEST(SharedRing, PortsThatFailAllTheTimeLoseNothing) {
    std::uint64_t repairs = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        constexpr std::size_t kRanks = 4;
        const std::uint32_t ports = seed % 3 == 0 ? 1 : 2;
        RanksOptions options = world_of(kRanks, kDcOnDemand, ports);
        options.seed = options.world.seed = seed;
        options.parameters.connect_threshold = static_cast<int>(seed % 4);
        options.parameters.dc_initiators = seed % 2 == 0 ? 1 : 2;
        options.world.machine.offers.reliable_ud = false;
        options.world.datagram_loss = 0.05;
        Random random(seed * 77);
        const auto ranks = make(std::move(options));
        const Messages messages = storm(*ranks, random, ports, kSizes);
        expect_arrived(messages);
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            expect_unbroken(*ranks, rank);
            repairs += ranks->counters(rank).repairs;
        }
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_GT(repairs, 10u);
}

class ASharerThatLeaves : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(FaultTolerance, ASharerThatLeaves, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "on" : "off"; });

// Rank 0 uses one initiator for both others. All that it posts to rank 1 is credit.
TEST_P(ASharerThatLeaves, DisturbsNobody) {
    RanksOptions options = world_of(3);
    options.parameters.dc_initiators = 1;
    if (!GetParam()) {
        options.parameters.fault_tolerance = kOff;
    }
    const auto ranks = make(std::move(options));
    for (int i = 0; i < 20; ++i) {
        carry(*ranks, 0, 2, 1000);
        carry(*ranks, 2, 0, 1000);
        carry(*ranks, 1, 0, 1000);
    }
    rest(*ranks, 1ms);
    ASSERT_TRUE(is_shared(*ranks, 0, 1) && is_shared(*ranks, 0, 2));
    const Peer& gone = *ranks->peer(0, 2);
    EXPECT_TRUE(ranks->core(2).protocol().disconnects().leave(*ranks->peer(2, 0)));
    ranks->wake(2);
    rest(*ranks, 1ms);
    EXPECT_TRUE(gone.health.life.left);
    EXPECT_EQ(gone.session.state, ConnectState::idle);
    ranks->kill(2);
    Messages messages;
    for (std::size_t i = 0; i < 200; ++i) { // more than a ring holds
        messages.push_back(std::make_unique<Message>(1, 0, 4000, i));
    }
    carry(*ranks, messages);
    carry(*ranks, 0, 1, 100);
    EXPECT_EQ(ranks->counters(0).initiators_replaced, 0u);
    EXPECT_EQ(ranks->counters(0).repairs, 0u);
    EXPECT_EQ(ranks->counters(0).connections_failed, 0u);
    nothing_bad(*ranks);
}

// Only ranks that used the failed queue pair repair anything.
TEST(SharedRing, ARepairDoesNotSpread) {
    constexpr std::size_t kRanks = 6;
    RanksOptions options = world_of(kRanks);
    options.parameters.dc_initiators = 1; // each rank's initiator leads to all
    std::vector<std::unique_ptr<fault::FaultPlan>> plans;
    std::vector<std::unique_ptr<fault::FaultLog>> logs;
    ManualClock clock;
    options.wrap = [&](std::size_t, std::unique_ptr<Fabric> below) {
        plans.push_back(std::make_unique<fault::FaultPlan>());
        logs.push_back(std::make_unique<fault::FaultLog>());
        return fault::with_faults(std::move(below), *plans.back(), clock, *logs.back());
    };
    const auto ranks = make(std::move(options));
    const auto all_with_all = [&] {
        Messages messages;
        for (std::size_t from = 0; from < kRanks; ++from) {
            for (std::size_t to = 0; to < kRanks; ++to) {
                if (from != to) {
                    messages.push_back(
                        std::make_unique<Message>(from, to, 100'000, messages.size()));
                }
            }
        }
        carry(*ranks, messages);
    };
    all_with_all();
    fault::PlannedFault row;
    row.fault = fault::Fault::request_fails;
    plans[0]->faults.push_back(row);
    all_with_all();
    rest(*ranks, 100ms);
    all_with_all();
    EXPECT_EQ(logs[0]->count(fault::Fault::request_fails), 1u);
    EXPECT_EQ(ranks->counters(0).initiators_replaced, 1u);
    EXPECT_EQ(ranks->counters(0).repairs, kRanks - 1);
    for (std::size_t rank = 1; rank < kRanks; ++rank) {
        EXPECT_EQ(ranks->counters(rank).repairs, 1u) << "with rank 0";
        EXPECT_EQ(ranks->counters(rank).initiators_replaced, 0u);
    }
}

// A wrong put ends alone with an error. All peers whose requests use its initiator, or the target
// that has failed by it, get new connections, the put's own peer among them.
TEST(SharedRing, AWrongPutEndsAlone) {
    RanksOptions options = world_of(3);
    options.parameters.dc_initiators = 1;
    const auto ranks = make(std::move(options));
    carry(*ranks, 0, 1, 8);
    carry(*ranks, 0, 2, 8);
    carry(*ranks, 1, 2, 8);
    rest(*ranks, 1ms);
    std::uint64_t word = 5;
    opal_common_adaptib_remote_t remote{};
    remote.base = 4096;
    remote.bytes = 8;
    remote.access = OPAL_COMMON_ADAPTIB_REMOTE_WRITE;
    remote.key_count = 1;
    remote.keys[0] = 0xdeadbeef;
    const opal_common_adaptib_one_sided_t put{
        OPAL_COMMON_ADAPTIB_PUT, &word, nullptr, remote.base, &remote, 8, 0, 0};
    test::TestRequest request;
    bool complete = false;
    ASSERT_TRUE(ranks->core(0)
                    .protocol()
                    .one_sided()
                    .start(*ranks->peer(0, 1), put, nullptr, request.user, complete)
                    .ok());
    Message other(0, 2, 100'000, 1);
    other.start(*ranks);
    ASSERT_TRUE(ranks->run_until([&] { return request.done && other.done(); }, 10s));
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(other.got, other.sent);
    carry(*ranks, 0, 1, 100'000);
    carry(*ranks, 2, 1, 100'000); // over the target that has failed
    carry(*ranks, 0, 2, 100'000);
    carry(*ranks, 2, 0, 100'000);
    EXPECT_EQ(ranks->counters(0).connections_failed, 0u);
    EXPECT_EQ(ranks->counters(2).connections_failed, 0u);
}

// -------------------------------------------------------------------------------------------------
// Lack of room

RanksOptions refusing(RanksOptions options, std::vector<std::unique_ptr<fault::FaultPlan>>& plans,
                      std::vector<std::unique_ptr<fault::FaultLog>>& logs, ManualClock& clock,
                      const fault::PlannedFault* from_the_start) {
    options.wrap = [&plans, &logs, &clock, from_the_start](std::size_t,
                                                           std::unique_ptr<Fabric> below) {
        plans.push_back(std::make_unique<fault::FaultPlan>());
        logs.push_back(std::make_unique<fault::FaultLog>());
        if (from_the_start != nullptr) {
            plans.back()->faults.push_back(*from_the_start);
        }
        return fault::with_faults(std::move(below), *plans.back(), clock, *logs.back());
    };
    return options;
}

// The initiators that exist serve all peers; a rank without one waits for connections, and its
// messages take the shared queue.
TEST(SharedRing, FewerInitiatorsThanAskedForServeAll) {
    std::vector<std::unique_ptr<fault::FaultPlan>> plans;
    std::vector<std::unique_ptr<fault::FaultLog>> logs;
    ManualClock clock;
    const auto ranks = make(refusing(world_of(9), plans, logs, clock, nullptr));
    carry(*ranks, 0, 1, 100);
    carry(*ranks, 0, 2, 100);
    rest(*ranks, 1ms);
    fault::PlannedFault row;
    row.fault = fault::Fault::create_qp_fails;
    row.rate = 1;
    for (const auto& plan : plans) {
        plan->faults.push_back(row);
    }
    for (std::size_t to = 1; to < 9; ++to) {
        for (int i = 0; i < 20; ++i) {
            carry(*ranks, 0, to, 100);
        }
    }
    EXPECT_EQ(ranks->counters(0).initiators, 2u);
    EXPECT_TRUE(is_shared(*ranks, 0, 1));
    EXPECT_FALSE(is_shared(*ranks, 0, 3)) << "rank 3 has no initiator";
    carry(*ranks, 1, 2, 100);
    rest(*ranks, 1ms);
    EXPECT_TRUE(is_shared(*ranks, 1, 2)) << "each has an initiator and a target, of rank 0's";
    EXPECT_EQ(ranks->counters(1).initiators, 1u);
    EXPECT_EQ(spread_of(*ranks, 1).targets.size(), 1u);
    EXPECT_EQ(ranks->counters(0).bad_packets, 0u);
}

TEST(SharedRing, WithoutATargetThereAreQueuePairsOfTheirOwn) {
    std::vector<std::unique_ptr<fault::FaultPlan>> plans;
    std::vector<std::unique_ptr<fault::FaultLog>> logs;
    ManualClock clock;
    fault::PlannedFault row;
    row.fault = fault::Fault::create_srq_fails;
    row.rate = 1;
    RanksOptions options = world_of(3);
    options.world.machine.offers.reliable_ud = true;
    const auto ranks = make(refusing(std::move(options), plans, logs, clock, &row));
    for (int i = 0; i < 20; ++i) {
        carry(*ranks, 0, 1, 100);
        carry(*ranks, 2, 1, 10'000);
    }
    EXPECT_EQ(ranks->counters(0).connections_shared, 0u);
    EXPECT_EQ(ranks->counters(0).queue_pairs, 1u);
    ASSERT_EQ(ranks->messages(0).size(), 1u);
    EXPECT_NE(ranks->messages(0)[0].find("has no dynamically connected target"), std::string::npos);
}

} // namespace
} // namespace adaptib::sim
