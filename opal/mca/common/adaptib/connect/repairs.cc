// SPDX-License-Identifier: BSD-3-Clause
#include "connect/repairs.h"

#include <algorithm>
#include <utility>

namespace adaptib {

namespace {

constexpr Nanoseconds kLookEvery{10'000'000}; // for a path, while there is none

} // namespace

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
        for (Peer* other :
             parts_.queue_pairs.owners().find(subchannel.local_rail, shared->number())) {
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
            parts_.queue_pairs.fail_all(peer); // a gentle repair continues as any other
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
        interrupt(peer);
    }
    if (!ConnectionEvents::is_waiting(peer)) {
        abandon_if_late(peer);
    }
}

void Repairs::abandon_if_late(Peer& peer) {
    if (peer.session.state == ConnectState::repairing &&
        context_.options.clock->now() >= abandon_at(peer)) {
        context_.events.report(peer, ConnectEvent::abandoned);
    }
    if (!ConnectionEvents::is_waiting(peer)) {
        fence_if_quiet(peer);
    }
}

void Repairs::fence_if_quiet(Peer& peer) {
    if (peer.session.state == ConnectState::repairing && !peer.interruption.repair.fenced &&
        parts_.draining.may_fence(peer)) {
        parts_.queue_pairs.fail_all(peer);
        context_.events.report(peer, ConnectEvent::ring_final);
        context_.events.report(peer, ConnectEvent::fenced);
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
        renew(peer);
    }
}

std::unique_ptr<ConnectBody> Repairs::on_events_handled(Peer& peer, ConnectEventSet handled) {
    if (peer.session.state != ConnectState::repairing) {
        return nullptr; // what was in the ring has broken the connection
    }
    if (handled.has(ConnectEvent::interrupted)) {
        abandon_if_late(peer);
    } else if (handled.has(ConnectEvent::abandoned)) {
        fence_if_quiet(peer);
    } else if (handled.has(ConnectEvent::fenced)) {
        fence(peer);
        renew_if_due(peer);
    } else if (handled.has(ConnectEvent::ring_final)) {
        if (peer.connection.early_request != nullptr) {
            return std::move(peer.connection.early_request);
        }
        renew(peer);
    }
    return nullptr;
}

// -------------------------------------------------------------------------------------------------
// Steps

// Nothing may be posted from now on. REQUIRES: the peer is open or closing.
void Repairs::interrupt(Peer& peer) {
    if (peer.session.state == ConnectState::closing) {
        parts_.closings.forget(peer);
        parts_.closings.resume(peer);
    }
    parts_.lane_migrations.stop(peer);
    parts_.measurement.stop(peer);
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
    static_cast<void>(parts_.queue_pairs.prepare(peer)); // before they are connected again
    context_.events.report(peer, ConnectEvent::interrupted);
    if (!peer.interruption.repair.gentle) {
        parts_.queue_pairs.fail_all(peer);
    }
}

void Repairs::abandon(Peer& peer) {
    destroy_initiators(peer);
    parts_.resources.drop_queue_pairs(peer);
}

// Destroys the peer's initiators, which complete nothing any more, for other users neither.
void Repairs::destroy_initiators(Peer& peer) {
    bool any = false;
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        SharedQueuePair* const shared = peer.shared_queue_pair(subchannel);
        if (shared != nullptr) {
            any = true;
            shared->initiator().destroy();
        }
    }
    if (any) {
        peer.interruption.repair.quiet_at =
            context_.options.clock->now() + parts_.draining.packets_gone(peer);
        begin_for_sharers(peer);
    }
}

// The events of fencing have been handled.
void Repairs::fence(Peer& peer) {
    drop_ring_writer(peer);
    peer.interruption.repair.fenced = true;
    peer.interruption.repair.ask_at = Nanoseconds{0};
}

// Destroys queue pairs before the memory that they write from.
void Repairs::drop_ring_writer(Peer& peer) {
    parts_.resources.drop_queue_pairs(peer);
    peer.drop_ring_writer(peer.out.ring);
    peer.transfers.answers = nullptr;
    peer.session.ring_broken = false;
}

// Requests the connection anew. Asks without a queue pair if the peer goes on without one: the
// other side refuses that, and says which messages it lacks. REQUIRES: fenced.
void Repairs::renew(Peer& peer) {
    static_cast<void>(context_.listener.choose_pairs(peer));
    const bool without = context_.listener.goes_without(peer, false);
    const Status status = without ? kOk : parts_.queue_pairs.make_all(peer);
    if (!status.ok() || (peer.lanes.live_subchannels() == 0 && !without)) {
        parts_.resources.drop_queue_pairs(peer);
        peer.interruption.repair.ask_at = context_.options.clock->now() + kLookEvery;
        return;
    }
    ++peer.connection.number;
    peer.session.state = ConnectState::requested;
    static_cast<void>(parts_.messages.send(peer, MessageType::connect_request));
}

void Repairs::wait_for_path(Peer& peer) {
    parts_.resources.drop_queue_pairs(peer);
    peer.session.state = ConnectState::repairing;
    peer.interruption.repair.fenced = true;
    const auto more = static_cast<std::int64_t>(
        context_.options.random->below(static_cast<std::uint64_t>(kLookEvery.count())));
    peer.interruption.repair.ask_at =
        context_.options.clock->now() + kLookEvery + Nanoseconds{more};
}

void Repairs::take_over(Peer& peer, std::uint32_t expected) {
    peer.interruption.repair.expected = expected;
    parts_.offered_rings.renew(peer);
}

void Repairs::end(Peer& peer) {
    leave(peer);
    peer.interruption.repair.active = false;
    const auto took = context_.options.attended->now() - peer.interruption.repair.began;
    context_.counters.repair_nanoseconds += static_cast<std::uint64_t>(took.count());
    context_.events.report(peer, ConnectEvent::repaired, took);
}

// -------------------------------------------------------------------------------------------------
// Times

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
