// SPDX-License-Identifier: BSD-3-Clause
// A connection's resources: made before the handshake (handshake.cc), and taken down.
#include "connect/connection_manager.h"

#include <algorithm>
#include <utility>

namespace adaptib {

// Makes queue pairs in the state INIT and a ring for the peer to write into, unless they exist
// already.
Status ConnectionManager::prepare(Peer& peer) {
    if (!peer.lanes.subchannels.empty()) {
        return kOk;
    }
    pool_.leave(peer);
    Status status = queue_pairs_.make_all(peer);
    peer.connection.pooled.clear(); // those of paths that cannot be used
    if (status.ok()) {
        context_.counters.paths_most =
            std::max<std::uint64_t>(context_.counters.paths_most, peer.lanes.live_subchannels());
        limit_.enter(peer);
        status = offered_rings_.offer(peer);
    }
    if (!status.ok()) {
        drop_queue_pairs(peer);
        pool_.free_ring(peer);
    }
    return status;
}

void ConnectionManager::drop_queue_pairs(Peer& peer) {
    if (peer.connection.slot_link.linked()) {
        limit_.leave(peer);
    }
    drop_queue_pairs_of(peer);
    peer.lanes.subchannels.clear();
}

void ConnectionManager::drop_queue_pairs_of(Peer& peer) {
    cm_connects_.leave(peer);
    queue_pairs_.drop_all(peer);
}

Status ConnectionManager::open_loopback(Peer& self) {
    Status status = queue_pairs_.make_all(self);
    for (std::size_t i = 0; i < self.lanes.subchannels.size() && status.ok(); ++i) {
        Subchannel& subchannel = self.lanes.subchannels[i];
        if (subchannel.qp == nullptr) {
            continue;
        }
        const std::uint32_t number = subchannel.qp->number();
        status =
            queue_pairs_.connect(self, subchannel,
                                 {static_cast<std::uint16_t>(subchannel.local_rail), 0, number,
                                  QueuePairs::first_packet(self.connection.number, number), 0});
    }
    if (!status.ok()) {
        self.lanes.subchannels.clear();
        if (limit_.no_room_says(status)) {
            limit_.wait_with_self();
        }
        return status;
    }
    self.session.state = ConnectState::open;
    ++context_.counters.connections_open;
    return kOk;
}

void ConnectionManager::retry() {
    messages_.retry();
    if (yielding_.active()) [[unlikely]] {
        yielding_.advance();
    }
    closings_.advance();
    if (lane_migrations_.active()) [[unlikely]] {
        lane_migrations_.advance();
    }
    if (repairs_.active()) [[unlikely]] {
        repairs_.advance();
    }
    if (cm_connects_.active()) [[unlikely]] {
        cm_connects_.advance();
    }
}

void ConnectionManager::on_unsent(Peer& peer, Status status) {
    fail(peer, status, "a message of the connection handshake could not be sent");
}

void ConnectionManager::fail(Peer& peer, Status status, const std::string& what) {
    if (peer.session.state != ConnectState::open && peer.session.state != ConnectState::closing) {
        // Otherwise work is outstanding: break_off lets it complete.
        close(peer, ConnectState::failed);
    }
    context_.listener.on_connect_failed(peer, status, what);
}

void ConnectionManager::leave(Peer& peer, ConnectState state) {
    messages_.forget(peer);
    if (peer.session.state == ConnectState::open || peer.session.state == ConnectState::closing) {
        --context_.counters.connections_open;
    }
    closings_.forget(peer);
    limit_.stop_waiting(peer);
    yielding_.stop(peer);
    lane_migrations_.stop(peer);
    measurement_.stop(peer);
    repairs_.leave(peer);
    cm_connects_.leave(peer);
    const std::uint32_t expected = peer.interruption.repair.expected;
    peer.interruption.repair = {};
    peer.interruption.repair.expected = expected;
    peer.session.repairable = peer.session.ring_broken = false;
    peer.session.state = state;
    peer.out.ring.reset();
    peer.transfers.answers = nullptr;
    peer.connection.ring_paused.reset();
    if (state == ConnectState::failed) {
        peer.contact.channel.retransmitter().forget(peer.contact.datagram);
    }
}

void ConnectionManager::break_off(Peer& peer) {
    SharedDraining::stop(peer);
    leave(peer, ConnectState::failed);
    pool_.give_up(peer);
    if (peer.connection.slot_link.linked()) {
        limit_.leave(peer);
    }
    ++context_.counters.connections_failed;
    queue_pairs_.fail_all(peer);
}

void ConnectionManager::close(Peer& peer, ConnectState state) {
    SharedDraining::stop(peer);
    leave(peer, state);
    offered_rings_.withdraw(peer);
    drop_queue_pairs(peer);
    pool_.give_up(peer);
    pool_.free_ring(peer);
}

// Replaces close(): the pool keeps what it may. REQUIRES: nothing is under way on either side.
void ConnectionManager::keep(Peer& peer) {
    if (!pool_.takes(peer)) {
        close(peer, ConnectState::idle);
        return;
    }
    const std::uint64_t used = peer.in.ring.has_value() ? peer.in.ring->consumed() : 0;
    leave(peer, ConnectState::idle);
    offered_rings_.withdraw(peer);
    OfferedRings::clean(peer, used * kRingUnit);
    std::vector<std::unique_ptr<QueuePair>> kept(peer.lanes.subchannels.size());
    for (std::size_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        std::unique_ptr<QueuePair> qp = queue_pairs_.take(peer, peer.lanes.subchannels[i]);
        const bool cm_connected = queue_pairs_.needs_cm_connect(
            peer, peer.lanes.subchannels[i]); // it keeps its rdma_cm id
        if (!cm_connected && !peer.connection.shared) {
            kept[i] = std::move(qp);
        }
    }
    drop_queue_pairs(peer);
    pool_.keep(peer, std::move(kept));
}

void ConnectionManager::on_closing_agreed(Peer& peer) {
    constexpr Nanoseconds kAfterYielding{1'000'000}; // before the connection is requested again
    context_.listener.on_ring_final(peer);
    if (peer.session.state != ConnectState::closing) {
        return; // what was in the ring has broken the connection
    }
    const bool yielded = peer.transfers.yields;
    keep(peer);
    ++context_.counters.connections_closed;
    peer.connection.activity.asks_itself = false;
    peer.flow.messages_sent = 0;
    if (yielded &&
        !peer.connection.wanted_link.linked()) { // others first, at the other end as well
        limit_.wait(peer, context_.options.clock->now() + kAfterYielding);
    }
    limit_.serve_soon(); // waiting peers have their turn at once
    if (const auto early = std::move(peer.connection.early_request); early != nullptr) {
        on_request(peer, *early, kNeeded);
    }
    grant_preference(peer);
    context_.listener.on_unconnected(peer);
}

} // namespace adaptib
