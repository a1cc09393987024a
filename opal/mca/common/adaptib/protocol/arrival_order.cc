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

// Keeps a copy of an early message, in the order of sequence numbers.
void ArrivalOrder::store_early(Peer& peer, const MessageHeader& header, const std::byte* body) {
    EarlyMessage** at = &peer.in.early;
    while (*at != nullptr && sequence_before((*at)->header.sequence, header.sequence)) {
        at = &(*at)->next;
    }
    if (*at != nullptr && (*at)->header.sequence == header.sequence) {
        ++counters_.duplicates;
        return;
    }
    void* memory = pool_.allocate(sizeof(EarlyMessage) + header.length);
    if (memory == nullptr) {
        listener_.on_peer_failed(peer, "out of memory for a message that overtook an earlier one");
        return;
    }
    auto* message = new (memory) EarlyMessage;
    message->header = header;
    if (header.length > 0) {
        std::memcpy(message->body(), body, header.length);
    }
    message->next = *at;
    *at = message;
    ++counters_.early;
}

void ArrivalOrder::run_early(Peer& peer) {
    while (peer.in.early != nullptr && peer.in.early->header.sequence == peer.in.next_receive &&
           !peer.in.teardown_pending) {
        EarlyMessage* message = peer.in.early;
        peer.in.early = message->next;
        ++peer.in.next_receive;
        listener_.dispatch(peer, message->header, message->body());
        pool_.release(message, message->size());
    }
}

void ArrivalOrder::forget(Peer& peer) {
    while (peer.in.early != nullptr) {
        EarlyMessage* message = peer.in.early;
        peer.in.early = message->next;
        pool_.release(message, message->size());
    }
}

} // namespace adaptib
