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

class ClosingListener {
public:
    // Nothing is under way on either side, and the ring is taken. The connection is to be taken
    // down.
    virtual void on_closing_agreed(Peer& peer) = 0;
    // A queue pair has failed. The connection is to be made anew.
    virtual void on_closing_broken(Peer& peer) = 0;
    // The other side has the connection open: its confirmation is late.
    virtual void on_late_confirm(Peer& peer) = 0;

protected:
    ~ClosingListener() = default;
};

class Closings {
public:
    Closings(const ConnectContext& context, ControlLanes& lanes, HandshakeMessages& messages,
             SharedDraining& draining, ClosingListener& listener)
        : context_(context), lanes_(lanes), messages_(messages), draining_(draining),
          listener_(listener) {}

    // REQUIRES: the peer is open.
    void start(Peer& peer);
    // Returns true if advance() is to be called again and again.
    bool active() const { return !closing_.empty(); }
    void advance();
    void on_close(Peer& peer, const ConnectNote& note);
    void on_keep(Peer& peer, const ConnectNote& note);
    // Goes on with a closing that has waited for the ring to be taken, or for the connection to
    // open.
    void on_events_handled(Peer& peer, ConnectEventSet handled);
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
    ClosingListener& listener_;
};

} // namespace adaptib
