// SPDX-License-Identifier: BSD-3-Clause
// RingSends: the fast path of tagged sends, for the most frequent case: a contiguous eager message
// for which the peer's ring has room now.
//
// Purpose: such a message needs no request. All else is sent by MessageSends (message_sends.h).
// Errors: false if nothing was sent: there is no room now, or something has to go first.
// Ownership: no state of its own; the functions use the Peer only.
// Threads: one at a time (the core's lock).
// May touch: base/, match/, channel/, peer/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/copy.h"
#include "base/data.h"
#include "base/wire.h"
#include "match/match.h"
#include "peer/peer.h"

namespace adaptib {

class RingSends {
public:
    // Returns false also for a message that may have to be timed (PeerOut::try_send_below).
    [[gnu::always_inline]] static bool try_send(Peer& peer, const Envelope& envelope,
                                                const void* base, Bytes bytes) {
        return bytes < peer.out.try_send_below &&
               (store_short_into_ring(peer, envelope, base, bytes) ||
                copy_into_ring(peer, envelope.context, envelope.source, envelope.tag, base, bytes));
    }
    // Same for a caller that does not wait for the message: also refuses one that should be
    // gathered (GatheredSends::wants), which needs a request.
    [[gnu::always_inline]] static bool try_isend(Peer& peer, const Envelope& envelope,
                                                 const void* base, Bytes bytes) {
        return bytes < peer.out.try_send_below &&
               (store_short_into_ring(peer, envelope, base, bytes) ||
                copy_unless_gathered(peer, envelope.context, envelope.source, envelope.tag, base,
                                     bytes));
    }
    static bool try_send(Peer& peer, const Envelope& envelope, const Data& data) {
        return data.base != nullptr && try_send(peer, envelope, data.base, data.bytes);
    }
    // Sends a message of any length that the ring takes. Takes the envelope in pieces, so that
    // callers on the fast path need not build it in memory.
    static bool copy_into_ring(Peer& peer, std::uint32_t context, std::int32_t source,
                               std::int32_t tag, const void* base, Bytes bytes);
    static bool copy_unless_gathered(Peer& peer, std::uint32_t context, std::int32_t source,
                                     std::int32_t tag, const void* base, Bytes bytes);

private:
    static MessageHeader eager_header(const Envelope& envelope, Bytes bytes) {
        MessageHeader header;
        header.type = MessageType::eager;
        header.length = static_cast<std::uint32_t>(bytes);
        header.context = envelope.context;
        header.source = envelope.source;
        header.tag = envelope.tag;
        return header;
    }
    // Is cheap: refuses longer messages (kRetainedFrom), and whatever needs more than a look at the
    // cursor. copy_into_ring() asks in full: it reads the reader's count, goes on to another lap,
    // and posts. Another attempt right after it is in vain.
    [[gnu::always_inline]] static bool store_short_into_ring(Peer& peer, const Envelope& envelope,
                                                             const void* base, Bytes bytes) {
        if (bytes >= kRetainedFrom || !peer.may_use_ring(bytes)) [[unlikely]] {
            return false;
        }
        MessageHeader header = eager_header(envelope, bytes);
        return peer.store_short_into_ring(header,
                                          [&](std::byte* to) { copy_small(to, base, bytes); });
    }
};

} // namespace adaptib
