// SPDX-License-Identifier: BSD-3-Clause
// Complete cores whose adapters migrate paths by themselves: ports and links fail under traffic,
// and only the counters show it.
#include <cstring>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

char kOff[] = "off";
char kOn[] = "on";
char kEven[] = "even";

struct Net {
    std::uint32_t adapters = 1;
    std::uint32_t ports = 2;
    std::uint32_t lmc = 0;
    std::size_t ranks = 2;
    char* apm = nullptr;
};

// Two leaves with two hosts each, four spines; a tree for each port. Ranks are on different leaves.
RanksOptions tree(const Net& net) {
    RanksOptions options;
    options.ranks = net.ranks;
    options.hosts.resize(net.ranks);
    for (std::size_t i = 0; i < net.ranks; ++i) {
        options.hosts[i] = i % 2 == 0 ? 0 : 2;
    }
    options.world.machine = *machine("infinihost"); // has path migration
    options.world.topology = fat_tree(2, 4, 2, {.adapters = net.adapters, .ports = net.ports},
                                      links_of(options.world.machine), net.lmc);
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.striping_policy = kEven;
    options.parameters.min_stripe = 1;
    options.parameters.paths_per_port = 2;
    if (net.apm != nullptr) {
        options.parameters.apm = net.apm;
    }
    return options;
}

void set_side_port(Ranks& ranks, std::size_t rank, std::size_t port, bool up) {
    const Host& host = ranks.world().topology().hosts[rank % 2 == 0 ? 0 : 2];
    ranks.world().set_port(host.ports[port], up);
}

void all_armed(Ranks& ranks, std::size_t from, std::size_t to) {
    rest(ranks, 10ms);
    for (const Subchannel& subchannel : ranks.peer(from, to)->lanes.subchannels) {
        EXPECT_EQ(subchannel.migration.state, MigrationStep::armed);
        EXPECT_EQ(subchannel.qp->query().migration, MigrationState::armed);
    }
}

TEST(PathMigration, AlternatePathsAreArmedFromTheConnectionOn) {
    for (const std::uint32_t lmc : {0u, 1u}) {
        for (const std::uint32_t ports : {1u, 2u}) {
            SCOPED_TRACE(std::to_string(lmc) + " " + std::to_string(ports));
            Net net;
            net.lmc = lmc;
            net.ports = ports;
            const auto ranks = make(tree(net));
            carry(*ranks, 0, 1, 100'000);
            rest(*ranks, 10ms);
            const std::size_t count = ranks->peer(0, 1)->lanes.subchannels.size();
            EXPECT_EQ(count, ports << lmc);
            const bool any = lmc + ports > 1;
            EXPECT_EQ(ranks->counters(0).alternate_paths_armed, any ? count : 0u);
            EXPECT_EQ(ranks->counters(1).alternate_paths_armed, any ? count : 0u);
            EXPECT_EQ(ranks->counters(0).path_migrations, 0u);
            nothing_bad(*ranks);
        }
    }
}

TEST(PathMigration, NotWhereItIsOffOrMissing) {
    Net net;
    net.apm = kOff;
    auto ranks = make(tree(net));
    carry(*ranks, 0, 1, 100'000);
    rest(*ranks, 10ms);
    EXPECT_EQ(ranks->counters(0).alternate_paths_armed, 0u);
    nothing_bad(*ranks);

    net.apm = nullptr;
    RanksOptions options = tree(net);
    options.parameters_of = [](std::size_t rank, Parameters& parameters) {
        parameters.apm = rank == 1 ? kOff : parameters.apm;
    };
    ranks = make(std::move(options));
    carry(*ranks, 0, 1, 100'000);
    rest(*ranks, 10ms);
    EXPECT_EQ(ranks->counters(0).alternate_paths_armed, 0u) << "the peer does not want it";
    EXPECT_EQ(ranks->peer(0, 1)->lanes.subchannels[0].migration.state, MigrationStep::none);

    net.apm = kOn;
    options = tree(net);
    options.world.machine.offers.migration = false;
    ranks = make(std::move(options));
    ASSERT_EQ(ranks->messages(0).size(), 1u);
    EXPECT_NE(ranks->messages(0)[0].find("apm"), std::string::npos);
    carry(*ranks, 0, 1, 100'000);
}

// Starts 20 messages between two ranks, and leaves them in flight.
Messages start_both_ways(Ranks& ranks) {
    Messages messages;
    for (std::size_t i = 0; i < 20; ++i) {
        messages.push_back(std::make_unique<Message>(i % 2, 1 - i % 2, 300'000 + i));
        messages.back()->start(ranks, static_cast<std::int32_t>(i));
    }
    rest(ranks, 500us);
    return messages;
}

// The port of the first rail carries the datagrams; here the other port fails.
TEST(PathMigration, APortFailsUnderTrafficAndNothingIsLost) {
    for (const std::size_t loser : {std::size_t{0}, std::size_t{1}}) {
        for (const std::uint32_t lmc : {0u, 1u}) {
            SCOPED_TRACE(std::to_string(loser) + " " + std::to_string(lmc));
            Net net;
            net.lmc = lmc;
            const auto ranks = make(tree(net));
            carry(*ranks, 0, 1, 100'000);
            all_armed(*ranks, 0, 1);
            const Messages messages = start_both_ways(*ranks);
            set_side_port(*ranks, loser, 1, false);
            ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 10s));
            expect_arrived(messages);
            rest(*ranks, 10ms);
            for (const std::size_t rank : {0u, 1u}) {
                EXPECT_EQ(ranks->counters(rank).path_migrations, 1u << lmc);
                EXPECT_EQ(ranks->counters(rank).path_migrations_failed, 0u);
                EXPECT_EQ(ranks->counters(rank).connections_failed, 0u);
            }
            // Subchannels of the failed port wait for it, or have a path that does not need it.
            const Peer& peer = *ranks->peer(loser, 1 - loser);
            for (const Subchannel& subchannel : peer.lanes.subchannels) {
                const bool moved = subchannel.local_rail == 1;
                EXPECT_EQ(subchannel.migration.way, moved ? 1 : 0);
                if (moved) {
                    EXPECT_EQ(subchannel.migration.state,
                              lmc == 0 ? MigrationStep::waiting : MigrationStep::armed);
                }
            }
            // The port comes back, and so do its queue pairs, at both ends.
            set_side_port(*ranks, loser, 1, true);
            rest(*ranks, 10ms);
            all_armed(*ranks, 0, 1);
            for (const std::size_t rank : {0u, 1u}) {
                for (const Subchannel& subchannel :
                     ranks->peer(rank, 1 - rank)->lanes.subchannels) {
                    EXPECT_EQ(subchannel.migration.way, 0);
                    EXPECT_FALSE(subchannel.migration.returns);
                }
            }
            carry(*ranks, 0, 1, 200'000);
        }
    }
}

// The alternate path of an adapter with one port goes over the same port: it is
// armed, but no way out.
TEST(PathMigration, WhereTheOnlyPortFailsSoftwareRepairs) {
    for (const std::size_t loser : {std::size_t{0}, std::size_t{1}}) {
        SCOPED_TRACE(loser);
        Net net;
        net.adapters = 2;
        net.ports = 1;
        net.lmc = 1;
        const auto ranks = make(tree(net));
        carry(*ranks, 0, 1, 100'000);
        all_armed(*ranks, 0, 1);
        const Messages messages = start_both_ways(*ranks);
        set_side_port(*ranks, loser, 1, false);
        EXPECT_TRUE(ranks->run_until([&] { return all_done(messages); }, 500ms));
        expect_arrived(messages);
        for (const std::size_t rank : {0u, 1u}) {
            EXPECT_EQ(ranks->counters(rank).repairs, 1u);
            expect_unbroken(*ranks, rank);
        }
        set_side_port(*ranks, loser, 1, true);
        rest(*ranks, 100ms);
        all_armed(*ranks, 0, 1);
        carry(*ranks, 0, 1, 200'000);
    }
}

TEST(PathMigration, OnRequestAgainAndAgain) {
    Net net;
    net.lmc = 1;
    const auto ranks = make(tree(net));
    carry(*ranks, 0, 1, 100'000);
    std::uint64_t moved = 0;
    for (int round = 0; round < 6; ++round) {
        all_armed(*ranks, 0, 1);
        EXPECT_EQ(ranks->core(0).migrate_paths(*ranks->peer(0, 1)), 4u);
        carry(*ranks, 0, 1, 300'000);
        carry(*ranks, 1, 0, 300'000);
        rest(*ranks, 10ms);
        moved += 4;
        EXPECT_EQ(ranks->counters(0).path_migrations, moved);
        EXPECT_EQ(ranks->counters(1).path_migrations, moved);
        EXPECT_EQ(ranks->peer(0, 1)->lanes.subchannels[0].migration.way, (round + 1) % 4);
        EXPECT_EQ(ranks->peer(1, 0)->lanes.subchannels[0].migration.way, (round + 1) % 4);
    }
    nothing_bad(*ranks);
}

// Many queue pairs migrate at once, in batches.
TEST(PathMigration, APortFailsForManyPeers) {
    Net net;
    net.ranks = 40;
    const auto ranks = make(tree(net));
    Messages messages;
    for (std::size_t from = 0; from < net.ranks; from += 2) {
        for (std::size_t to = 1; to < net.ranks; to += 2) {
            messages.push_back(std::make_unique<Message>(from, to, 20'000));
        }
    }
    carry(*ranks, messages);
    rest(*ranks, 100ms);
    set_side_port(*ranks, 0, 1, false);
    rest(*ranks, 100ms);
    for (std::size_t rank = 0; rank < net.ranks; ++rank) {
        EXPECT_EQ(ranks->counters(rank).path_migrations, 20u) << rank;
        EXPECT_EQ(ranks->counters(rank).connections_failed, 0u) << rank;
    }
    for (auto& message : messages) {
        message = std::make_unique<Message>(message->source, message->target, 30'000);
    }
    carry(*ranks, messages);
}

} // namespace
} // namespace adaptib::sim
