// SPDX-License-Identifier: BSD-3-Clause
// Repair: makes a connection of which a path has failed anew over the paths that are left, and one
// that lacks a restored path over all (recovery/README.md explains why nothing is lost or done
// twice).
//
//     open --a path fails, or the peer asks for a repair--> repairing
//     repairing --fenced; the peer has requested--> answered
//     repairing --fenced; there is a path--> requested
//     requested --refuse: no path--> repairing
//
// While repairing, nothing is posted, and messages wait behind a barrier. All queue pairs go to the
// error state. Once all transfers have completed, this side takes what its ring holds, keeps what
// its writes into the peer's ring may have lost, and destroys the queue pairs. From then on nothing
// of the old connection can touch memory of this side: it is fenced. The request reports that, and
// the reply reports the same of the other side; only then rings and transfers are used again.
#include <algorithm>
#include <cstring>
#include <utility>

#include "connect/connection_manager.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kLookEvery{10'000'000}; // for a path, while there is none

} // namespace

void ConnectionManager::repair(Peer& peer) {
    peer.repair.gentle = false;
    want_repair(peer);
}

void ConnectionManager::improve(Peer& peer) {
    if (peer.state != ConnectState::open || !peer.repairable || peer.repair.wanted) {
        peer.repair.improve = true; // checked when the connection is open
        return;
    }
    for (std::uint32_t i = 0; i < peer.subchannels.size(); ++i) {
        if (peer.subchannels[i].qp == nullptr && context_.listener.is_usable(peer, i)) {
            peer.repair.gentle = true;
            want_repair(peer);
            return;
        }
    }
}

void ConnectionManager::want_repair(Peer& peer) {
    if (peer.state == ConnectState::idle || peer.state == ConnectState::failed) {
        return;
    }
    if (peer.state == ConnectState::repairing) {
        if (!peer.repair.fenced) {
            queue_pairs_.fail_all(peer); // a gentle repair continues as any other
        }
        return;
    }
    peer.repair.wanted = true;
    if (!peer.repair_link.linked()) {
        repairing_.push_back(peer);
    }
}

// REQUIRES: the peer is open or closing.
void ConnectionManager::begin_repair(Peer& peer) {
    if (peer.state == ConnectState::closing) {
        closings_.forget(peer);
        closings_.resume(peer);
    }
    lane_migrations_.stop(peer);
    measurement_.stop(peer);
    --context_.counters.connections_open;
    ++context_.counters.repairs;
    peer.state = ConnectState::repairing;
    peer.repair.wanted = false;
    peer.repair.fenced = false;
    peer.repair.quiet_at = Nanoseconds{0};
    peer.repair.failed_at = Nanoseconds::max();
    peer.repair.replaces = peer.connection;
    if (!peer.repair.active) {
        peer.repair.active = true;
        peer.repair.began = context_.options.attended->now();
    }
    context_.listener.on_interrupted(peer);
    if (!peer.repair.gentle) {
        queue_pairs_.fail_all(peer);
    }
}

void ConnectionManager::advance_repairs() {
    for (std::size_t left = repairing_.size(); left > 0 && !repairing_.empty(); --left) {
        Peer& peer = *repairing_.pop_front();
        repairing_.push_back(peer);
        if (peer.repair.active && !is_waited_for(peer)) {
            continue;
        }
        if (peer.repair.wanted &&
            (peer.state == ConnectState::open || peer.state == ConnectState::closing)) {
            begin_repair(peer);
        }
        if (peer.state == ConnectState::repairing &&
            context_.options.clock->now() >= abandon_at(peer)) {
            abandon(peer);
        }
        if (peer.state == ConnectState::repairing && !peer.repair.fenced &&
            shared_draining_.may_fence(peer)) {
            fence(peer);
        }
        if (peer.state == ConnectState::repairing && peer.repair.fenced &&
            (peer.early_request != nullptr ||
             context_.options.clock->now() >= peer.repair.ask_at)) {
            connect_again(peer);
        }
    }
}

Nanoseconds ConnectionManager::give_up_at(const Peer& peer) const {
    return context_.options.liveness->ends_at(peer, peer.repair.began);
}

// Returns false if the peer has been given up. REQUIRES: the repair is active.
bool ConnectionManager::is_waited_for(Peer& peer) {
    const Nanoseconds now = context_.options.attended->now();
    if (now < give_up_at(peer) || context_.options.witness->may_live(peer, peer.repair.began)) {
        return true;
    }
    context_.listener.on_partition(peer, now - std::max(peer.repair.began, Liveness::last(peer)));
    return false;
}

Nanoseconds ConnectionManager::repair_deadline() const {
    Nanoseconds next = Nanoseconds::max();
    for (const Peer* peer = repairing_.front(); peer != nullptr; peer = repairing_.next(*peer)) {
        const bool waits = peer->state == ConnectState::repairing && peer->repair.fenced;
        next = waits ? std::min(next, peer->repair.ask_at) : next;
        const bool lingers = peer->state == ConnectState::repairing && !peer->repair.fenced &&
                             peer->repair.quiet_at.count() > 0;
        next = lingers ? std::min(next, peer->repair.quiet_at) : next;
        next = std::min(next, abandon_at(*peer));
        const Nanoseconds end = peer->repair.active ? give_up_at(*peer) : Nanoseconds::max();
        next = std::min(next, context_.options.attended->look_at(end));
    }
    return next;
}

// A queue pair in the error state completes the work under way at once, unless its device has
// fallen silent.
Nanoseconds ConnectionManager::abandon_at(const Peer& peer) const {
    constexpr std::int64_t kPart = 4;
    const bool waits = peer.state == ConnectState::repairing && !peer.repair.fenced &&
                       (peer.stripes > 0 || !SharedDraining::is_quiet(peer)) &&
                       peer.repair.failed_at != Nanoseconds::max();
    return waits ? peer.repair.failed_at + context_.options.failure_timeout / kPart
                 : Nanoseconds::max();
}

// Destroyed queue pairs complete nothing any more; completions from before are taken, and do not
// count.
void ConnectionManager::abandon(Peer& peer) {
    destroy_initiators(peer);
    drop_queue_pairs_of(peer);
    context_.listener.on_abandoned(peer);
}

void ConnectionManager::fence(Peer& peer) {
    queue_pairs_.fail_all(peer);
    context_.listener.on_ring_final(peer);
    if (peer.state != ConnectState::repairing) {
        return; // what was in the ring has broken the connection
    }
    context_.listener.on_fenced(peer);
    if (peer.state != ConnectState::repairing) {
        return;
    }
    drop_ring_writer(peer);
    peer.repair.fenced = true;
    peer.repair.ask_at = Nanoseconds{0};
}

// Destroys queue pairs before the memory that they write from.
void ConnectionManager::drop_ring_writer(Peer& peer) {
    drop_queue_pairs_of(peer);
    peer.ring_out.reset();
    peer.answers = nullptr;
    peer.ring_broken = false;
}

// REQUIRES: fenced.
void ConnectionManager::connect_again(Peer& peer) {
    if (const auto early = std::move(peer.early_request); early != nullptr) {
        ++peer.connection;
        accept(peer, *early, kNeeded);
        return;
    }
    const Status status = queue_pairs_.make_all(peer);
    if (!status.ok() || peer.live_subchannels() == 0) {
        drop_queue_pairs_of(peer);
        peer.repair.ask_at = context_.options.clock->now() + kLookEvery;
        return;
    }
    ++peer.connection;
    peer.state = ConnectState::requested;
    static_cast<void>(messages_.send(peer, MessageType::connect_request));
}

// Waits for a path: no path is usable for both sides; each looks for one independently.
void ConnectionManager::wait_for_path(Peer& peer) {
    drop_queue_pairs_of(peer);
    peer.state = ConnectState::repairing;
    peer.repair.fenced = true;
    const auto more = static_cast<std::int64_t>(
        context_.options.random->below(static_cast<std::uint64_t>(kLookEvery.count())));
    peer.repair.ask_at = context_.options.clock->now() + kLookEvery + Nanoseconds{more};
}

// Returns false if the peer has failed. REQUIRES: the repair is active; the other side has fenced.
bool ConnectionManager::take_over(Peer& peer, std::uint32_t expected) {
    context_.listener.on_ring_final(peer); // messages stored since
    if (peer.state == ConnectState::failed) {
        return false;
    }
    peer.repair.expected = expected;
    offered_rings_.renew(peer);
    return true;
}

void ConnectionManager::leave_repairs(Peer& peer) {
    if (peer.repair_link.linked()) {
        repairing_.remove(peer);
    }
}

bool ConnectionManager::uses_failed_path(const Peer& peer) const {
    for (std::uint32_t i = 0; i < peer.subchannels.size(); ++i) {
        if (peer.subchannels[i].qp != nullptr && !context_.listener.is_usable(peer, i)) {
            return true;
        }
    }
    return false;
}

// Called when the connection is open again.
void ConnectionManager::end_repair(Peer& peer) {
    leave_repairs(peer);
    peer.repair.active = false;
    const auto took = context_.options.attended->now() - peer.repair.began;
    context_.counters.repair_nanoseconds += static_cast<std::uint64_t>(took.count());
    context_.listener.on_repaired(peer, took);
}

} // namespace adaptib
