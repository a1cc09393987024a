// SPDX-License-Identifier: BSD-3-Clause
// A connection's ring and credit go over another of its subchannels, while the job runs: its home was found to be
// slow (schedule/home.h).
//
// Each side moves its own, and tells nobody: a ring and a credit are memory of the other side, which all subchannels
// reach, each with the key that the handshake told. What is written over two queue pairs has no order, so nothing is
// written over the new one before all that was written over the old one is there: the ring takes no messages, and credit
// waits, until an empty write behind them is complete, which takes a round trip. It would wait for transfers that were
// posted before, too: so this begins when none is under way over the old one, or after a while. Transfers stay where they
// are. A connection that is being moved is not closed; one that breaks is repaired, and
// chooses its home anew.
#include "connect/connection_manager.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kPatience{10'000'000}; // with transfers over the old home

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

// False: not now.
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
            stop_moving(peer); // who writes next finds that out, too
            continue;
        }
        const bool settled = peer.ring_out == nullptr || peer.ring_out->settled();
        if (flush.done && settled) {
            end_move(peer);
        }
    }
}

// Nothing of ours besides transfers is under way.
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

// Wherever the home is now: it goes on there.
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
