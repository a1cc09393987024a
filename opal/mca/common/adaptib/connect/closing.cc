// SPDX-License-Identifier: BSD-3-Clause
// Closing: takes an unused connection down, without disturbing what the two sides still send each
// other.
//
// Each side stops using the connection (messages go by datagrams from then on), waits until all
// that it has put on the connection has reached the other side, and sends `close`. A side that has
// sent `close` and received it takes what is left in its ring, and takes its end down: nothing can
// arrive there any more. A side that receives `close` and needs the connection sends `keep`
// instead, and the other side uses the connection again.
// `close` and `keep` carry the numbers of both sides' attempts and of the close itself, so that
// late and doubled ones are recognized; a request for the next connection means `close` as well.
#include <utility>

#include "connect/connection_manager.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kAfterYielding{1'000'000}; // before the connection is requested again

} // namespace

// REQUIRES: the peer is open.
void ConnectionManager::start_closing(Peer& peer) {
    const std::uint32_t number = peer.closing.number;
    const std::uint32_t heard = peer.closing.heard;
    peer.closing = {};
    peer.closing.number = number + 1;
    peer.closing.heard = heard;
    peer.closing.began = context_.options.clock->now();
    peer.state = ConnectState::closing;
    peer.ring_paused = std::move(peer.ring_out);
    closing_.push_back(peer);
}

// A shared queue pair may have failed without work of this peer's: then no completion tells it.
void ConnectionManager::begin_to_flush(Peer& peer) {
    if (lanes_.post_flush(peer, peer.closing_flush).reason() != Reason::bad_state) {
        return;
    }
    if (peer.repairable) {
        repair(peer);
    } else {
        peer.closing.flush.posted = peer.closing.flush.done = true;
    }
}

void ConnectionManager::advance_closing() {
    for (std::size_t left = closing_.size(); left > 0 && !closing_.empty(); --left) {
        Peer& peer = *closing_.pop_front();
        closing_.push_back(peer);
        if (!peer.closing.flush.posted) {
            begin_to_flush(peer);
        }
        if (peer.closing.flush.done && !peer.closing.told && shared_draining_.drained(peer)) {
            peer.closing.told = messages_.send(peer, MessageType::connect_close);
        }
        if (peer.closing.told && peer.closing.agreed && peer.state == ConnectState::closing) {
            finish_closing(peer);
        }
    }
}

void ConnectionManager::finish_closing(Peer& peer) {
    context_.listener.on_ring_final(peer);
    if (peer.state != ConnectState::closing) {
        return; // what was in the ring has broken the connection
    }
    const bool yielded = peer.yields;
    keep(peer);
    ++context_.counters.connections_closed;
    peer.activity.asks_itself = false;
    peer.messages_sent = 0;
    if (yielded && !peer.wanted_link.linked()) { // others first, at the other end as well
        wait_for_room(peer, context_.options.clock->now() + kAfterYielding);
    }
    look_at_ = Nanoseconds{0}; // waiting peers have their turn at once
    if (const auto early = std::move(peer.early_request); early != nullptr) {
        on_request(peer, *early, kNeeded);
    }
    grant_preference(peer);
    context_.listener.on_unconnected(peer);
}

void ConnectionManager::leave_closing(Peer& peer) {
    closing_.remove(peer);
    peer.state = ConnectState::open;
    peer.ring_out = std::move(peer.ring_paused);
    peer.activity.preference = SharingPreference::any;
    peer.activity.active = context_.options.clock->now(); // others are to be closed first
    context_.listener.on_connected(peer);
}

void ConnectionManager::on_close(Peer& peer, const ConnectNote& note) {
    if (note.connection != peer.remote_connection || note.answers != peer.connection) {
        return; // of an earlier connection
    }
    if (peer.state == ConnectState::answered) {
        open(peer); // the confirmation is late
    }
    const bool up = peer.state == ConnectState::open || peer.state == ConnectState::closing;
    if (!up || !sequence_before(peer.closing.heard, note.number)) {
        return;
    }
    peer.closing.heard = note.number;
    if (peer.state == ConnectState::closing) {
        peer.closing.agreed = true;
        if (peer.closing.told) { // the peer may have answered with `keep` before
            peer.closing.told = false;
            ++peer.closing.number;
        }
    } else if (is_unused(peer)) {
        start_closing(peer);
        peer.closing.agreed = true;
    } else {
        static_cast<void>(messages_.send(peer, MessageType::connect_keep));
    }
}

void ConnectionManager::on_keep(Peer& peer, const ConnectNote& note) {
    if (peer.state == ConnectState::closing && note.connection == peer.remote_connection &&
        note.answers == peer.connection && note.number == peer.closing.number &&
        peer.closing.told && !peer.closing.agreed) {
        leave_closing(peer);
    }
}

} // namespace adaptib
