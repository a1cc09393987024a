// SPDX-License-Identifier: BSD-3-Clause
// Lane migration: moves a connection's control lane (ring and credit) to another of its
// subchannels, while the job runs, because its lane was found to be slow (schedule/control_lane.h).
//
// Each side migrates its own control lane, and tells nobody: a ring and a credit are memory of the
// other side, which all subchannels reach, each with the key from the handshake. Writes over two
// queue pairs have no order, so nothing is written over the new one before all that was written
// over the old one has arrived: the ring takes no messages, and credit waits, until an empty write
// behind them is complete, which takes a round trip. The empty write would wait for transfers
// posted before, too: so a migration begins when none is under way over the old one, or after a
// while. Transfers stay on their subchannels. A connection is not closed during a migration; one
// that breaks is repaired, and chooses its control lane anew.
#include "connect/connection_manager.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kPatience{10'000'000}; // with transfers over the old control lane

} // namespace

bool ConnectionManager::can_carry(const Peer& peer, std::uint32_t index) {
    const bool there = index < peer.subchannels.size() && peer.subchannels[index].qp != nullptr;
    return there && rails_[peer.subchannels[index].local_rail]->state() == PortState::active &&
           listener_.is_usable(peer, index);
}

void ConnectionManager::migrate_control_lane(Peer& peer, std::uint32_t to) {
    if (peer.state != ConnectState::open || peer.repair.wanted || peer.lane_migration.active ||
        peer.ring_memory == nullptr || to == chosen_subchannel(peer) || !can_carry(peer, to)) {
        return;
    }
    peer.lane_migration = {};
    peer.lane_migration.active = true;
    peer.lane_migration.to = to;
    peer.lane_migration.pause_by = options_.clock->now() + kPatience;
    migrating_.push_back(peer);
}

// Returns false if that is impossible now.
bool ConnectionManager::pause_control_lane(Peer& peer) {
    LaneMigration& migration = peer.lane_migration;
    const auto& outstanding = peer.subchannels[chosen_subchannel(peer)].outstanding;
    const bool calm = outstanding[0] + outstanding[1] == 0;
    if (!calm && options_.clock->now() < migration.pause_by) {
        return false;
    }
    Rail& next = *rails_[peer.subchannels[migration.to].local_rail];
    if (peer.ring_out != nullptr && !peer.ring_out->pause(next).ok()) {
        stop_lane_migration(peer);
        return false;
    }
    migration.paused = true;
    return true;
}

void ConnectionManager::advance_lane_migrations() {
    for (std::size_t left = migrating_.size(); left > 0; --left) {
        Peer& peer = *migrating_.pop_front();
        migrating_.push_back(peer);
        if (!peer.lane_migration.paused && !pause_control_lane(peer)) {
            continue;
        }
        const Flush& flush = peer.lane_migration.flush;
        if (!flush.posted && post_flush(peer, peer.lane_migration_flush).is_error()) {
            stop_lane_migration(peer); // the next write finds that out, too
            continue;
        }
        const bool settled = peer.ring_out == nullptr || peer.ring_out->poster().settled();
        if (flush.done && settled) {
            end_lane_migration(peer);
        }
    }
}

// Completes the migration: none of this side's work besides transfers is under way.
void ConnectionManager::end_lane_migration(Peer& peer) {
    const std::uint32_t to = peer.lane_migration.to;
    Subchannel& subchannel = peer.subchannels[to];
    if (!can_carry(peer, to)) {
        stop_lane_migration(peer);
        return;
    }
    if (peer.ring_out != nullptr) {
        aim_ring(peer, subchannel);
        peer.ring_out->migrate_to(*rails_[subchannel.local_rail], *subchannel.qp,
                                  peer.remote_ring.key, peer.remote_ring.inline_bytes);
        map_answers(peer, subchannel);
    }
    peer.control_lane = to;
    ++counters_.lanes_migrated;
    stop_lane_migration(peer);
}

// Ends the migration; the control lane continues where it is now.
void ConnectionManager::stop_lane_migration(Peer& peer) {
    if (!peer.lane_migration.active) {
        return;
    }
    migrating_.remove(peer);
    peer.lane_migration = {};
    if (peer.ring_out != nullptr) {
        peer.ring_out->resume();
    }
}

} // namespace adaptib
