// SPDX-License-Identifier: BSD-3-Clause
// Distances of NUMA nodes, on synthetic machines of hwloc.
#include "fabric/verbs/locality.h"

#include <gtest/gtest.h>
#include <hwloc.h>
#include <hwloc/distances.h>

#include <array>

namespace adaptib::test {
namespace {

using verbs::Locality;

// Three nodes of two processors each.
hwloc_topology_t three_nodes() {
    hwloc_topology_t topology = nullptr;
    EXPECT_EQ(hwloc_topology_init(&topology), 0);
    EXPECT_EQ(hwloc_topology_set_synthetic(topology, "numa:3 pu:2"), 0);
    EXPECT_EQ(hwloc_topology_load(topology), 0);
    return topology;
}

void add_latencies(hwloc_topology_t topology, std::array<hwloc_uint64_t, 9> values) {
    std::array<hwloc_obj_t, 3> nodes{};
    for (unsigned i = 0; i < 3; ++i) {
        nodes[i] = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, i);
    }
    auto handle = hwloc_distances_add_create(
        topology, "NUMALatency",
        HWLOC_DISTANCES_KIND_FROM_USER | HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0);
    ASSERT_NE(handle, nullptr);
    ASSERT_EQ(hwloc_distances_add_values(topology, handle, 3, nodes.data(), values.data(), 0), 0);
    ASSERT_EQ(hwloc_distances_add_commit(topology, handle, 0), 0);
}

TEST(Locality, WithoutLatenciesTheOwnNodesAreLocal) {
    const Locality one(three_nodes(), 2, 3);
    EXPECT_EQ(one.distance(0), 20u);
    EXPECT_EQ(one.distance(1), 10u);
    EXPECT_EQ(one.distance(2), 20u);
    const Locality two(three_nodes(), 1, 2);
    EXPECT_EQ(two.distance(0), 10u);
    EXPECT_EQ(two.distance(1), 10u);
    EXPECT_EQ(two.distance(2), 20u);
}

TEST(Locality, LatenciesDecideAndTheNearestOfOurNodesCounts) {
    const std::array<hwloc_uint64_t, 9> values{10, 21, 31, 21, 10, 17, 31, 17, 10};
    hwloc_topology_t topology = three_nodes();
    add_latencies(topology, values);
    const Locality first(topology, 0, 1);
    EXPECT_EQ(first.distance(0), 10u);
    EXPECT_EQ(first.distance(1), 21u);
    EXPECT_EQ(first.distance(2), 31u);
    topology = three_nodes();
    add_latencies(topology, values);
    const Locality both(topology, 1, 2);
    EXPECT_EQ(both.distance(2), 17u);
}

TEST(Locality, WhatIsUnknownIsLocal) {
    const Locality somewhere(three_nodes(), 0, 1);
    EXPECT_EQ(somewhere.distance(-1), 10u);
    EXPECT_EQ(somewhere.distance(7), 20u) << "a node that is not there";
    EXPECT_EQ(Locality().distance(-1), 10u);
    EXPECT_GE(Locality().distance(0), 10u) << "this machine";
}

} // namespace
} // namespace adaptib::test
