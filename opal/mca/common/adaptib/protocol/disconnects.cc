// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/disconnects.h"

namespace adaptib {

void Disconnects::release(Peer& peer) {
    if (peer.ending.released()) {
        return;
    }
    peer.ending.release = Release::released;
    if (peer.unused()) {
        return;
    }
    if (peer.contact.datagram.handle == nullptr && !peer.contact.datagram.coming) {
        return; // already disconnected
    }
    if (peer.health.life.left) {
        return; // its process has ended since
    }
    if (peer.session.disconnect_sent) {
        return; // was wanted again meanwhile; requests since then end with the connection
    }
    announce(peer, kDisconnect);
}

// `how`: kDisconnect or kDisconnectFinal.
void Disconnects::announce(Peer& peer, std::uint8_t how) {
    back_pressure_.release(peer);
    peer.session.disconnect_sent = true;
    peer.ending.disconnect_acked = false; // an earlier one, revoked since, may have been answered
    const IdBody body{++peer.ending.disconnect_number};
    flow_.send_control(peer, MessageType::disconnect, &body, sizeof body, how);
}

// Revokes the disconnect, as long as the peer has not sent its own. After that both sides complete
// it, and requests started meanwhile wait for its end, which needs nothing but the peer's answer.
bool Disconnects::keep(Peer& peer) {
    peer.ending.release = Release::none;
    if (!peer.session.disconnect_sent || peer.ending.disconnect_received) {
        return false;
    }
    peer.session.disconnect_sent = false;
    const IdBody body{peer.ending.disconnect_number};
    flow_.send_control(peer, MessageType::disconnect, &body, sizeof body, kDisconnectRevoked);
    return true;
}

// A disconnect that only one side has begun will never be over: the peer would wait for that of
// this side, or begin its own when this process is gone.
bool Disconnects::leave(Peer& peer) {
    const bool over = peer.health.life.is_over() || peer.session.lost();
    const bool reached = peer.contact.datagram.handle != nullptr || peer.contact.datagram.coming;
    const bool told = peer.ending.release == Release::left ||
                      (peer.ending.released() && !peer.session.disconnect_sent);
    if (over || !reached || peer.unused() || told || peer.disconnecting()) {
        return false;
    }
    peer.ending.release = Release::left;
    announce(peer, kDisconnectFinal);
    return true;
}

bool Disconnects::on_disconnect(Peer& peer, std::uint8_t flags, const IdBody& body) {
    bool kept = false;
    if (flags == kDisconnectFinal) {
        peer.health.life.left = true;
        peer.ending.disconnect_received = true;
        events_.report(peer, PeerEvent::gone);
        return kept;
    }
    if (flags == kDisconnectAck) {
        peer.ending.disconnect_acked =
            peer.session.disconnect_sent && body.id == peer.ending.disconnect_number;
    } else if (flags == kDisconnectRevoked) {
        peer.ending.disconnect_received = false;
        // If it is wanted here as well, there is no disconnect to wait for.
        kept = !peer.ending.released() && keep(peer);
    } else if (!peer.ending.disconnect_received) {
        peer.ending.disconnect_received = true;
        flow_.send_control(peer, MessageType::disconnect, &body, sizeof body, kDisconnectAck);
    }
    end_if_over(peer);
    return kept;
}

// This side's answer must be on its way, not pending: the channel that it takes is taken down.
void Disconnects::end_if_over(Peer& peer) {
    if (peer.disconnected() && !peer.in.teardown_pending && !peer.session.lost()) {
        peer.in.teardown_pending = true;
        events_.report(peer, PeerEvent::disconnected);
    }
}

void Disconnects::on_torn_down(Peer& peer) {
    peer.in.teardown_pending = false;
    peer.session.disconnect_sent = peer.ending.disconnect_received = peer.ending.disconnect_acked =
        false;
}

} // namespace adaptib
