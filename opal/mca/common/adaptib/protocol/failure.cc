// SPDX-License-Identifier: BSD-3-Clause
// Loss of a peer; disconnect from a peer that is released.
#include "protocol/protocol.h"

namespace adaptib {

// Ends everything that waits for the peer. Work that is outstanding at a queue pair completes as
// flushed, and ends its transfer then.
void Protocol::on_peer_failed(Peer& peer, const std::string& what) {
    if (!peer.ending.failure.empty()) {
        return;
    }
    peer.ending.failure = "The connection to process " +
                          std::to_string(peer.contact.name & 0xffffffffu) + " on host " +
                          peer.contact.address.host + " is broken: " + what +
                          ". Its requests end with an error.";
    peer.in.unheard = true;
    // A peer that has sent its disconnect may be gone before this side's answer or disconnect
    // arrives.
    const bool waits = peer.ending.disconnect_received
                           ? SendFlow::has_more_than_disconnects(peer)
                           : peer.has_waiting() || peer.interruption.work_failed;
    if (waits || may_await_active(peer) || has_business_with(peer)) {
        report_peer_failure(peer);
    }
    connections_.break_off(peer);
    sends_.fail(peer);
    fail_transfers(peer);
    receives_.fail(peer);
}

bool Protocol::needs(const Peer& peer) const {
    bool found = peer.transfers.users > 0 || peer.transfers.one_sided > 0 ||
                 !peer.ending.queued.empty() || SendFlow::has_more_than_disconnects(peer);
    for_each_awaited([&](const Peer& awaited) { found = found || &awaited == &peer; });
    return found;
}

// A connection that breaks while nothing waits for it, nor may wait (processes end one after
// another), is not reported until the user wants to use it.
void Protocol::report_peer_failure(Peer& peer) {
    if (!peer.ending.failure_reported) {
        peer.ending.failure_reported = true;
        listener_.on_failure(peer.ending.failure);
        listener_.on_broken(peer);
    }
}

bool Protocol::is_lost(Peer& peer) {
    if (peer.session.state != ConnectState::failed) [[likely]] {
        return false;
    }
    report_peer_failure(peer);
    return true;
}

void Protocol::fail_transfers(Peer& peer) {
    emulated_atomics_.fail(peer);
    transfers_.fail_waiting(peer);
    rendezvous_.fail(peer);
}

// -------------------------------------------------------------------------------------------------
// Disconnect handshake. Each side sends its disconnect (`disconnect`) when its user has released
// the peer, and answers the other side's. A side that has sent its own, has received the other one,
// and has got its own answered takes the connection down: the other side has received all that was
// sent, and writes nothing more, not even credit.

void Protocol::release_peer(Peer& peer) {
    if (peer.ending.released) {
        return;
    }
    peer.ending.released = true;
    if (peer.session.next_send == 0 && peer.in.next_receive == 0 &&
        peer.session.state == ConnectState::idle) {
        return; // there never was any traffic
    }
    if (peer.contact.datagram.handle == nullptr && !peer.contact.datagram.coming) {
        return; // already disconnected
    }
    if (peer.session.disconnect_sent) {
        return; // was wanted again meanwhile; requests since then end with the connection
    }
    receives_.back_pressure().release(peer);
    peer.session.disconnect_sent = true;
    peer.ending.disconnect_acked = false; // an earlier one, revoked since, may have been answered
    const IdBody body{++peer.ending.disconnect_number};
    flow_.send_control(peer, MessageType::disconnect, &body, sizeof body, kDisconnect);
}

// Revokes the disconnect, as long as the peer has not sent its own. After that both sides complete
// it, and requests started meanwhile wait for its end, which needs nothing but the peer's answer.
void Protocol::keep_peer(Peer& peer) {
    peer.ending.released = false;
    if (peer.session.disconnect_sent && !peer.ending.disconnect_received) {
        peer.session.disconnect_sent = false;
        const IdBody body{peer.ending.disconnect_number};
        flow_.send_control(peer, MessageType::disconnect, &body, sizeof body, kDisconnectRevoked);
        go_on(peer);
    }
}

// Sends what was held, or adds it to what waits.
void Protocol::go_on(Peer& peer) {
    transfers_.start_held(peer);
    emulated_atomics_.send_queued(peer);
    flow_.send_queued(peer);
}

void Protocol::on_disconnect(Peer& peer, std::uint8_t flags, const IdBody& body) {
    if (flags == kDisconnectAck) {
        peer.ending.disconnect_acked =
            peer.session.disconnect_sent && body.id == peer.ending.disconnect_number;
    } else if (flags == kDisconnectRevoked) {
        peer.ending.disconnect_received = false;
        if (!peer.ending.released) { // wanted here as well: there is no disconnect to wait for
            keep_peer(peer);
        }
    } else if (!peer.ending.disconnect_received) {
        peer.ending.disconnect_received = true;
        flow_.send_control(peer, MessageType::disconnect, &body, sizeof body, kDisconnectAck);
    }
    tear_down_if_disconnected(peer);
}

// This side's answer must be on its way, not pending: the channel that it takes is taken down.
void Protocol::tear_down_if_disconnected(Peer& peer) {
    if (peer.disconnected() && !peer.in.teardown_pending &&
        peer.session.state != ConnectState::failed) {
        peer.in.teardown_pending = true;
        listener_.on_peer_disconnected(peer);
    }
}

// The core has taken the connection down.
void Protocol::on_torn_down(Peer& peer) {
    peer.in.teardown_pending = false;
    peer.session.disconnect_sent = peer.ending.disconnect_received = peer.ending.disconnect_acked =
        false;
    peer.flow.messages_sent = 0;
    transfers_.stop_balancing(peer);
    run_early(peer);
    go_on(peer);
}

void Protocol::for_each_awaited(const std::function<void(const Peer&)>& f) const {
    receives_.for_each_sender(f);
    rendezvous_.for_each_peer(f);
    sends_.for_each_waiting_ack(f);
    emulated_atomics_.for_each_peer(f);
}

bool Protocol::has_business_with(const Peer& peer) const {
    bool found = receives_.keeps_messages_of(peer);
    for_each_awaited([&](const Peer& awaited) { found = found || &awaited == &peer; });
    return found;
}

} // namespace adaptib
