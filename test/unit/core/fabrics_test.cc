// SPDX-License-Identifier: BSD-3-Clause
// Cores with two fabrics: peers of the same host over the near one, the others over the far one.
// The far one is made as poor as an adapter's: nothing is mapped, every buffer is registered,
// datagrams may get lost.
#include <array>
#include <deque>
#include <numeric>

#include "common_adaptib_two_sided.h"
#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

using fault::Fault;

constexpr std::uint32_t kPoor = static_cast<std::uint32_t>(Capability::whole_memory) |
                                static_cast<std::uint32_t>(Capability::direct) |
                                static_cast<std::uint32_t>(Capability::reliable_ud);

// Nodes 0 and 1 on one host, 2 and 3 on another.
class TwoFabrics {
public:
    static constexpr std::size_t kNodes = 4;

    explicit TwoFabrics(const char* rendezvous = "get", int shm_rails = 2) {
        options.hosts = {0, 0, 1, 1};
        options.parameters.rendezvous = const_cast<char*>(rendezvous);
        options.parameters.shm_rails = shm_rails;
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            plans[node].lacks = kPoor;
            plans[node].seed = node;
            return fault::with_faults(std::move(fabric), plans[node], clock, logs[node]);
        };
    }
    void start() { world = std::make_unique<Cores>(kNodes, options); }
    static bool near(std::size_t a, std::size_t b) { return a / 2 == b / 2; }
    static std::uint32_t fabric(std::size_t a, std::size_t b) { return near(a, b) ? 0 : 1; }

    bool run(const std::vector<TestRequest*>& requests) {
        return world->run([&] {
            world->clock.advance(Nanoseconds{1000}); // lost datagrams are sent again
            return std::all_of(requests.begin(), requests.end(),
                               [](const TestRequest* request) { return request->done; });
        });
    }

    Options options;
    std::array<fault::FaultPlan, kNodes> plans;
    std::array<fault::FaultLog, kNodes> logs;
    std::unique_ptr<Cores> world;
};

// One message, whose receive may take it from any source.
struct Message {
    Message(std::size_t bytes, std::uint64_t seed) : sent(pattern(bytes, seed)), got(bytes) {}

    std::vector<std::byte> sent;
    std::vector<std::byte> got;
    TestRequest send;
    TestRequest receive;
};

class FabricsRendezvous : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Moves, FabricsRendezvous, testing::Values("get", "put"));

TEST_P(FabricsRendezvous, EveryMessageArrivesByTheFabricOfItsPair) {
    TwoFabrics at(GetParam());
    for (fault::FaultPlan& plan : at.plans) {
        fault::PlannedFault lost;
        lost.fault = Fault::datagram_lost;
        lost.rate = 0.1;
        plan.faults.push_back(lost);
    }
    at.start();
    std::deque<Message> messages;
    std::vector<TestRequest*> requests;
    std::int32_t tag = 0;
    for (const std::size_t bytes : {0u, 8u, 3000u, 5000u, 100000u, 1000000u}) {
        for (int round = 0; round < 10; ++round) { // beyond connect_threshold
            for (std::size_t from = 0; from < TwoFabrics::kNodes; ++from) {
                for (std::size_t to = 0; to < TwoFabrics::kNodes; ++to) {
                    if (from == to || (bytes > 5000 && round > 0)) {
                        continue;
                    }
                    Message& message = messages.emplace_back(bytes, ++tag);
                    ASSERT_TRUE(at.world
                                    ->receive(to, static_cast<std::int32_t>(from), tag,
                                              contiguous(message.got), message.receive)
                                    .ok());
                    ASSERT_TRUE(at.world
                                    ->send(from, to, tag, contiguous(message.sent), message.send,
                                           round % 3 == 0)
                                    .ok());
                    requests.push_back(&message.send);
                    requests.push_back(&message.receive);
                    at.world->progress();
                }
            }
        }
    }
    ASSERT_TRUE(at.run(requests));
    for (const Message& message : messages) {
        EXPECT_EQ(message.send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(message.receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(message.got, message.sent);
    }
    for (std::size_t from = 0; from < TwoFabrics::kNodes; ++from) {
        for (std::size_t to = 0; to < TwoFabrics::kNodes; ++to) {
            if (from == to) {
                continue;
            }
            const Peer& peer = *at.world->peer(from, to);
            EXPECT_EQ(peer.contact.route.fabric, TwoFabrics::fabric(from, to))
                << from << " to " << to;
            EXPECT_EQ(peer.session.state, ConnectState::open);
            const std::uint32_t first = TwoFabrics::near(from, to) ? 0 : 2;
            ASSERT_EQ(peer.lanes.subchannels.size(), 2u);
            for (std::uint32_t i = 0; i < 2; ++i) {
                EXPECT_EQ(peer.lanes.subchannels[i].local_rail, first + i);
                EXPECT_EQ(peer.lanes.subchannels[i].remote_rail, first + i);
            }
        }
        EXPECT_EQ(at.world->counters(from).bad_packets, 0u);
        EXPECT_EQ(at.world->messages(from).size(), 0u);
        EXPECT_GT(at.logs[from].count(Fault::datagram_lost), 0u);
    }
}

TEST(Fabrics, AReceiveFromAnybodyTakesBothKinds) {
    TwoFabrics at;
    at.start();
    for (const std::size_t bytes : {100u, 200000u}) {
        for (int round = 0; round < 30; ++round) {
            std::deque<Message> messages;
            std::vector<TestRequest*> requests;
            for (std::size_t from = 1; from < TwoFabrics::kNodes; ++from) {
                Message& message = messages.emplace_back(bytes, from);
                ASSERT_TRUE(at.world
                                ->receive(0, OPAL_COMMON_ADAPTIB_ANY_SOURCE, 5,
                                          contiguous(message.got), message.receive)
                                .ok());
                ASSERT_TRUE(
                    at.world->send(from, 0, 5, contiguous(message.sent), message.send).ok());
                requests.push_back(&message.send);
                requests.push_back(&message.receive);
            }
            ASSERT_TRUE(at.run(requests));
            std::uint32_t sources = 0;
            for (const Message& message : messages) {
                const auto source = static_cast<std::size_t>(message.receive.user.source);
                ASSERT_TRUE(source >= 1 && source < TwoFabrics::kNodes);
                sources |= 1u << source;
                EXPECT_EQ(message.got, messages[source - 1].sent);
            }
            EXPECT_EQ(sources, 0xeu);
        }
    }
}

// Two containers on one host: their addresses keep both ends off shared memory.
TEST(Fabrics, WhoCannotOpenTheOthersMemoryTakesTheNextFabric) {
    TwoFabrics at;
    at.options.hosts = {0, 0, 0, 0};
    at.options.user_spaces = {1, 1, 2, 2};
    at.start();
    for (std::size_t from = 0; from < 4; ++from) {
        for (std::size_t to = 0; to < 4; ++to) {
            if (from == to) {
                continue;
            }
            Message message(20000, from * 4 + to);
            ASSERT_TRUE(
                at.world
                    ->receive(to, Envelope::kAnySource, 1, contiguous(message.got), message.receive)
                    .ok());
            ASSERT_TRUE(at.world->send(from, to, 1, contiguous(message.sent), message.send).ok());
            ASSERT_TRUE(at.run({&message.send, &message.receive}));
            EXPECT_EQ(message.got, message.sent);
            EXPECT_EQ(at.world->peer(from, to)->contact.route.fabric, at.fabric(from, to));
            EXPECT_EQ(at.world->peer(to, from)->contact.route.fabric, at.fabric(from, to));
        }
    }
    for (std::size_t node = 0; node < 4; ++node) {
        EXPECT_TRUE(at.world->messages(node).empty());
    }
}

TEST(Fabrics, WhoCannotOpenTheOthersMemoryIsRefusedWhereThereIsNoOtherFabric) {
    Options options;
    options.hosts = {0, 0};
    options.user_spaces = {1, 2};
    options.far = false;
    Cores world(2, options);
    int word = 1;
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
        TestRequest send;
        EXPECT_FALSE(world.send(from, 1 - from, 1, contiguous(&word, sizeof word), send).ok());
        ASSERT_EQ(world.messages(from).size(), 1u);
        for (const char* text : {"different user namespaces", "has no Unix socket",
                                 "There is no other fabric", "--mca btl adaptib,tcp,self"}) {
            EXPECT_NE(world.messages(from)[0].find(text), std::string::npos)
                << world.messages(from)[0];
        }
    }
}

TEST(Fabrics, ScatteredDataCrossesBoth) {
    TwoFabrics at;
    at.start();
    for (std::size_t to : {std::size_t{1}, std::size_t{2}}) {
        Strided out(400000, 8, 24);
        for (std::size_t i = 0; i < 400000; ++i) {
            out.at(i) = static_cast<std::byte>(i * 7 + to);
        }
        Strided in(400000, 16, 40);
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(at.world->receive(to, 0, 1, in.data(), receive).ok());
        ASSERT_TRUE(at.world->send(0, to, 1, out.data(), send).ok());
        ASSERT_TRUE(at.run({&send, &receive}));
        for (std::size_t i = 0; i < 400000; ++i) {
            ASSERT_EQ(in.at(i), out.at(i)) << "byte " << i << " to node " << to;
        }
    }
}

// Memory is registered with the fabric that transfers it, and with no other.
TEST(Fabrics, ANearMessageNeedsNoRegistration) {
    TwoFabrics at;
    at.options.parameters.ring_bytes = 131072;
    at.plans[0].locked_limit = 1500000; // enough for ring, blocks and datagrams
    at.start();
    for (const std::size_t to : {std::size_t{1}, std::size_t{2}}) {
        Message message(2000000, to);
        ASSERT_TRUE(at.world->receive(to, 0, 1, contiguous(message.got), message.receive).ok());
        ASSERT_TRUE(at.world->send(0, to, 1, contiguous(message.sent), message.send).ok());
        ASSERT_TRUE(at.run({&message.send, &message.receive}));
        EXPECT_EQ(message.got, message.sent);
        EXPECT_EQ(at.world->counters(0).registrations_failed > 0, to == 2);
    }
}

// However little can be locked, a transfer ends: if need be, in fragments that the ring or the
// shared queue holds.
TEST(Fabrics, TransfersEndWithAnyAmountOfLockedMemory) {
    for (std::size_t limit = 400'000; limit < 2'000'000; limit += 100'000) {
        SCOPED_TRACE(limit);
        TwoFabrics at;
        at.plans[0].locked_limit = limit;
        at.start();
        if (testing::Test::HasFatalFailure()) {
            return;
        }
        for (const std::size_t to : {std::size_t{1}, std::size_t{2}}) {
            Message message(2'000'000, to);
            ASSERT_TRUE(at.world->receive(to, 0, 1, contiguous(message.got), message.receive).ok());
            ASSERT_TRUE(at.world->send(0, to, 1, contiguous(message.sent), message.send).ok());
            ASSERT_TRUE(at.run({&message.send, &message.receive})) << to;
            EXPECT_TRUE(message.got == message.sent) << to;
        }
    }
}

class OneFabricsRail : public testing::TestWithParam<fault::Fault> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, OneFabricsRail,
                         testing::Values(fault::Fault::rail_down, fault::Fault::device_fails));

TEST_P(OneFabricsRail, GoesDownAndTheOthersPeersGoOn) {
    TwoFabrics at("get", 1);
    at.options.parameters.fault_tolerance = const_cast<char*>("off");
    at.start();
    for (const std::size_t to : {std::size_t{1}, std::size_t{2}}) {
        Message message(100, to);
        ASSERT_TRUE(at.world->receive(to, 0, 1, contiguous(message.got), message.receive).ok());
        ASSERT_TRUE(at.world->send(0, to, 1, contiguous(message.sent), message.send).ok());
        ASSERT_TRUE(at.run({&message.send, &message.receive}));
    }
    Message waits(1000000, 4); // for a receive that is not posted
    ASSERT_TRUE(at.world->send(0, 2, 9, contiguous(waits.sent), waits.send).ok());
    fault::PlannedFault down;
    down.fault = GetParam();
    down.from = at.world->clock.now();
    at.plans[0].faults.push_back(down);
    ASSERT_TRUE(at.world->run([&] {
        at.world->clock.advance(Nanoseconds{1000});
        return at.world->peer(0, 2)->session.state == ConnectState::failed;
    }));
    const char* const what = GetParam() == Fault::rail_down ? "went down" : "device failed";
    EXPECT_TRUE(at.world->run([&] {
        const auto& reported = at.world->messages(0);
        return std::any_of(reported.begin(), reported.end(), [what](const std::string& text) {
            return text.find(what) != std::string::npos;
        });
    })) << "which is told";
    EXPECT_TRUE(at.run({&waits.send})) << "it does not wait for who cannot be reached";
    Message lost(100, 1);
    EXPECT_FALSE(at.world->send(0, 2, 1, contiguous(lost.sent), lost.send).ok());
    EXPECT_NE(at.world->peer(0, 1)->session.state, ConnectState::failed);
    Message message(100000, 3);
    ASSERT_TRUE(at.world->receive(1, 0, 1, contiguous(message.got), message.receive).ok());
    ASSERT_TRUE(at.world->send(0, 1, 1, contiguous(message.sent), message.send).ok());
    ASSERT_TRUE(at.run({&message.send, &message.receive}));
    EXPECT_EQ(message.got, message.sent);
}

TEST(Fabrics, APeerThatNoFabricReachesIsNamedAndTheReasonSaid) {
    Options options;
    options.hosts = {0, 0, 1};
    options.far = false;
    Cores world(3, options);
    Peer* peer = nullptr;
    ASSERT_TRUE(world.core(0).peers().get(Cores::name(1), peer).ok());
    EXPECT_EQ(world.core(0).peers().get(Cores::name(2), peer), Status::error(Reason::unreachable));
    ASSERT_EQ(world.messages(0).size(), 1u);
    const std::string& text = world.messages(0)[0];
    EXPECT_NE(text.find("Process 2 of job 7 on host testhost"), std::string::npos) << text;
    EXPECT_NE(text.find("There is no other fabric."), std::string::npos) << text;
    EXPECT_NE(text.find("--mca"), std::string::npos) << text;
}

TEST(Fabrics, ThereIsRoomForSomeRailsOfEach) {
    TwoFabrics at("get", static_cast<int>(kMaxRails));
    at.start();
    EXPECT_EQ(at.world->core(0).rails().size(), kMaxRails);
    ASSERT_EQ(at.world->messages(0).size(), 2u) << "both are told to have more";
    for (const std::size_t to : {std::size_t{1}, std::size_t{2}}) {
        Message message(100000, to);
        ASSERT_TRUE(at.world->receive(to, 0, 1, contiguous(message.got), message.receive).ok());
        ASSERT_TRUE(at.world->send(0, to, 1, contiguous(message.sent), message.send).ok());
        ASSERT_TRUE(at.run({&message.send, &message.receive}));
        EXPECT_EQ(message.got, message.sent);
        EXPECT_EQ(at.world->peer(0, to)->lanes.subchannels.size(), to == 1 ? kMaxRails - 1 : 1u);
    }
}

// -------------------------------------------------------------------------------------------------
// Pairs of rails

// Rails of two processes, each with the number of its network; the closer the numbers, the better
// the subnet match.
void expect_pairs(const std::vector<std::uint32_t>& lower, const std::vector<std::uint32_t>& higher,
                  const std::vector<PeerRoute::Pair>& expected) {
    constexpr std::uint32_t kFirst = 2; // rails of another fabric come before
    const auto subnet_match = [](std::uint32_t a, std::uint32_t b) {
        return 100 - (a > b ? a - b : b - a);
    };
    const auto route = [&](std::size_t local, std::size_t remote) {
        PeerRoute made;
        made.local = {kFirst, static_cast<std::uint32_t>(local)};
        made.remote = {0, static_cast<std::uint32_t>(remote)};
        return made;
    };
    PeerRoute ours = route(lower.size(), higher.size());
    pair_rails(ours, true, [&](std::uint32_t i, std::uint32_t j) {
        return subnet_match(lower[i - kFirst], higher[j]);
    });
    ASSERT_EQ(ours.count, expected.size());
    PeerRoute theirs = route(higher.size(), lower.size());
    pair_rails(theirs, false, [&](std::uint32_t i, std::uint32_t j) {
        return subnet_match(lower[j], higher[i - kFirst]);
    });
    ASSERT_EQ(theirs.count, expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const PeerRoute::Pair& pair = expected[i];
        EXPECT_EQ(ours.pairs[i].local, pair.local + kFirst) << i;
        EXPECT_EQ(ours.pairs[i].remote, pair.remote) << i;
        EXPECT_EQ(theirs.pairs[i].local, pair.remote + kFirst) << i;
        EXPECT_EQ(theirs.pairs[i].remote, pair.local) << i;
    }
}

TEST(Routes, RailsOfOneNetworkArePaired) {
    expect_pairs({7}, {9}, {{0, 0, 0}});
    expect_pairs({5, 5, 5}, {5, 5, 5}, {{0, 0, 0}, {1, 1, 0}, {2, 2, 0}});
    expect_pairs({1, 2}, {2, 1}, {{0, 1, 0}, {1, 0, 0}});
    expect_pairs({1, 2, 3}, {3, 1, 2}, {{0, 1, 0}, {1, 2, 0}, {2, 0, 0}});
    expect_pairs({1, 2, 3, 4}, {4, 2}, {{1, 1, 0}, {3, 0, 0}});
    expect_pairs({4, 2}, {1, 2, 3, 4}, {{0, 3, 0}, {1, 1, 0}});
}

// Rails of one network: the second rail of one host has the rate of the other host's first.
TEST(Routes, RailsOfOneNetworkArePairedByTheirRates) {
    const std::vector<std::uint32_t> lower{25, 100, 25};
    const std::vector<std::uint32_t> higher{100, 50};
    const auto same = [](std::uint32_t, std::uint32_t) { return 1u; };
    PeerRoute ours;
    ours.local = {0, 3};
    ours.remote = {0, 2};
    pair_rails(ours, true, same,
               [&](std::uint32_t i, std::uint32_t j) { return std::min(lower[i], higher[j]); });
    PeerRoute theirs;
    theirs.local = {0, 2};
    theirs.remote = {0, 3};
    pair_rails(theirs, false, same,
               [&](std::uint32_t i, std::uint32_t j) { return std::min(lower[j], higher[i]); });
    const std::vector<PeerRoute::Pair> expected{{1, 0, 0}, {0, 1, 0}};
    ASSERT_EQ(ours.count, expected.size());
    EXPECT_EQ(ours.total, 6u);
    ASSERT_EQ(theirs.count, expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(ours.pairs[i], expected[i]);
        EXPECT_EQ(theirs.pairs[i], (PeerRoute::Pair{expected[i].remote, expected[i].local, 0}));
    }
}

using Pairs = std::vector<PeerRoute::Pair>;

Pairs with_paths(const Pairs& pairs, const std::vector<std::uint32_t>& paths) {
    PeerRoute route;
    for (const PeerRoute::Pair& pair : pairs) {
        route.pairs[route.count++] = pair;
    }
    const PeerRoute::Pair spare{9, 9, 0};
    route.pairs[route.count] = spare;
    route.total = static_cast<std::uint8_t>(route.count + 1);
    add_paths(route, [&](std::uint32_t local, std::uint32_t remote) {
        const PeerRoute::Pair wanted{static_cast<std::uint8_t>(local),
                                     static_cast<std::uint8_t>(remote), 0};
        const auto at = std::find(pairs.begin(), pairs.end(), wanted);
        EXPECT_NE(at, pairs.end());
        return paths[static_cast<std::size_t>(at - pairs.begin())];
    });
    EXPECT_EQ(route.total, route.count + 1);
    EXPECT_EQ(route.pairs[route.count], spare) << "stays behind them";
    return {route.pairs.begin(), route.pairs.begin() + route.count};
}

TEST(Routes, FurtherPathsFollowInTurnOfThePairs) {
    EXPECT_EQ(with_paths({{2, 0, 0}}, {1}), (Pairs{{2, 0, 0}})) << "as if there were none";
    EXPECT_EQ(with_paths({{2, 0, 0}, {3, 1, 0}}, {1, 1}), (Pairs{{2, 0, 0}, {3, 1, 0}}));
    EXPECT_EQ(with_paths({{2, 0, 0}}, {3}), (Pairs{{2, 0, 0}, {2, 0, 1}, {2, 0, 2}}));
    EXPECT_EQ(with_paths({{2, 1, 0}, {3, 0, 0}}, {2, 2}),
              (Pairs{{2, 1, 0}, {3, 0, 0}, {2, 1, 1}, {3, 0, 1}}));
    EXPECT_EQ(with_paths({{2, 1, 0}, {3, 0, 0}}, {1, 3}),
              (Pairs{{2, 1, 0}, {3, 0, 0}, {3, 0, 1}, {3, 0, 2}}))
        << "one has fewer";
    EXPECT_EQ(with_paths({}, {}), Pairs{});
}

TEST(Routes, ThereIsRoomForSixteenPathsInAll) {
    EXPECT_EQ(with_paths({{0, 0, 0}}, {16}).size(), kMaxSubchannels);
    EXPECT_EQ(with_paths({{0, 0, 0}}, {128}).size(), kMaxSubchannels) << "LMC 7";
    Pairs pairs;
    for (std::uint8_t rail = 0; rail < 3; ++rail) {
        pairs.push_back({rail, rail, 0});
    }
    const Pairs all = with_paths(pairs, {16, 16, 16});
    ASSERT_EQ(all.size(), kMaxSubchannels);
    for (std::uint8_t i = 0; i < kMaxSubchannels; ++i) {
        const auto rail = static_cast<std::uint8_t>(i % 3);
        EXPECT_EQ(all[i], (PeerRoute::Pair{rail, rail, static_cast<std::uint8_t>(i / 3)})) << i;
    }
    pairs.clear();
    for (std::uint8_t rail = 0; rail < kMaxRails; ++rail) {
        pairs.push_back({rail, rail, 0});
    }
    EXPECT_EQ(with_paths(pairs, std::vector<std::uint32_t>(kMaxRails, 3)).size(), kMaxSubchannels);
}

// -------------------------------------------------------------------------------------------------
// One-sided operations

struct Window {
    Window(Cores& world, std::size_t node, void* base, std::size_t bytes) {
        const Status status = world.core(node).protocol().memory().open_window(
            open, base, bytes, kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic);
        EXPECT_TRUE(status.ok());
        remote.base = reinterpret_cast<std::uintptr_t>(base);
        remote.bytes = bytes;
        remote.access = OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE |
                        OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC;
        remote.key_count = open.memory().key_count();
        open.memory().copy_remote_keys(remote.keys);
    }

    OpenWindow open;
    opal_common_adaptib_remote_t remote{};
};

TEST(Fabrics, AWindowIsReachedFromNearAndFar) {
    TwoFabrics at;
    at.start();
    std::vector<std::byte> memory(400000);
    const Window window(*at.world, 0, memory.data(), memory.size());
    for (std::size_t from = 1; from < TwoFabrics::kNodes; ++from) {
        Message message(100000, from);
        Protocol& protocol = at.world->core(from).protocol();
        opal_common_adaptib_one_sided_t operation{
            OPAL_COMMON_ADAPTIB_PUT, message.sent.data(), nullptr, window.remote.base + 1000,
            &window.remote,          message.sent.size(), 0,       0};
        bool complete = false;
        Peer& peer = *at.world->peer(from, 0);
        ASSERT_TRUE(
            protocol.one_sided().start(peer, operation, nullptr, message.send.user, complete).ok());
        message.send.done = complete;
        ASSERT_TRUE(at.run({&message.send}));
        EXPECT_TRUE(std::equal(message.sent.begin(), message.sent.end(), memory.begin() + 1000));
        operation.operation = OPAL_COMMON_ADAPTIB_GET;
        operation.local = message.got.data();
        ASSERT_TRUE(protocol.one_sided()
                        .start(peer, operation, nullptr, message.receive.user, complete)
                        .ok());
        message.receive.done = complete;
        ASSERT_TRUE(at.run({&message.receive}));
        EXPECT_EQ(message.got, message.sent);
    }
}

// All atomics go over the fabric that all processes have: those to a peer of the same host, or to
// the process itself, by a second record of the peer (amo_peer).
TEST(Fabrics, AtomicsOfAllGoOverOneFabric) {
    TwoFabrics at;
    at.start();
    alignas(8) std::uint64_t word = 1000;
    const Window window(*at.world, 0, &word, sizeof word);
    constexpr std::size_t kEach = 50;
    std::vector<TestRequest> requests(TwoFabrics::kNodes * kEach);
    std::vector<std::uint64_t> old(requests.size());
    std::vector<TestRequest*> all;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const std::size_t from = i % TwoFabrics::kNodes;
        Core& core = at.world->core(from);
        Peer* target = nullptr;
        if (from == 0) {
            ASSERT_TRUE(core.peers().get_loopback_for_atomics(target).ok());
        } else {
            ASSERT_TRUE(core.peers().get_for_atomics(*at.world->peer(from, 0), target).ok());
            EXPECT_EQ(core.peers().find_amo_peer(target->contact.name) != nullptr,
                      TwoFabrics::near(from, 0));
        }
        EXPECT_EQ(target->contact.route.fabric, 1u);
        const opal_common_adaptib_one_sided_t operation{OPAL_COMMON_ADAPTIB_FETCH_ADD,
                                                        &old[i],
                                                        nullptr,
                                                        window.remote.base,
                                                        &window.remote,
                                                        8,
                                                        1,
                                                        0};
        bool complete = false;
        ASSERT_TRUE(core.protocol()
                        .one_sided()
                        .start(*target, operation, nullptr, requests[i].user, complete)
                        .ok());
        requests[i].done = complete;
        all.push_back(&requests[i]);
    }
    ASSERT_TRUE(at.run(all));
    std::sort(old.begin(), old.end());
    std::vector<std::uint64_t> expected(old.size());
    std::iota(expected.begin(), expected.end(), 1000);
    EXPECT_EQ(old, expected);
    // Near peers and their amo_peers work side by side, and both disconnect.
    Message message(100, 1);
    ASSERT_TRUE(at.world->receive(0, 1, 1, contiguous(message.got), message.receive).ok());
    ASSERT_TRUE(at.world->send(1, 0, 1, contiguous(message.sent), message.send).ok());
    ASSERT_TRUE(at.run({&message.send, &message.receive}));
    EXPECT_EQ(at.world->peer(1, 0)->contact.route.fabric, 0u);
    EXPECT_EQ(message.got, message.sent);
    for (std::size_t node = 0; node < TwoFabrics::kNodes; ++node) {
        EXPECT_EQ(at.world->counters(node).bad_packets, 0u);
    }
}

} // namespace
} // namespace adaptib::test
