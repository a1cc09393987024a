// SPDX-License-Identifier: BSD-3-Clause
#include "connect/repairs.h"

#include <algorithm>

namespace adaptib {

void Repairs::begin(Peer& peer) {
    peer.interruption.repair.gentle = false;
    want(peer);
}

void Repairs::improve(Peer& peer) {
    if (peer.session.state != ConnectState::open || !peer.session.repairable ||
        peer.interruption.repair.wanted) {
        peer.interruption.repair.improve = true; // checked when the connection is open
        return;
    }
    for (std::uint32_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        if (peer.lanes.subchannels[i].qp == nullptr && context_.listener.is_usable(peer, i)) {
            peer.interruption.repair.gentle = true;
            want(peer);
            return;
        }
    }
}

void Repairs::begin_for_sharers(Peer& peer) {
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        SharedQueuePair* const shared = peer.shared_queue_pair(subchannel);
        if (shared == nullptr || !shared->initiator().failed()) {
            continue;
        }
        for (Peer* other : queue_pairs_.owners().find(subchannel.local_rail, shared->number())) {
            if (other != &peer && may_begin(*other)) {
                begin(*other);
            }
        }
    }
}

void Repairs::want(Peer& peer) {
    if (peer.session.state == ConnectState::idle || peer.session.state == ConnectState::failed) {
        return;
    }
    if (peer.session.state == ConnectState::repairing) {
        if (!peer.interruption.repair.fenced) {
            queue_pairs_.fail_all(peer); // a gentle repair continues as any other
        }
        return;
    }
    peer.interruption.repair.wanted = true;
    if (!peer.interruption.repair_link.linked()) {
        repairing_.push_back(peer);
    }
}

void Repairs::advance() {
    for (std::size_t left = repairing_.size(); left > 0 && !repairing_.empty(); --left) {
        Peer& peer = *repairing_.pop_front();
        repairing_.push_back(peer);
        if (ConnectionEvents::is_waiting(peer) ||
            (peer.interruption.repair.active && !is_waited_for(peer))) {
            continue;
        }
        begin_if_wanted(peer);
    }
}

// Each of these takes a step if it is due, and then the next one.
void Repairs::begin_if_wanted(Peer& peer) {
    if (peer.interruption.repair.wanted && peer.session.connected()) {
        listener_.on_repair_begins(peer);
    }
    if (!ConnectionEvents::is_waiting(peer)) {
        abandon_if_late(peer);
    }
}

void Repairs::abandon_if_late(Peer& peer) {
    if (peer.session.state == ConnectState::repairing &&
        context_.options.clock->now() >= abandon_at(peer)) {
        listener_.on_repair_late(peer);
    }
    if (!ConnectionEvents::is_waiting(peer)) {
        fence_if_quiet(peer);
    }
}

void Repairs::fence_if_quiet(Peer& peer) {
    if (peer.session.state == ConnectState::repairing && !peer.interruption.repair.fenced &&
        draining_.may_fence(peer)) {
        listener_.on_repair_quiet(peer);
    }
    if (!ConnectionEvents::is_waiting(peer)) {
        renew_if_due(peer);
    }
}

// A request says that the other side has fenced: messages that it has stored since this side did
// are taken first.
void Repairs::renew_if_due(Peer& peer) {
    if (peer.session.state != ConnectState::repairing || !peer.interruption.repair.fenced) {
        return;
    }
    if (peer.connection.early_request != nullptr) {
        context_.events.report(peer, ConnectEvent::ring_final);
    } else if (context_.options.clock->now() >= peer.interruption.repair.ask_at) {
        listener_.on_repair_ready(peer);
    }
}

void Repairs::on_events_handled(Peer& peer, ConnectEventSet handled) {
    if (peer.session.state != ConnectState::repairing) {
        return; // what was in the ring has broken the connection
    }
    if (handled.has(ConnectEvent::interrupted)) {
        abandon_if_late(peer);
    } else if (handled.has(ConnectEvent::abandoned)) {
        fence_if_quiet(peer);
    } else if (handled.has(ConnectEvent::fenced)) {
        listener_.on_repair_fenced(peer);
        renew_if_due(peer);
    } else if (handled.has(ConnectEvent::ring_final)) {
        listener_.on_repair_ready(peer);
    }
}

Nanoseconds Repairs::give_up_at(const Peer& peer) const {
    return context_.options.liveness->ends_at(peer, peer.interruption.repair.began);
}

// Returns false if the peer has been given up. REQUIRES: the repair is active.
bool Repairs::is_waited_for(Peer& peer) {
    const Nanoseconds now = context_.options.attended->now();
    if (now < give_up_at(peer) ||
        context_.options.witness->may_live(peer, peer.interruption.repair.began)) {
        return true;
    }
    context_.events.report(peer, ConnectEvent::partition,
                           now - std::max(peer.interruption.repair.began, Liveness::last(peer)));
    return false;
}

Nanoseconds Repairs::next_step() const {
    Nanoseconds next = Nanoseconds::max();
    for (const Peer* peer = repairing_.front(); peer != nullptr; peer = repairing_.next(*peer)) {
        const bool waits =
            peer->session.state == ConnectState::repairing && peer->interruption.repair.fenced;
        next = waits ? std::min(next, peer->interruption.repair.ask_at) : next;
        const bool lingers = peer->session.state == ConnectState::repairing &&
                             !peer->interruption.repair.fenced &&
                             peer->interruption.repair.quiet_at.count() > 0;
        next = lingers ? std::min(next, peer->interruption.repair.quiet_at) : next;
        next = std::min(next, abandon_at(*peer));
        const Nanoseconds end =
            peer->interruption.repair.active ? give_up_at(*peer) : Nanoseconds::max();
        next = std::min(next, context_.options.attended->look_at(end));
    }
    return next;
}

// A queue pair in the error state completes the work under way at once, unless its device has
// fallen silent.
Nanoseconds Repairs::abandon_at(const Peer& peer) const {
    constexpr std::int64_t kPart = 4;
    const bool waits = peer.session.state == ConnectState::repairing &&
                       !peer.interruption.repair.fenced &&
                       (peer.transfers.stripes > 0 || !SharedDraining::is_quiet(peer)) &&
                       peer.interruption.repair.failed_at != Nanoseconds::max();
    return waits ? peer.interruption.repair.failed_at + context_.options.failure_timeout / kPart
                 : Nanoseconds::max();
}

void Repairs::leave(Peer& peer) {
    if (peer.interruption.repair_link.linked()) {
        repairing_.remove(peer);
    }
}

bool Repairs::uses_failed_path(const Peer& peer) const {
    for (std::uint32_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        if (peer.lanes.subchannels[i].qp != nullptr && !context_.listener.is_usable(peer, i)) {
            return true;
        }
    }
    return false;
}

} // namespace adaptib
