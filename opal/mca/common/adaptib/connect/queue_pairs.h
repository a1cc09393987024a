// SPDX-License-Identifier: BSD-3-Clause
// QueuePairs: makes the queue pairs of connections, moves them through their states, and takes them
// away.
//
// Purpose: one queue pair for each path to a peer, made or taken from the pool, in the state INIT;
// its transition to RTR and RTS once the other side has described its own, or the beginning of its
// connect through rdma_cm; its end. On a connection over shared queue pairs a SharedQueuePair takes
// its place. A path whose queue pair cannot be made or connected drops out of the connection.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, peer/, recovery/, schedule/, stats/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "connect/connect_context.h"
#include "connect/connection_pool.h"
#include "connect/queue_pair_owners.h"

namespace adaptib {

class QueuePairs {
public:
    QueuePairs(const ConnectContext& context, ConnectionPool& pool)
        : context_(context), pool_(pool) {}

    // Makes a queue pair for each usable path that has none. If no path is usable, a first
    // connection tries all. Errors: of the first failure, if all failed, or if other connections
    // may be closed to make room.
    Status make_all(Peer& peer);
    // Prepares all paths for connect(). kNotYet: call it again before.
    Status prepare(const Peer& peer);
    // Connects the queue pair to that one of the other side, or begins to through rdma_cm. Errors
    // that are `again` may pass.
    Status connect(Peer& peer, Subchannel& subchannel, const ConnectSubchannel& remote);
    // Returns true if the queue pair connects through rdma_cm.
    bool needs_cm_connect(const Peer& peer, const Subchannel& subchannel) const;
    // Makes a shared queue pair for the subchannel. Kept ones of other peers are destroyed if need
    // be.
    Status make_shared(Peer& peer, Subchannel& subchannel);
    // Returns null if the subchannel has none.
    std::unique_ptr<QueuePair> take(Peer& peer, Subchannel& subchannel);
    void drop(Peer& peer, Subchannel& subchannel) { take(peer, subchannel).reset(); }
    void drop_all(Peer& peer);
    // Moves the peer's queue pairs to the error state, so that their work completes as flushed; not
    // those that other peers use and that may work.
    void fail_all(Peer& peer);
    // The peers that use a queue pair. Connections of this process with itself are left out.
    QueuePairOwners& owners() { return owners_; }
    // Drops the queue pair: the connection does without its path.
    void lose_path(Peer& peer, Subchannel& subchannel, const std::string& why);
    void lose_path(Peer& peer, Subchannel& subchannel, Status status);
    // Number of the first packet that a queue pair sends. Those of consecutive attempts are a
    // quarter of all numbers apart: a reused queue pair takes a late packet of the last attempt for
    // an old one.
    static std::uint32_t first_packet(std::uint32_t connection, std::uint32_t qp_number) {
        constexpr std::uint32_t kMask = 0xffffff;
        constexpr std::uint32_t kApart = (1u << 22) + 1;
        return (connection * kApart + qp_number) & kMask;
    }

private:
    Status prepare(const Peer& peer, const Subchannel& subchannel);
    void set_subchannels(Peer& peer);
    Status make(Peer& peer, Subchannel& subchannel);
    Status create(std::uint32_t rail, std::unique_ptr<QueuePair>& out);
    static Status begin(QueuePair& qp);
    Status start_cm_connect(Peer& peer, Subchannel& subchannel, const QpAttributes& attributes,
                            std::uint32_t mask);
    Status set_destination(Peer& peer, Subchannel& subchannel, const ConnectSubchannel& remote);
    bool spares(const Peer& peer, const Subchannel& subchannel) const;
    void note_owner(Peer& peer, const Subchannel& subchannel);
    void count();
    std::uint32_t send_depth(std::uint32_t rail) const;

    const ConnectContext& context_;
    ConnectionPool& pool_;
    QueuePairOwners owners_;
};

} // namespace adaptib
