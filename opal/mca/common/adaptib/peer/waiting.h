// SPDX-License-Identifier: BSD-3-Clause
// WaitingTransfers: the transfers to one peer that wait to be posted, each in one of these lists:
//
//     the start queue    in the order in which they were started; not offered to a queue pair yet
//     behind subchannel  planned, and the next stripe is for a subchannel that takes no more now
//     behind disconnect  started after this process has sent the peer its disconnect
//
// or in a list of the peer's put/get balance (peer/put_get_balance.h), which is not kept here.
//
// Purpose: a pass of progress offers as many transfers as there is room for, and one more per
// subchannel, however many wait; a subchannel without room does not hold up the others; and a
// transfer leaves its list in O(1).
// Invariants
//   1. A subchannel is blocked exactly if a transfer waits behind it. Only the first of these is
//      offered to it.
//   2. A transfer behind a subchannel may be planned for an earlier connection: it is planned anew
//      when it is offered. So a repair need not touch these lists.
// Memory: two words and a byte of each transfer, none per list entry.
// Ownership: the transfers are the protocol's, which removes each before destroying it.
// Threads: as the peer.
// May touch: base/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/wire.h"

namespace adaptib {

// Base of transfers that can wait.
struct WaitingTransfer {
    ListLink<WaitingTransfer> waiting_link;
    std::uint8_t waits_in = 0; // a list of WaitingTransfers, or kPutGetBalance; while it is linked

    // Returns true if the transfer waits: it is then posted from its list.
    bool waits() const { return waiting_link.linked(); }
};

using TransferList = IntrusiveList<WaitingTransfer, &WaitingTransfer::waiting_link>;

// Base of transfers that can have work requests under way; linked while it has some.
struct PostedTransfer {
    ListLink<PostedTransfer> posted_link;
};

using PostedList = IntrusiveList<PostedTransfer, &PostedTransfer::posted_link>;

class WaitingTransfers {
public:
    // Lists; those of subchannels are 0..kMaxSubchannels - 1.
    static constexpr std::uint8_t kInOrder = kMaxSubchannels;
    static constexpr std::uint8_t kBehindDisconnect = kInOrder + 1;
    static constexpr std::uint8_t kPutGetBalance = kBehindDisconnect + 1; // not one of these lists

    // Null: none.
    WaitingTransfer* first(std::size_t list) const { return lists_[list].front(); }
    std::size_t size(std::size_t list) const { return lists_[list].size(); }
    // Bit by subchannel.
    std::uint32_t blocked() const { return blocked_; }
    bool is_blocked(std::size_t subchannel) const { return (blocked_ >> subchannel & 1) != 0; }
    // Returns true if no transfer waits for room, or for the connection.
    bool empty() const { return blocked_ == 0 && lists_[kInOrder].empty(); }

    // REQUIRES: the transfer does not wait.
    void add(WaitingTransfer& transfer, std::size_t list) {
        lists_[list].push_back(transfer);
        note(transfer, list);
    }
    void add_first(WaitingTransfer& transfer, std::size_t list) {
        lists_[list].push_front(transfer);
        note(transfer, list);
    }
    // REQUIRES: the transfer waits in one of these lists.
    void remove(WaitingTransfer& transfer) {
        const std::size_t list = transfer.waits_in;
        lists_[list].remove(transfer);
        if (list < kMaxSubchannels && lists_[list].empty()) {
            blocked_ &= ~(1u << list);
        }
    }
    // Returns the subchannel to which this pass offers first: each in turn.
    std::uint32_t next_turn() { return turn_++ % kMaxSubchannels; }

private:
    void note(WaitingTransfer& transfer, std::size_t list) {
        transfer.waits_in = static_cast<std::uint8_t>(list);
        if (list < kMaxSubchannels) {
            blocked_ |= 1u << list;
        }
    }

    std::array<TransferList, kPutGetBalance> lists_;
    std::uint32_t blocked_ = 0;
    std::uint32_t turn_ = 0;
    static_assert(kMaxSubchannels <= 32);
};

} // namespace adaptib
