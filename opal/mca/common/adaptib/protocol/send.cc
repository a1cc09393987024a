// SPDX-License-Identifier: BSD-3-Clause
// Sends: the caller starts one; pending ones go out when there is room.
#include <algorithm>

#include "protocol/protocol.h"

namespace adaptib {

Status Protocol::send(Peer* peer, const Envelope& envelope, const Data& data, bool synchronous,
                      OpKind op_kind, UserRequest& user, bool& complete_now) {
    SendRequest& request = make_send(user);
    request.peer = peer;
    assign(request.data, data);
    request.envelope = envelope;
    request.op_kind = op_kind;
    request.type = synchronous ? MessageType::eager_sync : MessageType::eager;
    if (peer == nullptr) {
        completions_.begin(user);
        send_to_self(request);
        complete_now = completions_.end();
        return kOk;
    }
    const Bytes limit =
        peer->flow.streaming ? peer->flow.copy_choice->most() : peer->flow.eager_limit;
    if (peer->flow.allowed != Allowance::all) [[unlikely]] {
        SendFlow::announce_if_asked(*peer, request);
    }
    if (data.bytes > limit || data.bytes + body_bytes(request.type) > peer->message_capacity()) {
        request.type = MessageType::rendezvous;
    }
    return start_send(request, complete_now);
}

Status Protocol::start_send(SendRequest& request, bool& complete_now) {
    Peer& peer = *request.peer;
    if (peer.session.state == ConnectState::failed) [[unlikely]] {
        report_peer_failure(peer);
        return Status::error(Reason::unreachable);
    }
    completions_.begin(*request.user);
    if (peer.session.disconnect_sent || SendFlow::must_queue(peer, request)) [[unlikely]] {
        flow_.queue_send(request);
        on_own_send_waits();
    } else if (peer.out.has_pending() || !transmit(request)) {
        flow_.stall(peer, request);
    }
    complete_now = completions_.end();
    return kOk;
}

// Puts the request's first message on the channel. Returns false if there is no room now. If the
// peer breaks here, all its requests end, this one included.
bool Protocol::transmit(SendRequest& request) {
    const bool eager = request.type != MessageType::rendezvous;
    return eager ? transmit_eager(request) : transmit_rendezvous(request);
}

bool Protocol::transmit_eager(SendRequest& request) {
    Peer& peer = *request.peer;
    const Bytes body = body_bytes(request.type);
    const Bytes length = request.data.bytes + body;
    if (length > peer.message_capacity()) [[unlikely]] {
        // The channel has changed since the send was started.
        request.type = MessageType::rendezvous;
        waiting_acks_.remove(request.id);
        request.id = 0;
        return transmit_rendezvous(request);
    }
    std::byte* to = peer.reserve(length);
    if (to == nullptr) {
        return false;
    }
    if (body != 0) {
        if (request.id == 0) {
            request.id = waiting_acks_.add(&request);
        }
        std::memcpy(to, &request.id, sizeof request.id);
    }
    const Status packed = gather_all(request.data, 0, to + body, request.data.bytes);
    if (!packed.ok()) [[unlikely]] {
        peer.abandon(length);
        waiting_acks_.remove(request.id);
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_ERROR, 0);
        return true;
    }
    MessageHeader header = header_of(request, length);
    const Status status = peer.commit(header);
    if (!status.ok()) [[unlikely]] {
        if (status.is_again()) {
            return false;
        }
        if (body == 0) { // otherwise the request is in waiting_acks_, and on_peer_failed ends it
            completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
        }
        on_peer_failed(peer, reason_text(status.reason()));
        report_peer_failure(peer);
        return true;
    }
    request.sent = true;
    note_sent(peer);
    if (body == 0) {
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_SUCCESS, request.data.bytes);
    } else {
        on_own_send_waits();
    }
    return true;
}

bool Protocol::send_pending(PendingSend& send) {
    if (send.kind != PendingSend::Kind::request) {
        return rendezvous_.send_fragments(static_cast<SendTransfer::Fragments&>(send).transfer);
    }
    auto& request = static_cast<SendRequest&>(send);
    return request.type == MessageType::active ? active_.transmit(request) : transmit(request);
}

std::size_t Protocol::retry() {
    const std::size_t ended = flow_.retry();
    transfers_.post_waiting();
    return ended;
}

void Protocol::note_sent(Peer& peer) {
    if (peer.session.state == ConnectState::idle &&
        ++peer.flow.messages_sent >= options_.connect_threshold) {
        connections_.request(peer);
    }
}

void Protocol::send_atomic_message(Peer& peer, MessageType type, const void* body,
                                   std::size_t size) {
    flow_.send_control(peer, type, body, size);
    note_sent(peer);
}

bool Protocol::put_in_ring(Peer& peer, std::uint32_t context, std::int32_t source, std::int32_t tag,
                           const void* base, Bytes bytes) {
    std::byte* to = peer.flows(bytes) ? peer.reserve_in_ring(bytes) : nullptr;
    if (to == nullptr) [[unlikely]] {
        return false;
    }
    copy_small(to, base, bytes);
    MessageHeader header = eager_header({context, source, tag}, bytes);
    return peer.commit_in_ring(header).ok();
}

} // namespace adaptib
