// SPDX-License-Identifier: BSD-3-Clause
#include "connect/repair_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace adaptib {

namespace {

constexpr Nanoseconds kLookEvery{10'000'000}; // for a path, while there is none

} // namespace

// REQUIRES: the peer is open or closing.
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
    context_.listener.on_interrupted(peer);
    if (!peer.interruption.repair.gentle) {
        parts_.queue_pairs.fail_all(peer);
    }
}

// Destroyed queue pairs complete nothing any more; completions from before are taken, and do not
// count.
void RepairSteps::on_repair_late(Peer& peer) {
    destroy_initiators(peer);
    parts_.resources.drop_queue_pairs(peer);
    context_.listener.on_abandoned(peer);
}

// Destroys the peer's initiators, which complete nothing any more, for other users neither.
void RepairSteps::destroy_initiators(Peer& peer) {
    std::vector<const SharedInitiator*> gone;
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        SharedQueuePair* const shared = peer.shared_queue_pair(subchannel);
        if (shared != nullptr) {
            gone.push_back(&shared->initiator());
            shared->initiator().destroy();
        }
    }
    if (gone.empty()) {
        return;
    }
    peer.interruption.repair.quiet_at =
        context_.options.clock->now() + SharedDraining::kPacketsGone;
    parts_.limit.for_each([&](Peer& other) {
        const bool uses = std::any_of(
            other.lanes.subchannels.begin(), other.lanes.subchannels.end(), [&](const auto& each) {
                SharedQueuePair* const shared = other.shared_queue_pair(each);
                return shared != nullptr &&
                       std::find(gone.begin(), gone.end(), &shared->initiator()) != gone.end();
            });
        if (uses && &other != &peer && other.session.repairable) {
            parts_.repairs.begin(other);
        }
    });
}

void RepairSteps::on_repair_quiet(Peer& peer) {
    parts_.queue_pairs.fail_all(peer);
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
void RepairSteps::drop_ring_writer(Peer& peer) {
    parts_.resources.drop_queue_pairs(peer);
    peer.out.ring.reset();
    peer.transfers.answers = nullptr;
    peer.session.ring_broken = false;
}

// REQUIRES: fenced.
void RepairSteps::on_repair_ready(Peer& peer) {
    if (const auto early = std::move(peer.connection.early_request); early != nullptr) {
        listener_.on_kept_request(peer, *early);
        return;
    }
    const Status status = parts_.queue_pairs.make_all(peer);
    if (!status.ok() || peer.lanes.live_subchannels() == 0) {
        parts_.resources.drop_queue_pairs(peer);
        peer.interruption.repair.ask_at = context_.options.clock->now() + kLookEvery;
        return;
    }
    ++peer.connection.number;
    peer.session.state = ConnectState::requested;
    static_cast<void>(parts_.messages.send(peer, MessageType::connect_request));
}

// Waits for a path: no path is usable for both sides; each looks for one independently.
void RepairSteps::wait_for_path(Peer& peer) {
    parts_.resources.drop_queue_pairs(peer);
    peer.session.state = ConnectState::repairing;
    peer.interruption.repair.fenced = true;
    const auto more = static_cast<std::int64_t>(
        context_.options.random->below(static_cast<std::uint64_t>(kLookEvery.count())));
    peer.interruption.repair.ask_at =
        context_.options.clock->now() + kLookEvery + Nanoseconds{more};
}

// Returns false if the peer has failed. REQUIRES: the repair is active; the other side has fenced.
bool RepairSteps::take_over(Peer& peer, std::uint32_t expected) {
    context_.listener.on_ring_final(peer); // messages stored since
    if (peer.session.state == ConnectState::failed) {
        return false;
    }
    peer.interruption.repair.expected = expected;
    parts_.offered_rings.renew(peer);
    return true;
}

// Called when the connection is open again.
void RepairSteps::end(Peer& peer) {
    parts_.repairs.leave(peer);
    peer.interruption.repair.active = false;
    const auto took = context_.options.attended->now() - peer.interruption.repair.began;
    context_.counters.repair_nanoseconds += static_cast<std::uint64_t>(took.count());
    context_.listener.on_repaired(peer, took);
}

} // namespace adaptib
