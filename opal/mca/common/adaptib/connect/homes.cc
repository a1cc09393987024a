// SPDX-License-Identifier: BSD-3-Clause
// Lane migration: moves a connection's control lane (ring and credit) to another of its
// subchannels, while the job runs, because its lane was found to be slow (schedule/home.h).
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

void ConnectionManager::move_home(Peer& peer, std::uint32_t to) {
    if (peer.state != ConnectState::open || peer.repair.wanted || peer.home_move.active ||
        peer.ring_memory == nullptr || to == chosen_subchannel(peer) || !can_carry(peer, to)) {
        return;
    }
    peer.home_move = {};
    peer.home_move.active = true;
    peer.home_move.to = to;
    peer.home_move.hold_by = options_.clock->now() + kPatience;
    moving_.push_back(peer);
}

// Returns false if that is impossible now.
bool ConnectionManager::hold_home(Peer& peer) {
    HomeMove& move = peer.home_move;
    const auto& outstanding = peer.subchannels[chosen_subchannel(peer)].outstanding;
    const bool calm = outstanding[0] + outstanding[1] == 0;
    if (!calm && options_.clock->now() < move.hold_by) {
        return false;
    }
    Rail& next = *rails_[peer.subchannels[move.to].local_rail];
    if (peer.ring_out != nullptr && !peer.ring_out->hold(next).ok()) {
        stop_moving(peer);
        return false;
    }
    move.held = true;
    return true;
}

void ConnectionManager::move_homes() {
    for (std::size_t left = moving_.size(); left > 0; --left) {
        Peer& peer = *moving_.pop_front();
        moving_.push_back(peer);
        if (!peer.home_move.held && !hold_home(peer)) {
            continue;
        }
        const Flush& flush = peer.home_move.flush;
        if (!flush.posted && post_flush(peer, peer.home_flush).is_error()) {
            stop_moving(peer); // the next write finds that out, too
            continue;
        }
        const bool settled = peer.ring_out == nullptr || peer.ring_out->settled();
        if (flush.done && settled) {
            end_move(peer);
        }
    }
}

// Completes the migration: none of this side's work besides transfers is under way.
void ConnectionManager::end_move(Peer& peer) {
    const std::uint32_t to = peer.home_move.to;
    Subchannel& subchannel = peer.subchannels[to];
    if (!can_carry(peer, to)) {
        stop_moving(peer);
        return;
    }
    if (peer.ring_out != nullptr) {
        aim_ring(peer, subchannel);
        peer.ring_out->move_to(*rails_[subchannel.local_rail], *subchannel.qp, peer.remote_ring.key,
                               peer.remote_ring.inline_bytes);
        map_answers(peer, subchannel);
    }
    peer.home = to;
    ++counters_.homes_moved;
    stop_moving(peer);
}

// Ends the migration; the control lane continues where it is now.
void ConnectionManager::stop_moving(Peer& peer) {
    if (!peer.home_move.active) {
        return;
    }
    moving_.remove(peer);
    peer.home_move = {};
    if (peer.ring_out != nullptr) {
        peer.ring_out->release();
    }
}

} // namespace adaptib
