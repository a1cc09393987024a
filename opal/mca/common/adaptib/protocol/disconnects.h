// SPDX-License-Identifier: BSD-3-Clause
// Disconnects: the disconnect handshake with peers that the user releases.
//
// Purpose: each side sends its disconnect (`disconnect`) when its user has released the peer, and
// answers the other side's. A side that has sent its own, has received the other one, and has got
// its own answered takes the connection down: the other side has received all that was sent, and
// writes nothing more, not even credit. Requests that are started meanwhile are held until then.
// A process that ends may have peers that no user has released: those of jobs that it was spawned
// by, has spawned or has connected to. They get a disconnect that is final, and wants no answer.
// Invariant: a side revokes its disconnect only while it has not received the other one; after
// that both sides complete the handshake.
// Ownership: the state of each handshake is PeerEnding's, the connection its owner's.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/, back_pressure.h, send_flow.h.
#pragma once

#include <cstdint>

#include "base/wire.h"
#include "peer/peer.h"
#include "peer/peer_events.h"
#include "protocol/back_pressure.h"
#include "protocol/send_flow.h"

namespace adaptib {

class Disconnects {
public:
    // `events`: the handshake of a peer is over, or its process ends and has sent the last of its
    // messages.
    Disconnects(SendFlow& flow, BackPressure& back_pressure, PeerEvents& events)
        : flow_(flow), back_pressure_(back_pressure), events_(events) {}

    // The user has released the peer.
    void release(Peer& peer);
    // Undoes release(): the user wants the peer again. Returns true if what was held may go now.
    bool keep(Peer& peer);
    // This process ends: tells the peer. Nothing may be sent to it afterwards. Returns false if the
    // peer needs no word: it is gone, there was no traffic, or both have begun to disconnect.
    bool leave(Peer& peer);

    // Returns true if what was held may go now.
    bool on_disconnect(Peer& peer, std::uint8_t flags, const IdBody& body);
    // Ends the handshake if it is over. Called, too, when nothing is pending for the peer any more.
    void end_if_over(Peer& peer);
    // The core has taken the connection down; next it starts what was held.
    static void on_torn_down(Peer& peer);

private:
    void announce(Peer& peer, std::uint8_t how);

    SendFlow& flow_;
    BackPressure& back_pressure_;
    PeerEvents& events_;
};

} // namespace adaptib
