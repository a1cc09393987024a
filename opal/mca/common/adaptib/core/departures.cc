// SPDX-License-Identifier: BSD-3-Clause
#include "core/departures.h"

#include <algorithm>
#include <utility>

#include "core/peer_text.h"
#include "protocol/gone.h"

namespace adaptib {

namespace {

constexpr std::size_t kMostLeft = 4096; // bound on the polls that empty a queue
constexpr std::size_t kMostAtOnce = 16;

// Empties the fabric's queues, within bounds. Each poll looks at the first port and at one other.
void take_datagrams(AttachedFabric& attached) {
    std::size_t idle = 0; // consecutive polls that found nothing
    for (std::size_t polls = 0; idle < attached.datagrams->ports() && polls < kMostLeft; ++polls) {
        idle = attached.datagrams->poll(attached.receiver, kMostAtOnce) > 0 ? 0 : idle + 1;
    }
}

} // namespace

// The peer cannot reach this process, and has reported that.
void Departures::on_refused(Peer& peer, Status status, std::string text) {
    text = text.empty() ? reason_text(status.reason()) : text;
    protocol_.lost().lose(peer, "that process cannot reach this one to answer: " + text + " (" +
                                    advice(status.reason()) + ")");
    protocol_.lost().report(peer);
}

void Departures::on_peers_changed() {
    std::vector<Peer*> gone;
    peers_.for_each([&](Peer& peer) {
        if (peer.contact.datagram.handle == nullptr || peer.session.lost()) {
            return;
        }
        if (how_gone(peer).why != nullptr) {
            gone.push_back(&peer);
            return;
        }
        std::string text;
        if (const Status standing = peer.contact.datagram.handle->standing(text); !standing.ok()) {
            on_refused(peer, standing, text);
        }
    });
    end(gone);
}

void Departures::end(const std::vector<Peer*>& gone) {
    for (std::uint32_t i = 0; i < fabrics_.size(); ++i) {
        if (std::any_of(gone.begin(), gone.end(),
                        [i](const Peer* peer) { return peer->contact.route.fabric == i; })) {
            take_datagrams(fabrics_[i]);
        }
    }
    for (Peer* peer : gone) {
        rings_.empty(*peer);
        const Gone how = how_gone(*peer);
        if (how.why == nullptr || peer->session.lost() || protocol_.leaves(*peer)) {
            continue;
        }
        if (how.ended) {
            protocol_.lost().expect_all(false);
        }
        protocol_.lost().lose(*peer, how.why);
    }
    protocol_.end_lost_peers();
}

bool Departures::takes(Peer& peer) {
    if (protocol_.leaves(peer)) {
        return true;
    }
    if (how_gone(peer).why == nullptr) {
        return false;
    }
    reported_.report(peer, PeerEvent::gone);
    return true;
}

// A message of such a peer that comes later, out of the shared queue, is received all the same.
void Departures::release_left_peers() {
    for (Peer* peer : reported_.take(PeerEvent::left)) {
        rings_.empty(*peer); // a failed return of credit may have told before all was received
        reported_.drop(*peer, PeerEvent::disconnected);
        if (peer->session.lost() || protocol_.needs(*peer)) {
            continue;
        }
        if (!connections_.shared_draining().drained_by_others(*peer, connections_.owners())) {
            // Later: else those that share its queue pairs would lose theirs.
            reported_.report(*peer, PeerEvent::left);
            continue;
        }
        protocol_.drop_disconnects(*peer);
        connections_.close(*peer, ConnectState::idle);
        reported_.drop_wants(*peer);
        peer->connection.early_request.reset();
        peer->contact.channel.retransmitter().release(peer->contact.datagram);
        paths_.forget(*peer);
        protocol_.on_torn_down(*peer);
    }
}

void Departures::tear_down_peers() {
    while (reported_.any(PeerEvent::gone)) { // end() receives, and so may add further ones
        end(reported_.take(PeerEvent::gone));
    }
    release_left_peers();
    for (Peer* peer : reported_.take(PeerEvent::disconnected)) {
        if (peer->session.lost()) {
            continue;
        }
        if (peer->interruption.repair.wanted || peer->interruption.active) {
            peer->in.teardown_pending =
                false; // our answer may be lost; finish once it is under way again
            continue;
        }
        if ((peer->out.ring != nullptr && !peer->out.ring->poster().settled()) ||
            !connections_.shared_draining().drained_if_gone(*peer, connections_.owners())) {
            // Later: our answer to its disconnect is under way.
            reported_.report(*peer, PeerEvent::disconnected);
            continue;
        }
        connections_.close(*peer, ConnectState::idle);
        reported_.drop_wants(*peer);
        const std::unique_ptr<ConnectBody> early = std::move(peer->connection.early_request);
        const DatagramLink* link = peer->contact.datagram.link.get();
        if (peer->ending.released() && early == nullptr && peer->in.early == nullptr &&
            (link == nullptr || !link->busy())) {
            peer->contact.channel.retransmitter().release(peer->contact.datagram);
        }
        protocol_.on_torn_down(*peer);
        if (early != nullptr) {
            connections_.on_early_request(*peer, *early);
        }
    }
}

} // namespace adaptib
