// SPDX-License-Identifier: BSD-3-Clause
#include "connect/teardown.h"

#include <memory>
#include <utility>
#include <vector>

namespace adaptib {

void Teardown::fail(Peer& peer, Status status, const std::string& what, ConnectEvent kind) {
    if (peer.session.lost()) {
        return; // its queue pairs may still have work under way
    }
    if (peer.session.state != ConnectState::open && peer.session.state != ConnectState::closing) {
        // Otherwise work is outstanding: break_off lets it complete.
        close(peer, ConnectState::failed);
    }
    context_.events.report(peer, kind, status, what);
}

void Teardown::leave(Peer& peer, ConnectState state) {
    context_.events.forget(peer);
    parts_.messages.forget(peer);
    if (peer.session.connected()) {
        --context_.counters.connections_open;
    }
    parts_.closings.forget(peer);
    parts_.limit.stop_waiting(peer);
    parts_.yielding.stop(peer);
    parts_.lane_migrations.stop(peer);
    parts_.measurement.stop(peer);
    parts_.repairs.leave(peer);
    parts_.cm_connects.leave(peer);
    const std::uint32_t expected = peer.interruption.repair.expected;
    peer.interruption.repair = {};
    peer.interruption.repair.expected = expected;
    peer.session.repairable = peer.session.ring_broken = false;
    peer.session.state = state;
    peer.drop_ring_writer(peer.out.ring);
    peer.transfers.answers = nullptr;
    peer.drop_ring_writer(peer.connection.ring_closing);
    if (state == ConnectState::failed) {
        peer.contact.channel.retransmitter().forget(peer.contact.datagram);
    }
}

void Teardown::stop_sharing(Peer& peer) {
    SharedDraining::stop(peer);
    parts_.repairs.begin_for_sharers(peer);
}

void Teardown::break_off(Peer& peer) {
    stop_sharing(peer);
    leave(peer, ConnectState::failed);
    parts_.pool.destroy(peer);
    if (peer.connection.slot_link.linked()) {
        parts_.limit.leave(peer);
    }
    ++context_.counters.connections_failed;
    parts_.queue_pairs.fail_all(peer);
}

void Teardown::close(Peer& peer, ConnectState state) {
    stop_sharing(peer);
    leave(peer, state);
    parts_.offered_rings.withdraw(peer);
    parts_.resources.drop(peer);
    parts_.pool.destroy(peer);
    parts_.pool.free_ring(peer);
}

void Teardown::keep(Peer& peer) {
    if (!parts_.pool.takes(peer)) {
        close(peer, ConnectState::idle);
        return;
    }
    const std::uint64_t used = peer.in.ring.has_value() ? peer.in.ring->consumed() : 0;
    leave(peer, ConnectState::idle);
    parts_.offered_rings.withdraw(peer);
    OfferedRings::clean(peer, used * kRingUnit);
    std::vector<std::unique_ptr<QueuePair>> kept(peer.lanes.subchannels.size());
    for (std::size_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        std::unique_ptr<QueuePair> qp = parts_.queue_pairs.take(peer, peer.lanes.subchannels[i]);
        const bool cm_connected = parts_.queue_pairs.needs_cm_connect(
            peer, peer.lanes.subchannels[i]); // it keeps its rdma_cm id
        if (!cm_connected && !peer.connection.shared) {
            kept[i] = std::move(qp);
        }
    }
    parts_.resources.drop(peer);
    parts_.pool.keep(peer, std::move(kept));
}

} // namespace adaptib
