// SPDX-License-Identifier: BSD-3-Clause
// Steps of repairs (connect/repairs.h), and the agreement of both sides.
#include <algorithm>
#include <cstring>
#include <utility>

#include "connect/connection_manager.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kLookEvery{10'000'000}; // for a path, while there is none

} // namespace

// REQUIRES: the peer is open or closing.
void ConnectionManager::on_repair_begins(Peer& peer) {
    if (peer.session.state == ConnectState::closing) {
        closings_.forget(peer);
        closings_.resume(peer);
    }
    lane_migrations_.stop(peer);
    measurement_.stop(peer);
    --context_.counters.connections_open;
    ++context_.counters.repairs;
    peer.session.state = ConnectState::repairing;
    peer.interruption.repair.wanted = false;
    peer.interruption.repair.fenced = false;
    peer.interruption.repair.quiet_at = Nanoseconds{0};
    peer.interruption.repair.failed_at = Nanoseconds::max();
    peer.interruption.repair.replaces = peer.connection.number;
    if (!peer.interruption.repair.active) {
        peer.interruption.repair.active = true;
        peer.interruption.repair.began = context_.options.attended->now();
    }
    context_.listener.on_interrupted(peer);
    if (!peer.interruption.repair.gentle) {
        queue_pairs_.fail_all(peer);
    }
}

// Destroyed queue pairs complete nothing any more; completions from before are taken, and do not
// count.
void ConnectionManager::on_repair_late(Peer& peer) {
    destroy_initiators(peer);
    drop_queue_pairs_of(peer);
    context_.listener.on_abandoned(peer);
}

void ConnectionManager::on_repair_quiet(Peer& peer) {
    queue_pairs_.fail_all(peer);
    context_.listener.on_ring_final(peer);
    if (peer.session.state != ConnectState::repairing) {
        return; // what was in the ring has broken the connection
    }
    context_.listener.on_fenced(peer);
    if (peer.session.state != ConnectState::repairing) {
        return;
    }
    drop_ring_writer(peer);
    peer.interruption.repair.fenced = true;
    peer.interruption.repair.ask_at = Nanoseconds{0};
}

// Destroys queue pairs before the memory that they write from.
void ConnectionManager::drop_ring_writer(Peer& peer) {
    drop_queue_pairs_of(peer);
    peer.out.ring.reset();
    peer.transfers.answers = nullptr;
    peer.session.ring_broken = false;
}

// REQUIRES: fenced.
void ConnectionManager::on_repair_ready(Peer& peer) {
    if (const auto early = std::move(peer.connection.early_request); early != nullptr) {
        ++peer.connection.number;
        accept(peer, *early, kNeeded);
        return;
    }
    const Status status = queue_pairs_.make_all(peer);
    if (!status.ok() || peer.lanes.live_subchannels() == 0) {
        drop_queue_pairs_of(peer);
        peer.interruption.repair.ask_at = context_.options.clock->now() + kLookEvery;
        return;
    }
    ++peer.connection.number;
    peer.session.state = ConnectState::requested;
    static_cast<void>(messages_.send(peer, MessageType::connect_request));
}

// Waits for a path: no path is usable for both sides; each looks for one independently.
void ConnectionManager::wait_for_path(Peer& peer) {
    drop_queue_pairs_of(peer);
    peer.session.state = ConnectState::repairing;
    peer.interruption.repair.fenced = true;
    const auto more = static_cast<std::int64_t>(
        context_.options.random->below(static_cast<std::uint64_t>(kLookEvery.count())));
    peer.interruption.repair.ask_at =
        context_.options.clock->now() + kLookEvery + Nanoseconds{more};
}

// Returns false if the peer has failed. REQUIRES: the repair is active; the other side has fenced.
bool ConnectionManager::take_over(Peer& peer, std::uint32_t expected) {
    context_.listener.on_ring_final(peer); // messages stored since
    if (peer.session.state == ConnectState::failed) {
        return false;
    }
    peer.interruption.repair.expected = expected;
    offered_rings_.renew(peer);
    return true;
}

// Called when the connection is open again.
void ConnectionManager::end_repair(Peer& peer) {
    repairs_.leave(peer);
    peer.interruption.repair.active = false;
    const auto took = context_.options.attended->now() - peer.interruption.repair.began;
    context_.counters.repair_nanoseconds += static_cast<std::uint64_t>(took.count());
    context_.listener.on_repaired(peer, took);
}

} // namespace adaptib
