// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/arrival_order.h"

#include <cstring>
#include <new>

namespace adaptib {

void ArrivalOrder::on_unordered(Peer& peer, const MessageHeader& header, const std::byte* body) {
    if (peer.in.unheard) {
        return;
    }
    if (sequence_before(header.sequence, peer.in.next_receive)) {
        ++counters_.duplicates;
    } else {
        store_early(peer, header, body);
    }
}

// Returns the first kept message whose number is not before `sequence`; null: there is none. Looks
// from both ends: most messages come behind the last one, and those sent again before the first.
EarlyMessage* ArrivalOrder::place_of(const PeerIn& in, std::uint32_t sequence) {
    EarlyMessage* front = in.early;
    EarlyMessage* behind = nullptr; // the last one that is not before `sequence`, from the back
    for (EarlyMessage* back = in.last_early;
         back != nullptr && !sequence_before(back->header.sequence, sequence);
         back = back->previous, front = front->next) {
        if (!sequence_before(front->header.sequence, sequence)) {
            return front;
        }
        behind = back;
    }
    return behind;
}

// Keeps a copy of an early message, in the order of sequence numbers.
void ArrivalOrder::store_early(Peer& peer, const MessageHeader& header, const std::byte* body) {
    PeerIn& in = peer.in;
    EarlyMessage* const next = place_of(in, header.sequence);
    if (next != nullptr && next->header.sequence == header.sequence) {
        ++counters_.duplicates;
        return;
    }
    void* memory = pool_.allocate(sizeof(EarlyMessage) + header.length);
    if (memory == nullptr) {
        lost_.lose(peer, "out of memory for a message that overtook an earlier one");
        return;
    }
    auto* message = new (memory) EarlyMessage;
    message->header = header;
    if (header.length > 0) {
        std::memcpy(message->body(), body, header.length);
    }
    message->next = next;
    message->previous = next == nullptr ? in.last_early : next->previous;
    (message->previous == nullptr ? in.early : message->previous->next) = message;
    (next == nullptr ? in.last_early : next->previous) = message;
    in.early_bytes += message->size();
    ++counters_.early;
}

// Takes the first message off the list; its bytes count until release(). REQUIRES: there is one.
EarlyMessage& ArrivalOrder::take_first(PeerIn& in) {
    EarlyMessage& message = *in.early;
    in.early = message.next;
    (in.early == nullptr ? in.last_early : in.early->previous) = nullptr;
    return message;
}

void ArrivalOrder::release(Peer& peer, EarlyMessage& message) {
    peer.in.early_bytes -= message.size();
    pool_.release(&message, message.size());
}

EarlyMessage* ArrivalOrder::take_next(Peer& peer) {
    if (peer.in.early == nullptr || !has_its_turn(peer, peer.in.early->header.sequence)) {
        return nullptr;
    }
    begin_turn(peer);
    return &take_first(peer.in);
}

void ArrivalOrder::forget(Peer& peer) {
    while (peer.in.early != nullptr) {
        release(peer, take_first(peer.in));
    }
}

} // namespace adaptib
