// SPDX-License-Identifier: BSD-3-Clause
// Traffic by peer: its rows are parts of the counters, and add up to them.
#include "core/peer_traffic_rows.h"

#include <algorithm>
#include <chrono>

#include "window.h"

namespace adaptib::test {
namespace {

void send(Cores& world, std::size_t from, std::size_t to, std::size_t bytes, int messages) {
    std::vector<std::byte> sent = pattern(bytes, bytes);
    std::vector<std::byte> got(bytes);
    for (int i = 0; i < messages; ++i) {
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(world.receive(to, static_cast<int>(from), 5, contiguous(got), receive).ok());
        ASSERT_TRUE(world.send(from, to, 5, contiguous(sent), send).ok());
        ASSERT_TRUE(world.run({&send, &receive}));
        ASSERT_EQ(got, sent);
    }
}

const PeerTraffic* find(const std::vector<PeerTraffic>& rows, std::size_t node) {
    const auto found = std::find_if(rows.begin(), rows.end(), [node](const PeerTraffic& row) {
        return row.process == Cores::name(node);
    });
    return found == rows.end() ? nullptr : &*found;
}

void expect_sums(Cores& world, std::size_t node) {
    PeerTraffic sum;
    for (const PeerTraffic& row : world.core(node).peer_traffic()) {
        sum.ring.add(row.ring);
        sum.datagrams.add(row.datagrams);
        sum.rma.add(row.rma);
    }
    const Counters& counters = world.counters(node);
    EXPECT_EQ(sum.ring.number, counters.ring_sent);
    EXPECT_EQ(sum.ring.bytes, counters.ring_sent_bytes);
    EXPECT_EQ(sum.datagrams.number, counters.datagram_sent);
    EXPECT_EQ(sum.datagrams.bytes, counters.datagram_sent_bytes);
    EXPECT_EQ(sum.rma.reads.bytes, counters.rdma_read_bytes);
    EXPECT_EQ(sum.rma.writes.bytes, counters.rdma_write_bytes);
    EXPECT_EQ(sum.rma.atomics, counters.rdma_atomic);
}

TEST(PeerTrafficRows, SayWhatWentToWhom) {
    Cores world(3);
    send(world, 0, 1, 100, 50);
    send(world, 0, 2, 1000, 7);
    const std::vector<PeerTraffic> rows = world.core(0).peer_traffic();
    ASSERT_NE(find(rows, 1), nullptr);
    ASSERT_NE(find(rows, 2), nullptr);
    EXPECT_EQ(find(rows, 0), nullptr);
    EXPECT_EQ(find(rows, 1)->fabric, "shm");
    EXPECT_GE(find(rows, 1)->ring.bytes + find(rows, 1)->datagrams.bytes, 5000u);
    EXPECT_GE(find(rows, 2)->ring.bytes + find(rows, 2)->datagrams.bytes, 7000u);
    EXPECT_GT(find(rows, 1)->ring.number, 0u);
    EXPECT_GT(find(rows, 1)->datagrams.number, 0u) << "those before the connection";
    expect_sums(world, 0);
    expect_sums(world, 1);
}

TEST(PeerTrafficRows, CountReadsWhereTheyAreExecuted) {
    Options options;
    options.parameters.shm_rails = 2; // stripes
    Cores world(2, options);
    send(world, 0, 1, 1 << 20, 3);
    const std::vector<PeerTraffic> rows = world.core(1).peer_traffic();
    ASSERT_NE(find(rows, 0), nullptr);
    EXPECT_EQ(find(rows, 0)->rma.reads.bytes, std::uint64_t{3} << 20);
    EXPECT_EQ(find(rows, 0)->rma.writes.bytes, 0u);
    const Counters& counters = world.counters(1);
    EXPECT_GT(counters.rail_bytes_0, 0u);
    EXPECT_EQ(counters.rail_bytes_0 + counters.rail_bytes_1, std::uint64_t{3} << 20);
    EXPECT_EQ(counters.rail_bytes_2, 0u);
    expect_sums(world, 0);
    expect_sums(world, 1);
}

TEST(PeerTrafficRows, CountOneSidedOperationsByTarget) {
    Cores world(3);
    std::vector<std::byte> memory(4096);
    std::vector<std::byte> local(4096);
    const Window window(world, 2, memory.data(), memory.size());
    const Window own(world, 0, memory.data(), memory.size());
    const auto operate = [&](std::size_t to, const Window& at, opal_common_adaptib_operation_t kind,
                             std::size_t bytes) {
        TestRequest request;
        ASSERT_TRUE(start(world, 0, to, operation(kind, local.data(), at, 0, bytes), request).ok());
        ASSERT_TRUE(world.run({&request}));
    };
    operate(2, window, OPAL_COMMON_ADAPTIB_PUT, 1000);
    operate(2, window, OPAL_COMMON_ADAPTIB_GET, 300);
    operate(2, window, OPAL_COMMON_ADAPTIB_FETCH_ADD, 8);
    operate(0, own, OPAL_COMMON_ADAPTIB_PUT, 20);
    const std::vector<PeerTraffic> rows = world.core(0).peer_traffic();
    ASSERT_NE(find(rows, 2), nullptr);
    ASSERT_NE(find(rows, 0), nullptr) << "itself";
    EXPECT_EQ(find(rows, 1), nullptr);
    EXPECT_EQ(find(rows, 2)->rma.writes.bytes, 1000u);
    EXPECT_EQ(find(rows, 2)->rma.reads.bytes, 300u);
    EXPECT_EQ(find(rows, 2)->rma.atomics, 1u);
    EXPECT_EQ(find(rows, 0)->rma.writes.bytes, 20u);
    expect_sums(world, 0);
}

TEST(PeerTrafficRows, OutliveConnections) {
    Options options;
    options.parameters.connect_max = 1;
    Cores world(3, options);
    const auto rest = [&](int passes) {
        world.clock.advance(std::chrono::milliseconds{5});
        for (int i = 0; i < passes; ++i) {
            world.progress();
        }
    };
    for (const std::size_t to : {1u, 2u, 1u}) {
        for (int i = 0; i < 40; ++i) {
            send(world, 0, to, 3000, 1);
            rest(10);
        }
        rest(2000); // the core checks now and then which connections were used
    }
    ASSERT_GE(world.counters(0).connections_closed, 2u);
    const std::vector<PeerTraffic> rows = world.core(0).peer_traffic();
    ASSERT_NE(find(rows, 2), nullptr);
    EXPECT_GT(find(rows, 2)->ring.number, 0u) << "of the connection that was closed";
    for (std::size_t node = 0; node < 3; ++node) {
        expect_sums(world, node);
    }
}

} // namespace
} // namespace adaptib::test
