// SPDX-License-Identifier: BSD-3-Clause
// Back-pressure at both ends: as a receiver, this process tells a peer what it may send
// (back_pressure.h); as a sender, it sends what the peer takes.
#include "protocol/protocol.h"

namespace adaptib {

// -------------------------------------------------------------------------------------------------
// Receiver

void Protocol::on_allowed(Peer& peer, Allowance allowance) {
    counters_.peers_restrained += allowance == Allowance::nothing ? 1 : 0;
    flow_.send_control(peer, MessageType::allowance, nullptr, 0,
                       static_cast<std::uint8_t>(allowance));
}

Allowance Protocol::least_for(const Peer& peer) const {
    const bool own_sends_wait =
        rendezvous_.sends() > 0 || waiting_acks_.size() > 0 || flow_.queued() > 0;
    if (own_sends_wait || peer.session.disconnect_sent) { // nothing follows a disconnect
        return Allowance::all;
    }
    bool waited_for = false;
    matcher_.for_each_posted([&](PostedReceive& posted) {
        const Peer* const from = static_cast<ReceiveRequest&>(posted).from;
        waited_for = waited_for || from == nullptr || from == &peer;
    });
    return waited_for ? Allowance::announcements : Allowance::nothing;
}

// A probe that finds nothing lets in the messages that it may be waiting for.
InboundMessage* Protocol::found_or_wanted(UnexpectedMessage* found, Peer* from) {
    if (found == nullptr && back_pressure_.restrains()) [[unlikely]] {
        back_pressure_.on_wanted(from);
    }
    return static_cast<InboundMessage*>(found);
}

void Protocol::queue_unexpected(Peer& peer, InboundMessage& message) {
    message.peer = &peer;
    matcher_.add_unexpected(message);
    back_pressure_.on_kept(peer, BlockPool::block_bytes(message.size()));
}

std::string Protocol::no_memory_text(const Peer& peer, Bytes bytes) const {
    return "out of memory for a message of " + std::to_string(bytes) +
           " bytes that no receive was posted for: " + std::to_string(matcher_.unexpected()) +
           " such messages take " + std::to_string(back_pressure_.bytes()) +
           " bytes here, those of this peer alone " + std::to_string(peer.flow.unexpected.bytes) +
           ". Post receives earlier, or lower opal_common_adaptib_unexpected_memory (" +
           std::to_string(back_pressure_.most()) + ")";
}

// -------------------------------------------------------------------------------------------------
// Sender

void Protocol::on_allowance(Peer& peer, std::uint8_t flags) {
    if (flags > static_cast<std::uint8_t>(Allowance::nothing)) {
        ++counters_.bad_packets;
        return;
    }
    peer.allow(static_cast<Allowance>(flags));
    if (peer.flow.allowed == Allowance::nothing) {
        flow_.queue_pending(peer);
        if (!peer.ending.queued.empty()) {
            on_own_send_waits();
        }
    } else if (!peer.session.disconnect_sent) {
        flow_.send_queued(peer);
    }
}

} // namespace adaptib
