// SPDX-License-Identifier: BSD-3-Clause
// A peer of this host has gone: it has closed its fabric, as MPI_Finalize does, or its process has
// ended.
//
// A peer of which nothing is wanted any more has left: its connection, ring and mapping are given
// back, and no path is said to have failed. One that something is wanted of is lost, which is an
// error.
//
// May touch: what core/core.h may.
#include <algorithm>
#include <utility>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr int kLooks = 4096; // for what the peer has sent before

bool says_gone(Status standing) {
    return standing.reason() == Reason::no_device || standing.reason() == Reason::peer_gone;
}

bool is_gone(const Peer& peer) {
    std::string text;
    return peer.datagram.handle != nullptr && says_gone(peer.datagram.handle->standing(text));
}

} // namespace

// Takes first whatever the peers have sent before they went: that still counts.
void Core::on_peers_changed() {
    std::vector<Peer*> gone;
    for_each_peer([&](Peer& peer) {
        if (peer.datagram.handle == nullptr || peer.state == ConnectState::failed) {
            return;
        }
        std::string text;
        const Status standing = peer.datagram.handle->standing(text);
        if (says_gone(standing)) {
            gone.push_back(&peer);
        } else if (!standing.ok()) {
            on_refused(peer, standing, text);
        }
    });
    for (int looks = 0; !gone.empty() && looks < kLooks && poll_datagrams() > 0; ++looks) {
    }
    for (Peer* peer : gone) {
        if (peer->ring_in.has_value()) {
            on_ring_final(*peer);
        }
        if (!leaves(*peer) && peer->state != ConnectState::failed && is_gone(*peer)) {
            protocol_->on_peer_failed(*peer, reason_text(Reason::peer_gone));
        }
    }
}

// True: the peer is gone and nothing is wanted of it; it is let go at the end of this progress.
bool Core::leaves(Peer& peer) {
    if (!is_gone(peer) || protocol_->needs(peer)) {
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
