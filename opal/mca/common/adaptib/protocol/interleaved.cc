// SPDX-License-Identifier: BSD-3-Clause
// Put/get balance: both directions have work if a program does puts and gets to one peer at the
// same time (peer/interleaving.h).
//
// While the program starts puts, nothing tells whether gets will follow, and a program that does
// puts alone should not have to call progress to keep the rails busy. So nothing is held until one
// direction was wanted while the other had more than a window under way, and nothing is held any
// more once that ceases to happen.
#include "protocol/protocol.h"

namespace adaptib {

namespace {

constexpr Bytes kUnknownWindow = 512 * kKiB; // if the rate of a rail is not known
constexpr Bytes kLeastWindow = 4 * kKiB;
constexpr std::uint32_t kRemember = 8;

bool is_atomic(const Move& move) {
    return move.opcode != Opcode::read && move.opcode != Opcode::write;
}

Bytes under_way(const Peer& peer, Direction direction) {
    Bytes sum = 0;
    for (const Subchannel& subchannel : peer.subchannels) {
        sum += subchannel.outstanding[static_cast<std::size_t>(direction)];
    }
    return sum;
}

} // namespace

// Returns the bytes that the rails to the peer carry in options_.interleave. Paths of one rail
// share its rate.
Bytes Protocol::interleave_window(const Peer& peer) const {
    std::uint64_t rate = 0;
    std::uint64_t seen = 0; // bit by rail
    for (const Subchannel& subchannel : peer.subchannels) {
        const std::uint64_t bit = std::uint64_t{1} << subchannel.local_rail % 64;
        if (subchannel.qp == nullptr || (seen & bit) != 0) {
            continue;
        }
        if (subchannel.rate.value == 0) {
            return kUnknownWindow;
        }
        seen |= bit;
        rate += subchannel.rate.value;
    }
    const double seconds = std::chrono::duration<double>(options_.interleave).count();
    return std::max(static_cast<Bytes>(static_cast<double>(rate) * seconds), kLeastWindow);
}

// Finds out whether both directions are wanted at once. REQUIRES: stripes to the peer are
// outstanding.
void Protocol::look_for_both(const Mover& mover) {
    Peer& peer = mover.peer;
    const Direction busy = other(mover.move.direction());
    const Bytes there = under_way(peer, busy);
    if (there < kLeastWindow || is_atomic(mover.move)) {
        return;
    }
    Interleaving* known = peer.interleaving.get();
    const bool wants_both = known != nullptr ? there >= known->window || !known->of(busy).empty()
                                             : there >= interleave_window(peer);
    if (!wants_both) {
        return;
    }
    if (known == nullptr) {
        peer.interleaving = std::make_unique<Interleaving>();
        known = peer.interleaving.get();
        known->window = interleave_window(peer);
    }
    known->wanted_both = true;
    known->memory = kRemember;
}

// Returns true if the transfer's direction may post no further stripe now. REQUIRES: the peer has
// an `interleaving`.
bool Protocol::is_full(const Mover& mover) const {
    const Move& move = mover.move;
    const Peer& peer = mover.peer;
    if (is_atomic(move)) {
        return false;
    }
    const Direction direction = move.direction();
    Interleaving& lanes = *peer.interleaving;
    if (under_way(peer, direction) >= lanes.most(direction) || lanes.is_over(direction)) {
        return true;
    }
    if (direction == Direction::write || move.posted == move.plan.size()) {
        return false;
    }
    // One more read would stop the queue pair, and the writes behind it.
    const Subchannel& subchannel = peer.subchannels[move.plan[move.posted].subchannel];
    const std::uint32_t most = rails_[subchannel.local_rail]->info().max_reads;
    return most > 0 && subchannel.reads >= most;
}

bool Protocol::hold_if_full(Mover& mover) {
    if (!is_full(mover)) {
        return false;
    }
    Interleaving& lanes = *mover.peer.interleaving;
    TransferList& held = lanes.of(mover.move.direction());
    mover.waits_in = WaitingTransfers::kInterleaving;
    if (mover.move.posted > 0) {
        held.push_front(mover);
    } else {
        held.push_back(mover);
        ++counters_.moves_held;
    }
    lanes.held_any = true;
    return true;
}

// Posts held transfers: stripes are done, or the connection is gone. If the next transfer finds no
// room, the rest stays held: a transfer that waits for room is offered in each pass.
void Protocol::let_through(Peer& peer) {
    Interleaving& lanes = *peer.interleaving;
    Direction direction = other(lanes.turn);
    bool room = true;
    for (int in_vain = 0; in_vain < 2 && room; direction = other(direction)) {
        auto& held = lanes.of(direction);
        auto* const mover = static_cast<Mover*>(held.front());
        if (mover == nullptr || (peer.state == ConnectState::open && is_full(*mover))) {
            ++in_vain;
        } else {
            in_vain = 0;
            held.remove(*mover);
            room = post_stripes(*mover) || peer.state != ConnectState::open;
        }
    }
    if (peer.stripes > 0 || lanes.holds()) {
        return;
    }
    if (lanes.held_any && !lanes.wanted_both && --lanes.memory == 0) {
        peer.interleaving.reset();
        return;
    }
    lanes.held_any = lanes.wanted_both = false;
}

// Moves held transfers to the line: the connection is gone, or about to go. They wait for the next
// connection, or fail, like others.
void Protocol::give_up_holding(Peer& peer) {
    if (peer.interleaving == nullptr) {
        return;
    }
    for (auto& held : peer.interleaving->held) {
        while (WaitingTransfer* const first = held.pop_front()) {
            wait_in(static_cast<Mover&>(*first), WaitingTransfers::kLine, Place::last);
        }
    }
}

} // namespace adaptib
