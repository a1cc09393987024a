// SPDX-License-Identifier: BSD-3-Clause
// Pool: keeps the resources of closed connections, to reuse them when the same peer is connected
// again.
//
// A device has to make a queue pair, and a ring has to be allocated and registered. So the
// resources of a connection that was closed in good order, or that failed because the other side
// had no room, go into the pool: queue pairs in the state RESET, which nothing reaches, and the
// ring, empty. They stay their peer's. The pool has room for `connect_pool` connections. The one
// closed longest ago is destroyed to make room for another one, or for a connection that the device
// or memory otherwise has no room for.
// The other side need not keep its own resources, nor know of these: the handshake tells what there
// is, as always.
// Source: Takagi et al., 3.4 (the pool of queue pairs).
#include <utility>

#include "connect/connection_manager.h"

namespace adaptib {

// Replaces close(). REQUIRES: nothing is under way on either side.
void ConnectionManager::keep(Peer& peer) {
    const bool disconnecting = peer.released || peer.disconnect_sent || peer.disconnect_received;
    if (context_.options.connect_pool == 0 || disconnecting) {
        close(peer, ConnectState::idle);
        return;
    }
    const std::uint64_t used = peer.ring_in.has_value() ? peer.ring_in->consumed() : 0;
    leave(peer, ConnectState::idle);
    withdraw_ring(peer);
    clean_ring(peer, used * kRingUnit);
    QpAttributes attributes;
    attributes.state = QpState::reset;
    peer.reuses = false;
    peer.kept.resize(peer.subchannels.size());
    for (std::size_t i = 0; i < peer.subchannels.size(); ++i) {
        std::unique_ptr<QueuePair> qp = take_queue_pair(peer, peer.subchannels[i]);
        const bool cm_connected =
            needs_cm_connect(peer, peer.subchannels[i]); // it keeps its rdma_cm id
        if (qp != nullptr && !cm_connected && !peer.shared &&
            qp->modify(attributes, kQpState).ok()) {
            peer.kept[i] = std::move(qp);
        }
    }
    drop_queue_pairs(peer);
    pool_.push_back(peer);
    if (pool_.size() > context_.options.connect_pool) {
        static_cast<void>(give_up_oldest());
    }
    context_.counters.connections_kept = pool_.size();
}

void ConnectionManager::clean_ring(Peer& peer, Bytes used) {
    peer.ring_layout().clean(used);
    peer.credits_posted = 0;
}

// Called when the peer is to be connected: make_queue_pairs() and offer_ring() take what is kept.
void ConnectionManager::leave_pool(Peer& peer) {
    if (peer.pool_link.linked()) {
        pool_.remove(peer);
        context_.counters.connections_kept = pool_.size();
        peer.reuses = true;
    }
}

// Returns null if none is kept for that path.
std::unique_ptr<QueuePair> ConnectionManager::take_kept(Peer& peer, const Subchannel& subchannel) {
    const auto index = static_cast<std::size_t>(&subchannel - peer.subchannels.data());
    return index < peer.kept.size() ? std::move(peer.kept[index]) : nullptr;
}

void ConnectionManager::give_up_kept(Peer& peer) {
    if (peer.pool_link.linked()) {
        pool_.remove(peer);
        context_.counters.connections_kept = pool_.size();
        peer.kept.clear();
        free_ring(peer);
    }
}

// Destroys the oldest kept resources, if possible those of a peer that does not wait for its
// connection. Returns false if nothing is kept.
bool ConnectionManager::give_up_oldest() {
    Peer* oldest = pool_.front();
    for (Peer* peer = oldest; peer != nullptr; peer = pool_.next(*peer)) {
        if (!peer->wanted_link.linked()) {
            oldest = peer;
            break;
        }
    }
    if (oldest == nullptr) {
        return false;
    }
    give_up_kept(*oldest);
    return true;
}

} // namespace adaptib
