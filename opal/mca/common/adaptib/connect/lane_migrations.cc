// SPDX-License-Identifier: BSD-3-Clause
#include "connect/lane_migrations.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kPatience{10'000'000}; // with transfers over the old control lane

} // namespace

void LaneMigrations::begin(Peer& peer, std::uint32_t to) {
    if (peer.state != ConnectState::open || peer.repair.wanted || peer.lane_migration.active ||
        peer.ring_memory == nullptr || to == lanes_.chosen(peer) || !lanes_.can_carry(peer, to)) {
        return;
    }
    peer.lane_migration = {};
    peer.lane_migration.active = true;
    peer.lane_migration.to = to;
    peer.lane_migration.pause_by = context_.options.clock->now() + kPatience;
    migrating_.push_back(peer);
}

// Returns false if that is impossible now.
bool LaneMigrations::pause(Peer& peer) {
    LaneMigration& migration = peer.lane_migration;
    const auto& outstanding = peer.subchannels[lanes_.chosen(peer)].outstanding;
    const bool calm = outstanding[0] + outstanding[1] == 0;
    if (!calm && context_.options.clock->now() < migration.pause_by) {
        return false;
    }
    Rail& next = *context_.rails[peer.subchannels[migration.to].local_rail];
    if (peer.ring_out != nullptr && !peer.ring_out->pause(next).ok()) {
        stop(peer);
        return false;
    }
    migration.paused = true;
    return true;
}

void LaneMigrations::advance() {
    for (std::size_t left = migrating_.size(); left > 0; --left) {
        Peer& peer = *migrating_.pop_front();
        migrating_.push_back(peer);
        if (!peer.lane_migration.paused && !pause(peer)) {
            continue;
        }
        const Flush& flush = peer.lane_migration.flush;
        if (!flush.posted && lanes_.post_flush(peer, peer.lane_migration_flush).is_error()) {
            stop(peer); // the next write finds that out, too
            continue;
        }
        const bool settled = peer.ring_out == nullptr || peer.ring_out->poster().settled();
        if (flush.done && settled) {
            complete(peer);
        }
    }
}

// Completes the migration: none of this side's work besides transfers is under way.
void LaneMigrations::complete(Peer& peer) {
    const std::uint32_t to = peer.lane_migration.to;
    Subchannel& subchannel = peer.subchannels[to];
    if (!lanes_.can_carry(peer, to)) {
        stop(peer);
        return;
    }
    if (peer.ring_out != nullptr) {
        rings_.migrate(peer, subchannel);
    }
    peer.control_lane = to;
    ++context_.counters.lanes_migrated;
    stop(peer);
}

void LaneMigrations::stop(Peer& peer) {
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
