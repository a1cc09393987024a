// SPDX-License-Identifier: BSD-3-Clause
// ProtocolListener: notices and questions of the protocol to the core above it.
//
// May touch: peer/.
#pragma once

#include "peer/peer.h"

namespace adaptib {

class ProtocolListener {
public:
    // A connection has failed; messages and transfers under way over it may not have arrived.
    // peer.ending.failure explains it to the user.
    virtual void on_broken(Peer& peer) = 0;
    // The disconnect handshake is over: nothing refers to the peer any more.
    virtual void on_peer_disconnected(Peer& peer) = 0;
    // The peer's process ends, and all that it has sent is received.
    virtual void on_peer_left(Peer& peer) = 0;
    // Returns true if the peer's process is gone and nothing is wanted of it: that is no failure.
    virtual bool leaves(Peer& peer) = 0;

protected:
    ~ProtocolListener() = default;
};

} // namespace adaptib
