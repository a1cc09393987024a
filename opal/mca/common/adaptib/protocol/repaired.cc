// SPDX-License-Identifier: BSD-3-Clause
// A connection is made anew (connect/repair.cc): sends wait behind a barrier meanwhile; then what the old
// ring may have lost goes first, in its old order and with its old numbers, so that what was there all the
// same falls out at the receiver.
#include "protocol/protocol.h"

namespace adaptib {

void Protocol::on_interrupted(Peer& peer) {
    if (peer.interrupted) {
        return;
    }
    give_up_holding(peer);
    peer.interrupted = true;
    peer.pending.put_back(peer.barrier);
    if (!peer.stalled_link.linked()) {
        stalled_.push_back(peer);
    }
}

void Protocol::on_fenced(Peer& peer) {
    if (peer.ring_out == nullptr) {
        return;
    }
    bool kept = true;
    const bool whole =
        peer.ring_out->for_each_in_doubt([&](const MessageHeader& header, const std::byte* body) {
            void* memory = kept ? pool_.allocate(sizeof(RepeatedMessage) + header.length) : nullptr;
            if (memory == nullptr) {
                kept = false;
                return;
            }
            auto* message = new (memory) RepeatedMessage;
            message->header = header;
            if (header.length > 0) {
                std::memcpy(message->body(), body, header.length);
            }
            peer.in_doubt.add(*message);
        });
    if (!whole || !kept) {
        on_peer_failed(peer, kept ? "its credit does not fit what was sent"
                                  : "out of memory to repeat messages");
    }
}

void Protocol::drop(RepeatedMessage& message) { pool_.release(&message, message.size()); }

// Before what waits, in which there may be repeated messages already, of an earlier repair: those are later
// ones.
void Protocol::lift_barrier(Peer& peer) {
    if (!peer.interrupted) {
        return;
    }
    peer.interrupted = false;
    peer.work_failed = false;
    static_cast<void>(peer.pending.take()); // nothing was put before it
    PendingQueue waiting;
    std::swap(waiting, peer.pending);
    while (!peer.in_doubt.empty()) {
        auto& message = *static_cast<RepeatedMessage*>(peer.in_doubt.take());
        if (sequence_before(message.header.sequence, peer.repair.expected)) {
            drop(message);
        } else {
            peer.pending.add(message);
        }
    }
    peer.pending.append(waiting);
}

// What waited behind the barrier goes on.
void Protocol::resume(Peer& peer) {
    lift_barrier(peer);
    if (flush(peer) && peer.stalled_link.linked()) {
        stalled_.remove(peer);
    }
}

// There is no ring any more. A new connection may bring one; who is open again without one gets none.
bool Protocol::wait_for_ring(Peer& peer, RepeatedMessage& message) {
    connections_.request(peer);
    if (peer.state == ConnectState::open && !peer.repair.wanted) {
        on_peer_failed(peer, "a message that has to be sent again needs a ring, and there is none");
    }
    if (peer.state != ConnectState::failed) {
        return false;
    }
    drop(message);
    return true;
}

// False: there is no room now.
bool Protocol::send_again(Peer& peer, RepeatedMessage& message) {
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
        on_peer_failed(peer, reason_text(status.reason()));
    }
    return true;
}

} // namespace adaptib
