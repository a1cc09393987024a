// SPDX-License-Identifier: BSD-3-Clause
// Construction and destruction of the protocol; a connection comes and goes; answers to questions
// of its parts (protocol/protocol.h).
#include "protocol/protocol.h"

namespace adaptib {

Protocol::Protocol(const Options& options, RailList rails, std::span<const RailRange> fabrics,
                   ConnectionManager& connections, Counters& counters, ProtocolListener& listener)
    : put_(options.put), rails_(rails), connections_(connections), counters_(counters),
      listener_(listener), receives_({options.eager_limit, options.unexpected_most}, flow_,
                                     rendezvous_, counters, *this),
      order_(receives_.pool(), counters, *this),
      memory_({options.registration_cache, options.block_bytes, options.frequent, options.measures,
               options.still_watched},
              rails, fabrics, counters, options.message),
      failures_({connections, receives_, sends_, active_, one_sided_, transfers_, rendezvous_,
                 listener, counters}),
      reactions_({connections, memory_, receives_, sends_, active_, rendezvous_, disconnects_,
                  failures_, listener}),
      one_sided_(
          {options.self, options.serves_atomics, options.block_bytes, options.clock, options.lock},
          {rails, memory_, receives_.pool(), transfers_, receives_.completions(), counters},
          options.message, *this),
      eager_tuning_(*options.clock, options.active_eager, counters),
      sends_(options.connect_threshold,
             {flow_, rendezvous_, eager_tuning_, transfers_, memory_, receives_}, counters, *this),
      transfers_(options.transfers, rails, counters, reactions_, one_sided_),
      flow_(receives_.pool(), counters, reactions_),
      active_(options.active_max, flow_, receives_.back_pressure(), eager_tuning_,
              receives_.completions(), counters, *this),
      disconnects_(flow_, receives_.back_pressure(), *this),
      rendezvous_({options.put, options.block_bytes, options.block_depth, options.message}, flow_,
                  transfers_, counters, reactions_) {}

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
