// SPDX-License-Identifier: BSD-3-Clause
// Complete cores over a simulated network whose ports fail and come back under traffic: every
// message arrives once and whole, and no request ends with an error, whichever ports fail, if they
// come back within partition_timeout.
#include <algorithm>
#include <cstring>

#include "stats/run_history.h"

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

char kOff[] = "off";
char kPut[] = "put";
char kEven[] = "even";

constexpr std::size_t kRanks = 4;
constexpr std::size_t kPorts = 3;

// A host for each rank, a network for each of its ports.
RanksOptions networks(std::uint64_t seed) {
    Random random(seed);
    RanksOptions options;
    options.ranks = kRanks;
    options.seed = options.world.seed = seed;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(kRanks, {.ports = kPorts}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    if (random.below(2) == 0) {
        options.world.machine.offers.reliable_ud = false;
        options.world.datagram_loss = 0.05;
    }
    if (random.below(2) == 0) {
        options.parameters.rendezvous = kPut;
    }
    if (random.below(2) == 0) {
        options.parameters.striping_policy = kEven;
    }
    options.parameters.connect_threshold = static_cast<int>(random.below(4));
    options.parameters.apm = kOff;
    return options;
}

TEST(Failover, APortThatFailsAndComesBackCostsNoMessage) {
    const auto ranks = make(networks(1));
    carry(*ranks, 0, 1, 1'000'000);
    ASSERT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), kPorts);
    Messages messages;
    for (const std::size_t bytes : {10u, 5000u, 50'000'000u}) {
        messages.push_back(std::make_unique<Message>(0, 1, bytes));
        messages.back()->start(*ranks);
    }
    rest(*ranks, 500us); // in the middle of the long one
    EXPECT_FALSE(messages.back()->done());
    set_port(*ranks, 1, 2, false); // the target's port: the initiator gets no event
    ASSERT_TRUE(ranks->run_until([&] { return messages.back()->done(); }, 60s));
    expect_arrived(messages);
    EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), kPorts - 1);
    EXPECT_GE(ranks->counters(0).repairs, 1u);
    EXPECT_GE(ranks->counters(1).repairs, 1u);
    set_port(*ranks, 1, 2, true);
    rest(*ranks, 1s);
    carry(*ranks, 0, 1, 1'000'000);
    rest(*ranks, 1s);
    EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), kPorts);
    EXPECT_EQ(ranks->peer(1, 0)->lanes.live_subchannels(), kPorts);
}

std::size_t count_of(const RunHistory& history, IncidentKind kind) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < history.incidents(); ++i) {
        count += history.incident(i).kind == kind ? history.incident(i).count : 0;
    }
    return count;
}

// The port's own process notes the port and its path, once that is back; both note the repairs.
TEST(Failover, IsInTheHistories) {
    const auto ranks = make(networks(1));
    std::vector<std::unique_ptr<RunHistory>> histories;
    for (const std::size_t rank : {0, 1}) {
        Counters& counters = ranks->counters(rank);
        histories.push_back(std::make_unique<RunHistory>(ranks->process(rank), counters));
        counters.history = histories.back().get();
    }
    carry(*ranks, 0, 1, 1'000'000);
    EXPECT_EQ(histories[0]->incidents() + histories[1]->incidents(), 0u);
    Message message(0, 1, 50'000'000u);
    message.start(*ranks);
    rest(*ranks, 500us);
    set_port(*ranks, 1, 2, false);
    ASSERT_TRUE(ranks->run_until([&] { return message.done(); }, 60s));
    set_port(*ranks, 1, 2, true);
    rest(*ranks, 2s);
    const RunHistory& peer = *histories[0];
    const RunHistory& own = *histories[1];
    EXPECT_EQ(count_of(own, IncidentKind::rail_down), 1u);
    EXPECT_EQ(count_of(own, IncidentKind::rail_up), 1u);
    EXPECT_EQ(count_of(own, IncidentKind::path_failed), 0u) << "the port says it";
    EXPECT_EQ(count_of(peer, IncidentKind::rail_down), 0u);
    EXPECT_GE(count_of(own, IncidentKind::path_up), 1u);
    std::uint64_t rail_bytes = 0;
    std::uint64_t path_bytes = 0;
    for (const auto& history : histories) {
        EXPECT_GE(count_of(*history, IncidentKind::repair), 1u);
        EXPECT_EQ(count_of(*history, IncidentKind::repair),
                  count_of(*history, IncidentKind::repaired));
        EXPECT_EQ(count_of(*history, IncidentKind::peer_lost), 0u);
        EXPECT_GT(history->samples().size(), 2u) << "the timers take them";
        history->end();
        for (const std::uint64_t bytes : history->samples().back().rail_bytes) {
            rail_bytes += bytes;
        }
        for (const std::uint64_t bytes : history->samples().back().path_bytes) {
            path_bytes += bytes;
        }
    }
    EXPECT_GE(rail_bytes, 51'000'000u);
    EXPECT_EQ(rail_bytes, path_bytes);
}

class Storms : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Storms, testing::Range<std::uint64_t>(1, 9));

// Checks that nothing counts as outstanding any more, transfers over failed paths included.
void expect_nothing_under_way(Ranks& ranks, std::size_t rank) {
    for (std::size_t to = 0; to < ranks.size(); ++to) {
        if (to == rank) {
            continue;
        }
        for (const Subchannel& subchannel : ranks.peer(rank, to)->lanes.subchannels) {
            for (const std::size_t direction : {0, 1}) {
                EXPECT_EQ(subchannel.outstanding[direction], 0u);
                EXPECT_EQ(subchannel.timed[direction].bytes, 0u);
            }
        }
    }
}

TEST_P(Storms, LoseNothing) {
    std::uint64_t repairs = 0;
    const std::uint64_t seed = GetParam();
    Random random(seed * 77);
    const auto ranks = make(networks(seed));
    constexpr std::size_t kSizes[] = {0, 8, 100, 4000, 9000, 70'000, 1'000'000, 6'000'000};
    const Messages messages = storm(*ranks, random, kPorts, kSizes);
    expect_arrived(messages);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
        expect_unbroken(*ranks, rank);
        expect_nothing_under_way(*ranks, rank);
        repairs += ranks->counters(rank).repairs;
    }
    EXPECT_GT(repairs, 0u);
}

// -------------------------------------------------------------------------------------------------
// Faults at a time of their own

void set_host(Ranks& ranks, std::size_t rank, bool up) {
    for (std::size_t port = 0; port < kPorts; ++port) {
        set_port(ranks, rank, port, up);
    }
}

// Switches a cable without an event: data on it stands still, and moves on when the cable is back.
void set_cable(Ranks& ranks, std::size_t rank, std::size_t port, bool up) {
    const Topology& topology = ranks.world().topology();
    ranks.world().set_link(topology.ports[topology.hosts[rank].ports[port]].link, up);
}

// Starts short and long messages, both ways.
Messages both_ways(Ranks& ranks, std::size_t a, std::size_t b, std::size_t longest) {
    static std::size_t number = 0;
    Messages messages;
    for (const std::size_t bytes : {std::size_t{10}, std::size_t{3000}, longest}) {
        for (const bool back : {false, true}) {
            messages.push_back(
                std::make_unique<Message>(back ? b : a, back ? a : b, bytes, ++number));
            messages.back()->start(ranks);
        }
    }
    return messages;
}

// Traffic for some seconds, because sleeping ranks seldom look for events.
void go_on(Ranks& ranks, std::size_t a, std::size_t b) {
    for (int i = 0; i < 12; ++i) {
        rest(ranks, 300ms);
        carry(ranks, a, b, 100);
        carry(ranks, b, a, 1'000'000);
    }
}

struct Beginning {
    bool connected;
    bool lossy;
    std::size_t rank; // the rank whose port fails
};

class FirstPort : public testing::TestWithParam<Beginning> {};
INSTANTIATE_TEST_SUITE_P(All, FirstPort,
                         testing::Values(Beginning{true, false, 0}, Beginning{true, false, 1},
                                         Beginning{true, true, 0}, Beginning{true, true, 1},
                                         Beginning{false, false, 0}, Beginning{false, false, 1},
                                         Beginning{false, true, 0}, Beginning{false, true, 1}));

RanksOptions simple(bool lossy = false) {
    RanksOptions options = networks(1);
    options.world.machine.offers.reliable_ud = !lossy;
    options.world.datagram_loss = lossy ? 0.05 : 0;
    options.parameters.connect_threshold = 1;
    return options;
}

// The first port is the one that datagrams, and so all handshakes, use at first.
TEST_P(FirstPort, IsOneOfMany) {
    RanksOptions options = simple(GetParam().lossy);
    options.parameters.connect_threshold = GetParam().connected ? 0 : 1'000'000;
    const auto ranks = make(std::move(options));
    if (GetParam().connected) {
        carry(*ranks, 0, 1, 100);
    }
    Messages messages = both_ways(*ranks, 0, 1, GetParam().connected ? 20'000'000 : 4000);
    rest(*ranks, 3us);
    set_port(*ranks, GetParam().rank, 0, false);
    for (std::size_t i = 0; i < 100; ++i) {
        messages.push_back(std::make_unique<Message>(i % 2, 1 - i % 2, 8 + i, 1000 + i));
        messages.back()->start(*ranks);
    }
    ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 2s));
    expect_arrived(messages);
    EXPECT_NE(ranks->peer(0, 1)->contact.datagram.pair, 0);
    set_port(*ranks, GetParam().rank, 0, true);
    go_on(*ranks, 0, 1);
    for (const std::size_t rank : {0, 1}) {
        EXPECT_EQ(ranks->peer(rank, 1 - rank)->contact.datagram.pair, 0) << rank;
        expect_unbroken(*ranks, rank);
        if (GetParam().connected) {
            EXPECT_EQ(ranks->peer(rank, 1 - rank)->lanes.live_subchannels(), kPorts) << rank;
        }
    }
}

// Rails that are published, and down before the first message, at one end or at both: the other
// rails carry everything, under every policy, and rails that come back are used.
TEST(Failover, RailsThatGoBeforeTheFirstMessage) {
    char binding[] = "binding";
    for (const char* policy :
         {"none", "auto", "even", "weighted", "adaptive", "load_balanced", "bss", "epc"}) {
        SCOPED_TRACE(policy);
        RanksOptions options = simple();
        options.parameters.multiplexing_policy = binding;
        options.parameters.striping_policy = const_cast<char*>(policy);
        options.parameters.bss_paths = 3;
        options.parameters.bss_batch = 3;
        const auto ranks = make(std::move(options));
        set_port(*ranks, 0, 0, false);
        set_port(*ranks, 1, 2, false);
        Messages messages = both_ways(*ranks, 0, 1, 2'000'000);
        ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 5s));
        expect_arrived(messages);
        EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), 1u);
        set_port(*ranks, 0, 0, true);
        set_port(*ranks, 1, 2, true);
        go_on(*ranks, 0, 1);
        EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), kPorts);
        messages = both_ways(*ranks, 0, 1, 2'000'000);
        ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 5s));
        expect_arrived(messages);
        for (const std::size_t rank : {0, 1}) {
            expect_unbroken(*ranks, rank);
        }
    }
}

TEST(Failover, WithoutAPathTrafficWaitsForTheFirst) {
    for (const bool lossy : {false, true}) {
        SCOPED_TRACE(lossy);
        const auto ranks = make(simple(lossy));
        carry(*ranks, 0, 1, 1'000'000);
        Messages messages = both_ways(*ranks, 0, 1, 20'000'000);
        rest(*ranks, 100us);
        set_host(*ranks, 1, false);
        rest(*ranks, 60s);
        EXPECT_FALSE(messages[4]->done());
        EXPECT_FALSE(messages[5]->done());
        carry(*ranks, 0, 2, 1'000'000); // other peers go on
        set_port(*ranks, 1, 2, true);
        const Nanoseconds back = ranks->world().simulator().now();
        ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 20s));
        EXPECT_LT(ranks->world().simulator().now() - back, 1s);
        expect_arrived(messages);
        EXPECT_GT(ranks->counters(1).no_path_nanoseconds, 59'000'000'000u);
        set_host(*ranks, 1, true);
        go_on(*ranks, 0, 1);
        EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), kPorts);
        EXPECT_EQ(ranks->peer(1, 0)->lanes.live_subchannels(), kPorts);
    }
}

TEST(Failover, WithoutAPathForTooLongThePeerIsGivenUp) {
    for (const bool connected : {true, false}) {
        SCOPED_TRACE(connected);
        RanksOptions options = simple();
        options.parameters.partition_timeout = 20;
        options.parameters.connect_threshold = connected ? 0 : 1'000'000;
        const auto ranks = make(std::move(options));
        carry(*ranks, 0, 1, 100);
        Messages messages = both_ways(*ranks, 0, 1, 20'000'000);
        set_host(*ranks, 1, false);
        const Nanoseconds began = ranks->world().simulator().now();
        ASSERT_TRUE(ranks->run_until(
            [&] { return messages[4]->send.done && messages[5]->send.done; }, 60s));
        const Nanoseconds took = ranks->world().simulator().now() - began;
        EXPECT_GT(took, 19s);
        EXPECT_LT(took, 22s);
        for (const std::size_t rank : {0, 1}) {
            const std::string said = broken(*ranks, rank);
            EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
            for (const char* part :
                 {rank == 0 ? "process 1 on host H001" : "process 0 on host H000",
                  rank == 0 ? "H000/H000:1 -> H001/H001:1" : "H001/H001:1 -> H000/H000:1", " 20 s",
                  "check", "partition_timeout"}) {
                EXPECT_NE(said.find(part), std::string::npos) << part << ": " << said;
            }
        }
        EXPECT_NE(messages[4]->send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_NE(messages[5]->send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        carry(*ranks, 0, 2, 1'000'000);
    }
}

// Neither end gets an event. Data on the cable comes out when the cable is back, long after both
// ends have fenced the connection that the data belongs to: no end takes the data.
TEST(Failover, ACableThatNobodyTellsOf) {
    for (const bool lossy : {false, true}) {
        for (std::size_t port = 0; port < kPorts; ++port) {
            SCOPED_TRACE(port);
            const auto ranks = make(simple(lossy));
            carry(*ranks, 0, 1, 1'000'000);
            Messages messages = both_ways(*ranks, 0, 1, 20'000'000);
            rest(*ranks, 100us);
            set_cable(*ranks, 1, port, false);
            ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 30s));
            expect_arrived(messages);
            EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), kPorts - 1);
            EXPECT_EQ(ranks->peer(1, 0)->lanes.live_subchannels(), kPorts - 1);
            for (auto& message : messages) {
                std::fill(message->got.begin(), message->got.end(), std::byte{0x5a});
            }
            rest(*ranks, 10s);
            set_cable(*ranks, 1, port, true);
            rest(*ranks, 3s);
            for (auto& message : messages) {
                EXPECT_EQ(std::count(message->got.begin(), message->got.end(), std::byte{0x5a}),
                          static_cast<std::ptrdiff_t>(message->got.size()));
            }
            EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), kPorts);
            EXPECT_EQ(ranks->peer(1, 0)->lanes.live_subchannels(), kPorts);
            messages = both_ways(*ranks, 0, 1, 20'000'000);
            ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 1s));
            expect_arrived(messages);
            for (const std::size_t rank : {0, 1}) {
                expect_unbroken(*ranks, rank);
            }
        }
    }
}

// Both ends see the failure at once; or a second path fails while the connection is fenced,
// requested, answered.
class SecondFailure : public testing::TestWithParam<Nanoseconds> {};
INSTANTIATE_TEST_SUITE_P(Later, SecondFailure,
                         testing::Values(0ns, 500ns, 2us, 5us, 10us, 20us, 40us, 80us, 200us, 1ms,
                                         5ms));

TEST_P(SecondFailure, InTheMiddleOfARepair) {
    const Nanoseconds later = GetParam();
    for (const std::size_t second : {0, 1}) { // the rank of the second failure
        SCOPED_TRACE(second);
        const auto ranks = make(simple());
        carry(*ranks, 0, 1, 1'000'000);
        Messages messages = both_ways(*ranks, 0, 1, 20'000'000);
        rest(*ranks, 100us);
        set_port(*ranks, 1, 1, false);
        if (second == 0 && later == 0ns) {
            set_port(*ranks, 0, 1, false);
        } else {
            rest(*ranks, later);
            set_port(*ranks, second, 0, false);
        }
        ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 30s));
        expect_arrived(messages);
        for (const std::size_t rank : {0, 1}) {
            expect_unbroken(*ranks, rank);
        }
    }
}

// A computing rank answers nothing. That is no failure of any path, and costs nothing but waiting.
TEST(Failover, WhoComputesIsNotTakenForLost) {
    for (const bool responders : {false, true}) {
        SCOPED_TRACE(responders);
        RanksOptions options = simple(true);
        options.parameters.connect_threshold = 1'000'000;
        options.world.responders = responders;
        const auto ranks = make(std::move(options));
        carry(*ranks, 0, 1, 100);
        ranks->compute(1, 30s);
        Messages messages;
        for (std::size_t i = 0; i < 200; ++i) {
            messages.push_back(std::make_unique<Message>(0, 1, 100, i));
            messages.back()->start(*ranks);
        }
        ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 60s));
        expect_arrived(messages);
        EXPECT_EQ(ranks->counters(0).paths_failed, 0u);
        EXPECT_EQ(ranks->counters(0).connections_failed, 0u);
        EXPECT_LT(ranks->counters(0).datagram_repeated, 1000u); // in 30 s
        rest(*ranks, 3s);
        if (responders) { // a few answers may get lost
            EXPECT_LE(ranks->counters(0).paths_suspected, 4u);
        } else {
            EXPECT_GT(ranks->counters(0).paths_suspected, 0u);
        }
        EXPECT_TRUE(ranks->messages(0).empty()) << ranks->messages(0).front();
    }
}

// Messages kept for peers without a path do not fill the slots that all peers share.
TEST(Failover, PeersWithoutAPathDoNotStarveOthers) {
    constexpr std::size_t kMany = 10;
    RanksOptions options = simple();
    options.ranks = kMany;
    options.world.topology = crossbar(kMany, {.ports = kPorts}, links_of(options.world.machine));
    std::string text;
    ASSERT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.connect_threshold = 1'000'000;
    const auto ranks = make(std::move(options));
    for (std::size_t to = 1; to < kMany; ++to) {
        carry(*ranks, 0, to, 100);
    }
    Messages waiting;
    for (std::size_t to = 1; to + 1 < kMany; ++to) {
        set_host(*ranks, to, false);
        for (std::size_t i = 0; i < 40; ++i) {
            waiting.push_back(std::make_unique<Message>(0, to, 100, i));
            waiting.back()->start(*ranks);
        }
    }
    rest(*ranks, 3s);
    const Nanoseconds began = ranks->world().simulator().now();
    for (int i = 0; i < 20; ++i) {
        carry(*ranks, 0, kMany - 1, 100);
        carry(*ranks, kMany - 1, 0, 100);
    }
    EXPECT_LT(ranks->world().simulator().now() - began, 10ms);
    for (std::size_t to = 1; to + 1 < kMany; ++to) {
        set_host(*ranks, to, true);
    }
    ASSERT_TRUE(ranks->run_until([&] { return all_done(waiting); }, 60s));
    expect_arrived(waiting);
}

// The first handshake is in flight, or over, when a port fails: at each end, the port of the
// datagrams or another one.
TEST(Failover, APortFailsWhileConnecting) {
    for (std::int64_t microseconds = 0; microseconds <= 60; microseconds += 4) {
        for (const std::size_t rank : {0, 1}) {
            const std::size_t port = static_cast<std::size_t>(microseconds / 4) % 2;
            SCOPED_TRACE(testing::Message() << microseconds << " us, rank " << rank);
            const auto ranks = make(simple(microseconds % 8 == 0));
            Messages messages = both_ways(*ranks, 0, 1, 300'000);
            rest(*ranks, std::chrono::microseconds{microseconds});
            set_port(*ranks, rank, port, false);
            ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 30s));
            expect_arrived(messages);
            for (const std::size_t each : {0, 1}) {
                expect_unbroken(*ranks, each);
            }
        }
    }
}

// Announcement (RTS), match, reads or writes, FIN, credit: a failure hits each step, before,
// during or after it.
TEST(Failover, APortFailsAtAnyTimeOfATransfer) {
    std::uint64_t repeated = 0;
    for (std::int64_t step = 0; step < 60; ++step) {
        RanksOptions options = simple();
        options.parameters.rendezvous = step % 2 == 0 ? options.parameters.rendezvous : kPut;
        const auto ranks = make(std::move(options));
        carry(*ranks, 0, 1, 1'000'000);
        carry(*ranks, 1, 0, 10);
        Messages messages = both_ways(*ranks, 0, 1, 150'000);
        rest(*ranks, Nanoseconds{step * 700});
        const auto rank = static_cast<std::size_t>(step / 2 % 2);
        const auto port = static_cast<std::size_t>(step / 4) % kPorts;
        SCOPED_TRACE(testing::Message() << "step " << step << " rank " << rank << " port " << port);
        set_port(*ranks, rank, port, false);
        ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 30s));
        expect_arrived(messages);
        for (const std::size_t each : {0, 1}) {
            expect_unbroken(*ranks, each);
            repeated += ranks->counters(each).messages_repeated;
            repeated += ranks->counters(each).stripes_repeated;
        }
    }
    EXPECT_GT(repeated, 20u);
}

// Both ends disconnect while the connection is fenced, requested, answered, or in any other state.
TEST(Failover, WhoPartsInTheMiddleOfARepairParts) {
    constexpr Nanoseconds kLater[] = {0ns, 1us, 3us, 6us, 10us, 15us, 25us, 50us, 100us, 1ms, 60ms};
    for (const Nanoseconds later : kLater) {
        for (const bool together : {false, true}) {
            SCOPED_TRACE(later.count());
            const auto ranks = make(simple());
            carry(*ranks, 0, 1, 1'000'000);
            Messages messages;
            messages.push_back(std::make_unique<Message>(0, 1, 4000));
            messages.back()->start(*ranks);
            set_port(*ranks, 1, 1, false);
            rest(*ranks, later);
            ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 10s));
            expect_arrived(messages);
            set_port(*ranks, 0, 0, false);
            rest(*ranks, later);
            for (const std::size_t rank : {0, 1}) {
                ranks->core(rank).protocol().disconnects().release(*ranks->peer(rank, 1 - rank));
                ranks->wake(rank);
                rest(*ranks, together ? 0ns : 5us);
            }
            ASSERT_TRUE(ranks->run_until(
                [&] {
                    return ranks->counters(0).connections_open == 0 &&
                           ranks->counters(1).connections_open == 0 &&
                           ranks->counters(0).queue_pairs == 0 &&
                           ranks->counters(1).queue_pairs == 0;
                },
                10s));
            for (const std::size_t rank : {0, 1}) {
                expect_unbroken(*ranks, rank);
            }
        }
    }
}

// A process ends while it has no path: drain() waits as long as it was told to, and the end leaves
// transfers in flight alone.
TEST(Failover, WhoEndsWithoutAPathEnds) {
    constexpr Nanoseconds kLater[] = {0ns, 3us, 30us, 1ms, 300ms};
    for (const Nanoseconds later : kLater) {
        const auto ranks = make(simple());
        carry(*ranks, 0, 1, 1'000'000);
        Messages messages = both_ways(*ranks, 0, 1, 20'000'000);
        rest(*ranks, 100us);
        set_host(*ranks, 1, false);
        rest(*ranks, later);
        EXPECT_FALSE(all_done(messages));
        for (const std::size_t rank : {0, 1}) {
            ranks->core(rank).protocol().disconnects().release(*ranks->peer(rank, 1 - rank));
            const Nanoseconds before = ranks->now(rank);
            ranks->core(rank).drain(2ms);
            EXPECT_GE(ranks->now(rank) - before, 2ms);
            EXPECT_LT(ranks->now(rank) - before, 4ms);
            EXPECT_EQ(ranks->counters(rank).connections_failed, 0u) << broken(*ranks, rank);
        }
        // The cores end here, before the buffers.
    }
}

// No single path is lost: the peer answers over none. Other peers go on.
TEST(Failover, ADeadPeerIsGivenUpInTime) {
    for (const bool connected : {true, false}) {
        SCOPED_TRACE(connected);
        RanksOptions options = simple(true);
        options.parameters.partition_timeout = 20;
        options.parameters.connect_threshold = connected ? 0 : 1'000'000;
        const auto ranks = make(std::move(options));
        carry(*ranks, 0, 1, 100);
        Messages messages = both_ways(*ranks, 0, 1, connected ? 20'000'000 : 100);
        rest(*ranks, 3us);
        ranks->kill(1);
        messages.push_back(std::make_unique<Message>(0, 1, 50, 99));
        messages.back()->start(*ranks); // earlier messages may be acknowledged
        const Nanoseconds began = ranks->world().simulator().now();
        ASSERT_TRUE(
            ranks->run_until([&] { return ranks->counters(0).connections_failed > 0; }, 100s));
        const Nanoseconds took = ranks->world().simulator().now() - began;
        EXPECT_GT(took, 15s);
        EXPECT_LT(took, 40s); // partition_timeout, after the queue pairs' own time if there are any
        if (connected) {      // else nothing is wanted of the peer
            const std::string said = broken(*ranks, 0);
            EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
            EXPECT_NE(said.find("process 1 on host H001"), std::string::npos) << said;
            EXPECT_TRUE(messages[4]->send.done);
            EXPECT_NE(messages[4]->send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        }
        carry(*ranks, 0, 2, 1'000'000);
        carry(*ranks, 2, 0, 1'000'000);
    }
}

} // namespace
} // namespace adaptib::sim
