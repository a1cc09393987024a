// SPDX-License-Identifier: BSD-3-Clause
#include "connect/closings.h"

#include <utility>

#include "connect/need.h"

namespace adaptib {

void Closings::start(Peer& peer) {
    const std::uint32_t number = peer.connection.closing.number;
    const std::uint32_t heard = peer.connection.closing.heard;
    peer.connection.closing = {};
    peer.connection.closing.number = number + 1;
    peer.connection.closing.heard = heard;
    peer.connection.closing.began = context_.options.clock->now();
    peer.session.state = ConnectState::closing;
    peer.connection.ring_closing = std::move(peer.out.ring);
    closing_.push_back(peer);
}

// A shared queue pair may have failed without work of this peer's: then no completion tells it.
void Closings::begin_to_flush(Peer& peer) {
    if (lanes_.post_flush(peer, peer.connection.closing_flush).reason() != Reason::bad_state) {
        return;
    }
    if (peer.session.repairable) {
        context_.events.report(peer, ConnectEvent::flush_failed);
    } else {
        peer.connection.closing.flush.posted = peer.connection.closing.flush.done = true;
    }
}

void Closings::advance() {
    for (std::size_t left = closing_.size(); left > 0 && !closing_.empty(); --left) {
        Peer& peer = *closing_.pop_front();
        closing_.push_back(peer);
        if (ConnectionEvents::is_waiting(peer)) {
            continue;
        }
        if (!peer.connection.closing.flush.posted && !peer.interruption.repair.wanted) {
            begin_to_flush(peer);
        }
        if (peer.connection.closing.flush.done && !peer.connection.closing.told &&
            draining_.drained(peer)) {
            peer.connection.closing.told = messages_.send(peer, MessageType::connect_close);
        }
        if (peer.connection.closing.told && peer.connection.closing.agreed &&
            peer.session.state == ConnectState::closing) {
            context_.events.report(peer, ConnectEvent::ring_final);
        }
    }
}

void Closings::on_connected(Peer& peer) {
    if (peer.connection.closing.early.has_value()) {
        const ConnectNote note = *std::exchange(peer.connection.closing.early, std::nullopt);
        on_close(peer, note);
    }
}

void Closings::leave(Peer& peer) {
    closing_.remove(peer);
    peer.session.state = ConnectState::open;
    resume(peer);
    peer.connection.activity.preference = SharingPreference::any;
    peer.connection.activity.active =
        context_.options.clock->now(); // others are to be closed first
    context_.events.report(peer, ConnectEvent::kept);
}

void Closings::on_close(Peer& peer, const ConnectNote& note) {
    if (!is_of_connection(peer, note) || !peer.session.connected() ||
        !sequence_before(peer.connection.closing.heard, note.number)) {
        return;
    }
    peer.connection.closing.heard = note.number;
    if (peer.session.state == ConnectState::closing) {
        peer.connection.closing.agreed = true;
        if (peer.connection.closing.told) { // the peer may have answered with `keep` before
            peer.connection.closing.told = false;
            ++peer.connection.closing.number;
        }
    } else if (is_unused(peer)) {
        start(peer);
        peer.connection.closing.agreed = true;
    } else {
        static_cast<void>(messages_.send(peer, MessageType::connect_keep));
    }
}

void Closings::on_keep(Peer& peer, const ConnectNote& note) {
    if (peer.session.state == ConnectState::closing && is_of_connection(peer, note) &&
        note.number == peer.connection.closing.number && peer.connection.closing.told &&
        !peer.connection.closing.agreed) {
        leave(peer);
    }
}

void Closings::forget(Peer& peer) {
    if (peer.connection.closing_link.linked()) {
        closing_.remove(peer);
    }
}

void Closings::resume(Peer& peer) { peer.out.ring = std::move(peer.connection.ring_closing); }

std::size_t Closings::begun_after(Nanoseconds time) const {
    std::size_t count = 0;
    for (Peer* peer = closing_.front(); peer != nullptr; peer = closing_.next(*peer)) {
        count += peer->connection.closing.began > time ? 1 : 0;
    }
    return count;
}

} // namespace adaptib
