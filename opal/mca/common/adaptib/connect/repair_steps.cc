// SPDX-License-Identifier: BSD-3-Clause
#include "connect/repair_steps.h"

#include <utility>

namespace adaptib {

namespace {

constexpr Nanoseconds kLookEvery{10'000'000}; // for a path, while there is none

} // namespace

void RepairSteps::on_repair_begins(Peer& peer) {
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

void RepairSteps::on_repair_late(Peer& peer) {
    context_.events.report(peer, ConnectEvent::abandoned);
}

void RepairSteps::abandon(Peer& peer) {
    destroy_initiators(peer);
    parts_.resources.drop_queue_pairs(peer);
}

// Destroys the peer's initiators, which complete nothing any more, for other users neither.
void RepairSteps::destroy_initiators(Peer& peer) {
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
        parts_.repairs.begin_for_sharers(peer);
    }
}

void RepairSteps::on_repair_quiet(Peer& peer) {
    parts_.queue_pairs.fail_all(peer);
    context_.events.report(peer, ConnectEvent::ring_final);
    context_.events.report(peer, ConnectEvent::fenced);
}

void RepairSteps::on_repair_fenced(Peer& peer) {
    drop_ring_writer(peer);
    peer.interruption.repair.fenced = true;
    peer.interruption.repair.ask_at = Nanoseconds{0};
}

// Destroys queue pairs before the memory that they write from.
void RepairSteps::drop_ring_writer(Peer& peer) {
    parts_.resources.drop_queue_pairs(peer);
    peer.drop_ring_writer(peer.out.ring);
    peer.transfers.answers = nullptr;
    peer.session.ring_broken = false;
}

// Asks without a queue pair if the peer goes on without a connection: the other side refuses that,
// and says which messages it lacks. REQUIRES: fenced.
void RepairSteps::on_repair_ready(Peer& peer) {
    if (const auto early = std::move(peer.connection.early_request); early != nullptr) {
        listener_.on_kept_request(peer, *early);
        return;
    }
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

void RepairSteps::wait_for_path(Peer& peer) {
    parts_.resources.drop_queue_pairs(peer);
    peer.session.state = ConnectState::repairing;
    peer.interruption.repair.fenced = true;
    const auto more = static_cast<std::int64_t>(
        context_.options.random->below(static_cast<std::uint64_t>(kLookEvery.count())));
    peer.interruption.repair.ask_at =
        context_.options.clock->now() + kLookEvery + Nanoseconds{more};
}

void RepairSteps::take_over(Peer& peer, std::uint32_t expected) {
    peer.interruption.repair.expected = expected;
    parts_.offered_rings.renew(peer);
}

void RepairSteps::end(Peer& peer) {
    parts_.repairs.leave(peer);
    peer.interruption.repair.active = false;
    const auto took = context_.options.attended->now() - peer.interruption.repair.began;
    context_.counters.repair_nanoseconds += static_cast<std::uint64_t>(took.count());
    context_.events.report(peer, ConnectEvent::repaired, took);
}

} // namespace adaptib
