// SPDX-License-Identifier: BSD-3-Clause
// PendingSend, PendingQueue and EarlyMessage: messages of a peer that cannot be sent, or cannot be
// delivered, yet.
//
// Purpose: the queue of messages that wait for room, the records in it, and the record of a message
// that arrived before its turn.
// Ownership: a record belongs to the protocol, or to the request or transfer that it lies in; only
// the barrier belongs to the Peer. The queue links records and never frees one.
// Threads: one at a time (the core's lock).
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "base/wire.h"

namespace adaptib {

// A message that waits for room, in the order of sending: embedded in a send request, a record of
// its own for a control message, the rest of a message that is sent in fragments, a message that is
// repeated after a repair, or the barrier that nothing passes until the repair is over.
struct PendingSend {
    enum class Kind : std::uint8_t { request, control, fragments, repeated, barrier };
    explicit PendingSend(Kind k) : kind(k) {}
    PendingSend* next = nullptr;
    Kind kind;
};

class PendingQueue {
public:
    bool empty() const { return first_ == nullptr; }
    const PendingSend* front() const { return first_; }
    void add(PendingSend& send) {
        (first_ == nullptr ? first_ : last_->next) = &send;
        last_ = &send;
        send.next = nullptr;
    }
    // REQUIRES: not empty.
    PendingSend* take() {
        PendingSend* first = first_;
        first_ = first->next;
        return first;
    }
    // Undoes take().
    void put_back(PendingSend& send) {
        send.next = first_;
        first_ = &send;
        if (send.next == nullptr) {
            last_ = &send;
        }
    }
    // Moves all of `other` to the end of this queue.
    void append(PendingQueue& other) {
        if (other.empty()) {
            return;
        }
        (first_ == nullptr ? first_ : last_->next) = other.first_;
        last_ = other.last_;
        other.first_ = nullptr;
    }

private:
    PendingSend* first_ = nullptr;
    PendingSend* last_ = nullptr;
};

struct ControlMessage : PendingSend {
    static constexpr std::size_t kMaxBody = sizeof(ClearBody);
    ControlMessage() : PendingSend(Kind::control) {}
    MessageType type = MessageType::none;
    std::uint8_t flags = 0;
    std::uint32_t length = 0;
    std::byte body[kMaxBody];
};

// A message that was written into the peer's ring and may not have arrived; its bytes follow the
// record.
struct RepeatedMessage : PendingSend {
    RepeatedMessage() : PendingSend(Kind::repeated) {}
    MessageHeader header;
    std::uint32_t sliced = 0; // bytes sent in slices

    std::byte* body() { return reinterpret_cast<std::byte*>(this + 1); }
    Bytes size() const { return sizeof *this + header.length; }
};

// A message that overtook an earlier one of the same peer; its bytes follow the record.
struct EarlyMessage {
    EarlyMessage* next = nullptr;
    EarlyMessage* previous = nullptr;
    MessageHeader header;

    std::byte* body() { return reinterpret_cast<std::byte*>(this + 1); }
    Bytes size() const { return sizeof *this + header.length; }
};

} // namespace adaptib
