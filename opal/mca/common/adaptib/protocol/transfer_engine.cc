// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/transfer_engine.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace adaptib {

// -------------------------------------------------------------------------------------------------
// Transfers that find no room wait (peer/waiting.h), and are posted when there is some.
//
// A pass offers the first transfer behind each subchannel, and continues there as long as the queue
// pair takes transfers; then the start queue (kInOrder), unless all subchannels are blocked. So a
// pass tries in vain once per subchannel, and a new transfer never does, however many wait. If the
// bound on outstanding stripes stops transfers, the peers share what is left of it in each pass,
// and take turns to begin.

namespace {

// Bound on the transfers of the start queue that a pass plans and then finds to need a blocked
// subchannel, so that the pass stays short.
constexpr int kMostInVain = 256;

} // namespace

// Starts an operation, or holds it during a disconnect: the peer may take the connection down as
// soon as the disconnect handshake is over, and operations not complete by then are lost.
void TransferEngine::start_operation(Transfer& transfer) {
    if (transfer.peer.session.disconnect_sent && !transfer.peer.session.lost()) [[unlikely]] {
        wait_in(transfer, WaitingTransfers::kBehindDisconnect, Place::last);
        return;
    }
    if (transfer.peer.transfers.stripes > 0 && options_.interleave.count() > 0) {
        look_for_both(transfer);
    }
    start_transfer(transfer);
}

void TransferEngine::start_transfer(Transfer& transfer) {
    if (must_wait(transfer.peer)) [[unlikely]] {
        wait_in(transfer, WaitingTransfers::kInOrder, Place::last);
    } else {
        post_stripes(transfer);
    }
}

// Returns true if a new transfer would be offered in vain, or before an earlier one.
bool TransferEngine::must_wait(const Peer& peer) const {
    const WaitingTransfers* const waiting = peer.transfers.waiting.get();
    return waiting != nullptr && !peer.session.lost() && !waiting->empty() &&
           (waiting->first(WaitingTransfers::kInOrder) != nullptr || all_blocked(peer));
}

// Returns true if all subchannels that the connection has are blocked.
bool TransferEngine::all_blocked(const Peer& peer) {
    bool all = true;
    for (std::uint32_t i = 0; i < peer.lanes.subchannels.size() && all; ++i) {
        all = peer.lanes.subchannels[i].qp == nullptr || peer.transfers.waiting->is_blocked(i);
    }
    return all;
}

// REQUIRES: the transfer waits nowhere.
void TransferEngine::wait_in(Transfer& transfer, std::size_t list, Place place) {
    Peer& peer = transfer.peer;
    if (peer.transfers.waiting == nullptr) {
        peer.transfers.waiting = std::make_unique<WaitingTransfers>();
    }
    if (place == Place::first) {
        peer.transfers.waiting->add_first(transfer, list);
    } else {
        peer.transfers.waiting->add(transfer, list);
    }
    if (list == WaitingTransfers::kBehindDisconnect) {
        return;
    }
    ++counters_.transfer_stalls;
    if (!peer.transfers.link.linked()) {
        waiting_peers_.push_back(peer);
    }
}

// Puts a transfer into the start queue: at the front if it was planned before, since it is then
// older than those in the queue.
void TransferEngine::wait_to_post(Transfer& transfer) {
    stop_waiting(transfer);
    const bool begun = transfer.rma.planned() || !transfer.rma.remaining.empty();
    wait_in(transfer, WaitingTransfers::kInOrder, begun ? Place::first : Place::last);
}

void TransferEngine::stop_waiting(Transfer& transfer) {
    if (!transfer.waits()) {
        return;
    }
    if (transfer.waits_in == WaitingTransfers::kPutGetBalance) {
        transfer.peer.transfers.put_get_balance->of(transfer.rma.direction()).remove(transfer);
        return;
    }
    transfer.peer.transfers.waiting->remove(transfer);
    leave_waiting(transfer.peer);
}

// Removes the peer from waiting_peers_ if none of its transfers waits any more.
void TransferEngine::leave_waiting(Peer& peer) {
    if (peer.transfers.waiting->empty() && peer.transfers.link.linked()) {
        waiting_peers_.remove(peer);
    }
}

// `most`: bound on the outstanding stripes of all peers.
bool TransferEngine::may_post(const Peer& peer, std::size_t most) const {
    return outstanding_ < most && peer.session.is_open() && !peer.interruption.repair.wanted;
}

void TransferEngine::post_waiting() {
    for (std::size_t left = waiting_peers_.size();
         left > 0 && !waiting_peers_.empty() && outstanding_ < options_.max_outstanding; --left) {
        Peer& peer = *waiting_peers_.pop_front();
        waiting_peers_.push_back(peer);
        const std::size_t room = options_.max_outstanding - outstanding_;
        post_waiting(peer, outstanding_ + (room + left - 1) / left);
    }
}

void TransferEngine::post_waiting(Peer& peer, std::size_t most) {
    if (!may_post(peer, most)) {
        events_.want_connection(peer);
        return;
    }
    const std::uint32_t turn = peer.transfers.waiting->next_turn();
    for (std::uint32_t i = 0; i < kMaxSubchannels && peer.transfers.waiting->blocked() != 0; ++i) {
        post_behind(peer, (turn + i) % kMaxSubchannels, most);
    }
    post_in_order(peer, most);
    leave_waiting(peer);
    if (peer.transfers.put_get_balance != nullptr && peer.transfers.put_get_balance->has_queued() &&
        peer.transfers.stripes == 0) {
        release_queued(peer); // no stripe is under way whose completion would call it
    }
}

// Offers the first transfer of a list, which may be gone afterwards, or wait elsewhere. Returns
// false if the transfer is first again, or if there is none.
bool TransferEngine::post_first(Peer& peer, std::size_t list, std::uint32_t offered) {
    WaitingTransfer* const first = peer.transfers.waiting->first(list);
    if (first == nullptr) {
        return false;
    }
    peer.transfers.waiting->remove(*first);
    post_stripes(static_cast<Transfer&>(*first), offered);
    return peer.transfers.waiting->first(list) != first;
}

void TransferEngine::post_behind(Peer& peer, std::uint32_t subchannel, std::size_t most) {
    while (may_post(peer, most) && post_first(peer, subchannel, subchannel)) {
    }
}

void TransferEngine::post_in_order(Peer& peer, std::size_t most) {
    bool more = true;
    for (int in_vain = 0; more && in_vain < kMostInVain && may_post(peer, most);) {
        const std::size_t before = outstanding_;
        more = !all_blocked(peer) && post_first(peer, WaitingTransfers::kInOrder, kNoSubchannel);
        in_vain += outstanding_ == before ? 1 : 0;
    }
}

// -------------------------------------------------------------------------------------------------
// Release and failure of waiting transfers

void TransferEngine::start_held(Peer& peer) {
    std::size_t left = peer.transfers.waiting == nullptr
                           ? 0
                           : peer.transfers.waiting->size(WaitingTransfers::kBehindDisconnect);
    for (; left > 0; --left) {
        WaitingTransfer* const first =
            peer.transfers.waiting->first(WaitingTransfers::kBehindDisconnect);
        if (first == nullptr) {
            return; // the peer has failed meanwhile
        }
        peer.transfers.waiting->remove(*first);
        start_operation(static_cast<Transfer&>(*first));
    }
}

void TransferEngine::fail_waiting(Peer& peer) {
    start_held(peer); // they fail at their start
    stop_balancing(peer);
    if (peer.transfers.waiting == nullptr) {
        return;
    }
    for (std::size_t list = 0; list <= WaitingTransfers::kInOrder; ++list) {
        while (WaitingTransfer* const first = peer.transfers.waiting->first(list)) {
            peer.transfers.waiting->remove(*first);
            post_stripes(static_cast<Transfer&>(*first)); // fails the transfer
        }
    }
    leave_waiting(peer);
}

// -------------------------------------------------------------------------------------------------
// Put/get balance: both directions have work if a program does puts and gets to one peer at the
// same time (peer/put_get_balance.h).
//
// While the program starts puts, nothing tells whether gets will follow, and a program that does
// puts alone should not have to call progress to keep the rails busy. So nothing is held until one
// direction was wanted while the other had more than a window under way, and nothing is held any
// more once that ceases to happen.

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
        if (transfer == nullptr || (peer.session.is_open() && is_full(*transfer))) {
            ++in_vain;
        } else {
            in_vain = 0;
            queued.remove(*transfer);
            room = post_stripes(*transfer) || !peer.session.is_open();
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

// -------------------------------------------------------------------------------------------------
// The target of a transfer is asked for the keys of its memory (RegionKeys says when), and answers.

namespace {

std::uint32_t access_for(Opcode opcode) {
    switch (opcode) {
    case Opcode::write: return kRemoteWrite;
    case Opcode::read: return kRemoteRead;
    default: return kRemoteAtomic;
    }
}

} // namespace

void TransferEngine::ask_for_keys(Transfer& transfer) {
    const RegionQueryBody body{asking_.add(&transfer), transfer.rma.remote, transfer.rma.length,
                               access_for(transfer.rma.opcode), 0};
    flow_.send_one_sided(transfer.peer, MessageType::region_query, &body, sizeof body);
}

void TransferEngine::on_region_keys(Peer& peer, const RegionKeysBody& body) {
    Transfer* const transfer = asking_.find(body.id);
    if (transfer == nullptr || &transfer->peer != &peer) {
        ++counters_.bad_packets;
        return;
    }
    asking_.remove(body.id);
    TransferPlan& rma = transfer->rma;
    if (body.key_count == 0) {
        rma.failed = true;
        if (rma.one_sided) {
            region_keys_.refuse(peer, rma);
        }
        transfer->owner.on_rma_done(*transfer);
        return;
    }
    for (std::uint32_t i = 0; i < body.key_count; ++i) {
        counters_.keys_replaced += rma.remote_keys[i] != body.keys[i] ? 1 : 0;
        rma.remote_keys[i] = body.keys[i];
    }
    rma.remote_key_count = body.key_count;
    rma.keys.epoch = body.key_epoch;
    if (rma.one_sided) {
        start_operation(*transfer);
    } else {
        start_transfer(*transfer);
    }
}

void TransferEngine::fail_asking(const Peer& peer) {
    std::vector<Transfer*> lost;
    asking_.remove_if([&](Transfer* transfer) {
        const bool its = &transfer->peer == &peer;
        if (its) {
            lost.push_back(transfer);
        }
        return its;
    });
    for (Transfer* transfer : lost) {
        transfer->rma.failed = true;
        transfer->owner.on_rma_done(*transfer);
    }
}

} // namespace adaptib
