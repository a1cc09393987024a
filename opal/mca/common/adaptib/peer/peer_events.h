// SPDX-License-Identifier: BSD-3-Clause
// PeerEvents: what has become of peers, for the core to act on in its progress
// (core/progress_engine.h).
//
// Purpose: a part of the core that finds out about a peer reports that in the middle of other work,
// and goes on. The record of a peer stays until the end, so an event may wait.
// Threads: one at a time (the core's lock).
// May touch: peer/.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "peer/peer.h"

namespace adaptib {

enum class PeerEvent : std::uint8_t {
    lost,            // what waits for it ends
    reachable,       // by datagrams; it has asked for a connection before
    gone,            // its process has ended, or says that it ends; something may be wanted of it
    left,            // it is gone, and nothing is wanted of it
    disconnected,    // the disconnect handshake is over: nothing refers to it any more
    want_connection, // something waits that should go over one
    want_repair,     // a path of its connection takes no work any more
    want_lane,       // its scheduler has chosen another control lane
};
constexpr std::size_t kPeerEvents = static_cast<std::size_t>(PeerEvent::want_lane) + 1;

class PeerEvents {
public:
    // Does nothing if that event of the peer waits already.
    void report(Peer& peer, PeerEvent event) {
        std::vector<Peer*>& peers = of(event);
        if (std::find(peers.begin(), peers.end(), &peer) == peers.end()) {
            peers.push_back(&peer);
            ++waiting_;
        }
    }
    void want_connection(Peer& peer) {
        if (peer.session.state == ConnectState::idle) {
            report(peer, PeerEvent::want_connection);
        }
    }
    bool any() const { return waiting_ > 0; }
    bool any(PeerEvent event) const { return !peers_[static_cast<std::size_t>(event)].empty(); }
    // Returns the peers with that event, in the order of the reports; they wait no more.
    std::vector<Peer*> take(PeerEvent event) {
        waiting_ -= of(event).size();
        return std::exchange(of(event), {});
    }
    void drop(const Peer& peer, PeerEvent event) { waiting_ -= std::erase(of(event), &peer); }

private:
    std::vector<Peer*>& of(PeerEvent event) { return peers_[static_cast<std::size_t>(event)]; }

    std::size_t waiting_ = 0; // events of all kinds
    std::array<std::vector<Peer*>, kPeerEvents> peers_;
};

} // namespace adaptib
