// SPDX-License-Identifier: BSD-3-Clause
// A sequenced message arrives: in order, early, or again.
#include "protocol/protocol.h"

namespace adaptib {

void Protocol::on_unordered(Peer& peer, const MessageHeader& header, const std::byte* body) {
    if (peer.in.unheard) {
        return;
    }
    // While the peer is finishing, a message belongs to what follows the disconnect.
    if (!peer.in.teardown_pending && sequence_before(header.sequence, peer.in.next_receive)) {
        ++counters_.duplicates;
    } else {
        store_early(peer, header, body);
    }
}

void Protocol::dispatch(Peer& peer, const MessageHeader& header, const std::byte* body) {
    switch (header.type) {
    case MessageType::eager:
        receives_.on_eager(peer, {header.context, header.source, header.tag}, body, header.length);
        break;
    case MessageType::eager_sync: receives_.on_eager_sync(peer, header, body); break;
    case MessageType::sync_ack: sends_.on_sync_ack(peer, read_body<IdBody>(body)); break;
    case MessageType::rendezvous:
        receives_.on_rendezvous(peer, header, read_rendezvous(header, body));
        break;
    case MessageType::clear_to_send:
        rendezvous_.on_clear_to_send(peer, header.flags, read_body<ClearBody>(body));
        break;
    case MessageType::block: rendezvous_.on_block(peer, read_body<BlockBody>(body)); break;
    case MessageType::block_done:
        rendezvous_.on_block_done(peer, read_body<BlockDoneBody>(body));
        break;
    case MessageType::finish: rendezvous_.on_finish(peer, read_body<IdBody>(body)); break;
    case MessageType::written: rendezvous_.on_written(peer, read_body<WrittenBody>(body)); break;
    case MessageType::disconnect: on_disconnect(peer, header.flags, read_body<IdBody>(body)); break;
    case MessageType::active: on_active(peer, header.flags, body, header.length); break;
    case MessageType::active_part: on_active_part(peer, header, body); break;
    case MessageType::fragment: rendezvous_.on_fragment(peer, header, body); break;
    case MessageType::operate: rma_target_.on_operate(peer, header, body); break;
    case MessageType::atomic: emulated_atomics_.on_atomic(peer, read_body<AtomicBody>(body)); break;
    case MessageType::atomic_done:
        emulated_atomics_.on_atomic_done(peer, read_body<AtomicDoneBody>(body));
        break;
    case MessageType::cooperative_copy:
        rma_target_.on_cooperative_copy(peer, read_body<CooperativeCopyBody>(body));
        break;
    case MessageType::allowance: sends_.on_allowance(peer, header.flags); break;
    case MessageType::none:
    case MessageType::skip:
    case MessageType::connect_request:
    case MessageType::connect_reply:
    case MessageType::connect_confirm:
    case MessageType::connect_refuse:
    case MessageType::connect_close:
    case MessageType::probe:
    case MessageType::probe_answer:
    case MessageType::probe_thanks:
    case MessageType::life_question:
    case MessageType::life_answer:
    case MessageType::connect_keep:
    case MessageType::connect_yield:
    case MessageType::count_: ++counters_.bad_packets; break;
    }
}

// Keeps a copy of an early message, in the order of sequence numbers.
void Protocol::store_early(Peer& peer, const MessageHeader& header, const std::byte* body) {
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
        on_peer_failed(peer, "out of memory for a message that overtook an earlier one");
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

void Protocol::run_early(Peer& peer) {
    while (peer.in.early != nullptr && peer.in.early->header.sequence == peer.in.next_receive &&
           !peer.in.teardown_pending) {
        EarlyMessage* message = peer.in.early;
        peer.in.early = message->next;
        ++peer.in.next_receive;
        dispatch(peer, message->header, message->body());
        pool_.release(message, message->size());
    }
}

void Protocol::forget(Peer& peer) {
    forget_waiting(peer);
    flow_.forget(peer);
    receives_.back_pressure().forget(peer);
    while (peer.in.early != nullptr) {
        EarlyMessage* message = peer.in.early;
        peer.in.early = message->next;
        pool_.release(message, message->size());
    }
}

} // namespace adaptib
