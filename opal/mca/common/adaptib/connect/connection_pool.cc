// SPDX-License-Identifier: BSD-3-Clause
#include "connect/connection_pool.h"

#include <utility>

namespace adaptib {

bool ConnectionPool::takes(const Peer& peer) const {
    const bool disconnecting =
        peer.ending.released() || peer.session.disconnect_sent || peer.ending.disconnect_received;
    return most_ > 0 && !disconnecting;
}

void ConnectionPool::keep(Peer& peer, std::vector<std::unique_ptr<QueuePair>> queue_pairs) {
    QpAttributes attributes;
    attributes.state = QpState::reset;
    for (std::unique_ptr<QueuePair>& qp : queue_pairs) {
        if (qp != nullptr && !qp->modify(attributes, kQpState).ok()) {
            qp.reset();
        }
    }
    peer.connection.kept.reused = false;
    peer.connection.kept.queue_pairs = std::move(queue_pairs);
    kept_.push_back(peer);
    if (kept_.size() > most_) {
        static_cast<void>(destroy_oldest());
    }
    counters_.connections_kept = kept_.size();
}

void ConnectionPool::remove(Peer& peer) {
    kept_.remove(peer);
    counters_.connections_kept = kept_.size();
}

void ConnectionPool::leave(Peer& peer) {
    if (peer.connection.kept.link.linked()) {
        remove(peer);
        peer.connection.kept.reused = true;
    }
}

std::unique_ptr<QueuePair> ConnectionPool::take(Peer& peer, const Subchannel& subchannel) {
    const auto index = static_cast<std::size_t>(&subchannel - peer.lanes.subchannels.data());
    return index < peer.connection.kept.queue_pairs.size()
               ? std::move(peer.connection.kept.queue_pairs[index])
               : nullptr;
}

void ConnectionPool::destroy(Peer& peer) {
    if (peer.connection.kept.link.linked()) {
        remove(peer);
        peer.connection.kept.queue_pairs.clear();
        free_ring(peer);
    }
}

bool ConnectionPool::destroy_oldest() {
    Peer* oldest = kept_.front();
    for (Peer* peer = oldest; peer != nullptr; peer = kept_.next(*peer)) {
        if (!peer->connection.wanted_link.linked()) {
            oldest = peer;
            break;
        }
    }
    if (oldest == nullptr) {
        return false;
    }
    destroy(*oldest);
    return true;
}

void ConnectionPool::free_ring(Peer& peer) {
    peer.in.ring_registration.reset();
    if (peer.in.ring_memory != nullptr) {
        --counters_.buffers;
        counters_.buffers_bytes -= peer.in.ring_memory->length();
        peer.in.ring_memory.reset();
    }
}

} // namespace adaptib
