// SPDX-License-Identifier: BSD-3-Clause
// PayloadLoans: payloads of datagrams that the adapter reads from the users' buffers.
//
// Purpose: a gathered datagram has its headers in a slot of the channel (channel/send_slots.h) and
// its payload in the user's buffer, which is registered. The buffer is lent from the first post
// until nothing reads it any more: the post over the port that reads it has ended, and either the
// datagram needs no copy any more (it is acknowledged, or datagrams are reliable), or the slot has
// got its own copy (copy()), from which it is sent again. The message's listener is told then.
// A message whose peer fails does not wait for the adapter (abandon()): its registration stays
// until the post has ended.
// Ownership: keeps the registrations of lent buffers; links messages that belong to their requests.
// Threads: one at a time.
// May touch: base/, fabric/, memory/registration_cache.h, channel/gathered_messages.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>

#include "base/invariant.h"
#include "base/units.h"
#include "channel/gathered_messages.h"
#include "fabric/work.h"
#include "memory/registration_cache.h"

namespace adaptib {

// A payload that a message lends to a datagram.
struct LentPayload {
    Gather payload; // the last bytes of the message; the key is of the target's port
    RegistrationCache::Use& buffer; // its registration; empty once it is lent
    GatheredMessage& message;
    GatherListener& listener; // the same for all messages of a channel
};

class PayloadLoans {
public:
    // Makes room for the loans of so many slots.
    void grow(std::size_t slots) {
        while (loans_.size() < slots) {
            loans_.emplace_back();
        }
    }

    void begin(std::uint32_t slot, std::uint32_t port, LentPayload& lent) {
        Loan& loan = loans_[slot];
        ADAPTIB_INVARIANT(loan.message == nullptr && loan.buffer.empty(),
                          "a slot has one loan at a time", slot, loan.message);
        ADAPTIB_INVARIANT(listener_ == nullptr || listener_ == &lent.listener,
                          "all messages of a channel have one listener", listener_);
        loan.message = &lent.message;
        loan.payload = lent.payload;
        loan.port = static_cast<std::uint8_t>(port);
        loan.copied = false;
        loan.buffer.take(lent.buffer);
        listener_ = &lent.listener;
    }
    // Undoes begin(): the datagram was not posted.
    void take_back(std::uint32_t slot, LentPayload& lent) {
        ADAPTIB_INVARIANT(loans_[slot].message == &lent.message,
                          "a loan is taken back from the slot that has it", slot);
        lent.buffer.take(loans_[slot].buffer);
        loans_[slot].message = nullptr;
    }
    // Returns true if the slot is still sent from the user's buffer.
    bool reads(std::uint32_t slot) const { return !loans_[slot].copied; }
    const Gather& payload(std::uint32_t slot) const { return loans_[slot].payload; }
    std::uint32_t port(std::uint32_t slot) const { return loans_[slot].port; }
    // Copies the payload to `to`, its place in the slot.
    void copy(std::uint32_t slot, std::byte* to) {
        Loan& loan = loans_[slot];
        ADAPTIB_INVARIANT(!loan.copied, "a payload is copied into its slot once", slot);
        std::memcpy(to, loan.payload.address, loan.payload.length);
        loan.copied = true;
    }

    // Nothing reads the buffer any more.
    void end(std::uint32_t slot) {
        Loan& loan = loans_[slot];
        loan.buffer.reset();
        if (loan.message != nullptr) {
            tell(loan, loan.copied ? GatherEnd::kept : GatherEnd::arrived);
        }
    }
    // Ends the message at once, though the adapter may still read the buffer. `dropped`: the
    // registration goes, too.
    void abandon(std::uint32_t slot, GatherEnd how) {
        Loan& loan = loans_[slot];
        if (how == GatherEnd::dropped) {
            loan.buffer.reset();
        }
        if (loan.message != nullptr) {
            tell(loan, how);
        }
    }

private:
    struct Loan {
        GatheredMessage* message = nullptr; // null: nobody asks any more
        Gather payload;
        std::uint8_t port = 0; // reads the buffer
        bool copied = false;   // the slot has the payload, too
        RegistrationCache::Use buffer;
    };

    void tell(Loan& loan, GatherEnd how) {
        listener_->on_gathered(*std::exchange(loan.message, nullptr), how);
    }

    std::deque<Loan> loans_; // by slot
    GatherListener* listener_ = nullptr;
};

} // namespace adaptib
