// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/message_sends.h"

#include <cstring>
#include <vector>

#include "base/copy.h"
#include "protocol/ring_sends.h"

namespace adaptib {

Status MessageSends::send(Peer* peer, const Envelope& envelope, const Data& data, bool synchronous,
                          SendCaller caller, UserRequest& user, bool& complete_now) {
    SendRequest& request = make_send(user);
    request.peer = peer;
    assign(request.data, data);
    request.envelope = envelope;
    request.op_kind = caller.op_kind;
    request.copied = caller.waits;
    request.type = synchronous ? MessageType::eager_sync : MessageType::eager;
    if (peer == nullptr) {
        completions_.begin(user);
        receives_.send_to_self(request);
        complete_now = completions_.end();
        return kOk;
    }
    const Bytes limit =
        peer->flow.streams_through_ring ? peer->flow.learnt_limit->most() : peer->flow.eager_limit;
    if (peer->flow.allowed != Allowance::all) [[unlikely]] {
        SendFlow::announce_if_asked(*peer, request);
    }
    if (data.bytes > limit || data.bytes + body_bytes(request.type) > peer->message_capacity()) {
        request.type = MessageType::rendezvous;
    }
    const Status status = start(request, complete_now);
    gathered_.end_start();
    return status;
}

bool MessageSends::send_timed(Peer& peer, const Envelope& envelope, const Data& data) {
    EagerLimit* learnt = peer.flow.learnt_limit.get();
    if (learnt == nullptr || data.base == nullptr || data.bytes < EagerLimit::kTimedFrom ||
        data.bytes > learnt->most() || peer.flow.allowed != Allowance::all) {
        return false;
    }
    return eager_tuning_.send(peer, data.bytes, [&] {
        return RingSends::copy_into_ring(peer, envelope.context, envelope.source, envelope.tag,
                                         data.base, data.bytes);
    });
}

Status MessageSends::start(SendRequest& request, bool& complete_now) {
    Peer& peer = *request.peer;
    if (peer.session.lost()) [[unlikely]] {
        lost_.report(peer);
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

bool MessageSends::transmit(PendingSend& send) {
    auto& request = static_cast<SendRequest&>(send);
    const bool eager = request.type != MessageType::rendezvous;
    return eager ? transmit_eager(request) : transmit_rendezvous(request);
}

bool MessageSends::transmit_eager(SendRequest& request) {
    Peer& peer = *request.peer;
    const Bytes body = body_bytes(request.type);
    const Bytes length = request.data.bytes + body;
    if (length > peer.message_capacity()) [[unlikely]] {
        // The channel has changed since the send was started.
        request.type = MessageType::rendezvous;
        flow_.forget_ack(request);
        return transmit_rendezvous(request);
    }
    if (const auto outcome = gathered_.try_send(request);
        outcome != GatheredSends::Outcome::declined) [[unlikely]] {
        if (outcome == GatheredSends::Outcome::sent) {
            flow_.note_sent(peer);
        }
        return outcome == GatheredSends::Outcome::sent;
    }
    std::byte* to = peer.reserve(length);
    if (to == nullptr) {
        return false;
    }
    if (body != 0) {
        flow_.await_ack(request);
        std::memcpy(to, &request.id, sizeof request.id);
    }
    const Status packed = gather_all(request.data, 0, to + body, request.data.bytes);
    if (!packed.ok()) [[unlikely]] {
        peer.abandon(length);
        flow_.forget_ack(request);
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_ERROR, 0);
        return true;
    }
    MessageHeader header = header_of(request, length);
    const Status status = peer.commit(header);
    if (!status.ok()) [[unlikely]] {
        if (status.is_again()) {
            return false;
        }
        if (body == 0) { // otherwise it waits for its acknowledgment, and ends with the peer
            completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
        }
        lost_.lose(peer, reason_text(status.reason()));
        lost_.report(peer);
        return true;
    }
    request.sent = true;
    note_event(counters_.trace, TraceKind::message_sent,
               {.peer = peer.contact.name, .value = request.data.bytes});
    flow_.note_sent(peer);
    if (body == 0) {
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_SUCCESS, request.data.bytes);
    } else {
        on_own_send_waits();
    }
    return true;
}

bool MessageSends::transmit_rendezvous(SendRequest& request) {
    Peer& peer = *request.peer;
    const Status status = rendezvous_.announce(request);
    if (!status.ok()) [[unlikely]] {
        if (status.is_again()) {
            return false;
        }
        lost_.lose(peer, reason_text(status.reason())); // the transfer ends with it
        return true;
    }
    flow_.note_sent(peer);
    events_.want_connection(peer);
    on_own_send_waits();
    return true;
}

void MessageSends::on_allowance(Peer& peer, std::uint8_t flags) {
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

// -------------------------------------------------------------------------------------------------
// Failure and end

void MessageSends::fail(Peer& peer) {
    back_pressure_.forget(peer);
    peer.allow(Allowance::all);
    flow_.fail(peer);
    GatheredSends::fail(peer);
}

bool MessageSends::has_messages_of(const Peer& peer) const {
    const auto has_requests = [](const PendingQueue& queue) {
        const PendingSend* each = queue.front();
        while (each != nullptr &&
               (each->kind != PendingSend::Kind::request ||
                static_cast<const SendRequest*>(each)->type == MessageType::active)) {
            each = each->next;
        }
        return each != nullptr;
    };
    bool found = peer.flow.any_gathered() || has_requests(peer.out.pending) ||
                 has_requests(peer.interruption.in_doubt) || has_requests(peer.ending.queued);
    rendezvous_.for_each_peer([&](const Peer& each) { found = found || &each == &peer; });
    flow_.for_each_waiting_ack([&](const Peer& each) { found = found || &each == &peer; });
    return found;
}

} // namespace adaptib
