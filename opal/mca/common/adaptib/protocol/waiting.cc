// SPDX-License-Identifier: BSD-3-Clause
// Transfers that find no room wait (peer/waiting.h), and are posted when there is some.
//
// A pass offers the first transfer behind each subchannel, and continues there as long as the queue
// pair takes transfers; then the start queue (kInOrder), unless all subchannels are blocked. So a
// pass tries in vain once per subchannel, and a new transfer never does, however many wait. If the
// bound on outstanding stripes stops transfers, the peers share what is left of it in each pass,
// and take turns to begin.
#include <algorithm>
#include <memory>

#include "protocol/transfer_engine.h"

namespace adaptib {

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
    return outstanding_ < most && peer.session.state == ConnectState::open &&
           !peer.interruption.repair.wanted;
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

} // namespace adaptib
