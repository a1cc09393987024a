// SPDX-License-Identifier: BSD-3-Clause
// How much a peer needs its connection.
//
// Threads: as the peer.
// May touch: base/, peer/.
#pragma once

#include "peer/peer.h"

namespace adaptib {

// Returns false for a peer that was to be connected from the start, and has not communicated since:
// it can do without.
inline bool is_needed(const Peer& peer) { return peer.users > 0 || peer.messages() > 0; }

// Returns true if the peer cannot do without a connection.
inline bool needs(const Peer& peer) { return peer.rma_operations > 0 || peer.activity.required; }

// Returns true if nothing needs the connection. Puts and gets that wait for the next connection do
// not use this one. A connection in the disconnect handshake is taken down by that.
inline bool is_unused(const Peer& peer) {
    const bool disconnecting = peer.disconnect_sent && peer.disconnect_received;
    const bool only_waits = peer.yields && peer.users == peer.rma_operations && peer.stripes == 0;
    return (peer.users == 0 || only_waits) && !peer.has_pending() && !disconnecting &&
           !peer.lane_migration.active && !peer.measuring.active;
}

// Returns true if the peer may ask for a connection again.
inline bool may_ask(const Peer& peer, Nanoseconds now) {
    return now >= (needs(peer) ? peer.activity.urgent_at : peer.activity.ask_at);
}

} // namespace adaptib
