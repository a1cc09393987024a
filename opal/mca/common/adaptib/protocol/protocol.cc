// SPDX-License-Identifier: BSD-3-Clause
// Construction of the protocol; a peer is lost; a connection comes and goes; what its parts ask of
// each other (protocol/protocol.h).
#include "protocol/protocol.h"

#include "protocol/gone.h"

namespace adaptib {

Protocol::Protocol(const Options& options, RailList rails, std::span<const RailRange> fabrics,
                   ConnectionManager& connections, LostPeers& lost, PeerEvents& events,
                   Counters& counters)
    : put_(options.put), rails_(rails), connections_(connections), lost_(lost), events_(events),
      counters_(counters), receives_({options.eager_limit, options.unexpected_most}, flow_,
                                     rendezvous_, lost, counters, *this),
      order_(receives_.pool(), lost, counters, *this),
      memory_({options.registration_cache, options.block_bytes, options.frequent, options.measures,
               options.still_watched},
              rails, fabrics, counters, options.message),
      one_sided_(
          {options.self, options.serves_atomics, options.block_bytes, options.clock, options.lock},
          {rails, memory_, receives_.pool(), transfers_, receives_.completions(), counters}, lost,
          options.message, *this),
      eager_tuning_(*options.clock, options.active_eager, counters),
      sends_(options.connect_threshold,
             {flow_, rendezvous_, eager_tuning_, transfers_, memory_, receives_}, lost, counters,
             *this),
      transfers_(options.transfers, rails, counters, *this, one_sided_),
      flow_(receives_.pool(), lost, counters, *this),
      active_(options.active_max, flow_, receives_.back_pressure(), eager_tuning_,
              receives_.completions(), lost, counters, *this),
      disconnects_(flow_, receives_.back_pressure(), events, *this),
      rendezvous_({options.put, options.block_bytes, options.block_depth, options.message}, flow_,
                  transfers_, lost, counters, *this) {}

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
    one_sided_.fail_asking(peer);
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
    sends_.for_each_waiting_ack(f);
    one_sided_.atomics().for_each_peer(f);
    one_sided_.for_each_asked(f);
}

bool Protocol::is_awaited(const Peer& peer) const {
    bool found = false;
    for_each_awaited([&](const Peer& awaited) { found = found || &awaited == &peer; });
    return found;
}

bool Protocol::send_pending(PendingSend& send) {
    if (send.kind != PendingSend::Kind::request) {
        return rendezvous_.send_fragments(static_cast<SendTransfer::Fragments&>(send).transfer);
    }
    auto& request = static_cast<SendRequest&>(send);
    return request.type == MessageType::active ? active_.transmit(request)
                                               : sends_.transmit(request);
}

void Protocol::on_sent(SendRequest& request, bool failed) {
    receives_.completions().complete(
        *request.user, failed ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
        failed ? 0 : request.data.bytes);
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
    order_.run_early(peer);
    start_held(peer);
}

void Protocol::start_held(Peer& peer) {
    transfers_.start_held(peer);
    one_sided_.atomics().send_queued(peer);
    flow_.send_queued(peer);
}

std::size_t Protocol::retry() {
    const std::size_t ended = flow_.retry();
    transfers_.post_waiting();
    return ended;
}

void Protocol::send_one_sided_message(Peer& peer, MessageType type, const void* body,
                                      std::size_t size) {
    flow_.send_control(peer, type, body, size);
    sends_.note_sent(peer);
}

bool Protocol::read_at_once(Peer& peer, const RendezvousBody& source, void* to, Bytes wanted) {
    const Registration* all = memory_.whole(peer.contact.route.fabric);
    if (all == nullptr || source.kind != SourceKind::direct || to == nullptr || put_) {
        return false;
    }
    RmaWork work;
    work.opcode = Opcode::read;
    work.local = to;
    work.length = wanted;
    work.remote_address = source.address;
    const std::span<const std::uint32_t> keys{source.keys, source.key_count};
    return one_sided_.synchronous().read_message(peer, work, *all, keys, source.send_id);
}

std::span<std::byte> Protocol::data_of_send(const Peer& peer, std::uint64_t send_id) const {
    const SendTransfer* const transfer = rendezvous_.find_send(send_id);
    if (transfer == nullptr || &transfer->peer != &peer || !transfer->sent ||
        transfer->kind != SourceKind::direct || transfer->accelerator.registration != nullptr) {
        return {};
    }
    const Data& data = transfer->request->data;
    return {static_cast<std::byte*>(data.base), data.bytes};
}

void Protocol::update_levels() {
    receives_.update_levels();
    memory_.settle();
}

} // namespace adaptib
