// SPDX-License-Identifier: BSD-3-Clause
#include "connect/lane_migrations.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kPatience{10'000'000}; // with transfers over the old control lane

} // namespace

void LaneMigrations::begin(Peer& peer, std::uint32_t to) {
    if (peer.session.state != ConnectState::open || peer.interruption.repair.wanted ||
        peer.session.disconnect_sent || peer.control.migration.active ||
        peer.in.ring_memory == nullptr || to == lanes_.get_or_choose(peer) ||
        !lanes_.can_carry(peer, to)) {
        return;
    }
    peer.control.migration = {};
    peer.control.migration.active = true;
    peer.control.migration.to = to;
    peer.control.migration.pause_by = context_.options.clock->now() + kPatience;
    migrating_.push_back(peer);
}

// Returns false if that is impossible now.
bool LaneMigrations::pause(Peer& peer) {
    LaneMigration& migration = peer.control.migration;
    const auto& outstanding = peer.lanes.subchannels[lanes_.get_or_choose(peer)].outstanding;
    const bool calm = outstanding[0] + outstanding[1] == 0;
    if (!calm && context_.options.clock->now() < migration.pause_by) {
        return false;
    }
    Rail& next = *context_.rails[peer.lanes.subchannels[migration.to].local_rail];
    if (peer.out.ring != nullptr && !peer.out.ring->pause(next).ok()) {
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
        if (!peer.control.migration.paused && !pause(peer)) {
            continue;
        }
        const Flush& flush = peer.control.migration.flush;
        if (!flush.posted &&
            (peer.session.disconnect_sent || // the peer takes its side down, and nothing follows
             lanes_.post_flush(peer, peer.control.migration_flush).is_error())) {
            stop(peer); // the next write finds an error out, too
            continue;
        }
        const bool settled = peer.out.ring == nullptr || peer.out.ring->poster().settled();
        if (flush.done && settled) {
            complete(peer);
        }
    }
}

// Completes the migration: none of this side's work besides transfers is under way.
void LaneMigrations::complete(Peer& peer) {
    const std::uint32_t to = peer.control.migration.to;
    Subchannel& subchannel = peer.lanes.subchannels[to];
    if (!lanes_.can_carry(peer, to)) {
        stop(peer);
        return;
    }
    if (peer.out.ring != nullptr) {
        rings_.migrate(peer, subchannel);
    }
    peer.control.lane = to;
    ++context_.counters.lanes_migrated;
    stop(peer);
}

void LaneMigrations::stop(Peer& peer) {
    if (!peer.control.migration.active) {
        return;
    }
    migrating_.remove(peer);
    peer.control.migration = {};
    if (peer.out.ring != nullptr) {
        peer.out.ring->resume();
    }
}

} // namespace adaptib
