// SPDX-License-Identifier: BSD-3-Clause
// Yielding: connections in use that are closed for a peer that cannot do without one.
//
// Both sides of a connection that yields put nothing new on it, and close it when the work under
// way has completed. Messages go as datagrams meanwhile, puts and gets wait for the next turn. So a
// process that reads a word of another one again and again until it changes does not keep the
// connection from the process that is to change it.
// Invariant: a peer is in the list exactly while peer.transfers.yields.
// Threads: one at a time.
// May touch: base/, peer/, stats/.
#pragma once

#include "base/intrusive_list.h"
#include "base/wire_connect.h"
#include "connect/closings.h"
#include "connect/connect_context.h"
#include "connect/handshake_messages.h"

namespace adaptib {

class Yielding {
public:
    Yielding(const ConnectContext& context, HandshakeMessages& messages, Closings& closings)
        : context_(context), messages_(messages), closings_(closings) {}

    // Makes the connection yield, at both ends. REQUIRES: the peer is open.
    void begin(Peer& peer);
    // The other side has made it yield.
    void on_yield(Peer& peer, const ConnectNote& note);
    void stop(Peer& peer);
    // Returns true if a connection yields: advance() is to be called again and again.
    bool active() const { return !yielding_.empty(); }
    // A large message may take long to complete: the connection has another turn then.
    void advance();

private:
    void begin_here(Peer& peer);

    IntrusiveList<Peer, &Peer::connection, &PeerConnection::yielding_link>
        yielding_; // in the order in which they began
    const ConnectContext& context_;
    HandshakeMessages& messages_;
    Closings& closings_;
};

} // namespace adaptib
