// SPDX-License-Identifier: BSD-3-Clause
// Complete cores over a simulated network whose ports fail and come back under traffic: every message arrives
// once and whole, and no request ends with an error, as long as the first rail of each host is up.
#include <algorithm>
#include <cstring>

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
        options.world.machine.reliable_ud = false;
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

void set_port(Ranks& ranks, std::size_t rank, std::size_t port, bool up) {
    ranks.world().set_port(ranks.world().topology().hosts[rank].ports[port], up);
}

void expect_arrived(const Messages& messages) {
    for (const auto& message : messages) {
        ASSERT_TRUE(message->done()) << message->source << " to " << message->target;
        EXPECT_EQ(message->send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(message->receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_TRUE(message->got == message->sent)
            << message->source << " to " << message->target << ", " << message->sent.size();
    }
}

TEST(Failover, APortThatFailsAndComesBackCostsNoMessage) {
    const auto ranks = make(networks(1));
    carry(*ranks, 0, 1, 1'000'000);
    ASSERT_EQ(ranks->peer(0, 1)->live_subchannels(), kPorts);
    Messages messages;
    for (const std::size_t bytes : {10u, 5000u, 50'000'000u}) {
        messages.push_back(std::make_unique<Message>(0, 1, bytes));
        messages.back()->start(*ranks);
    }
    rest(*ranks, 500us); // in the middle of the long one
    EXPECT_FALSE(messages.back()->done());
    set_port(*ranks, 1, 2, false); // the target's: the origin hears no event
    ASSERT_TRUE(ranks->run_until([&] { return messages.back()->done(); }, 60s));
    expect_arrived(messages);
    EXPECT_EQ(ranks->peer(0, 1)->live_subchannels(), kPorts - 1);
    EXPECT_GE(ranks->counters(0).repairs, 1u);
    EXPECT_GE(ranks->counters(1).repairs, 1u);
    set_port(*ranks, 1, 2, true);
    rest(*ranks, 1s);
    carry(*ranks, 0, 1, 1'000'000);
    rest(*ranks, 1s);
    EXPECT_EQ(ranks->peer(0, 1)->live_subchannels(), kPorts);
    EXPECT_EQ(ranks->peer(1, 0)->live_subchannels(), kPorts);
}

TEST(Failover, PortsThatFailAllTheTimeLoseNothing) {
    std::uint64_t repairs = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed * 77);
        const auto ranks = make(networks(seed));
        constexpr std::size_t kSizes[] = {0, 8, 100, 4000, 9000, 70'000, 1'000'000, 6'000'000};
        Messages messages;
        for (int round = 0; round < 30; ++round) {
            for (std::uint64_t count = random.below(12); count > 0; --count) {
                const std::size_t from = random.below(kRanks);
                const std::size_t to = (from + 1 + random.below(kRanks - 1)) % kRanks;
                messages.push_back(std::make_unique<Message>(
                    from, to, kSizes[random.below(std::size(kSizes))], messages.size()));
                messages.back()->start(*ranks, static_cast<std::int32_t>(random.below(3)));
            }
            const std::size_t rank = random.below(kRanks);
            const std::size_t port = 1 + random.below(kPorts - 1);
            set_port(*ranks, rank, port, random.below(2) == 0);
            rest(*ranks, Nanoseconds{static_cast<std::int64_t>(random.below(3'000'000))});
        }
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            for (std::size_t port = 1; port < kPorts; ++port) {
                set_port(*ranks, rank, port, true);
            }
        }
        ranks->run_until(
            [&] {
                return std::all_of(messages.begin(), messages.end(),
                                   [](const auto& message) { return message->done(); });
            },
            100s);
        expect_arrived(messages);
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            EXPECT_EQ(ranks->counters(rank).bad_packets, 0u);
            EXPECT_EQ(ranks->counters(rank).connections_failed, 0u);
            repairs += ranks->counters(rank).repairs;
        }
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_GT(repairs, 8u);
}

} // namespace
} // namespace adaptib::sim
