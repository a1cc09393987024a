// SPDX-License-Identifier: BSD-3-Clause
// Repair of a connection (connect/repairs.h): sends wait behind a barrier meanwhile. Then messages
// that the old ring may have lost go first, in their old order and with their old sequence numbers,
// so that the receiver drops those that had arrived. A copy of a gathered message is made here,
// which ends its request; one whose write is complete has arrived, and is not repeated.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "protocol/send_flow.h"

namespace adaptib {

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
