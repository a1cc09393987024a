// SPDX-License-Identifier: BSD-3-Clause
#include "connect/closings.h"

#include <utility>

#include "connect/need.h"

namespace adaptib {

void Closings::start(Peer& peer) {
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
void Closings::begin_to_flush(Peer& peer) {
    if (lanes_.post_flush(peer, peer.closing_flush).reason() != Reason::bad_state) {
        return;
    }
    if (peer.repairable) {
        listener_.on_closing_broken(peer);
    } else {
        peer.closing.flush.posted = peer.closing.flush.done = true;
    }
}

void Closings::advance() {
    for (std::size_t left = closing_.size(); left > 0 && !closing_.empty(); --left) {
        Peer& peer = *closing_.pop_front();
        closing_.push_back(peer);
        if (!peer.closing.flush.posted) {
            begin_to_flush(peer);
        }
        if (peer.closing.flush.done && !peer.closing.told && draining_.drained(peer)) {
            peer.closing.told = messages_.send(peer, MessageType::connect_close);
        }
        if (peer.closing.told && peer.closing.agreed && peer.state == ConnectState::closing) {
            listener_.on_closing_agreed(peer);
        }
    }
}

void Closings::leave(Peer& peer) {
    closing_.remove(peer);
    peer.state = ConnectState::open;
    resume(peer);
    peer.activity.preference = SharingPreference::any;
    peer.activity.active = context_.options.clock->now(); // others are to be closed first
    context_.listener.on_connected(peer);
}

void Closings::on_close(Peer& peer, const ConnectNote& note) {
    if (note.connection != peer.remote_connection || note.answers != peer.connection) {
        return; // of an earlier connection
    }
    if (peer.state == ConnectState::answered) {
        listener_.on_late_confirm(peer);
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
        start(peer);
        peer.closing.agreed = true;
    } else {
        static_cast<void>(messages_.send(peer, MessageType::connect_keep));
    }
}

void Closings::on_keep(Peer& peer, const ConnectNote& note) {
    if (peer.state == ConnectState::closing && note.connection == peer.remote_connection &&
        note.answers == peer.connection && note.number == peer.closing.number &&
        peer.closing.told && !peer.closing.agreed) {
        leave(peer);
    }
}

void Closings::forget(Peer& peer) {
    if (peer.closing_link.linked()) {
        closing_.remove(peer);
    }
}

void Closings::resume(Peer& peer) { peer.ring_out = std::move(peer.ring_paused); }

std::size_t Closings::begun_after(Nanoseconds time) const {
    std::size_t count = 0;
    for (Peer* peer = closing_.front(); peer != nullptr; peer = closing_.next(*peer)) {
        count += peer->closing.began > time ? 1 : 0;
    }
    return count;
}

} // namespace adaptib
