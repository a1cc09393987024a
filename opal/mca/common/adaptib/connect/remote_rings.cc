// SPDX-License-Identifier: BSD-3-Clause
#include "connect/remote_rings.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace adaptib {

namespace {

constexpr Bytes kSmallestMtu = 256; // of InfiniBand and RoCE

} // namespace

void RemoteRings::note(Peer& peer, const ConnectBody& body) {
    peer.in.credit_address = body.credit_address;
    peer.control.measure_address = body.measure_address;
    peer.connection.remote_ring = {body.ring_address, 0, body.ring_bytes / kRingUnit};
    if (RingMemory::is_direct(body.credit_address, body.ring_address)) {
        peer.connection.remote_ring.room_address = RingMemory::room_address(body.credit_address);
    }
}

void RemoteRings::open(Peer& peer) {
    Subchannel& subchannel = peer.lanes.subchannels[lanes_.get_or_choose(peer)];
    set_destination(peer, subchannel);
    peer.connection.remote_ring.write_bytes = longest_write(peer);
    peer.connection.remote_ring.checked = context_.options.ring_check;
    const auto* credit = reinterpret_cast<const std::uint64_t*>(peer.in.ring_layout().credit());
    auto ring = std::make_unique<RingWriter>(*context_.rails[subchannel.local_rail], *subchannel.qp,
                                             peer.connection.remote_ring, credit,
                                             wr_id_of(&peer.connection.ring_work));
    while (!ring->prepare()) {
        if (!pool_.destroy_oldest()) {
            peer.connection.remote_ring.units = 0;
            return;
        }
    }
    peer.out.ring = std::move(ring);
    peer.out.ring_capacity = peer.out.ring->most();
    map_answers(peer, subchannel);
}

void RemoteRings::migrate(Peer& peer, Subchannel& subchannel) {
    set_destination(peer, subchannel);
    peer.out.ring->migrate_to(*context_.rails[subchannel.local_rail], *subchannel.qp,
                              peer.connection.remote_ring.key,
                              peer.connection.remote_ring.inline_bytes);
    map_answers(peer, subchannel);
}

void RemoteRings::set_destination(Peer& peer, Subchannel& subchannel) {
    peer.connection.remote_ring.key = subchannel.remote_memory_key;
    peer.connection.remote_ring.inline_bytes = context_.inline_bytes(subchannel.local_rail);
}

// Returns the longest write that the ring's reader sees as a whole; 0: any. The ring may be written
// over each path in turn.
Bytes RemoteRings::longest_write(const Peer& peer) const {
    bool unordered = false;
    Bytes packet = std::numeric_limits<Bytes>::max();
    for (const Subchannel& each : peer.lanes.subchannels) {
        if (each.qp != nullptr) {
            const AddressRail& to = peer.contact.address.rails[each.remote_rail];
            const Rail& rail = *context_.rails[each.local_rail];
            packet = std::min(packet, rail.datagram_bytes_to({to.size, to.bytes}));
            unordered = unordered || each.unordered;
        }
    }
    return unordered ? std::max(packet, kSmallestMtu) : 0;
}

void RemoteRings::map_answers(Peer& peer, Subchannel& subchannel) {
    peer.transfers.answers = nullptr;
    peer.transfers.answer_data = nullptr;
    if (peer.connection.remote_ring.room_address == 0) {
        return;
    }
    const auto map = [&](std::uint64_t address, Bytes length) {
        return subchannel.qp->map(address, length, subchannel.remote_memory_key);
    };
    peer.transfers.answers = static_cast<AnswerSlot*>(
        map(RingMemory::answer_behind(peer.in.credit_address), sizeof(AnswerSlot)));
    const Bytes lines_bytes = peer.connection.remote_ring.units * kRingUnit;
    peer.transfers.answer_data = static_cast<std::byte*>(
        map(RingMemory::answer_data(peer.in.credit_address, lines_bytes), kMaxAssisted));
}

} // namespace adaptib
