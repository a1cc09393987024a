// SPDX-License-Identifier: BSD-3-Clause
// Construction and destruction of the protocol; a connection comes and goes; answers to questions
// of its parts (protocol/protocol.h).
#include "protocol/protocol.h"

namespace adaptib {

Protocol::Protocol(const Options& options, RailList rails, std::span<const RailRange> fabrics,
                   ConnectionManager& connections, Counters& counters, ProtocolListener& listener)
    : options_(options), rails_(rails), connections_(connections), counters_(counters),
      listener_(listener),
      receives_({options.eager_limit, options.put, options.unexpected_most},
                {flow_, rendezvous_, memory_, synchronous_rma_}, counters, *this),
      pool_(receives_.pool()), memory_({options.registration_cache, options.block_bytes}, rails,
                                       fabrics, counters, listener),
      rma_target_(memory_.lent(), counters, *this),
      synchronous_rma_(*options.clock, options.block_bytes, memory_, counters, rma_target_),
      region_keys_(rails, counters, listener), completions_(receives_.completions()),
      emulated_atomics_(options.self, memory_.windows(), pool_, flush_epochs_, region_keys_,
                        completions_, counters, *this),
      active_max_(options.active_max),
      eager_tuning_(*options.clock, options.active_eager, counters),
      sends_(options.connect_threshold, {flow_, rendezvous_, eager_tuning_, receives_}, counters,
             *this),
      transfers_(options.transfers, rails, counters, *this), flow_(pool_, counters, *this),
      rendezvous_({options.put, options.block_bytes, options.block_depth}, flow_, transfers_,
                  counters, *this) {}

// Destroys the records of transfers that will not end any more.
Protocol::~Protocol() {
    one_sided_.for_each([this](OneSided* operation) { pool_.destroy(operation); });
    copied_.for_each([](CopiedOneSided* operation) { delete operation; });
}

void Protocol::on_interrupted(Peer& peer) {
    if (!peer.interruption.active) {
        transfers_.stop_balancing(peer);
        flow_.interrupt(peer);
    }
}

void Protocol::on_connected(Peer& peer) {
    flow_.resume(peer);
    rendezvous_.on_connected(peer);
}

void Protocol::on_unconnected(Peer& peer) {
    if (peer.interruption.active) {
        flow_.resume(peer);
    }
    rendezvous_.on_unconnected(peer);
}

bool Protocol::send_pending(PendingSend& send) {
    return send.kind == PendingSend::Kind::request
               ? sends_.transmit(static_cast<SendRequest&>(send))
               : rendezvous_.send_fragments(static_cast<SendTransfer::Fragments&>(send).transfer);
}

std::size_t Protocol::retry() {
    const std::size_t ended = flow_.retry();
    transfers_.post_waiting();
    return ended;
}

void Protocol::send_atomic_message(Peer& peer, MessageType type, const void* body,
                                   std::size_t size) {
    flow_.send_control(peer, type, body, size);
    sends_.note_sent(peer);
}

std::span<std::byte> Protocol::data_of_send(const Peer& peer, std::uint64_t send_id) const {
    const SendTransfer* const transfer = rendezvous_.find_send(send_id);
    if (transfer == nullptr || &transfer->peer != &peer || !transfer->sent ||
        transfer->kind != SourceKind::direct) {
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
