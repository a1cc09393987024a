// SPDX-License-Identifier: BSD-3-Clause
// GatheredSends: eager messages without a copy, from buffers that the user sends again and again.
//
// Purpose: decides whether a request's message is gathered, posts it into the peer's ring, and
// ends the request once the device is done with the buffer. Active messages, too, if their data is
// in a buffer of the user's behind a header of the caller's. A caller that waits for its send gets
// a copy: it returns at once, and not after an acknowledgment. Only messages over a device are
// gathered, and only from buffers that FrequentBuffers has registered. A peer without a ring gets
// datagrams, which are gathered, too; if one is not acknowledged soon, its payload is copied after
// all, so that the request does not wait for a peer that computes (channel/payload_loans.h).
// Ownership: requests are the user's until Completions reports them. A request keeps its buffer
// registered while the device may read it.
// Threads: one at a time (the core's lock).
// Source: Rashti and Afsahi, section 3 (send/receive).
// May touch: base/, memory/, channel/, peer/, stats/, protocol/.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "channel/gathered_messages.h"
#include "fabric/rail.h"
#include "memory/exposed_memory.h"
#include "memory/frequent_buffers.h"
#include "peer/peer.h"
#include "protocol/completions.h"
#include "protocol/request.h"
#include "protocol/transfer_engine.h"
#include "stats/counters.h"

namespace adaptib {

class GatheredSends final : GatherListener {
public:
    enum class Outcome : std::uint8_t { declined, no_room, sent };

    // `transfers`: bounds the completions that are outstanding, and makes progress() poll for them;
    // need not be constructed yet.
    GatheredSends(ExposedMemory& memory, TransferEngine& transfers, Completions& completions,
                  Counters& counters)
        : memory_(memory), transfers_(transfers), completions_(completions), counters_(counters) {}

    // Gathers messages to the peer from now on if its ring, its rails and the user allow it. The
    // peer has just been connected.
    void begin(Peer& peer, RailList rails);
    // Returns true if a message from this buffer, whose caller does not wait for it, should be
    // gathered, and so needs a request. Counts a use of the buffer; a try_send() before
    // end_start() does not count it again. REQUIRES: peer.flow.gathers is not null.
    bool wants(Peer& peer, const void* base, Bytes bytes);

    // A message for a handler (ActiveMessages) in two pieces: the first is copied, the second lies
    // in the user's buffer.
    struct ActivePieces {
        std::uint8_t tag;
        const void* first;
        Bytes first_bytes;
        const void* second;
        Bytes second_bytes;
        Bytes bytes() const { return first_bytes + second_bytes; }
    };
    // Sends such a message if it can be gathered now; `user` then becomes its request, which ends
    // when the device is done with the second piece. Returns false if nothing was sent.
    bool try_send_active(Peer& peer, const ActivePieces& pieces, UserRequest& user) {
        return gathers(peer) && gather_active(peer, pieces, user);
    }
    // Sends the request's message, an eager one. declined: it has to be copied.
    Outcome try_send(SendRequest& request) {
        return request.copied || !gathers(*request.peer) ? Outcome::declined : gather(request);
    }
    // The start of a request is over.
    void end_start() {
        if (claim_.base != nullptr) [[unlikely]] {
            drop_claim();
        }
    }
    // The peer has failed: its requests under way end with an error.
    static void fail(Peer& peer) { end_all(peer, GatherEnd::lost); }
    // At the end: gives up the buffers of requests that nobody will ask for any more.
    static void forget(Peer& peer) { end_all(peer, GatherEnd::dropped); }

private:
    // A buffer that wants() has found, for the request that follows.
    struct Claim {
        const void* base = nullptr; // null: none
        Bytes bytes = 0;
        RegistrationCache::Use use;
    };

    // Returns true if messages to the peer are gathered, over its ring or as datagrams.
    bool gathers(const Peer& peer) const {
        return peer.out.ring != nullptr ? peer.flow.gathers != nullptr
                                        : peer.contact.channel.gathers() && datagrams_too(peer);
    }
    bool datagrams_too(const Peer& peer) const {
        return memory_.frequent(peer.contact.route.fabric).on();
    }
    bool may_gather(const Peer& peer, Bytes bytes) const;
    static void end_all(Peer& peer, GatherEnd how) {
        peer.flow.gathered.end_all(how);
        peer.contact.channel.abandon_loans(peer.contact.datagram, how);
    }
    Outcome gather(SendRequest& request);
    bool gather_active(Peer& peer, const ActivePieces& pieces, UserRequest& user);
    void take_claim(SendRequest& request);
    bool find_buffer(const Peer& peer, SendRequest& request, Bytes payload_bytes);
    Outcome post(SendRequest& request, MessageHeader header, const std::byte* to, Bytes bytes);
    Status commit(SendRequest& request, MessageHeader& header, const std::byte* to, Bytes bytes);
    void drop_claim();
    void on_gathered(GatheredMessage& message, GatherEnd end) override;

    ExposedMemory& memory_;
    TransferEngine& transfers_;
    Completions& completions_;
    Counters& counters_;
    Claim claim_;
};

} // namespace adaptib
