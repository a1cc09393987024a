// SPDX-License-Identifier: BSD-3-Clause
// A peer has gone: it has closed its fabric, as MPI_Finalize does, or its process has ended.
//
// Three say so: the fabric, by an event, of a peer of this host; the system, of one that is waited
// for (core/alive.cc); the runtime, of any. All of them end it in one way (end_peers). What it had
// sent is taken first. A peer of which nothing is wanted any more has left then: its connection,
// ring and mapping are given back, and no path is said to have failed. One that something is wanted
// of is lost, which is an error.
//
// May touch: what core/core.h may.
#include <algorithm>
#include <utility>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr std::size_t kMostLeft = 4096; // polls of what peers can have left in a queue
constexpr std::size_t kMostAtOnce = 16;

} // namespace

// Why nothing comes of the peer any more; null: it lives, as far as is known without asking.
const char* Core::why_gone(const Peer& peer) {
    if (peer.life.ended) {
        return "its process has ended, says the runtime";
    }
    if (peer.datagram.handle == nullptr) {
        return nullptr;
    }
    std::string text;
    switch (peer.datagram.handle->standing(text).reason()) {
    case Reason::no_device: return "its process has finalized MPI";
    case Reason::peer_gone: return "its process has ended";
    default: return nullptr;
    }
}

// A fabric's peers: some have gone, or refuse this process.
void Core::on_peers_changed() {
    std::vector<Peer*> gone;
    for_each_peer([&](Peer& peer) {
        if (peer.datagram.handle == nullptr || peer.state == ConnectState::failed) {
            return;
        }
        if (why_gone(peer) != nullptr) {
            gone.push_back(&peer);
            return;
        }
        std::string text;
        if (const Status standing = peer.datagram.handle->standing(text); !standing.ok()) {
            on_refused(peer, standing, text);
        }
    });
    end_peers(gone);
}

// Takes first whatever they have sent before they went: that still counts.
void Core::end_peers(const std::vector<Peer*>& gone) {
    for (std::uint32_t i = 0; i < fabrics_.size(); ++i) {
        if (std::any_of(gone.begin(), gone.end(),
                        [i](const Peer* peer) { return peer->route.fabric == i; })) {
            take_datagrams(fabrics_[i]);
        }
    }
    for (Peer* peer : gone) {
        on_ring_final(*peer);
        const char* why = why_gone(*peer);
        if (why != nullptr && peer->state != ConnectState::failed && !leaves(*peer)) {
            protocol_->on_peer_failed(*peer, why);
        }
    }
}

// All that lies in the queues, within bounds. Each poll looks at the first port and at another one.
void Core::take_datagrams(Attached& attached) {
    std::size_t idle = 0; // polls in a row
    for (std::size_t polls = 0; idle < attached.datagrams->ports() && polls < kMostLeft; ++polls) {
        idle = attached.datagrams->poll(attached.receiver, kMostAtOnce) > 0 ? 0 : idle + 1;
    }
}

// True: the peer is gone and nothing is wanted of it; it is let go at the end of this progress.
bool Core::leaves(Peer& peer) {
    if (why_gone(peer) == nullptr || protocol_->needs(peer)) {
        return false;
    }
    if (std::find(left_.begin(), left_.end(), &peer) == left_.end()) {
        left_.push_back(&peer);
        on_peer_finished(peer); // so that finish_peers() is called
    }
    return true;
}

// A message of such a peer that comes later, out of the shared queue, is taken all the same.
void Core::let_left_peers_go() {
    for (Peer* peer : std::exchange(left_, {})) {
        std::erase(finished_, peer);
        if (peer->state == ConnectState::failed || protocol_->needs(*peer)) {
            continue;
        }
        protocol_->drop_goodbyes(*peer);
        connections_->close(*peer, ConnectState::idle);
        peer->early_request.reset();
        peer->datagram.handle.reset();
        peer->datagrams.forget(peer->datagram);
        paths_->forget(*peer);
        protocol_->on_parted(*peer);
    }
}

} // namespace adaptib
