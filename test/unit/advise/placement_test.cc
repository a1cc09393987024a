// SPDX-License-Identifier: BSD-3-Clause
// Hosts of ranks by name and in order, and the placement that gathers partners.
#include "simulator/advise/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace adaptib::advise {
namespace {

// Hosts H000 to H003 on the first leaf, H004 to H007 on the second.
sim::Topology tree(std::uint32_t ports = 1) {
    return sim::fat_tree(2, 2, 4, {.adapters = ports}, {});
}

TrafficMatrix matrix_of(std::uint32_t ranks, std::vector<PairTraffic> pairs) {
    TrafficMatrix matrix;
    matrix.ranks = ranks;
    matrix.pairs = std::move(pairs);
    return matrix;
}

std::string error_of(const TrafficMatrix& matrix, const sim::Topology& topology,
                     std::uint32_t per_host = 1) {
    std::vector<std::uint32_t> hosts{9};
    std::string error;
    EXPECT_FALSE(place(matrix, topology, per_host, hosts, error));
    EXPECT_EQ(hosts, std::vector<std::uint32_t>{9}) << "nothing has changed";
    return error;
}

TEST(Placement, FindsHostsByName) {
    const sim::Topology topology = tree();
    TrafficMatrix matrix = matrix_of(3, {{0, 1, 1, 1}});
    matrix.hosts = {topology.hosts[5].name, topology.hosts[0].name + ".cluster.org",
                    topology.hosts[5].name};
    std::vector<std::uint32_t> hosts;
    std::string error;
    ASSERT_TRUE(place(matrix, topology, 1, hosts, error)) << error;
    EXPECT_EQ(hosts, (std::vector<std::uint32_t>{5, 0, 5}));
    matrix.hosts[1] = "elsewhere";
    EXPECT_NE(
        error_of(matrix, topology).find("rank 1 ran on \"elsewhere\", which is none of its 8"),
        std::string::npos);
}

TEST(Placement, TakesHostsInOrder) {
    const sim::Topology topology = tree();
    std::vector<std::uint32_t> hosts;
    std::string error;
    ASSERT_TRUE(place(matrix_of(5, {{0, 1, 1, 1}}), topology, 2, hosts, error)) << error;
    EXPECT_EQ(hosts, (std::vector<std::uint32_t>{0, 0, 1, 1, 2}));
    EXPECT_NE(error_of(matrix_of(9, {{0, 8, 1, 1}}), topology).find("need more than its 8 hosts"),
              std::string::npos);
}

TEST(Placement, RefusesHostsWithDifferentPorts) {
    sim::Topology topology = tree();
    topology.hosts[1].ports.clear();
    EXPECT_NE(error_of(matrix_of(2, {{0, 1, 1, 1}}), topology).find("have 1 and 0 ports"),
              std::string::npos);
}

TEST(Placement, GathersPartners) {
    const sim::Topology topology = tree();
    // Ranks i and i + 4 exchange; in order they are on different leaves, of two ranks a host.
    std::vector<PairTraffic> pairs;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        pairs.push_back({rank, rank + 4, 1, 1000});
        pairs.push_back({rank + 4, rank, 1, 1000});
    }
    const std::vector<std::uint32_t> hosts{0, 0, 1, 1, 4, 4, 5, 5};
    const std::vector<std::uint32_t> moved = gather_partners(matrix_of(8, pairs), topology, hosts);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(moved[rank], moved[rank + 4]) << rank;
    }
    std::vector<std::uint32_t> sorted = moved;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, hosts) << "the same hosts, each as often";
}

} // namespace
} // namespace adaptib::advise
