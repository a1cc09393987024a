// SPDX-License-Identifier: BSD-3-Clause
// GatheredMessages: messages of a ring whose payload the device reads from the user's buffer.
//
// Purpose: the device gathers such a message from the ring's mirror (header and tail) and from the
// user's buffer, so the payload is not copied. An active message may have a few bytes in front of
// its payload, the PML's header, which are in the mirror, too. The buffer belongs to the message
// until its write is complete; then the message has arrived, as the acknowledgment of a reliable
// connection says. If the connection breaks before that, the payload is still in the buffer, to be
// sent again. Keeps the messages under way to one peer, in the order of the ring.
// Ownership: links records that belong to their requests; tells the listener when one is done.
// Threads: one at a time.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/invariant.h"
#include "base/units.h"
#include "base/wire.h"

namespace adaptib {

// Has no values until it is in a list.
struct GatheredMessage {
    GatheredMessage* next_gathered;
    const std::byte* front; // in the mirror, until the message is consumed
    const std::byte* payload;
    std::uint32_t front_bytes;
    std::uint32_t sequence; // of the message
    std::uint32_t write;    // number of the write that carries it (RingPoster::signaled)
};

// How the device's use of a buffer has ended.
enum class GatherEnd : std::uint8_t {
    arrived, // the message, too
    kept,    // a copy of the payload is kept, to be sent again
    lost,    // the peer has failed
    dropped, // at the end of the process: nobody asks any more
};

class GatherListener {
public:
    // The message has left its list; its buffer is the user's again.
    virtual void on_gathered(GatheredMessage& message, GatherEnd end) = 0;

protected:
    ~GatherListener() = default;
};

class GatheredMessages {
public:
    bool empty() const { return first_ == nullptr; }
    // `listener`: the same for all messages of this peer.
    void add(GatheredMessage& message, GatherListener& listener) {
        ADAPTIB_INVARIANT(first_ == nullptr || listener_ == &listener,
                          "all messages of a peer have one listener", listener_);
        ADAPTIB_AUDIT(first_ == nullptr || !sequence_before(message.write, last_->write),
                      "gathered messages are in the order of their writes", message.write);
        listener_ = &listener;
        message.next_gathered = nullptr;
        (first_ == nullptr ? first_ : last_->next_gathered) = &message;
        last_ = &message;
    }
    // Write `number` is complete, and so are all before it.
    void on_written(std::uint32_t number) {
        while (first_ != nullptr && !sequence_before(number, first_->write)) {
            take(GatherEnd::arrived);
        }
    }
    // Returns null if the message is not under way (any more).
    const GatheredMessage* find(std::uint32_t sequence) const {
        const GatheredMessage* each = first_;
        while (each != nullptr && each->sequence != sequence) {
            each = each->next_gathered;
        }
        return each;
    }
    // No queue pair has the messages any more.
    void end_all(GatherEnd end) {
        while (first_ != nullptr) {
            take(end);
        }
    }

private:
    void take(GatherEnd end) {
        GatheredMessage& message = *first_;
        first_ = message.next_gathered;
        listener_->on_gathered(message, end);
    }

    GatheredMessage* first_ = nullptr;
    GatheredMessage* last_ = nullptr;
    GatherListener* listener_ = nullptr;
};

} // namespace adaptib
