// SPDX-License-Identifier: BSD-3-Clause
// A message's turn has come (arrival_order.h): it is handled by its type.
#include "protocol/protocol.h"

namespace adaptib {

void Protocol::run_early(Peer& peer) {
    while (EarlyMessage* const message = ArrivalOrder::take_next(peer)) {
        dispatch(peer, message->header, message->body());
        order_.release(peer, *message);
    }
}

void Protocol::dispatch(Peer& peer, const MessageHeader& header, const std::byte* body) {
    switch (header.type) {
    case MessageType::eager:
        receives_.on_eager(peer, {header.context, header.source, header.tag}, body, header.length);
        break;
    case MessageType::eager_sync: receives_.on_eager_sync(peer, header, body); break;
    case MessageType::sync_ack: flow_.on_sync_ack(peer, read_body<IdBody>(body)); break;
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
    case MessageType::active: active_.on_active(peer, header.flags, body, header.length); break;
    case MessageType::active_part: active_.on_active_part(peer, header, body); break;
    case MessageType::fragment: rendezvous_.on_fragment(peer, header, body); break;
    case MessageType::operate: target_.on_operate(peer, header, body); break;
    case MessageType::atomic:
        one_sided_.atomics().on_atomic(peer, read_body<AtomicBody>(body));
        break;
    case MessageType::atomic_done:
        one_sided_.atomics().on_atomic_done(peer, read_body<AtomicDoneBody>(body));
        break;
    case MessageType::region_query: on_region_query(peer, read_body<RegionQueryBody>(body)); break;
    case MessageType::region_keys:
        transfers_.on_region_keys(peer, read_body<RegionKeysBody>(body));
        break;
    case MessageType::cooperative_copy:
        target_.on_cooperative_copy(peer, read_body<CooperativeCopyBody>(body));
        break;
    case MessageType::allowance: sends_.on_allowance(peer, header.flags); break;
    case MessageType::none:
    case MessageType::skip:
    case MessageType::connect_request:
    case MessageType::connect_reply:
    case MessageType::connect_confirm:
    case MessageType::connect_refuse:
    case MessageType::connect_close:
    case MessageType::slice:
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

void Protocol::on_disconnect(Peer& peer, std::uint8_t flags, const IdBody& body) {
    if (disconnects_.on_disconnect(peer, flags, body)) {
        start_held(peer);
    }
    if (flags == kDisconnectRevoked) {
        connections_.on_disconnect_revoked(peer);
    }
}

// The memory is that of a message, or a region that the user has registered, whose registration is
// in the cache.
void Protocol::on_region_query(Peer& peer, const RegionQueryBody& body) {
    RegistrationCache::Use kept;
    const Registration* memory = rendezvous_.find_memory(peer, body.address, body.bytes);
    if (memory == nullptr && memory_.find_registered(body.address, body.bytes, body.access, kept)) {
        memory = &kept.registration();
    }
    one_sided_.on_region_query(peer, body, memory);
}

void Protocol::forget(Peer& peer) {
    flow_.forget(peer);
    GatheredSends::forget(peer);
    receives_.back_pressure().forget(peer);
    order_.forget(peer);
}

} // namespace adaptib
