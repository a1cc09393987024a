// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/protocol.h"

#include "protocol/gone.h"

namespace adaptib {

Protocol::Protocol(const Options& options, RailList rails, std::span<const RailRange> fabrics,
                   ConnectionManager& connections, LostPeers& lost, PeerEvents& events,
                   Counters& counters)
    : rails_(rails), connections_(connections), lost_(lost), events_(events), counters_(counters),
      receives_({options.eager_limit, options.unexpected_most, options.put},
                {flow_, rendezvous_, memory_, synchronous_}, lost, counters),
      order_(receives_.pool(), lost, counters),
      memory_({options.registration_cache, options.block_bytes, options.frequent, options.measures,
               options.still_watched},
              rails, fabrics, counters, options.message),
      transfers_(options.transfers, rails, flow_, events, counters, options.message),
      target_(memory_.lent(), options.lock, rendezvous_, counters),
      synchronous_(*options.clock, options.block_bytes, memory_, counters, target_),
      one_sided_(
          {options.self, options.serves_atomics, options.block_bytes},
          {memory_, receives_.pool(), transfers_, synchronous_, flow_, receives_.completions()},
          lost, counters, options.message),
      eager_tuning_(*options.clock, options.active_eager, counters),
      sends_({flow_, rendezvous_, eager_tuning_, transfers_, memory_, receives_}, events, lost,
             counters),
      active_(options.active_max, flow_, receives_.back_pressure(), eager_tuning_,
              receives_.completions(), lost, counters),
      disconnects_(flow_, receives_.back_pressure(), events),
      rendezvous_({options.put, options.block_bytes, options.block_depth, options.message},
                  {flow_, transfers_, memory_, receives_.completions(), events}, lost, counters),
      flow_(options.connect_threshold, {sends_, active_, rendezvous_}, receives_.pool(),
            receives_.completions(), events, lost, counters) {}

void Protocol::end_lost_peers() {
    while (events_.any(PeerEvent::lost)) {
        for (Peer* peer : events_.take(PeerEvent::lost)) {
            end_lost(*peer);
        }
    }
}

void Protocol::end_lost(Peer& peer) {
    // A peer that has sent its disconnect may be gone before this side's answer or disconnect
    // arrives.
    const bool waits = peer.ending.disconnect_received
                           ? SendFlow::has_more_than_disconnects(peer)
                           : peer.has_waiting() || !peer.ending.queued.empty() ||
                                 peer.flow.any_gathered() || peer.interruption.work_failed;
    if (waits || active_.may_await(peer) || receives_.keeps_messages_of(peer) || is_awaited(peer)) {
        lost_.report(peer);
    }
    connections_.break_off(peer);
    sends_.fail(peer);
    one_sided_.atomics().fail(peer);
    transfers_.fail_asking(peer);
    transfers_.fail_waiting(peer);
    rendezvous_.fail(peer);
    receives_.fail(peer);
}

bool Protocol::has_work_of(const Peer& peer) {
    return peer.transfers.users > 0 || peer.transfers.one_sided > 0 ||
           !peer.ending.queued.empty() || peer.flow.any_gathered() ||
           SendFlow::has_more_than_disconnects(peer);
}

bool Protocol::leaves(Peer& peer) {
    const Gone gone = how_gone(peer);
    if (gone.why == nullptr || needs(peer) || (gone.ended && active_.may_await(peer))) {
        return false;
    }
    events_.report(peer, PeerEvent::left);
    return true;
}

void Protocol::for_each_awaited(const std::function<void(const Peer&)>& f) const {
    receives_.for_each_sender(f);
    rendezvous_.for_each_peer(f);
    flow_.for_each_waiting_ack(f);
    one_sided_.atomics().for_each_peer(f);
    transfers_.for_each_asked(f);
}

bool Protocol::is_awaited(const Peer& peer) const {
    bool found = false;
    for_each_awaited([&](const Peer& awaited) { found = found || &awaited == &peer; });
    return found;
}

void Protocol::ask_for_all() {
    events_.drain(PeerEvent::want_connection, [this](Peer& peer) {
        connections_.request(peer);
        rendezvous_.on_requested(peer);
    });
    events_.drain(PeerEvent::want_repair, [this](Peer& peer) {
        if (connections_.repairs().may_begin(peer)) {
            connections_.repairs().begin(peer);
        }
    });
    events_.drain(PeerEvent::want_lane, [this](Peer& peer) {
        if (peer.lanes.scheduler != nullptr) {
            connections_.migrate_control_lane(peer, peer.lanes.scheduler->control_lane());
        }
    });
}

void Protocol::on_interrupted(Peer& peer) {
    if (!peer.interruption.active) {
        transfers_.stop_balancing(peer);
        flow_.interrupt(peer);
    }
}

void Protocol::on_connected(Peer& peer) {
    sends_.gathered().begin(peer, rails_);
    flow_.resume(peer);
    disconnects_.end_if_over(peer);
    rendezvous_.on_connected(peer);
}

void Protocol::on_unconnected(Peer& peer) {
    if (peer.interruption.active) {
        flow_.resume(peer);
    }
    rendezvous_.on_unconnected(peer);
    disconnects_.end_if_over(peer); // it may have waited for a repair that is not needed any more
}

// The core has taken the connection down.
void Protocol::on_torn_down(Peer& peer) {
    Disconnects::on_torn_down(peer);
    peer.flow.messages_sent = 0;
    transfers_.stop_balancing(peer);
    run_early(peer);
    start_held(peer);
}

void Protocol::start_held(Peer& peer) {
    transfers_.start_held(peer);
    one_sided_.atomics().send_queued(peer);
    flow_.send_queued(peer);
}

std::size_t Protocol::retry() {
    const std::vector<Peer*>& flushed = flow_.retry();
    for (Peer* peer : flushed) {
        disconnects_.end_if_over(*peer);
    }
    transfers_.post_waiting();
    return flushed.size();
}

void Protocol::update_levels() {
    receives_.update_levels();
    memory_.settle();
}

// -------------------------------------------------------------------------------------------------
// A message's turn has come (arrival_order.h): it is handled by its type.

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
