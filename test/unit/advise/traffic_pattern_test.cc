// SPDX-License-Identifier: BSD-3-Clause
// Patterns from a matrix: valid, in proportion, bounded.
#include "simulator/advise/traffic_pattern.h"

#include <gtest/gtest.h>

namespace adaptib::advise {
namespace {

std::vector<std::uint32_t> own_hosts(std::uint32_t ranks) {
    std::vector<std::uint32_t> hosts;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        hosts.push_back(rank);
    }
    return hosts;
}

TrafficMatrix all_to_all(std::uint32_t ranks, std::uint64_t messages, Bytes bytes) {
    TrafficMatrix matrix;
    matrix.ranks = ranks;
    for (std::uint32_t from = 0; from < ranks; ++from) {
        for (std::uint32_t to = 0; to < ranks; ++to) {
            if (from != to) {
                matrix.pairs.push_back({from, to, messages, bytes});
            }
        }
    }
    return matrix;
}

TEST(OrderedTraffic, IsValidInEachOrder) {
    for (const std::uint32_t ranks : {2u, 5u, 8u}) {
        const OrderedTraffic ordered =
            order_traffic(all_to_all(ranks, 10, 10 * 256 * kKiB), own_hosts(ranks));
        ASSERT_EQ(ordered.orders.size(), 3u);
        for (const study::Pattern& pattern : ordered.orders) {
            EXPECT_EQ(study::problem_of(pattern), "") << pattern.name;
            EXPECT_EQ(pattern.bytes(), Bytes{ranks} * (ranks - 1) * 256 * kKiB) << pattern.name;
        }
        EXPECT_EQ(ordered.orders[0].steps(), ranks - 1);
        EXPECT_EQ(ordered.orders[2].steps(), 1u);
        EXPECT_DOUBLE_EQ(ordered.share, 1);
    }
}

TEST(OrderedTraffic, KeepsProportions) {
    TrafficMatrix matrix = all_to_all(4, 100, 100 * 64 * kKiB);
    matrix.pairs[0].messages = 300;
    matrix.pairs[0].bytes = 300 * 64 * kKiB;
    const OrderedTraffic ordered = order_traffic(matrix, own_hosts(4));
    EXPECT_EQ(ordered.orders[0].bytes(), Bytes{11 + 3} * 64 * kKiB);
    EXPECT_EQ(ordered.orders[0].messages(), 11u + 3u);
}

TEST(OrderedTraffic, LeavesOutPairsWithinHosts) {
    const TrafficMatrix matrix = all_to_all(4, 1, kMiB);
    const OrderedTraffic ordered = order_traffic(matrix, {0, 0, 1, 1});
    EXPECT_EQ(ordered.orders[0].messages(), 8u);
    EXPECT_TRUE(order_traffic(matrix, {3, 3, 3, 3}).orders.empty());
}

TEST(OrderedTraffic, IsBounded) {
    const OrderedTraffic heavy = order_traffic(all_to_all(2, 1, Bytes{1} << 50), own_hosts(2));
    EXPECT_EQ(heavy.orders[0].messages(), 2 * kMostOfPair);
    EXPECT_EQ(heavy.orders[0].bytes(), 2 * kMostOfPair * kLongestMessage);
    const OrderedTraffic many = order_traffic(all_to_all(200, 1, kMiB), own_hosts(200));
    EXPECT_EQ(many.orders[0].messages(), kMostMessages);
    EXPECT_NEAR(many.share, 20000.0 / (200 * 199), 1e-9);
}

} // namespace
} // namespace adaptib::advise
