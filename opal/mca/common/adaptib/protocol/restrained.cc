// SPDX-License-Identifier: BSD-3-Clause
// Back-pressure at both ends: as a receiver, this process tells a peer what it may send
// (back_pressure.h); as a sender, it sends what the peer takes.
#include "protocol/protocol.h"

namespace adaptib {

namespace {

// A message up to this length takes no more memory than its RTS.
constexpr Bytes kAsShort = sizeof(RendezvousBody);

bool is_matched(const SendRequest& request) { return request.type != MessageType::active; }

} // namespace

// -------------------------------------------------------------------------------------------------
// Receiver

void Protocol::on_allowed(Peer& peer, Allowance allowance) {
    counters_.peers_restrained += allowance == Allowance::nothing ? 1 : 0;
    send_control(peer, MessageType::allowance, nullptr, 0, static_cast<std::uint8_t>(allowance));
}

Allowance Protocol::least_for(const Peer& peer) const {
    const bool own_sends_wait = sends_.size() > 0 || waiting_acks_.size() > 0 || queued_sends_ > 0;
    if (own_sends_wait || peer.disconnect_sent) { // nothing follows a disconnect
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
           " bytes here, those of this peer alone " + std::to_string(peer.unexpected.bytes) +
           ". Post receives earlier, or lower opal_common_adaptib_unexpected_memory (" +
           std::to_string(back_pressure_.most()) + ")";
}

// -------------------------------------------------------------------------------------------------
// Sender

// Holds the request until the disconnect is over, or the peer takes messages again.
void Protocol::queue_send(SendRequest& request) {
    request.peer->queued.add(request);
    ++queued_sends_;
    counters_.sends_queued += must_queue(*request.peer, request) ? 1 : 0;
}

// Sends held requests that may go now, or adds them to the pending ones, in their order.
void Protocol::send_queued(Peer& peer) {
    while (!peer.queued.empty()) {
        auto& request = static_cast<SendRequest&>(*peer.queued.take());
        if (must_queue(peer, request)) {
            peer.queued.put_back(request);
            return;
        }
        --queued_sends_;
        announce_if_asked(peer, request);
        if (peer.has_pending() || !transmit(request)) {
            stall(peer, request);
        }
    }
}

void Protocol::fail_queued(Peer& peer) {
    while (!peer.queued.empty()) {
        --queued_sends_;
        peer.pending.add(*peer.queued.take());
    }
}

bool Protocol::must_queue(const Peer& peer, const SendRequest& request) {
    return peer.allowed == Allowance::nothing && is_matched(request);
}

// Makes a longer message an RTS if the peer takes announcements only.
void Protocol::announce_if_asked(const Peer& peer, SendRequest& request) {
    if (peer.allowed == Allowance::announcements && is_matched(request) &&
        request.data.bytes > kAsShort) {
        request.type = MessageType::rendezvous;
    }
}

void Protocol::on_allowance(Peer& peer, std::uint8_t flags) {
    if (flags > static_cast<std::uint8_t>(Allowance::nothing)) {
        ++counters_.bad_packets;
        return;
    }
    peer.allow(static_cast<Allowance>(flags));
    if (peer.allowed == Allowance::nothing) {
        queue_pending(peer);
    } else if (!peer.disconnect_sent) {
        send_queued(peer);
    }
}

// Holds pending requests of messages to be matched, which have sent nothing yet. All other pending
// sends stay.
void Protocol::queue_pending(Peer& peer) {
    PendingQueue others;
    while (peer.has_pending()) {
        PendingSend& send = *peer.pending.take();
        const bool request = send.kind == PendingSend::Kind::request;
        if (request && must_queue(peer, static_cast<SendRequest&>(send))) {
            queue_send(static_cast<SendRequest&>(send));
        } else {
            others.add(send);
        }
    }
    peer.pending.append(others);
    if (!peer.queued.empty()) {
        on_own_send_waits();
    }
}

} // namespace adaptib
