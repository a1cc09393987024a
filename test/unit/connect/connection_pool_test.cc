// SPDX-License-Identifier: BSD-3-Clause
// The pool of closed connections: what is kept, what is returned, and what is destroyed first.
#include "connect/connection_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "unit/connect/connections.h"

namespace adaptib::test {
namespace {

class Pool : public Connections {
protected:
    Pool() { world_.counters.buffers = world_.counters.buffers_bytes = 0; } // not the datagrams'
    // Takes the peer's connection down, into the pool.
    void keep(ConnectionPool& pool, Peer& peer) {
        std::vector<std::unique_ptr<QueuePair>> queue_pairs;
        for (Subchannel& subchannel : peer.lanes.subchannels) {
            queue_pairs.push_back(std::move(subchannel.qp));
        }
        peer.lanes.subchannels.clear();
        peer.session.state = ConnectState::idle;
        ASSERT_TRUE(world_.first.allocate(4096, kLocalWrite, peer.in.ring_memory).ok());
        ++world_.counters.buffers;
        world_.counters.buffers_bytes += 4096;
        pool.keep(peer, std::move(queue_pairs));
    }
    static std::size_t kept(const Peer& peer) {
        return peer.connection.kept.link.linked() ? peer.connection.kept.queue_pairs.size() : 0;
    }
};

TEST_F(Pool, ReturnsTheQueuePairOfEachPath) {
    ConnectionPool pool(2, world_.counters);
    const auto peer = open_peer(1);
    const QueuePair* const first = peer->lanes.subchannels[0].qp.get();
    const QueuePair* const second = peer->lanes.subchannels[1].qp.get();
    keep(pool, *peer);
    EXPECT_EQ(world_.counters.connections_kept, 1u);
    pool.leave(*peer);
    EXPECT_EQ(world_.counters.connections_kept, 0u);
    EXPECT_TRUE(peer->connection.kept.reused);
    EXPECT_NE(peer->in.ring_memory, nullptr);
    peer->lanes.subchannels.resize(3);
    EXPECT_EQ(ConnectionPool::take(*peer, peer->lanes.subchannels[2]), nullptr);
    const auto taken = ConnectionPool::take(*peer, peer->lanes.subchannels[1]);
    EXPECT_EQ(taken.get(), second);
    EXPECT_EQ(static_cast<RecordingPair&>(*taken).states, std::vector{QpState::reset});
    EXPECT_EQ(ConnectionPool::take(*peer, peer->lanes.subchannels[0]).get(), first);
    EXPECT_EQ(ConnectionPool::take(*peer, peer->lanes.subchannels[0]), nullptr);
}

TEST_F(Pool, AQueuePairThatCannotBeResetIsDestroyed) {
    ConnectionPool pool(1, world_.counters);
    const auto peer = open_peer(1);
    pair_of(*peer, 0).answer = Status::error(Reason::no_device);
    keep(pool, *peer);
    pool.leave(*peer);
    peer->lanes.subchannels.resize(2);
    EXPECT_EQ(ConnectionPool::take(*peer, peer->lanes.subchannels[0]), nullptr);
    EXPECT_NE(ConnectionPool::take(*peer, peer->lanes.subchannels[1]), nullptr);
}

TEST_F(Pool, TheConnectionClosedLongestAgoMakesRoomForTheNext) {
    ConnectionPool pool(2, world_.counters);
    std::vector<std::unique_ptr<Peer>> peers;
    for (std::uint64_t name = 1; name <= 3; ++name) {
        peers.push_back(open_peer(name));
        keep(pool, *peers.back());
    }
    EXPECT_EQ(world_.counters.connections_kept, 2u);
    EXPECT_EQ(kept(*peers[0]), 0u);
    EXPECT_EQ(peers[0]->in.ring_memory, nullptr);
    EXPECT_EQ(kept(*peers[1]), 2u);
    EXPECT_EQ(kept(*peers[2]), 2u);
    EXPECT_EQ(world_.counters.buffers, 2u);
    EXPECT_EQ(world_.counters.buffers_bytes, 2u * 4096);
}

TEST_F(Pool, APeerThatWaitsForItsConnectionIsSpared) {
    ConnectionPool pool(3, world_.counters);
    IntrusiveList<Peer, &Peer::connection, &PeerConnection::wanted_link> wanted;
    std::vector<std::unique_ptr<Peer>> peers;
    for (std::uint64_t name = 1; name <= 2; ++name) {
        peers.push_back(open_peer(name));
        keep(pool, *peers.back());
    }
    wanted.push_back(*peers[0]);
    EXPECT_TRUE(pool.destroy_oldest());
    EXPECT_EQ(kept(*peers[0]), 2u);
    EXPECT_EQ(kept(*peers[1]), 0u);
    EXPECT_TRUE(pool.destroy_oldest()); // there is no other
    EXPECT_EQ(kept(*peers[0]), 0u);
    EXPECT_FALSE(pool.destroy_oldest());
    EXPECT_EQ(world_.counters.connections_kept, 0u);
    EXPECT_EQ(world_.counters.buffers, 0u);
}

TEST_F(Pool, NothingIsKeptOfAPeerThatDisconnects) {
    ConnectionPool pool(1, world_.counters);
    const auto peer = open_peer(1);
    EXPECT_TRUE(pool.takes(*peer));
    EXPECT_FALSE(ConnectionPool(0, world_.counters).takes(*peer));
    peer->ending.release = Release::released;
    EXPECT_FALSE(pool.takes(*peer));
    peer->ending.release = Release::none;
    for (bool* state : {&peer->session.disconnect_sent, &peer->ending.disconnect_received}) {
        *state = true;
        EXPECT_FALSE(pool.takes(*peer));
        *state = false;
    }
}

} // namespace
} // namespace adaptib::test
