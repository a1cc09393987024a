// SPDX-License-Identifier: BSD-3-Clause
// Closings: takes unused connections down, without disturbing what the two sides still send each
// other.
//
// Each side stops using the connection (messages go by datagrams from then on), waits until all
// that it has put on the connection has reached the other side, and sends `close`. A side that has
// sent `close` and received it takes what is left in its ring, and takes its end down: nothing can
// arrive there any more. A side that receives `close` and needs the connection sends `keep`
// instead, and the other side uses the connection again.
// `close` and `keep` carry the numbers of both sides' attempts and of the close itself, so that
// late and doubled ones are recognized; a request for the next connection means `close` as well.
// Invariant: a peer is in the list exactly while its state is closing.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, peer/.
#pragma once

#include <cstddef>

#include "base/intrusive_list.h"
#include "base/wire_connect.h"
#include "connect/connect_context.h"
#include "connect/control_lanes.h"
#include "connect/handshake_messages.h"
#include "connect/shared_draining.h"

namespace adaptib {

class Closings {
public:
    Closings(const ConnectContext& context, ControlLanes& lanes, HandshakeMessages& messages,
             SharedDraining& draining)
        : context_(context), lanes_(lanes), messages_(messages), draining_(draining) {}

    // REQUIRES: the peer is open.
    void start(Peer& peer);
    // Returns true if advance() is to be called again and again.
    bool active() const { return !closing_.empty(); }
    // When nothing is under way on either side any more, ConnectEvent::ring_final is reported: once
    // it has been handled, the connection is to be taken down.
    void advance();
    // Returns true if the message is of the connection that this side has, or is about to have.
    static bool is_of_connection(const Peer& peer, const ConnectNote& note) {
        return note.connection == peer.connection.remote_number &&
               note.answers == peer.connection.number;
    }
    void on_close(Peer& peer, const ConnectNote& note);
    // Same for one that has come before the connection was open: messages that wait for it go
    // first.
    static void keep_close(Peer& peer, const ConnectNote& note) {
        peer.connection.closing.early = note;
    }
    void on_keep(Peer& peer, const ConnectNote& note);
    // The connection is open, and what waited for it is sent: takes a close that was kept.
    void on_connected(Peer& peer);
    // Ends the closing, if the peer is closing: the caller changes its state. resume() lets
    // messages take the ring again.
    void forget(Peer& peer);
    void resume(Peer& peer);
    // Number of closings that began after that time.
    std::size_t begun_after(Nanoseconds time) const;

private:
    void begin_to_flush(Peer& peer);
    void leave(Peer& peer);

    IntrusiveList<Peer, &Peer::connection, &PeerConnection::closing_link> closing_;
    const ConnectContext& context_;
    ControlLanes& lanes_;
    HandshakeMessages& messages_;
    SharedDraining& draining_;
};

} // namespace adaptib
