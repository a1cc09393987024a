// SPDX-License-Identifier: BSD-3-Clause
// Construction and destruction of the protocol; a connection comes and goes; how requests end
// (protocol/protocol.h).
#include "protocol/protocol.h"

#include <vector>

namespace adaptib {

Protocol::Protocol(const Options& options, RailList rails, std::span<const RailRange> fabrics,
                   ConnectionManager& connections, Counters& counters, ProtocolListener& listener)
    : options_(options), rails_(rails), connections_(connections), counters_(counters),
      listener_(listener), back_pressure_(options.unexpected_most, *this),
      order_(pool_, counters, *this), memory_({options.registration_cache, options.block_bytes},
                                              rails, fabrics, counters, listener),
      one_sided_({options.self, options.serves_atomics, options.block_bytes, options.clock},
                 {rails, memory_, pool_, transfers_, completions_, counters}, *this, listener),
      eager_tuning_(*options.clock, options.active_eager, counters),
      transfers_(options.transfers, rails, counters, *this, one_sided_),
      flow_(pool_, counters, *this), active_(options.active_max, flow_, back_pressure_,
                                             eager_tuning_, completions_, counters, *this),
      disconnects_(flow_, back_pressure_, *this),
      rendezvous_({options.put, options.block_bytes, options.block_depth}, flow_, transfers_,
                  counters, *this) {}

// Destroys messages that the user never received, and transfers that will not end any more.
Protocol::~Protocol() {
    std::vector<InboundMessage*> left;
    matcher_.for_each_unexpected([&](UnexpectedMessage& message) {
        left.push_back(static_cast<InboundMessage*>(&message));
    });
    for (InboundMessage* message : left) {
        matcher_.remove(*message);
        message->peer = nullptr; // the peer may be gone
        discard(*message);
    }
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

void Protocol::complete_receive(ReceiveRequest& request, const Envelope& envelope,
                                Bytes message_bytes, Bytes received, int failure) {
    UserRequest& user = request.user();
    user.source = envelope.source;
    user.tag = envelope.tag;
    int status = failure;
    if (failure == OPAL_COMMON_ADAPTIB_SUCCESS && message_bytes > request.data.bytes) {
        status = OPAL_COMMON_ADAPTIB_TRUNCATED;
    }
    completions_.complete(user, status, received);
}

} // namespace adaptib
