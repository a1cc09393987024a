// SPDX-License-Identifier: BSD-3-Clause
// Connections that lose a path, or all of their queue pairs, in the middle of traffic: every
// message arrives once, every request ends with success.
#include <deque>

#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

using fault::Fault;

struct Shape {
    const char* name;
    const char* rendezvous;
    bool stores; // the writer stores into rings; otherwise every message is a request
    int rails;
    bool cm_connects = false; // queue pairs connect through rdma_cm, and some attempts fail
};
constexpr std::array kShapes{Shape{"get", "get", true, 2},
                             Shape{"put", "put", true, 2},
                             Shape{"get_posted", "get", false, 2},
                             Shape{"put_posted", "put", false, 2},
                             Shape{"get_posted_one_rail", "get", false, 1},
                             Shape{"put_one_rail", "put", true, 1},
                             Shape{"put_posted_four_rails", "put", false, 4},
                             Shape{"get_posted_meets", "get", false, 2, true},
                             Shape{"put_four_rails_meets", "put", true, 4, true}};

constexpr std::array<std::size_t, 8> kSizes{0, 8, 200, 2000, 4000, 9000, 40000, 200000};

using Message = PatternMessage;

// Two cores, both over a fabric with faults, and traffic between them.
class Traffic {
public:
    explicit Traffic(const Shape& shape, std::uint64_t seed = 1, int eager_limit = -1)
        : random(seed) {
        for (std::size_t node = 0; node < 2; ++node) {
            plans[node].seed = seed * 2 + node;
            plans[node].lacks = static_cast<std::uint32_t>(Capability::whole_memory);
            if (shape.cm_connects) {
                plans[node].cm_connects = true;
                plans[node].faults.push_back({.fault = Fault::cm_connect_fails, .rate = 0.2});
            }
            if (!shape.stores) {
                plans[node].lacks |= static_cast<std::uint32_t>(Capability::direct);
            }
        }
        Options options;
        options.seed = seed;
        options.parameters.rendezvous = const_cast<char*>(shape.rendezvous);
        options.parameters.connect_threshold = 0;
        options.parameters.eager_limit = eager_limit;
        options.parameters.block_bytes = 16384;
        options.parameters.shm_rails = shape.rails;
        options.parameters.striping_policy = const_cast<char*>("even");
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return fault::with_faults(std::move(fabric), plans[node], clock, logs[node]);
        };
        world = std::make_unique<Cores>(2, options);
    }
    ~Traffic() { world.reset(); } // before the buffers that the cores may still write to

    void post(std::size_t from, std::size_t bytes, bool strided, bool synchronous) {
        Message& message = messages.emplace_back(from, bytes, messages.size());
        const auto tag = static_cast<std::int32_t>(messages.size() % 3);
        ASSERT_TRUE(world
                        ->receive(1 - from, static_cast<std::int32_t>(from), tag,
                                  contiguous(message.got), message.receive)
                        .ok());
        const Data out = strided ? message.scattered.data() : contiguous(message.sent);
        ASSERT_TRUE(world->send(from, 1 - from, tag, out, message.send, synchronous).ok());
    }
    void post_some(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            post(random.below(2), kSizes[random.below(kSizes.size())], random.below(4) == 0,
                 random.below(5) == 0);
            if (random.below(3) == 0) {
                turn();
            }
        }
    }
    void turn() {
        world->progress(random.below(2));
        // So that an end without an answer gives up in time.
        world->clock.advance(Nanoseconds{50000});
    }
    // Posts a few more messages, and gives them time.
    void go_on() {
        post_some(2);
        for (int i = 0; i < 400; ++i) {
            turn();
        }
    }
    bool run(const std::function<bool()>& done, int passes = 400000) {
        for (int pass = 0; pass < passes && !done(); ++pass) {
            turn();
        }
        return done();
    }
    void expect_all_arrived() {
        EXPECT_TRUE(run([this] {
            return std::all_of(messages.begin(), messages.end(), [](const Message& message) {
                return message.send.done && message.receive.done;
            });
        }));
        for (std::size_t node = 0; node < 2; ++node) {
            EXPECT_NE(peer(node)->session.state, ConnectState::failed)
                << peer(node)->ending.failure;
            EXPECT_EQ(world->counters(node).bad_packets, 0u);
        }
        for (const Message& message : messages) {
            EXPECT_EQ(message.send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_EQ(message.receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_TRUE(message.got == message.sent);
        }
    }
    bool open() {
        return peer(0)->session.state == ConnectState::open &&
               peer(1)->session.state == ConnectState::open;
    }
    Peer* peer(std::size_t node) { return world->peer(node, 1 - node); }
    std::uint64_t repairs() { return world->counters(0).repairs + world->counters(1).repairs; }

    Random random;
    std::array<fault::FaultPlan, 2> plans;
    std::array<fault::FaultLog, 2> logs;
    std::unique_ptr<Cores> world;
    std::deque<Message> messages;
};

void kill_queue_pair(Peer& peer, std::size_t which) {
    Subchannel& subchannel = peer.lanes.subchannels[which % peer.lanes.subchannels.size()];
    if (subchannel.qp != nullptr) {
        QpAttributes attributes;
        attributes.state = QpState::error;
        ASSERT_TRUE(subchannel.qp->modify(attributes, kQpState).ok());
    }
}

class Repairs : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Repairs, testing::ValuesIn(kShapes),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(Repairs, AnIdleConnectionIsMadeAnew) {
    Traffic traffic(GetParam());
    traffic.post_some(10);
    traffic.expect_all_arrived();
    const std::uint32_t before = traffic.peer(0)->connection.number;
    kill_queue_pair(*traffic.peer(0), 0);
    traffic.post_some(20);
    traffic.expect_all_arrived();
    EXPECT_TRUE(traffic.run([&] { return traffic.open(); }));
    EXPECT_NE(traffic.peer(0)->connection.number, before);
    EXPECT_GE(traffic.world->counters(0).repairs, 1u);
    EXPECT_GE(traffic.world->counters(1).repairs, 1u);
}

// Each request fails in turn, executed or not, at one end or the other.
TEST_P(Repairs, TheNthRequestFails) {
    std::uint64_t repairs = 0;
    for (std::uint64_t nth = 1; nth <= 40; nth += 3) {
        for (const Fault fault : {Fault::request_fails, Fault::request_fails_done}) {
            SCOPED_TRACE(testing::Message()
                         << "request " << nth << " fault " << static_cast<int>(fault));
            Traffic traffic(GetParam(), nth);
            traffic.plans[nth % 2].faults.push_back({.fault = fault, .nth = nth});
            traffic.post_some(40);
            traffic.expect_all_arrived();
            repairs += traffic.repairs();
        }
    }
    EXPECT_GT(repairs, 10u);
}

// Queue pairs die all the time, at both ends.
TEST_P(Repairs, ManyFailures) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        Traffic traffic(GetParam(), seed);
        for (std::size_t round = 0; round < 20; ++round) {
            traffic.post_some(1 + traffic.random.below(10));
            const std::size_t node = traffic.random.below(2);
            for (std::size_t end = 0; end < 1 + traffic.random.below(2); ++end) {
                Peer& peer = *traffic.peer(end == 0 ? node : 1 - node);
                if (peer.session.state == ConnectState::open) {
                    kill_queue_pair(peer, traffic.random.below(4));
                }
            }
            for (std::uint64_t turns = traffic.random.below(300); turns > 0; --turns) {
                traffic.turn();
            }
        }
        traffic.expect_all_arrived();
        EXPECT_GT(traffic.repairs(), 1u);
    }
}

// For a while no queue pair, or hardly any, can be made or connected: traffic waits.
TEST_P(Repairs, NoQueuePairForAWhile) {
    std::size_t failed = 0;
    for (const Fault fault : {Fault::create_qp_fails, Fault::modify_fails}) {
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
            SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault) << " " << seed);
            Traffic traffic(GetParam(), seed);
            traffic.post_some(10);
            traffic.expect_all_arrived();
            const Nanoseconds now = traffic.world->clock.now();
            for (std::size_t node = 0; node < 2; ++node) {
                if (seed % 3 != node) {
                    traffic.plans[node].faults.push_back(
                        {.fault = fault,
                         .rate = seed % 2 == 0 ? 1 : 0.6,
                         .until = now + Nanoseconds{200'000'000},
                         .reason = seed % 4 < 2 ? Reason::unreachable : Reason::no_memory});
                }
            }
            kill_queue_pair(*traffic.peer(0), seed);
            traffic.post_some(20);
            traffic.expect_all_arrived();
            EXPECT_GE(traffic.repairs(), 1u);
            failed += traffic.logs[0].count(fault) + traffic.logs[1].count(fault);
        }
    }
    EXPECT_GT(failed, 10u);
}

// Messages that the ring may have lost do not fit the shared queue: without memory for another ring
// they go in slices.
TEST(RingsThatCannotBeMade, NobodyWaits) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        Traffic traffic(kShapes[4], seed, 16384);
        traffic.post_some(5);
        traffic.expect_all_arrived();
        ASSERT_TRUE(traffic.run([&] { return traffic.open(); }));
        traffic.plans[0].faults.push_back({.fault = Fault::request_fails, .nth = 1});
        traffic.plans[0].faults.push_back({.fault = Fault::register_fails,
                                           .rate = 1,
                                           .from = traffic.world->clock.now(),
                                           .reason = Reason::locked_memory});
        for (int i = 0; i < 8; ++i) {
            traffic.post(0, 9000, false, false);
        }
        traffic.expect_all_arrived();
        EXPECT_NE(traffic.peer(0)->session.state, ConnectState::failed);
        EXPECT_FALSE(traffic.peer(0)->out.has_pending());
    }
}

// One path cannot be made, at one end or the other, at the first connection or in a repair.
TEST(PathsThatCannotBeMade, TheOthersAreUsed) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(seed);
        Traffic traffic(kShapes[2], seed);
        if (seed > 2) {
            traffic.post_some(20);
            traffic.expect_all_arrived();
            ASSERT_TRUE(traffic.run([&] { return traffic.open(); }));
        }
        traffic.plans[seed % 2].faults.push_back(
            {.fault = Fault::create_qp_fails, .rate = 1, .rail = 1, .reason = Reason::no_device});
        if (seed > 2) {
            kill_queue_pair(*traffic.peer(0), 0);
        }
        traffic.post_some(20);
        traffic.expect_all_arrived();
        EXPECT_TRUE(traffic.run([&] { return traffic.open(); }));
        EXPECT_EQ(traffic.peer(0)->lanes.live_subchannels(), 1u);
        EXPECT_EQ(traffic.peer(1)->lanes.live_subchannels(), 1u);
    }
}

// The asking end hears that no path can be made, although datagrams get lost.
TEST(PathsThatCannotBeMade, WithoutAnyTheAskerHearsOfIt) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(seed);
        Traffic traffic(kShapes[0], seed);
        traffic.plans[1].faults = {
            {.fault = Fault::modify_fails, .rate = 1, .reason = Reason::unreachable},
            {.fault = Fault::datagram_lost, .rate = 0.5}};
        traffic.post(0, 200, false, false); // the receiver needs no connection for it
        EXPECT_TRUE(traffic.run(
            [&] {
                return traffic.peer(0)->session.state == ConnectState::failed &&
                       traffic.peer(1)->session.state == ConnectState::failed;
            },
            40000));
    }
}

// A rail goes down in the middle, for one end or for both, and comes back. Rail 0, which carries
// the datagrams, stays.
TEST(RailsThatComeAndGo, TrafficGoesOnAndTakesThemBack) {
    for (const Shape& shape : kShapes) {
        for (std::uint64_t seed = 1; seed <= 6 && shape.rails > 1; ++seed) {
            SCOPED_TRACE(testing::Message() << shape.name << " " << seed);
            Traffic traffic(shape, seed);
            traffic.post_some(20);
            ASSERT_TRUE(traffic.run([&] { return traffic.open(); }));
            const auto rails = static_cast<std::size_t>(shape.rails);
            ASSERT_EQ(traffic.peer(0)->lanes.live_subchannels(), rails);
            const auto rail = static_cast<std::uint32_t>(1 + traffic.random.below(rails - 1));
            const Nanoseconds now = traffic.world->clock.now();
            for (std::size_t node = 0; node < (seed % 2 == 0 ? 2u : 1u); ++node) {
                traffic.plans[node].faults.push_back({.fault = Fault::rail_down,
                                                      .from = now + Nanoseconds{2'000'000},
                                                      .rail = rail});
                traffic.plans[node].faults.push_back({.fault = Fault::rail_up,
                                                      .from = now + Nanoseconds{600'000'000},
                                                      .rail = rail});
            }
            for (int round = 0; round < 60; ++round) {
                traffic.go_on();
                if (round == 20) {
                    EXPECT_EQ(traffic.peer(0)->lanes.live_subchannels(), rails - 1);
                }
            }
            traffic.expect_all_arrived();
            EXPECT_GE(traffic.repairs(), 2u);
            EXPECT_TRUE(traffic.run([&] {
                return traffic.open() && traffic.peer(0)->lanes.live_subchannels() == rails &&
                       traffic.peer(1)->lanes.live_subchannels() == rails;
            }));
        }
    }
}

TEST(RailsThatComeAndGo, ADeviceThatFailsIsLeft) {
    for (const Shape& shape : kShapes) {
        for (std::uint64_t seed = 1; seed <= 3 && shape.rails > 1; ++seed) {
            SCOPED_TRACE(testing::Message() << shape.name << " " << seed);
            Traffic traffic(shape, seed);
            traffic.post_some(20);
            ASSERT_TRUE(traffic.run([&] { return traffic.open(); }));
            traffic.plans[0].faults.push_back(
                {.fault = Fault::device_fails,
                 .from = traffic.world->clock.now() + Nanoseconds{2'000'000},
                 .rail = 1});
            for (int round = 0; round < 30; ++round) {
                traffic.go_on();
            }
            traffic.expect_all_arrived();
            EXPECT_GE(traffic.repairs(), 1u);
            EXPECT_EQ(traffic.peer(0)->lanes.live_subchannels(),
                      static_cast<std::size_t>(shape.rails) - 1);
        }
    }
}

// A process whose passes take milliseconds, since it copies a lot or shares its processor, hears
// of a port in time.
TEST(RailsThatComeAndGo, FewPassesAreEnoughToHearOfIt) {
    for (const int before :
         // Passes before the fault: housekeeping, each 1024 passes, must not be what notices.
         {0, 350, 700}) {
        Traffic traffic(kShapes[0]);
        traffic.post_some(20);
        ASSERT_TRUE(traffic.run([&] { return traffic.open(); }));
        for (int pass = 0; pass < before; ++pass) {
            traffic.world->progress(0);
        }
        EXPECT_EQ(traffic.world->counters(0).paths_failed, 0u);
        traffic.plans[0].faults.push_back({.fault = Fault::rail_down, .rail = 1});
        for (int pass = 0; pass < 150; ++pass) {
            traffic.world->progress(0);
            traffic.world->clock.advance(Nanoseconds{1'000'000});
        }
        EXPECT_GE(traffic.world->counters(0).paths_failed, 1u) << before;
    }
}

} // namespace
} // namespace adaptib::test
