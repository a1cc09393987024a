// SPDX-License-Identifier: BSD-3-Clause
#include "connect/connection_manager.h"

#include <utility>

namespace adaptib {

void ConnectionManager::on_handshake(Peer& peer, const MessageHeader& header,
                                     const std::byte* body) {
    const bool heard = !peer.contact.datagram.coming; // the peer has heard of this side
    switch (header.type) {
    case MessageType::connect_close:
        if (heard) {
            on_close(peer, read_body<ConnectNote>(body));
        }
        break;
    case MessageType::connect_keep:
        if (heard) {
            closings_.on_keep(peer, read_body<ConnectNote>(body));
        }
        break;
    case MessageType::connect_yield:
        if (heard) {
            yielding_.on_yield(peer, read_body<ConnectNote>(body));
        }
        break;
    default: handshake_.on_message(peer, header, body); break;
    }
}

Status ConnectionManager::open_loopback(Peer& self) {
    Status status = queue_pairs_.make_all(self);
    for (std::size_t i = 0; i < self.lanes.subchannels.size() && status.ok(); ++i) {
        Subchannel& subchannel = self.lanes.subchannels[i];
        if (subchannel.qp == nullptr) {
            continue;
        }
        const std::uint32_t number = subchannel.qp->number();
        const auto rail = static_cast<std::uint8_t>(subchannel.local_rail);
        status =
            queue_pairs_.connect(self, subchannel,
                                 {rail, rail, 0, 0, number,
                                  QueuePairs::first_packet(self.connection.number, number), 0});
    }
    if (!status.ok()) {
        self.lanes.subchannels.clear();
        if (limit_.no_room_says(status)) {
            limit_.wait_with_self();
        }
        return status;
    }
    self.session.state = ConnectState::open;
    ++context_.counters.connections_open;
    return kOk;
}

void ConnectionManager::retry() {
    messages_.retry();
    if (yielding_.active()) [[unlikely]] {
        yielding_.advance();
    }
    closings_.advance();
    if (lane_migrations_.active()) [[unlikely]] {
        lane_migrations_.advance();
    }
    if (repairs_.active()) [[unlikely]] {
        repairs_.advance();
    }
    if (cm_connects_.active()) [[unlikely]] {
        cm_connects_.advance(
            [this](Peer& peer, CmConnects::Outcome outcome, const std::string& what) {
                on_cm_connect_over(peer, outcome, what);
            });
    }
}

void ConnectionManager::on_cm_connect_over(Peer& peer, CmConnects::Outcome outcome,
                                           const std::string& what) {
    switch (outcome) {
    case CmConnects::Outcome::connected: handshake_.on_cm_connected(peer); break;
    case CmConnects::Outcome::no_path: repairs_.wait_for_path(peer); break;
    case CmConnects::Outcome::failed: handshake_.on_cm_connect_failed(peer, what); break;
    }
}

void ConnectionManager::on_close(Peer& peer, const ConnectNote& note) {
    if (peer.session.state == ConnectState::answered && Closings::is_of_connection(peer, note)) {
        handshake_.on_late_confirm(peer);
        if (ConnectionEvents::is_waiting(peer)) {
            Closings::keep_close(peer, note);
            return;
        }
    }
    closings_.on_close(peer, note);
}

// Events of the peer have been handled, or it has one that is for connect/ alone.
void ConnectionManager::go_on(Peer& peer, ConnectEventSet handled) {
    if (handled.has(ConnectEvent::unsent)) {
        const std::unique_ptr<ConnectFailure> failure = std::move(peer.connection.events.failure);
        teardown_.fail(peer, failure->status, failure->what);
        return;
    }
    if (handled.has(ConnectEvent::flush_failed)) {
        if (repairs_.may_begin(peer)) {
            repairs_.begin(peer);
        }
        return;
    }
    handshake_.on_events_handled(peer, handled);
    if (handled.has(ConnectEvent::ring_final) && peer.session.state == ConnectState::closing) {
        handshake_.on_closing_agreed(peer);
    } else if (handled.has(ConnectEvent::connected)) {
        closings_.on_connected(peer);
    }
    if (const auto request = repairs_.on_events_handled(peer, handled)) {
        handshake_.on_kept_request(peer, *request);
    }
}

void ConnectionManager::set_preference(Peer& peer, SharingPreference preference) {
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
            close_if_unused(peer); // after that it is requested
        } else if (!peer.connection.wanted_link.linked()) {
            limit_.wait(peer, Nanoseconds{0});
        }
    }
}

} // namespace adaptib
