// SPDX-License-Identifier: BSD-3-Clause
// Complete cores over several paths between two ports: LIDs of one port on generated routes.
#include <cstring>
#include <set>

#include "fabric/rail_text.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

char kEven[] = "even";
char kRoundRobin[] = "round_robin";

struct Net {
    std::uint32_t lmc = 2;
    int paths_per_port = 4;
    HostModel host{};
};

// Two leaves with four hosts each, four spines: a port has four disjoint paths to one
// of the other leaf.
RanksOptions tree(const Net& net) {
    RanksOptions options;
    options.ranks = 8;
    options.world.machine = *machine("connect-ib");
    options.world.topology = fat_tree(2, 4, 4, net.host, links_of(options.world.machine), net.lmc);
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.paths_per_port = net.paths_per_port;
    options.parameters.striping_policy = kEven;
    options.parameters.min_stripe = 1;
    return options;
}

// Connects ranks 0 and 4; returns the number of their subchannels, which both ends agree on.
std::size_t paths_between(Ranks& ranks) {
    carry(ranks, 0, 4, 1'000'000);
    const Peer& there = *ranks.peer(0, 4);
    const Peer& back = *ranks.peer(4, 0);
    EXPECT_EQ(there.lanes.subchannels.size(), back.lanes.subchannels.size());
    for (std::size_t i = 0; i < there.lanes.subchannels.size(); ++i) {
        EXPECT_EQ(there.lanes.subchannels[i].path, back.lanes.subchannels[i].path);
        EXPECT_EQ(there.lanes.subchannels[i].local_rail, back.lanes.subchannels[i].remote_rail);
        EXPECT_EQ(there.lanes.subchannels[i].remote_rail, back.lanes.subchannels[i].local_rail);
        const QpAttributes attributes = there.lanes.subchannels[i].qp->query();
        EXPECT_EQ(attributes.path.lid_offset, there.lanes.subchannels[i].path);
        EXPECT_EQ(attributes.path.source_path_bits, there.lanes.subchannels[i].path);
    }
    nothing_bad(ranks);
    return there.lanes.subchannels.size();
}

TEST(PathsPerPort, AreAsManyAsThePortsHaveAndTheParameterAllows) {
    EXPECT_EQ(paths_between(*make(tree({2, 1, {}}))), 1u);
    EXPECT_EQ(paths_between(*make(tree({2, 3, {}}))), 3u);
    EXPECT_EQ(paths_between(*make(tree({2, 4, {}}))), 4u);
    EXPECT_EQ(paths_between(*make(tree({2, 16, {}}))), 4u);
    EXPECT_EQ(paths_between(*make(tree({0, 16, {}}))), 1u) << "LMC 0";
    EXPECT_EQ(paths_between(*make(tree({6, 16, {}}))), 16u);
    EXPECT_EQ(paths_between(*make(tree({1, 16, {.ports = 2}}))), 4u) << "two pairs of ports";
    EXPECT_EQ(paths_between(*make(tree({4, 16, {.ports = 3}}))), 16u) << "as there is room for";
}

// A port has several LIDs because somebody wants them to be used.
TEST(PathsPerPort, AreThePortsLidsByDefault) {
    const int unset = default_parameters().paths_per_port;
    EXPECT_EQ(paths_between(*make(tree({0, unset, {}}))), 1u);
    EXPECT_EQ(paths_between(*make(tree({2, unset, {}}))), 4u);
    EXPECT_EQ(paths_between(*make(tree({4, unset, {}}))), 8u);
}

TEST(PathsPerPort, WhoWantsFewerIsGivenFewer) {
    RanksOptions options = tree({});
    options.parameters_of = [](std::size_t rank, Parameters& parameters) {
        parameters.paths_per_port = rank == 4 ? 2 : 4;
    };
    const auto ranks = make(std::move(options));
    EXPECT_EQ(paths_between(*ranks), 2u);
    carry(*ranks, 0, 5, 1'000'000);
    EXPECT_EQ(ranks->peer(0, 5)->lanes.subchannels.size(), 4u);
    EXPECT_EQ(ranks->counters(0).paths_most, 4u);
    EXPECT_EQ(ranks->counters(4).paths_most, 2u);
    const std::string report = ranks->core(0).report();
    EXPECT_NE(report.find("paths of one connection, at most: 4"), std::string::npos) << report;
    EXPECT_NE(report.find("\n  rail " + rail_text(ranks->core(0).rails()[0]->info()) + "\n"),
              std::string::npos)
        << report;
}

TEST(PathsPerPort, TakeDifferentSpines) {
    const auto ranks = make(tree({}));
    static_cast<void>(paths_between(*ranks));
    const Topology& topology = ranks->world().topology();
    const PortIndex from = topology.hosts[0].ports[0];
    const PortIndex to = topology.hosts[4].ports[0];
    std::set<NodeIndex> spines;
    for (const Subchannel& subchannel : ranks->peer(0, 4)->lanes.subchannels) {
        const sim::Path* path =
            ranks->world().network().path(from, topology.ports[to].lid + subchannel.path);
        ASSERT_NE(path, nullptr);
        for (const LinkIndex link : path->links) { // the buses of the adapters are links as well
            const std::string& to_node = topology.links[link].to == kNoIndex
                                             ? std::string()
                                             : topology.nodes[topology.links[link].to].name;
            if (to_node.starts_with("spine")) {
                spines.insert(topology.links[link].to);
            }
        }
    }
    EXPECT_EQ(spines.size(), 4u);
}

// Sends from all ranks of one leaf to all of the other: many lengths, under every kind of plan.
TEST(PathsPerPort, CarryWhatIsSent) {
    for (char* multiplexing : {kRoundRobin, default_parameters().multiplexing_policy}) {
        RanksOptions options = tree({3, 8, {.ports = 2}});
        options.parameters.multiplexing_policy = multiplexing;
        options.parameters.striping_threshold = 20'000;
        const auto ranks = make(std::move(options));
        Messages messages;
        for (std::size_t from = 0; from < 4; ++from) {
            for (const std::size_t bytes : {0u, 1u, 4097u, 19'999u, 20'000u, 300'000u}) {
                for (std::size_t to = 4; to < 8; ++to) {
                    messages.push_back(std::make_unique<Message>(from, to, bytes));
                }
            }
        }
        carry(*ranks, messages);
        EXPECT_EQ(ranks->peer(0, 4)->lanes.subchannels.size(), 16u);
        nothing_bad(*ranks);
    }
}

// Four hosts send to the four hosts of the other leaf; single routes meet on some link
// between the switches.
TEST(PathsPerPort, SpreadWhatSingleRoutesLetCollide) {
    const auto time_of = [](int paths) {
        Net net;
        net.paths_per_port = paths;
        const auto ranks = make(tree(net));
        for (const std::size_t bytes : {1'000'000u, 20'000'000u}) { // the first one connects
            Messages messages;
            for (std::size_t i = 0; i < 4; ++i) {
                messages.push_back(std::make_unique<Message>(i, 4 + (i + i / 2) % 4, bytes));
            }
            const Nanoseconds begin = ranks->world().simulator().now();
            carry(*ranks, messages);
            if (bytes > 1'000'000) {
                return ranks->world().simulator().now() - begin;
            }
        }
        return Nanoseconds{0};
    };
    const Nanoseconds one = time_of(1);
    const Nanoseconds four = time_of(4);
    EXPECT_LE(four.count(), one.count() * 101 / 100);
    RecordProperty("one_path_us", static_cast<int>(one.count() / 1000));
    RecordProperty("four_paths_us", static_cast<int>(four.count() / 1000));
}

// Slows the link of a host's port, both ways.
void slow_link(RanksOptions& options, std::size_t host, std::size_t port, std::uint64_t part) {
    Topology& topology = options.world.topology;
    Link& link = topology.links[topology.ports[topology.hosts[host].ports[port]].link];
    link.rate.value /= part;
    topology.links[link.reverse].rate.value /= part;
}

// Two adapters at each host, of which one of rank 0 is four times as slow: its reader begins with
// that ratio, and measures it.
TEST(PathsPerPort, WeightsOfUnequalRailsAreKnownAndSeen) {
    RanksOptions options;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(2, {.adapters = 2}, links_of(options.world.machine));
    std::string text;
    ASSERT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    slow_link(options, 0, 0, 2); // slower than the adapters themselves
    slow_link(options, 0, 1, 8);
    Ranks* polling = nullptr; // a waiting rank polls all the time, so that times are known well
    options.program = [&polling](std::size_t rank) {
        if (polling != nullptr) {
            polling->wake(rank, polling->now(rank) + 1us);
        }
    };
    const auto ranks = make(std::move(options));
    polling = ranks.get();
    carry(*ranks, 0, 1, 4'000'000);
    const Scheduler& scheduler = *ranks->peer(1, 0)->lanes.scheduler;
    EXPECT_NEAR(scheduler.weight(Mix::reads, 0), 0.8, 0.04) << "from the first message on";
    for (int i = 0; i < 10; ++i) {
        carry(*ranks, 0, 1, 4'000'000);
    }
    EXPECT_NEAR(scheduler.weight(Mix::reads, 0), 0.8, 0.04);
    EXPECT_NEAR(static_cast<double>(ranks->counters(1).path_weight_0), 800, 40);
    EXPECT_NEAR(static_cast<double>(ranks->counters(1).path_weight_1), 200, 40);
    const std::string report = ranks->core(1).report();
    const std::size_t at = report.find("of process 0: weight 0.");
    ASSERT_NE(at, std::string::npos) << report;
    EXPECT_NE(report.find("of process 0: weight 0.", at + 1), std::string::npos) << report;
    const std::string other = ranks->core(0).report();
    for (const char* part : {"weight", " of process 1:"}) {
        EXPECT_EQ(other.find(part), std::string::npos) << "it read nothing: " << other;
    }
    nothing_bad(*ranks);
}

// One host has its fast port first, another one last, and a third has only one: fast
// ports are paired.
TEST(PathsPerPort, HostsWithDifferentRails) {
    RanksOptions options;
    options.ranks = 3;
    options.world.machine = *machine("connect-ib");
    options.world.topology =
        crossbar(3, {.ports = 2, .one_network = true}, links_of(options.world.machine));
    std::string text;
    ASSERT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    slow_link(options, 0, 1, 4);
    slow_link(options, 1, 0, 4);
    const auto ranks = make(std::move(options));
    ranks->world().set_port(ranks->world().topology().hosts[2].ports[1], false);
    for (const auto& [from, to] : {std::pair{0u, 1u}, std::pair{1u, 0u}, std::pair{0u, 2u},
                                   std::pair{2u, 1u}, std::pair{1u, 2u}}) {
        carry(*ranks, from, to, 3'000'000);
    }
    const Subchannel& first = ranks->peer(0, 1)->lanes.subchannels[0];
    EXPECT_EQ(first.local_rail, 0u);
    EXPECT_EQ(first.remote_rail, 1u);
    EXPECT_EQ(ranks->peer(1, 0)->lanes.subchannels[0].local_rail, 1u);
    EXPECT_EQ(first.rate.value, 4 * ranks->peer(0, 1)->lanes.subchannels[1].rate.value);
    EXPECT_EQ(ranks->peer(2, 1)->lanes.live_subchannels(), 1u);
}

// A port goes down between the exchange of addresses and the first message: each rank that needs
// the port gets a notice with its name.
TEST(PathsPerPort, ARailThatWentBeforeTheFirstMessageIsNamed) {
    for (const std::size_t loser : {std::size_t{0}, std::size_t{4}}) {
        SCOPED_TRACE(loser);
        RanksOptions options = tree({});
        options.world.machine.offers.reliable_ud = false; // else messages wait for the port
        options.parameters.partition_timeout = 20;
        const auto ranks = make(std::move(options));
        ranks->world().set_port(ranks->world().topology().hosts[loser].ports[0], false);
        Message message(0, 4, 100'000);
        message.start(*ranks);
        ASSERT_TRUE(ranks->run_until([&] { return message.send.done; }, 60s));
        EXPECT_NE(message.send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_FALSE(ranks->messages(0).empty());
        const std::string& text = ranks->messages(0).back();
        EXPECT_NE(text.find(ranks->core(0).rails()[0]->info().name), std::string::npos) << text;
    }
}

} // namespace
} // namespace adaptib::sim
