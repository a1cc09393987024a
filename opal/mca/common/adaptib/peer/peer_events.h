// SPDX-License-Identifier: BSD-3-Clause
// PeerEvents: what has become of peers, and what they want, for the core to act on in its progress
// (core/progress_engine.h), and partly at the end of its user's calls
// (Protocol::ask_for_connections).
//
// Purpose: a part of the core that finds out about a peer reports that in the middle of other work,
// and goes on. An event waits as long as the record of its peer: forget() comes before that goes.
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
        if ((peer.health.waiting_events & bit(event)) == 0) {
            peer.health.waiting_events |= bit(event);
            of(event).push_back(&peer);
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
        for (Peer* peer : of(event)) {
            peer->health.waiting_events &= static_cast<std::uint8_t>(~bit(event));
        }
        return std::exchange(of(event), std::move(spare_));
    }
    // Calls f for each of them, and keeps the memory of the list.
    template <typename F> void drain(PeerEvent event, F&& f) {
        if (any(event)) {
            std::vector<Peer*> peers = take(event);
            for (Peer* peer : peers) {
                f(*peer);
            }
            peers.clear();
            spare_ = std::move(peers);
        }
    }
    void drop(Peer& peer, PeerEvent event) {
        if ((peer.health.waiting_events & bit(event)) != 0) {
            peer.health.waiting_events &= static_cast<std::uint8_t>(~bit(event));
            waiting_ -= std::erase(of(event), &peer);
        }
    }
    // Drops what the peer wants: its connection is gone.
    void drop_wants(Peer& peer) {
        for (const PeerEvent event :
             {PeerEvent::want_connection, PeerEvent::want_repair, PeerEvent::want_lane}) {
            drop(peer, event);
        }
    }
    // The peer's record goes.
    void forget(Peer& peer) {
        for (std::size_t event = 0; event < kPeerEvents; ++event) {
            drop(peer, static_cast<PeerEvent>(event));
        }
    }

private:
    static std::uint8_t bit(PeerEvent event) {
        return static_cast<std::uint8_t>(1u << static_cast<unsigned>(event));
    }
    std::vector<Peer*>& of(PeerEvent event) { return peers_[static_cast<std::size_t>(event)]; }

    std::size_t waiting_ = 0; // events of all kinds
    std::array<std::vector<Peer*>, kPeerEvents> peers_;
    std::vector<Peer*> spare_; // memory for a list
    static_assert(kPeerEvents <= 8);
};

} // namespace adaptib
