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
inline bool is_needed(const Peer& peer) { return peer.transfers.users > 0 || peer.messages() > 0; }

// Returns true if the peer cannot do without a connection.
inline bool needs(const Peer& peer) {
    return peer.transfers.rma_operations > 0 || peer.connection.activity.required;
}

// Returns true if nothing needs the connection. Puts and gets that wait for the next connection do
// not use this one. A connection in the disconnect handshake is taken down by that.
inline bool is_unused(const Peer& peer) {
    const bool only_waits = peer.transfers.yields &&
                            peer.transfers.users == peer.transfers.rma_operations &&
                            peer.transfers.stripes == 0;
    return (peer.transfers.users == 0 || only_waits) && !peer.out.has_pending() &&
           peer.flow.gathered.empty() && !peer.disconnecting() && !peer.control.migration.active &&
           !peer.control.measuring.active;
}

// Returns true if the peer may ask for a connection again.
inline bool may_ask(const Peer& peer, Nanoseconds now) {
    return now >=
           (needs(peer) ? peer.connection.activity.urgent_at : peer.connection.activity.ask_at);
}

} // namespace adaptib
