// SPDX-License-Identifier: BSD-3-Clause
// Repair of a connection (connect/repairs.h): sends wait behind a barrier meanwhile. Then messages
// that the old ring may have lost go first, in their old order and with their old sequence numbers,
// so that the receiver drops those that had arrived. A copy of a gathered message is made here,
// which ends its request; one whose write is complete has arrived, and is not repeated.
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
    if (peer.out.ring == nullptr) {
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
        listener_.on_peer_failed(peer, kept ? "its credit does not fit what was sent"
                                            : "out of memory to repeat messages");
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

// Keeps a message that needs a ring waiting while there is none. A new connection may bring a ring;
// if the peer is open again without one, none will come, and the peer fails. Returns true if the
// message was dropped.
bool SendFlow::wait_for_ring(Peer& peer, RepeatedMessage& message) {
    listener_.want_connection(peer);
    if (peer.session.state == ConnectState::open && !peer.interruption.repair.wanted) {
        listener_.on_peer_failed(
            peer, "a message that has to be sent again needs a ring, and there is none");
    }
    if (peer.session.state != ConnectState::failed) {
        return false;
    }
    drop(message);
    return true;
}

// Returns false if there is no room now.
bool SendFlow::send_again(Peer& peer, RepeatedMessage& message) {
    const Bytes length = message.header.length;
    if (length > peer.message_capacity()) {
        return wait_for_ring(peer, message);
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
    ++counters_.messages_repeated;
    counters_.messages_repeated_bytes += length;
    drop(message);
    if (status.is_error()) {
        listener_.on_peer_failed(peer, reason_text(status.reason()));
    }
    return true;
}

} // namespace adaptib
