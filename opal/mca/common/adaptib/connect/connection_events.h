// SPDX-License-Identifier: BSD-3-Clause
// ConnectionEvents: events of connections that the core has to act on.
//
// Purpose: the classes of connect/ report an event where it happens, in the middle of their work,
// and call nobody: the core's reaction (messages are sent and received, the peer is given up) would
// change what they work with. handle() calls the handler for all events at once, when none of that
// work is under way: in the core's progress, and at the end of calls whose callers rely on the
// outcome. Work that cannot go on before the core has acted (a repair, until the ring is drained
// and its messages in doubt are kept) goes on at the end of a peer's events. Until then no class of
// connect/ takes the next step with that peer (is_waiting). So do events that one class of connect/
// has for another that stands above it.
// Order: failed peers first, since the handling of other events must not find one whose failure the
// core does not know; then peers in the order of their first event. The events of a peer as
// ConnectEvent lists them.
// Invariant: a peer with a waiting event is in the list, or its events are being handled. A
// connection that is taken down leaves no event behind but what is reported after that.
// Threads: one at a time.
// May touch: base/, peer/.
#pragma once

#include <string>

#include "base/intrusive_list.h"
#include "base/status.h"
#include "base/units.h"
#include "peer/connect_events.h"
#include "peer/peer.h"

namespace adaptib {

class ConnectionEventHandler {
public:
    // A repair begins: nothing is sent until on_connected.
    virtual void on_interrupted(Peer& peer) = 0;
    // The peer's queue pairs do not complete the work under way: destroy them
    // (ConnectionManager::abandon), take the completions from before, and end that work.
    virtual void on_abandoned(Peer& peer) = 0;
    // The peer writes nothing more: take what is in the ring.
    virtual void on_ring_final(Peer& peer) = 0;
    // Keep what peer.out.ring may have lost: it is destroyed next.
    virtual void on_fenced(Peer& peer) = 0;
    // The connection could not be made anew for `lasted`.
    virtual void on_partition(Peer& peer, Nanoseconds lasted) = 0;
    virtual void on_repaired(Peer& peer, Nanoseconds took) = 0;
    virtual void on_connected(Peer& peer) = 0;
    // No connection for now: refused, or closed. Work that waits for one may go another way.
    virtual void on_unconnected(Peer& peer) = 0;
    // The peer is lost.
    virtual void on_connect_failed(Peer& peer, Status status, const std::string& what) = 0;

protected:
    ~ConnectionEventHandler() = default;
};

class ConnectionEvents {
public:
    explicit ConnectionEvents(ConnectionEventHandler& handler) : handler_(handler) {}

    void report(Peer& peer, ConnectEvent kind);
    // `kind`: partition or repaired. They never wait together.
    void report(Peer& peer, ConnectEvent kind, Nanoseconds duration);
    // `kind`: failed, failed_here or unsent. The first failure counts.
    void report(Peer& peer, ConnectEvent kind, Status status, const std::string& what);
    static bool is_waiting(const Peer& peer) { return !peer.connection.events.waiting.empty(); }
    // Returns true if the peer is to be given up, since it cannot be sent to.
    static bool is_unsent(const Peer& peer) {
        return peer.connection.events.waiting.has(ConnectEvent::unsent);
    }
    bool any() const { return !reported_.empty(); }
    // Handles all events, and those that their handling causes. `go_on(peer, handled)` goes on with
    // what has waited for the handling of a peer's events, and acts on one of connect/'s own.
    // Within itself the call does nothing: the outer one goes on.
    template <typename GoOn> void handle(const GoOn& go_on) {
        if (handling_) {
            return;
        }
        handling_ = true;
        while (Peer* const peer = reported_.pop_front()) {
            handle_all(*peer, go_on);
        }
        handling_ = false;
    }
    // Drops the peer's events.
    void forget(Peer& peer);

private:
    // An event may drop the ones behind it, or cause others.
    template <typename GoOn> void handle_all(Peer& peer, const GoOn& go_on) {
        ConnectEventSet& waiting = peer.connection.events.waiting;
        ConnectEventSet handled;
        while (!waiting.empty()) {
            const ConnectEvent kind = waiting.first();
            waiting.remove(kind);
            if (is_own_event(kind)) {
                go_on(peer, ConnectEventSet(kind));
            } else {
                handled.add(kind);
                dispatch(peer, kind);
            }
        }
        if (!handled.empty()) {
            go_on(peer, handled);
        }
    }
    void dispatch(Peer& peer, ConnectEvent kind);

    ConnectionEventHandler& handler_;
    IntrusiveList<Peer, &Peer::connection, &PeerConnection::events, &PeerConnectEvents::link>
        reported_;
    bool handling_ = false;
};

} // namespace adaptib
