// SPDX-License-Identifier: BSD-3-Clause
#include "connect/handshake_messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "connect/need.h"
#include "connect/queue_pairs.h"

namespace adaptib {

namespace {

// Number of subchannels that one datagram to the peer can describe. With an MTU of 256 these are 8;
// the other side does not hear of the others, and so both sides drop them.
std::uint32_t most_subchannels(const Peer& peer) {
    const Bytes room = peer.contact.datagram_capacity() - connect_bytes(0);
    return static_cast<std::uint32_t>(
        std::min<Bytes>(room / sizeof(ConnectSubchannel), kMaxSubchannels));
}

std::uint32_t bit_of(MessageType type) { return 1u << static_cast<unsigned>(type); }

} // namespace

ConnectBody HandshakeMessages::describe(const Peer& peer) const {
    ConnectBody body{};
    body.connection = peer.connection.number;
    body.answers = peer.connection.remote_number;
    body.replaces = peer.interruption.repair.active ? peer.interruption.repair.replaces : 0;
    body.expected = peer.in.next_receive;
    const RingMemory memory = peer.in.ring_layout();
    body.ring_bytes =
        peer.in.ring.has_value() ? static_cast<std::uint32_t>(memory.lines_bytes()) : 0;
    body.ring_address = reinterpret_cast<std::uintptr_t>(memory.lines());
    body.credit_address = reinterpret_cast<std::uintptr_t>(memory.credit());
    body.access_key = peer.connection.shared ? context_.options.shared->access_key() : 0;
    body.measure_address =
        peer.in.ring_parts.measuring ? reinterpret_cast<std::uintptr_t>(memory.measuring()) : 0;
    body.key_epoch = key_epoch_of(context_.rails);
    const std::uint32_t most = most_subchannels(peer);
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        if (subchannel.qp != nullptr && body.subchannel_count < most) {
            ConnectSubchannel& out = body.subchannels[body.subchannel_count++];
            out.rail = static_cast<std::uint8_t>(subchannel.local_rail);
            out.to = static_cast<std::uint8_t>(subchannel.remote_rail);
            out.path = static_cast<std::uint8_t>(subchannel.path);
            out.unordered =
                context_.places_in_order(subchannel.local_rail, peer.connection.shared) ? 0 : 1;
            out.qp = peer.connection.shared ? peer.shared_queue_pair(subchannel)->own_target()
                                            : subchannel.qp->number();
            out.psn = QueuePairs::first_packet(peer.connection.number, out.qp);
            out.memory_key = peer.in.ring_registration.remote_key(subchannel.local_rail);
        }
    }
    return body;
}

ConnectNote HandshakeMessages::note_of(const Peer& peer, MessageType type) {
    if (type == MessageType::connect_refuse) {
        return {peer.connection.number, peer.connection.remote_number, peer.connection.refusal,
                peer.in.next_receive};
    }
    const std::uint32_t number = type == MessageType::connect_keep ? peer.connection.closing.heard
                                                                   : peer.connection.closing.number;
    return {peer.connection.number, peer.connection.remote_number, number, 0};
}

bool HandshakeMessages::send(Peer& peer, MessageType type) {
    if (peer.connection.owing_link.linked()) {
        peer.connection.handshakes_owed |= bit_of(type);
        return false;
    }
    switch (type) {
    case MessageType::connect_refuse:
    case MessageType::connect_keep:
    case MessageType::connect_yield:
    case MessageType::connect_close: {
        const ConnectNote note = note_of(peer, type);
        return send_body(peer, type, &note, sizeof note);
    }
    default: {
        const ConnectBody body = describe(peer);
        return send_body(peer, type, &body,
                         static_cast<std::uint32_t>(connect_bytes(body.subchannel_count)));
    }
    }
}

bool HandshakeMessages::send_body(Peer& peer, MessageType type, const void* body,
                                  std::uint32_t length) {
    std::byte* to = peer.contact.channel.reserve(peer.contact.datagram);
    Status status = Status::again(Reason::queue_full);
    if (to != nullptr) {
        std::memcpy(to, body, length);
        MessageHeader header;
        header.type = type;
        header.length = length;
        if (type == MessageType::connect_request && is_needed(peer)) {
            header.flags = kConnectNeeded | (peer.transfers.users > 0 ? kConnectAwaited : 0) |
                           (peer.transfers.rma_operations > 0 ? kConnectRequired : 0);
        }
        status = peer.contact.channel.commit(peer.contact.datagram, header);
    }
    if (status.is_again() && type != MessageType::connect_close) { // it is sent again by Closings
        peer.connection.handshakes_owed |= bit_of(type);
        owing_.push_back(peer);
    } else if (status.is_error()) {
        context_.events.report(peer, ConnectEvent::unsent, status,
                               "a message of the connection handshake could not be sent");
    }
    return status.ok();
}

// Returns true if a message that waited for room still has to be sent.
bool HandshakeMessages::is_due(const Peer& peer, MessageType type) {
    switch (type) {
    case MessageType::connect_request: return peer.session.state == ConnectState::requested;
    case MessageType::connect_reply:
        return peer.session.state == ConnectState::answered ||
               peer.session.state == ConnectState::open ||
               peer.session.state == ConnectState::closing;
    case MessageType::connect_confirm:
        return peer.session.state == ConnectState::open ||
               peer.session.state == ConnectState::closing;
    case MessageType::connect_yield: return peer.transfers.yields;
    default: return true;
    }
}

void HandshakeMessages::retry() {
    for (std::size_t left = owing_.size(); left > 0 && !owing_.empty(); --left) {
        Peer& peer = *owing_.front();
        owing_.remove(peer);
        const std::uint32_t owed = std::exchange(peer.connection.handshakes_owed, 0);
        for (const MessageType type : {MessageType::connect_refuse, MessageType::connect_request,
                                       MessageType::connect_reply, MessageType::connect_confirm,
                                       MessageType::connect_keep, MessageType::connect_yield}) {
            if ((owed & bit_of(type)) != 0 && is_due(peer, type)) {
                static_cast<void>(send(peer, type));
            }
        }
    }
}

void HandshakeMessages::forget(Peer& peer) {
    if (peer.connection.owing_link.linked()) {
        owing_.remove(peer);
    }
    peer.connection.handshakes_owed = 0;
}

} // namespace adaptib
