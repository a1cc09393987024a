// SPDX-License-Identifier: BSD-3-Clause
// ConnectionPool: keeps the resources of closed connections, to reuse them when the same peer is
// connected again.
//
// A device has to make a queue pair, and a ring has to be allocated and registered. So the
// resources of a connection that was closed in good order, or that failed because the other side
// had no room, go into the pool: queue pairs in the state RESET, which nothing reaches, and the
// ring, empty. They stay their peer's. The pool has room for `connect_pool` connections. The one
// closed longest ago is destroyed to make room for another one, or for a connection that the device
// or memory otherwise has no room for.
// The other side need not keep its own resources, nor know of these: the handshake tells what there
// is, as always.
// Invariant: a peer in the pool, whose KeptConnection is linked, has no subchannels.
// Threads: one at a time.
// Source: Takagi et al., 3.4 (the pool of queue pairs).
// May touch: base/, fabric/, peer/, stats/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "fabric/fabric.h"
#include "peer/peer.h"
#include "stats/counters.h"

namespace adaptib {

class ConnectionPool {
public:
    // `most`: connections that are kept; 0: none.
    ConnectionPool(std::uint64_t most, Counters& counters) : most_(most), counters_(counters) {}

    // Returns true if resources of the peer's connection may be kept. A peer that disconnects is
    // not expected to come back.
    bool takes(const Peer& peer) const;
    // Keeps the peer's ring memory and these queue pairs, by path (null: none), as far as they take
    // the state RESET. REQUIRES: takes(); the connection is taken down, and its ring is zero.
    void keep(Peer& peer, std::vector<std::unique_ptr<QueuePair>> queue_pairs);
    // Called when the peer is to be connected: take() returns what is kept, and the ring's memory
    // is the peer's again.
    void leave(Peer& peer);
    // Returns null if no queue pair is kept for that path.
    static std::unique_ptr<QueuePair> take(Peer& peer, const Subchannel& subchannel);
    // Destroys what is kept of the peer, if anything is.
    void destroy(Peer& peer);
    // Destroys the oldest kept resources, if possible those of a peer that does not wait for its
    // connection. Returns false if nothing is kept.
    bool destroy_oldest();
    // Frees the memory of the ring that the peer is offered, or was.
    void free_ring(Peer& peer);

private:
    void remove(Peer& peer);

    const std::uint64_t most_;
    Counters& counters_;
    IntrusiveList<Peer, &Peer::connection, &PeerConnection::kept, &KeptConnection::link>
        kept_; // closed longest ago first
};

} // namespace adaptib
