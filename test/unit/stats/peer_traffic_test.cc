// SPDX-License-Identifier: BSD-3-Clause
// Rows of traffic with peers: how those of several endpoints become one, and their order.
#include "stats/peer_traffic.h"

#include <gtest/gtest.h>

namespace adaptib {
namespace {

PeerTraffic row(std::uint64_t process, const char* fabric, std::uint64_t messages, Bytes bytes) {
    PeerTraffic out;
    out.process = process;
    out.fabric = fabric;
    out.ring = {messages, bytes};
    return out;
}

TEST(PeerTraffic, MergesRowsOfTheSameProcessAndFabric) {
    std::vector<PeerTraffic> rows;
    PeerTraffic first = row(2, "shm", 1, 10);
    first.datagrams = {3, 30};
    first.rma.reads = {4, 400};
    first.rma.writes = {5, 5000};
    first.rma.atomics = 6;
    merge_traffic(rows, first);
    merge_traffic(rows, first);
    merge_traffic(rows, row(2, "verbs", 7, 70));
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0].ring.number, 2u);
    EXPECT_EQ(rows[0].ring.bytes, 20u);
    EXPECT_EQ(rows[0].datagrams.bytes, 60u);
    EXPECT_EQ(rows[0].rma.reads.bytes, 800u);
    EXPECT_EQ(rows[0].rma.writes.number, 10u);
    EXPECT_EQ(rows[0].rma.atomics, 12u);
    EXPECT_EQ(rows[1].ring.bytes, 70u);
}

TEST(PeerTraffic, LeavesOutRowsWithoutTraffic) {
    std::vector<PeerTraffic> rows;
    merge_traffic(rows, row(2, "shm", 0, 0));
    EXPECT_TRUE(rows.empty());
    PeerTraffic atomics = row(2, "shm", 0, 0);
    atomics.rma.atomics = 1;
    merge_traffic(rows, atomics);
    EXPECT_EQ(rows.size(), 1u);
    merge_traffic(rows, row(3, "shm", 1, 0)); // a message without bytes
    EXPECT_EQ(rows.size(), 2u);
}

TEST(PeerTraffic, SortsByProcessThenFabric) {
    std::vector<PeerTraffic> rows{row(9, "shm", 1, 1), row(2, "verbs", 1, 1), row(2, "shm", 1, 1)};
    sort_traffic(rows);
    EXPECT_EQ(rows[0].process, 2u);
    EXPECT_EQ(rows[0].fabric, "shm");
    EXPECT_EQ(rows[1].fabric, "verbs");
    EXPECT_EQ(rows[2].process, 9u);
}

} // namespace
} // namespace adaptib
