// SPDX-License-Identifier: BSD-3-Clause
#include "connect/connection_resources.h"

#include <algorithm>

namespace adaptib {

Status ConnectionResources::make(Peer& peer) {
    if (!peer.lanes.subchannels.empty()) {
        return kOk;
    }
    parts_.pool.leave(peer);
    Status status = parts_.queue_pairs.make_all(peer);
    peer.connection.kept.queue_pairs.clear(); // those of paths that cannot be used
    if (status.ok()) {
        context_.counters.paths_most =
            std::max<std::uint64_t>(context_.counters.paths_most, peer.lanes.live_subchannels());
        parts_.limit.enter(peer);
        status = parts_.offered_rings.offer(peer);
    }
    if (!status.ok()) {
        drop(peer);
        parts_.pool.free_ring(peer);
    }
    return status;
}

void ConnectionResources::drop(Peer& peer) {
    if (peer.connection.slot_link.linked()) {
        parts_.limit.leave(peer);
    }
    drop_queue_pairs(peer);
    peer.lanes.subchannels.clear();
}

void ConnectionResources::drop_all_queue_pairs(Peer& peer) {
    drop_queue_pairs(peer);
    peer.connection.kept.queue_pairs.clear();
}

void ConnectionResources::drop_queue_pairs(Peer& peer) {
    parts_.cm_connects.leave(peer);
    parts_.queue_pairs.drop_all(peer);
}

void ConnectionResources::set_kind(Peer& peer, bool shared) {
    if (peer.connection.shared == shared) {
        return;
    }
    if (peer.interruption.repair.active) {
        drop_queue_pairs(peer);
        const bool linked = peer.connection.slot_link.linked();
        if (linked) {
            parts_.limit.leave(peer);
        }
        peer.connection.shared = shared;
        if (linked) {
            parts_.limit.enter(peer);
        }
        return;
    }
    if (!peer.lanes.subchannels.empty()) {
        parts_.offered_rings.withdraw(peer);
        drop(peer);
    }
    peer.connection.shared = shared;
}

} // namespace adaptib
