// SPDX-License-Identifier: BSD-3-Clause
#include "connect/connection_events.h"

#include <memory>
#include <utility>

namespace adaptib {

void ConnectionEvents::report(Peer& peer, ConnectEvent kind) {
    peer.connection.events.waiting.add(kind);
    if (!peer.connection.events.link.linked()) {
        reported_.push_back(peer);
    }
}

void ConnectionEvents::report(Peer& peer, ConnectEvent kind, Nanoseconds duration) {
    peer.connection.events.duration = duration;
    report(peer, kind);
}

void ConnectionEvents::report(Peer& peer, ConnectEvent kind, Status status,
                              const std::string& what) {
    if (peer.connection.events.failure != nullptr) {
        return;
    }
    peer.connection.events.failure = std::make_unique<ConnectFailure>(ConnectFailure{status, what});
    peer.connection.events.waiting.add(kind);
    if (peer.connection.events.link.linked()) {
        reported_.remove(peer);
    }
    reported_.push_front(peer);
}

void ConnectionEvents::dispatch(Peer& peer, ConnectEvent kind) {
    switch (kind) {
    case ConnectEvent::unsent:
    case ConnectEvent::flush_failed: break; // not for the core
    case ConnectEvent::interrupted: handler_.on_interrupted(peer); break;
    case ConnectEvent::abandoned: handler_.on_abandoned(peer); break;
    case ConnectEvent::ring_final: handler_.on_ring_final(peer); break;
    case ConnectEvent::fenced: handler_.on_fenced(peer); break;
    case ConnectEvent::partition:
        handler_.on_partition(peer, peer.connection.events.duration);
        break;
    case ConnectEvent::repaired: handler_.on_repaired(peer, peer.connection.events.duration); break;
    case ConnectEvent::connected:
    case ConnectEvent::kept: handler_.on_connected(peer); break;
    case ConnectEvent::unconnected: handler_.on_unconnected(peer); break;
    case ConnectEvent::failed:
    case ConnectEvent::failed_here: {
        const std::unique_ptr<ConnectFailure> failure = std::move(peer.connection.events.failure);
        handler_.on_connect_failed(peer, failure->status, failure->what);
        break;
    }
    }
}

void ConnectionEvents::forget(Peer& peer) {
    if (peer.connection.events.link.linked()) {
        reported_.remove(peer);
    }
    peer.connection.events.waiting = {};
    peer.connection.events.failure.reset();
}

} // namespace adaptib
