// SPDX-License-Identifier: BSD-3-Clause
// Connections over queue pairs that many peers share (channel/shared_queue_pairs.h). They need no
// queue pair of their own, and `connect_max` does not count them. All else is as with other
// connections: the handshake, rings, transfers.
//
// The difference lies in how such a connection ends, or is made anew. A queue pair of its own can
// be moved to the error state, or destroyed: then none of its work is under way. A shared one is
// drained instead: its work completes, which an empty write behind it signals. If it does not
// complete in time, or if the queue pair has failed, all users give the queue pair up, and each has
// its connection made anew. A healthy queue pair is never failed for a repair that the other side
// wants, so that failures do not spread.
// The target of the other side accepts late packets as well. So a connection whose initiator has
// failed is not fenced before its packets are gone.
#include <algorithm>
#include <utility>
#include <vector>

#include "connect/connection_manager.h"

namespace adaptib {

void ConnectionManager::take(Peer& peer, SharingPreference preference) {
    const bool other = peer.connection.shared != (preference == SharingPreference::shared);
    if (peer.session.state == ConnectState::open && !other) {
        return;
    }
    peer.connection.activity.preference = preference;
    if (peer.session.state == ConnectState::idle) {
        if (preference == SharingPreference::shared && peer.connection.wanted_link.linked()) {
            limit_.stop_waiting(peer); // it gets a shared one without waiting
        }
        request(peer);
    } else if (peer.session.state == ConnectState::open) {
        if (preference == SharingPreference::shared || limit_.has_room()) {
            give_up(peer); // after that it is requested
        } else if (!peer.connection.wanted_link.linked()) {
            limit_.wait(peer, Nanoseconds{0});
        }
    }
}

// Called when the connection is closed: requests the preferred kind.
void ConnectionManager::grant_preference(Peer& peer) {
    if (peer.session.state == ConnectState::idle &&
        peer.connection.activity.preference != SharingPreference::any) {
        request(peer);
    }
}

// Sets the kind of the next connection; drops the resources of the other kind, which are not in
// use.
void ConnectionManager::set_kind(Peer& peer, bool shared) {
    if (peer.connection.shared == shared) {
        return;
    }
    if (peer.interruption.repair.active) {
        drop_queue_pairs_of(peer);
        const bool linked = peer.connection.slot_link.linked();
        if (linked) {
            limit_.leave(peer);
        }
        peer.connection.shared = shared;
        if (linked) {
            limit_.enter(peer);
        }
        return;
    }
    if (!peer.lanes.subchannels.empty()) {
        offered_rings_.withdraw(peer);
        drop_queue_pairs(peer);
    }
    peer.connection.shared = shared;
}

bool ConnectionManager::renew_shared(Peer& peer, Subchannel& subchannel) {
    if (!peer.connection.shared || (peer.session.state != ConnectState::requested &&
                                    peer.session.state != ConnectState::answered)) {
        return false;
    }
    std::unique_ptr<QueuePair> old = std::move(subchannel.qp);
    if (const Status status = queue_pairs_.make_shared(peer, subchannel); !status.ok()) {
        if (peer.interruption.repair.active) { // repairs as usual, once both sides have agreed
            subchannel.qp = std::move(old);
            repairs_.begin(peer);
        } else {
            fail(peer, status, "the shared queue pair of the connection could not be replaced");
        }
        return true;
    }
    peer.shared_queue_pair(subchannel)->aim_as(static_cast<SharedQueuePair&>(*old));
    return true;
}

// Destroys the peer's initiators, which complete nothing any more, for other users neither.
void ConnectionManager::destroy_initiators(Peer& peer) {
    std::vector<const SharedInitiator*> gone;
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        SharedQueuePair* const shared = peer.shared_queue_pair(subchannel);
        if (shared != nullptr) {
            gone.push_back(&shared->initiator());
            shared->initiator().destroy();
        }
    }
    if (gone.empty()) {
        return;
    }
    peer.interruption.repair.quiet_at =
        context_.options.clock->now() + SharedDraining::kPacketsGone;
    limit_.for_each([&](Peer& other) {
        const bool uses = std::any_of(
            other.lanes.subchannels.begin(), other.lanes.subchannels.end(), [&](const auto& each) {
                SharedQueuePair* const shared = other.shared_queue_pair(each);
                return shared != nullptr &&
                       std::find(gone.begin(), gone.end(), &shared->initiator()) != gone.end();
            });
        if (uses && &other != &peer && other.session.repairable) {
            repairs_.begin(other);
        }
    });
}

} // namespace adaptib
