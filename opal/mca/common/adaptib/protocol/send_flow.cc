// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/send_flow.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "protocol/gone.h"

namespace adaptib {

namespace {

// A message up to this length takes no more memory than its RTS.
constexpr Bytes kAsShort = sizeof(RendezvousBody);

bool is_matched(const SendRequest& request) { return request.type != MessageType::active; }

} // namespace

void SendFlow::stall(Peer& peer, PendingSend& send) {
    ++counters_.send_stalls;
    note_event(counters_.trace, TraceKind::send_waits, {.peer = peer.contact.name});
    peer.out.pending.add(send);
    if (!peer.flow.stalled_link.linked()) {
        stalled_.push_back(peer);
    }
}

// -------------------------------------------------------------------------------------------------
// Control messages

void SendFlow::send_control(Peer& peer, MessageType type, const void* body, std::size_t size,
                            std::uint8_t flags) {
    if (peer.session.lost() ||
        (!peer.out.has_pending() && try_control(peer, type, body, size, flags))) {
        return;
    }
    ControlMessage* message = pool_.create<ControlMessage>();
    if (message == nullptr) {
        lost_.lose(peer, "out of memory");
        return;
    }
    message->type = type;
    message->flags = flags;
    message->length = static_cast<std::uint32_t>(size);
    if (size > 0) {
        std::memcpy(message->body, body, size);
    }
    stall(peer, *message);
}

void SendFlow::send_one_sided(Peer& peer, MessageType type, const void* body, std::size_t size) {
    send_control(peer, type, body, size);
    note_sent(peer);
}

void SendFlow::note_sent(Peer& peer) {
    if (peer.session.is_idle() && ++peer.flow.messages_sent >= connect_threshold_) {
        events_.want_connection(peer);
    }
}

bool SendFlow::try_control(Peer& peer, MessageType type, const void* body, std::size_t size,
                           std::uint8_t flags) {
    std::byte* to = peer.reserve(size);
    if (to == nullptr) {
        return false;
    }
    if (size > 0) {
        std::memcpy(to, body, size);
    }
    MessageHeader header;
    header.type = type;
    header.flags = flags;
    header.length = static_cast<std::uint32_t>(size);
    const Status status = peer.commit(header);
    if (status.is_error()) [[unlikely]] {
        if (type == MessageType::disconnect && how_gone(peer).why != nullptr) {
            events_.report(peer, PeerEvent::gone); // no failure if nothing is wanted of it
        } else {
            lost_.lose(peer, reason_text(status.reason()));
        }
    }
    return !status.is_again();
}

// -------------------------------------------------------------------------------------------------
// Pending sends

bool SendFlow::transmit(PendingSend& send) {
    if (send.kind == PendingSend::Kind::fragments) {
        return senders_.fragments.transmit(send);
    }
    const bool matched = is_matched(static_cast<SendRequest&>(send));
    return matched ? senders_.tagged.transmit(send) : senders_.active.transmit(send);
}

// Returns true if nothing is pending any more.
bool SendFlow::flush(Peer& peer) {
    while (peer.out.has_pending()) {
        if (peer.session.lost()) {
            return false; // the end of the peer takes what is left
        }
        PendingSend* send = peer.out.pending.take();
        bool sent = false;
        if (send->kind == PendingSend::Kind::request ||
            send->kind == PendingSend::Kind::fragments) {
            sent = transmit(*send);
        } else if (send->kind == PendingSend::Kind::repeated) {
            sent = send_again(peer, *static_cast<RepeatedMessage*>(send));
        } else if (send->kind == PendingSend::Kind::control) {
            auto* message = static_cast<ControlMessage*>(send);
            sent = try_control(peer, message->type, message->body, message->length, message->flags);
            if (sent) {
                drop(*message);
            }
        }
        if (!sent) {
            peer.out.pending.put_back(*send);
            return false;
        }
    }
    return true;
}

const std::vector<Peer*>& SendFlow::retry() {
    flushed_.clear();
    stalled_now_.clear();
    for (Peer* peer = stalled_.front(); peer != nullptr; peer = stalled_.next(*peer)) {
        stalled_now_.push_back(peer);
    }
    for (Peer* peer : stalled_now_) {
        if (flush(*peer) && peer->flow.stalled_link.linked()) {
            stalled_.remove(*peer);
            flushed_.push_back(peer);
        }
        if (peer->session.ring_broken) [[unlikely]] {
            events_.report(*peer, PeerEvent::want_repair);
        }
    }
    return flushed_;
}

// -------------------------------------------------------------------------------------------------
// Held sends

void SendFlow::queue_send(SendRequest& request) {
    request.peer->ending.queued.add(request);
    ++queued_;
    counters_.sends_queued += must_queue(*request.peer, request) ? 1 : 0;
}

void SendFlow::send_queued(Peer& peer) {
    while (!peer.ending.queued.empty() && !peer.session.lost()) {
        auto& request = static_cast<SendRequest&>(*peer.ending.queued.take());
        if (must_queue(peer, request)) {
            peer.ending.queued.put_back(request);
            return;
        }
        --queued_;
        announce_if_asked(peer, request);
        if (peer.out.has_pending() || !transmit(request)) {
            stall(peer, request);
        }
    }
}

bool SendFlow::must_queue(const Peer& peer, const SendRequest& request) {
    return peer.flow.allowed == Allowance::nothing && is_matched(request);
}

void SendFlow::announce_if_asked(const Peer& peer, SendRequest& request) {
    if (peer.flow.allowed == Allowance::announcements && is_matched(request) &&
        request.data.bytes > kAsShort) {
        request.type = MessageType::rendezvous;
    }
}

void SendFlow::queue_pending(Peer& peer) {
    PendingQueue others;
    while (peer.out.has_pending()) {
        PendingSend& send = *peer.out.pending.take();
        const bool request = send.kind == PendingSend::Kind::request;
        if (request && must_queue(peer, static_cast<SendRequest&>(send))) {
            queue_send(static_cast<SendRequest&>(send));
        } else {
            others.add(send);
        }
    }
    peer.out.pending.append(others);
}

// -------------------------------------------------------------------------------------------------
// Acknowledgments

void SendFlow::await_ack(SendRequest& request) {
    if (request.id == 0) {
        request.id = waiting_acks_.add(&request);
    }
}

void SendFlow::forget_ack(SendRequest& request) {
    waiting_acks_.remove(request.id);
    request.id = 0;
}

void SendFlow::on_sync_ack(Peer& peer, const IdBody& body) {
    SendRequest* const request = waiting_acks_.find(body.id);
    if (request == nullptr || request->peer != &peer || !request->sent) {
        ++counters_.bad_packets;
        return;
    }
    waiting_acks_.remove(body.id);
    completions_.complete(*request->user, OPAL_COMMON_ADAPTIB_SUCCESS, request->data.bytes);
}

// -------------------------------------------------------------------------------------------------
// Failure and end

template <typename F> void SendFlow::drop_all(Peer& peer, F&& on_request) {
    peer.out.pending.append(peer.interruption.in_doubt);
    while (!peer.ending.queued.empty()) {
        --queued_;
        peer.out.pending.add(*peer.ending.queued.take());
    }
    while (peer.out.has_pending()) {
        PendingSend* send = peer.out.pending.take();
        if (send->kind == PendingSend::Kind::control) {
            drop(*static_cast<ControlMessage*>(send));
        } else if (send->kind == PendingSend::Kind::repeated) {
            drop(*static_cast<RepeatedMessage*>(send));
        } else if (send->kind == PendingSend::Kind::request) {
            on_request(*static_cast<SendRequest*>(send));
        } // fragments end with their transfer
    }
}

void SendFlow::fail(Peer& peer) {
    if (peer.flow.stalled_link.linked()) {
        stalled_.remove(peer);
    }
    peer.interruption.active = false;
    const auto end = [this](const SendRequest& request) {
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
    };
    drop_all(peer, [&](const SendRequest& request) {
        if (request.id == 0 && request.transfer == nullptr) { // else it ends with those
            end(request);
        }
    });
    std::vector<SendRequest*> unanswered;
    waiting_acks_.for_each([&](SendRequest* request) {
        if (request->peer == &peer) {
            unanswered.push_back(request);
        }
    });
    for (SendRequest* request : unanswered) {
        waiting_acks_.remove(request->id);
        end(*request);
    }
}

void SendFlow::forget(Peer& peer) {
    drop_all(peer, [](SendRequest&) {});
}

bool SendFlow::has_more_than_disconnects(const Peer& peer) {
    const auto more = [&peer](const PendingSend* each) { // a peer that has left has got its own
        for (; each != nullptr; each = each->next) {
            using Kind = PendingSend::Kind;
            const bool disconnect =
                each->kind == Kind::barrier ||
                (peer.health.life.left && each->kind == Kind::repeated) ||
                (each->kind == Kind::control &&
                 static_cast<const ControlMessage*>(each)->type == MessageType::disconnect) ||
                (each->kind == Kind::repeated &&
                 static_cast<const RepeatedMessage*>(each)->header.type == MessageType::disconnect);
            if (!disconnect) {
                return true;
            }
        }
        return false;
    };
    return more(peer.out.pending.front()) || more(peer.interruption.in_doubt.front());
}

// -------------------------------------------------------------------------------------------------
// Repair of a connection (connect/repairs.h): sends wait behind a barrier meanwhile. Then messages
// that the old ring may have lost go first, in their old order and with their old sequence numbers,
// so that the receiver drops those that had arrived. A copy of a gathered message is made here,
// which ends its request; one whose write is complete has arrived, and is not repeated.

void SendFlow::interrupt(Peer& peer) {
    peer.interruption.active = true;
    peer.out.pending.put_back(peer.interruption.barrier);
    if (!peer.flow.stalled_link.linked()) {
        stalled_.push_back(peer);
    }
}

namespace {

// The contents of a message in doubt: two pieces for a gathered one.
struct Contents {
    const std::byte* front = nullptr;
    Bytes front_bytes = 0;
    const std::byte* rest = nullptr; // null: the message has arrived
    Bytes rest_bytes = 0;

    void copy_to(std::byte* to) const {
        if (front_bytes > 0) {
            std::memcpy(to, front, front_bytes);
        }
        if (rest_bytes > 0) {
            std::memcpy(to + front_bytes, rest, rest_bytes);
        }
    }
};

// `body`: null for a gathered message, which has arrived if it is not under way any more.
Contents contents_of(const Peer& peer, const MessageHeader& header, const std::byte* body) {
    if (body != nullptr) [[likely]] {
        return {.rest = body, .rest_bytes = header.length};
    }
    const GatheredMessage* const gathered = peer.flow.gathered.find(header.sequence);
    return gathered == nullptr ? Contents()
                               : Contents{gathered->front, gathered->front_bytes, gathered->payload,
                                          header.length - gathered->front_bytes};
}

} // namespace

void SendFlow::on_fenced(Peer& peer) {
    if (peer.out.ring == nullptr || peer.session.lost()) {
        return;
    }
    bool kept = true;
    const bool whole =
        peer.out.ring->for_each_in_doubt([&](const MessageHeader& header, const std::byte* body) {
            const Contents contents = contents_of(peer, header, body);
            if (contents.rest == nullptr) {
                return; // it has arrived
            }
            void* memory = kept ? pool_.allocate(sizeof(RepeatedMessage) + header.length) : nullptr;
            if (memory == nullptr) {
                kept = false;
                return;
            }
            auto* message = new (memory) RepeatedMessage;
            message->header = header;
            contents.copy_to(message->body());
            peer.interruption.in_doubt.add(*message);
        });
    if (!whole || !kept) {
        lost_.lose(peer, kept ? "its credit does not fit what was sent"
                              : "out of memory to repeat messages");
        return; // the end of the peer ends what is gathered
    }
    peer.flow.gathered.end_all(GatherEnd::kept);
}

// Puts messages in doubt before those that wait. Among the waiting ones there may be repeated
// messages of an earlier repair: those are later in the order.
void SendFlow::lift_barrier(Peer& peer) {
    if (!peer.interruption.active) {
        return;
    }
    peer.interruption.active = false;
    peer.interruption.work_failed = false;
    static_cast<void>(peer.out.pending.take()); // the barrier: nothing was put before it
    PendingQueue waiting;
    std::swap(waiting, peer.out.pending);
    while (!peer.interruption.in_doubt.empty()) {
        auto& message = *static_cast<RepeatedMessage*>(peer.interruption.in_doubt.take());
        if (sequence_before(message.header.sequence, peer.interruption.repair.expected)) {
            drop(message);
        } else {
            peer.out.pending.add(message);
        }
    }
    peer.out.pending.append(waiting);
}

void SendFlow::resume(Peer& peer) {
    lift_barrier(peer);
    if (flush(peer) && peer.flow.stalled_link.linked()) {
        stalled_.remove(peer);
    }
}

// Sends a message that is too long for a datagram in slices, since there is no ring that takes it.
// Returns false if there is no room now.
bool SendFlow::send_slices(Peer& peer, RepeatedMessage& message) {
    DatagramChannel& channel = peer.contact.channel;
    Status status = kOk;
    while (status.ok() && message.sliced < message.header.length) {
        const Bytes bytes = std::min<Bytes>(peer.contact.datagram_capacity() - sizeof(SliceBody),
                                            message.header.length - message.sliced);
        std::byte* const to = channel.reserve(peer.contact.datagram);
        if (to == nullptr) {
            return false;
        }
        const SliceBody body{message.header.type, message.header.flags, 0, message.header.length,
                             message.sliced};
        std::memcpy(to, &body, sizeof body);
        std::memcpy(to + sizeof body, message.body() + message.sliced, bytes);
        MessageHeader header = message.header;
        header.type = MessageType::slice;
        header.flags = 0;
        header.length = static_cast<std::uint32_t>(sizeof body + bytes);
        status = channel.commit(peer.contact.datagram, header);
        if (status.is_again()) {
            return false;
        }
        message.sliced += static_cast<std::uint32_t>(bytes);
    }
    on_sent_again(peer, message, status);
    return true;
}

void SendFlow::on_sent_again(Peer& peer, RepeatedMessage& message, Status status) {
    ++counters_.messages_repeated;
    counters_.messages_repeated_bytes += message.header.length;
    drop(message);
    if (status.is_error()) {
        lost_.lose(peer, reason_text(status.reason()));
    }
}

// Returns false if there is no room now.
bool SendFlow::send_again(Peer& peer, RepeatedMessage& message) {
    const Bytes length = message.header.length;
    if (message.sliced > 0 || length > peer.message_capacity()) {
        return send_slices(peer, message);
    }
    std::byte* to = peer.reserve(length);
    if (to == nullptr) {
        return false;
    }
    if (length > 0) {
        std::memcpy(to, message.body(), length);
    }
    const Status status = peer.commit_again(message.header);
    if (status.is_again()) {
        return false;
    }
    on_sent_again(peer, message, status);
    return true;
}

} // namespace adaptib
