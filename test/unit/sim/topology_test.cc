// SPDX-License-Identifier: BSD-3-Clause
// Generated topologies and computed routes: shapes, LIDs, paths, what check() finds, 16,384 hosts.
#include "simulator/network/topology.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "simulator/network/routes.h"

namespace adaptib::sim {
namespace {

// Checks what holds for any topology: cables have two ends, and every object is
// where it says it is.
void expect_consistent(const Topology& topology) {
    for (LinkIndex l = 0; l < topology.links.size(); ++l) {
        const Link& link = topology.links[l];
        ASSERT_EQ(topology.links[link.reverse].reverse, l);
        ASSERT_EQ(topology.links[link.reverse].from, link.to);
        ASSERT_EQ(topology.links[link.reverse].from_port, link.to_port);
        ASSERT_EQ(topology.nodes[link.from].out[link.from_port - 1], l);
    }
    for (PortIndex p = 0; p < topology.ports.size(); ++p) {
        const Port& port = topology.ports[p];
        ASSERT_EQ(topology.nodes[port.adapter].out[port.number - 1], port.link);
        for (Lid k = 0; k < Lid{1} << topology.lmc; ++k) {
            ASSERT_EQ(topology.port_of(port.lid + k), p);
        }
    }
    for (std::uint32_t h = 0; h < topology.hosts.size(); ++h) {
        for (const NodeIndex adapter : topology.hosts[h].adapters) {
            ASSERT_EQ(topology.nodes[adapter].host, h);
        }
    }
}

NodeIndex spine_of(const Topology& topology, const Routes& routes, PortIndex from, Lid to) {
    std::vector<LinkIndex> links;
    EXPECT_TRUE(routes.path(topology, from, to, links));
    EXPECT_EQ(links.size(), 4u);
    return topology.links[links.at(1)].to;
}

TEST(Topology, CrossbarHasACrossbarForEachPortOfAHost) {
    const LinkModel links{.host_rate = {5}, .cable = Nanoseconds{7}};
    const Topology topology = crossbar(3, {.adapters = 2, .ports = 2}, links, 1);
    expect_consistent(topology);
    ASSERT_EQ(topology.nodes.size(), 3u * 2 + 4);
    ASSERT_EQ(topology.ports.size(), 12u);
    // Host 1 has the ports 4 to 7; port 2 of its second adapter goes to the fourth crossbar.
    const Link& link = topology.links[topology.ports[7].link];
    EXPECT_EQ(link.to, 6u + 3);
    EXPECT_EQ(link.rate, BytesPerSecond{5});
    EXPECT_EQ(link.latency, Nanoseconds{7});
    EXPECT_EQ(topology.nodes[link.from].name, "H001 HCA-2");
    EXPECT_EQ(topology.ports[0].lid, 2u);
    EXPECT_EQ(topology.nodes[6].lid, 2u * 13);
    EXPECT_EQ(topology.port_of(topology.nodes[6].lid), kNoIndex);
    EXPECT_EQ(topology.port_of(1), kNoIndex);
    EXPECT_EQ(topology.port_of(1000000), kNoIndex);

    Routes routes;
    std::string text;
    ASSERT_TRUE(Routes::compute(topology, routes, text)) << text;
    std::vector<LinkIndex> path;
    EXPECT_TRUE(routes.path(topology, 3, topology.ports[7].lid, path));
    EXPECT_EQ(path, (std::vector{topology.ports[3].link,
                                 topology.links[topology.ports[7].link].reverse}));
    EXPECT_FALSE(routes.path(topology, 3, topology.ports[6].lid, path)) << "another network";
    EXPECT_TRUE(routes.path(topology, 3, topology.ports[3].lid + 1, path));
    EXPECT_TRUE(path.empty()) << "a port reaches itself over no link";
}

TEST(Topology, OneNetworkConnectsAllPortsOfAHost) {
    const Topology topology = crossbar(2, {.ports = 2, .one_network = true}, {});
    expect_consistent(topology);
    ASSERT_EQ(topology.nodes.size(), 3u);
    Routes routes;
    std::string text;
    ASSERT_TRUE(Routes::compute(topology, routes, text)) << text;
    std::vector<LinkIndex> path;
    EXPECT_TRUE(routes.path(topology, 0, topology.ports[3].lid, path));
    EXPECT_EQ(path.size(), 2u);
}

TEST(Topology, FatTree) {
    const LinkModel model{.host_rate = {10}, .switch_rate = {20}};
    const Topology topology = fat_tree(3, 2, 4, {}, model);
    expect_consistent(topology);
    EXPECT_EQ(topology.hosts.size(), 12u);
    ASSERT_EQ(topology.nodes.size(), 12u + 3 + 2);
    EXPECT_EQ(topology.nodes[12].out.size(), 6u);
    EXPECT_EQ(topology.nodes[15].out.size(), 3u);
    EXPECT_EQ(topology.links.size(), 2u * (12 + 6));
    const Topology two = fat_tree(3, 2, 4, {.adapters = 2}, model);
    expect_consistent(two);
    EXPECT_EQ(two.nodes.size(), 24u + 2 * 5);
    const Topology one = fat_tree(3, 2, 4, {.adapters = 2, .one_network = true}, model);
    expect_consistent(one);
    EXPECT_EQ(one.nodes.size(), 24u + 5);
    EXPECT_EQ(one.nodes[24].out.size(), 4u * 2 + 2);
    // Both ports of a host are on one leaf.
    EXPECT_EQ(one.links[one.ports[8].link].to, one.links[one.ports[9].link].to);
}

// The switch of 144 ports: the LIDs of a port take as many spines as there are, in turn, and the
// hosts of one leaf go to those of the next over different spines.
TEST(Routes, LidsOfAPortTakeDifferentSpines) {
    for (const std::uint32_t lmc : {0u, 2u, 3u, 4u}) {
        const Topology topology = fat_tree(12, 12, 12, {}, {}, lmc);
        Routes routes;
        std::string text;
        ASSERT_TRUE(Routes::compute(topology, routes, text)) << text;
        const std::size_t paths = std::size_t{1} << lmc;
        for (PortIndex from = 0; from < topology.ports.size(); from += 5) {
            for (PortIndex to = 0; to < topology.ports.size(); ++to) {
                if (from / 12 == to / 12) {
                    continue;
                }
                std::set<NodeIndex> spines;
                for (Lid k = 0; k < paths; ++k) {
                    spines.insert(spine_of(topology, routes, from, topology.ports[to].lid + k));
                }
                ASSERT_EQ(spines.size(), std::min<std::size_t>(paths, 12));
            }
        }
        for (Lid k = 0; k < paths; ++k) {
            std::set<NodeIndex> spines;
            for (PortIndex i = 0; i < 12; ++i) {
                spines.insert(spine_of(topology, routes, i, topology.ports[17 + i].lid + k));
            }
            EXPECT_EQ(spines.size(), 12u) << "shifted by 17, path " << k;
        }
    }
}

TEST(Routes, CheckSaysWhatIsWrong) {
    const Topology topology = fat_tree(2, 2, 2, {}, {}); // H000..H003, leaf0, leaf1, spine0, spine1
    Routes right;
    std::string text;
    ASSERT_TRUE(Routes::compute(topology, right, text)) << text;
    const auto broken = [&](NodeIndex node, Lid lid, std::uint16_t port) {
        Routes routes = right;
        routes.set(node, lid, port);
        std::string why;
        EXPECT_FALSE(routes.check(topology, why));
        std::vector<LinkIndex> path;
        EXPECT_FALSE(routes.path(topology, 0, lid, path));
        EXPECT_TRUE(path.empty());
        return why;
    };
    const auto from_leaf0 = topology.links[topology.nodes[4].out[right.table(4)[3] - 1]].to;
    EXPECT_EQ(broken(from_leaf0, 3, 1),
              "the route from switch leaf0 to LID 3 (H002 port 1) loops at leaf0");
    EXPECT_EQ(broken(4, 3, 2), "the route from switch leaf0 to LID 3 (H002 port 1) ends at H001");
    EXPECT_EQ(broken(4, 3, 0), "the route from switch leaf0 to LID 3 (H002 port 1) ends at leaf0, "
                               "which has no entry for it");
    EXPECT_EQ(broken(4, 3, 9), "the route from switch leaf0 to LID 3 (H002 port 1) leaves leaf0 by "
                               "port 9, where no cable is");
    EXPECT_FALSE(Routes().check(topology, text));

    Topology unnumbered = topology;
    unnumbered.ports[1].lid = 0;
    Routes routes;
    EXPECT_FALSE(Routes::compute(unnumbered, routes, text));
    EXPECT_EQ(text, "H001 port 1 has no LID");
}

TEST(Routes, PortsThatAreConnectedDirectly) {
    Topology topology = crossbar(2, {}, {});
    topology.nodes[2].out.assign(2, kNoIndex);
    topology.links.clear();
    topology.connect(0, 1, 1, 1, {1}, Nanoseconds{1});
    topology.plug_ports();
    Routes routes;
    std::string text;
    ASSERT_TRUE(Routes::compute(topology, routes, text)) << text;
    std::vector<LinkIndex> path;
    EXPECT_TRUE(routes.path(topology, 0, topology.ports[1].lid, path));
    EXPECT_EQ(path, std::vector<LinkIndex>{0});
}

TEST(Routes, SixteenThousandHosts) {
    const auto begin = std::chrono::steady_clock::now();
    const Topology topology = fat_tree(128, 128, 128, {}, {}, 0);
    Routes routes;
    std::string text;
    ASSERT_TRUE(Routes::compute(topology, routes, text)) << text;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    RecordProperty("milliseconds", static_cast<int>(took.count() * 1000));
    std::vector<LinkIndex> path;
    EXPECT_TRUE(routes.path(topology, 0, topology.ports[16383].lid, path));
    EXPECT_EQ(path.size(), 4u);
}

} // namespace
} // namespace adaptib::sim
