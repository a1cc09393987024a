// SPDX-License-Identifier: BSD-3-Clause
// Put/get balance: both directions have work if a program does puts and gets to one peer at the
// same time (peer/put_get_balance.h).
//
// While the program starts puts, nothing tells whether gets will follow, and a program that does
// puts alone should not have to call progress to keep the rails busy. So nothing is held until one
// direction was wanted while the other had more than a window under way, and nothing is held any
// more once that ceases to happen.
#include <algorithm>
#include <memory>

#include "protocol/transfer_engine.h"

namespace adaptib {

namespace {

constexpr Bytes kUnknownWindow = 512 * kKiB; // if the rate of a rail is not known
constexpr Bytes kLeastWindow = 4 * kKiB;
constexpr std::uint32_t kRemember = 8;

bool is_atomic(const TransferPlan& rma) {
    return rma.opcode != Opcode::read && rma.opcode != Opcode::write;
}

Bytes under_way(const Peer& peer, Direction direction) {
    Bytes sum = 0;
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        sum += subchannel.outstanding[static_cast<std::size_t>(direction)];
    }
    return sum;
}

} // namespace

// Returns the bytes that the rails to the peer carry in options_.interleave. Paths of one rail
// share its rate.
Bytes TransferEngine::put_get_window(const Peer& peer) const {
    std::uint64_t rate = 0;
    std::uint64_t seen = 0; // bit by rail
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
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
void TransferEngine::look_for_both(const Transfer& transfer) {
    Peer& peer = transfer.peer;
    const Direction busy = other(transfer.rma.direction());
    const Bytes there = under_way(peer, busy);
    if (there < kLeastWindow || is_atomic(transfer.rma)) {
        return;
    }
    PutGetBalance* known = peer.transfers.put_get_balance.get();
    const bool wants_both = known != nullptr ? there >= known->window || !known->of(busy).empty()
                                             : there >= put_get_window(peer);
    if (!wants_both) {
        return;
    }
    if (known == nullptr) {
        peer.transfers.put_get_balance = std::make_unique<PutGetBalance>();
        known = peer.transfers.put_get_balance.get();
        known->window = put_get_window(peer);
    }
    known->wanted_both = true;
    known->memory = kRemember;
}

// Returns true if the transfer's direction may post no further stripe now. REQUIRES: the peer has
// an `put_get_balance`.
bool TransferEngine::is_full(const Transfer& transfer) const {
    const TransferPlan& rma = transfer.rma;
    const Peer& peer = transfer.peer;
    if (is_atomic(rma)) {
        return false;
    }
    const Direction direction = rma.direction();
    PutGetBalance& balance = *peer.transfers.put_get_balance;
    if (under_way(peer, direction) >= balance.most(direction) || balance.is_over(direction)) {
        return true;
    }
    if (direction == Direction::write || rma.posted == rma.plan.size()) {
        return false;
    }
    // One more read would stop the queue pair, and the writes behind it.
    const Subchannel& subchannel = peer.lanes.subchannels[rma.plan[rma.posted].subchannel];
    const std::uint32_t most = rails_[subchannel.local_rail]->info().max_reads;
    return most > 0 && subchannel.reads >= most;
}

bool TransferEngine::queue_if_full(Transfer& transfer) {
    if (!is_full(transfer)) {
        return false;
    }
    PutGetBalance& balance = *transfer.peer.transfers.put_get_balance;
    TransferList& queued = balance.of(transfer.rma.direction());
    transfer.waits_in = WaitingTransfers::kPutGetBalance;
    if (transfer.rma.posted > 0) {
        queued.push_front(transfer);
    } else {
        queued.push_back(transfer);
        ++counters_.transfers_queued;
    }
    balance.queued_any = true;
    return true;
}

// Posts held transfers: stripes are done, or the connection is gone. If the next transfer finds no
// room, the rest stays held: a transfer that waits for room is offered in each pass.
void TransferEngine::release_queued(Peer& peer) {
    PutGetBalance& balance = *peer.transfers.put_get_balance;
    Direction direction = other(balance.turn);
    bool room = true;
    for (int in_vain = 0; in_vain < 2 && room; direction = other(direction)) {
        auto& queued = balance.of(direction);
        auto* const transfer = static_cast<Transfer*>(queued.front());
        if (transfer == nullptr ||
            (peer.session.state == ConnectState::open && is_full(*transfer))) {
            ++in_vain;
        } else {
            in_vain = 0;
            queued.remove(*transfer);
            room = post_stripes(*transfer) || peer.session.state != ConnectState::open;
        }
    }
    if (peer.transfers.stripes > 0 || balance.has_queued()) {
        return;
    }
    if (balance.queued_any && !balance.wanted_both && --balance.memory == 0) {
        peer.transfers.put_get_balance.reset();
        return;
    }
    balance.queued_any = balance.wanted_both = false;
}

// Moves held transfers to the start queue: the connection is gone, or about to go. They wait for
// the next connection, or fail, like others.
void TransferEngine::stop_balancing(Peer& peer) {
    if (peer.transfers.put_get_balance == nullptr) {
        return;
    }
    for (auto& queued : peer.transfers.put_get_balance->queued) {
        while (WaitingTransfer* const first = queued.pop_front()) {
            wait_in(static_cast<Transfer&>(*first), WaitingTransfers::kInOrder, Place::last);
        }
    }
}

} // namespace adaptib
