// SPDX-License-Identifier: BSD-3-Clause
// ActiveMessages: messages for a handler of the receiver instead of for matching.
//
// Purpose: an active message goes as an eager message, with a tag of 8 bits, and is handed over as
// it arrives. A message longer than the channel takes goes in parts, which follow each other in the
// order of the peer's messages; the receiver joins them. A message for which there is no room
// becomes a request, which waits in SendFlow like others.
// Ownership: refers to the requests, which are the user's, and to all else; owns nothing but
// scratch memory. Parts that have arrived belong to the Peer.
// Threads: one at a time (the core's lock).
// May touch: base/, channel/, memory/, peer/, stats/, back_pressure.h, completions.h,
// eager_tuning.h, request.h, send_flow.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/copy.h"
#include "base/data.h"
#include "base/status.h"
#include "base/wire.h"
#include "channel/ring_layout.h"
#include "peer/peer.h"
#include "protocol/back_pressure.h"
#include "protocol/completions.h"
#include "protocol/eager_tuning.h"
#include "protocol/lost_peers.h"
#include "protocol/request.h"
#include "protocol/send_flow.h"
#include "stats/counters.h"
#include "stats/trace.h"

namespace adaptib {

class ActiveMessages final : public PendingSender {
public:
    // Called with each active message that arrives. Null: active messages count as bad packets.
    using Handler = void (*)(void* context, Peer& peer, std::uint8_t tag, const std::byte* payload,
                             Bytes length);

    // `most`: length of the longest message.
    ActiveMessages(Bytes most, SendFlow& flow, BackPressure& back_pressure,
                   EagerTuning& eager_tuning, Completions& completions, LostPeers& lost,
                   Counters& counters)
        : most_(most), flow_(flow), back_pressure_(back_pressure), eager_tuning_(eager_tuning),
          completions_(completions), lost_(lost), counters_(counters) {}

    // --- Calls of the user -----------------------------------------------------------------------
    void listen(Handler handler, void* context) {
        handler_ = handler;
        context_ = context;
    }
    Bytes most() const { return most_; }
    // Sets `complete` to true if the request ended within the call; the list of completions does
    // not have it then. Errors: bad_argument if longer than most(), unreachable.
    Status send(Peer& peer, std::uint8_t tag, const Data& data, UserRequest& user, bool& complete);
    // Fast path: a contiguous message in two pieces, for which the peer's ring has room now. The
    // second piece may be empty. Returns false if nothing was sent; the caller then calls send().
    [[gnu::always_inline]] static bool try_send(Peer& peer, std::uint8_t tag, const void* first,
                                                Bytes first_bytes, const void* second,
                                                Bytes second_bytes) {
        const Bytes bytes = first_bytes + second_bytes;
        return bytes < peer.out.try_send_active_below &&
               (store_short_into_ring(peer, tag, first, first_bytes, second, second_bytes) ||
                copy_into_ring(peer, tag, first, first_bytes, second, second_bytes));
    }
    // Same for a longer message; may time the copy into the ring.
    bool send_timed(Peer& peer, std::uint8_t tag, const void* first, Bytes first_bytes,
                    const void* second, Bytes second_bytes);

    // --- Calls of the owner ----------------------------------------------------------------------
    // Puts the message of a SendRequest, or further parts of it, on the channel.
    bool transmit(PendingSend& send) override;
    // Takes a message, or the last part of one.
    void on_active(Peer& peer, std::uint8_t tag, const std::byte* body, Bytes length) {
        note_event(counters_.trace, TraceKind::active_arrived,
                   {.peer = peer.contact.name, .value = length});
        if (handler_ != nullptr && peer.in.parts.empty()) [[likely]] {
            handler_(context_, peer, tag, body, length);
        } else {
            on_active_end(peer, tag, body, length);
        }
    }
    void on_active_part(Peer& peer, const MessageHeader& header, const std::byte* body);
    // Returns true if the user may wait for an active message of the peer: both have exchanged
    // messages, neither has begun to disconnect, and the peer has not left. This class does not
    // know of such a wait.
    bool may_await(const Peer& peer) const {
        return handler_ != nullptr && peer.messages() > 0 && !peer.ending.released() &&
               !peer.ending.disconnect_received && !peer.health.life.left;
    }

private:
    static MessageHeader header_of(std::uint8_t tag, Bytes bytes) {
        MessageHeader header;
        header.type = MessageType::active;
        header.flags = tag; // only active messages carry their tag in flags
        header.length = static_cast<std::uint32_t>(bytes);
        return header;
    }
    // Both *_into_ring functions return false if nothing was sent: there is no room now, or
    // something has to go first. store_short_into_ring is the fast path, and also refuses for other
    // reasons.
    [[gnu::always_inline]] static bool store_short_into_ring(Peer& peer, std::uint8_t tag,
                                                             const void* first, Bytes first_bytes,
                                                             const void* second,
                                                             Bytes second_bytes) {
        const Bytes bytes = first_bytes + second_bytes;
        if (bytes >= kRetainedFrom || !peer.may_use_ring(bytes)) [[unlikely]] {
            return false;
        }
        MessageHeader header = header_of(tag, bytes);
        return peer.store_short_into_ring(header, [&](std::byte* to) {
            copy_small(to, first, first_bytes);
            copy_small(to + first_bytes, second, second_bytes);
        });
    }
    static bool copy_into_ring(Peer& peer, std::uint8_t tag, const void* first, Bytes first_bytes,
                               const void* second, Bytes second_bytes);
    bool transmit_parts(SendRequest& request);
    void end_broken(SendRequest& request, Status status);
    void on_active_end(Peer& peer, std::uint8_t tag, const std::byte* body, Bytes length);

    Handler handler_ = nullptr;
    void* context_ = nullptr;
    const Bytes most_;
    SendFlow& flow_;
    BackPressure& back_pressure_;
    EagerTuning& eager_tuning_;
    Completions& completions_;
    LostPeers& lost_;
    Counters& counters_;
    std::vector<std::byte> fragment_; // scratch of transmit_parts
};

} // namespace adaptib
