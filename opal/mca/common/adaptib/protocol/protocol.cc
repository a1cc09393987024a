// SPDX-License-Identifier: BSD-3-Clause
// Construction and destruction of the protocol; a connection comes and goes; how requests end
// (protocol/protocol.h).
#include "protocol/protocol.h"

#include <algorithm>

namespace adaptib {

namespace {

constexpr std::size_t kStagingKept = 16;

} // namespace

// Registers all memory once, if the rails can: then no buffer needs a registration of its own.
Protocol::Reach::Reach(RailList list, RailRange of, const Options& options, Counters& counters)
    : registrations(list, of, options.registration_cache, counters),
      staging(list, of, options.block_bytes, kStagingKept, registrations) {
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteRead | kRemoteWrite;
    const auto those = list.subspan(of.first, of.count);
    const bool possible = std::all_of(those.begin(), those.end(), [](const Rail* rail) {
        return rail->info().has(Capability::whole_memory);
    });
    has_whole = possible && whole.make(list, of, nullptr, kWholeMemory, kAccess).ok();
}

Protocol::Protocol(const Options& options, RailList rails, std::span<const RailRange> fabrics,
                   ConnectionManager& connections, Counters& counters, ProtocolListener& listener)
    : options_(options), rails_(rails), connections_(connections), counters_(counters),
      listener_(listener), back_pressure_(options.unexpected_most, *this),
      active_max_(options.active_max), active_eager_(options.active_eager),
      transfers_(options.transfers, rails, counters, *this), flow_(pool_, counters, *this),
      rendezvous_({options.put, options.block_bytes, options.block_depth}, flow_, transfers_,
                  counters, *this) {
    for (const RailRange& of : fabrics) {
        whole_.push_back(reaches_.emplace_back(rails, of, options, counters).all());
    }
    if (fabrics.size() > 1) {
        const RailRange all{0, static_cast<std::uint32_t>(rails.size())};
        all_rails_.emplace(rails, all, options.registration_cache, counters);
    }
}

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
    one_sided_.for_each([this](OneSided* operation) { pool_.destroy(operation); });
    copied_.for_each([](CopiedOneSided* operation) { delete operation; });
    emulated_atomics_.for_each([this](EmulatedAtomic* atomic) { pool_.destroy(atomic); });
}

void Protocol::on_interrupted(Peer& peer) {
    if (!peer.interrupted) {
        transfers_.stop_balancing(peer);
        flow_.interrupt(peer);
    }
}

void Protocol::on_connected(Peer& peer) {
    flow_.resume(peer);
    rendezvous_.on_connected(peer);
}

void Protocol::on_unconnected(Peer& peer) {
    if (peer.interrupted) {
        flow_.resume(peer);
    }
    rendezvous_.on_unconnected(peer);
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
    complete(user, status, received);
}

} // namespace adaptib
