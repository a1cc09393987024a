// SPDX-License-Identifier: BSD-3-Clause
// PeerOut and PeerSession: the parts of a Peer that each message to it reads.
//
// Purpose: both together are one cache line, the only one of the Peer that a short send touches.
// Ownership: the parts belong to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, channel/, stats/, peer/.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "channel/ring_writer.h"
#include "peer/connection.h"
#include "peer/pending.h"
#include "stats/counters.h"

namespace adaptib {

// Ring and queue that a message of any kind leaves by.
struct PeerOut {
    PeerOut(Bytes eager_limit, Counters& counts)
        : try_send_below(eager_limit + 1), counters(counts) {}

    // Returns true if there is a ring that takes a message of that length.
    bool by_ring(Bytes length) const { return ring != nullptr && length <= ring_capacity; }
    bool has_pending() const { return !pending.empty(); }

    std::unique_ptr<RingWriter> ring; // null: datagrams
    Bytes ring_capacity = 0;          // longest body and payload of a message in the ring
    // Maximum length + 1 of messages for RingSends::try_send: longer ones may have to be timed.
    // 0: none.
    Bytes try_send_below;
    Bytes try_send_active_below = 1; // same for active messages
    Counters& counters;
    PendingQueue pending; // messages that wait for room
};

// State that decides whether a message may go now, and its number.
struct PeerSession {
    bool is_idle() const { return state == ConnectState::idle; }
    bool is_answered() const { return state == ConnectState::answered; }
    bool is_open() const { return state == ConnectState::open; } // operations can be posted
    bool is_closing() const { return state == ConnectState::closing; }
    bool is_repairing() const { return state == ConnectState::repairing; }
    // Returns true while both sides agree on a connection. The peer may write already, and so have
    // credit returned.
    bool in_handshake() const { return state == ConnectState::requested || is_answered(); }
    // Returns true while there is a connection, which may be closing.
    bool connected() const { return is_open() || is_closing(); }
    // Returns true while a connection is coming up, or being repaired.
    bool connecting() const { return in_handshake() || is_repairing(); }
    // The peer is lost: nothing goes to it from now on.
    bool lost() const { return state == ConnectState::failed; }
    void lose(Counters& counters) {
        counters.connections_open -= connected() ? 1 : 0;
        state = ConnectState::failed;
    }
    void forget_loss() { state = lost() ? ConnectState::idle : state; }

    std::uint32_t next_send = 0; // number of the next message
    ConnectState state = ConnectState::idle;
    bool disconnect_sent = false; // only the answer to the peer's disconnect follows
    bool repairable = false;      // the connection is repaired when it breaks
    bool ring_broken = false;     // ... and has to be, since out.ring reports an error
};

static_assert(sizeof(PeerOut) + sizeof(PeerSession) == kCacheLine,
              "a short send reads one cache line of the Peer");

} // namespace adaptib
