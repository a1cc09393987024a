// SPDX-License-Identifier: BSD-3-Clause
#include "connect/remote_rings.h"

#include <memory>
#include <utility>

namespace adaptib {

void RemoteRings::note(Peer& peer, const ConnectBody& body) {
    peer.credit_address = body.credit_address;
    peer.measure_address = body.measure_address;
    peer.remote_ring = {body.ring_address, 0, body.ring_bytes / kRingUnit, 0, 0};
    if (RingMemory::is_direct(body.credit_address, body.ring_address)) {
        peer.remote_ring.room_address = RingMemory::room_address(body.credit_address);
    }
}

void RemoteRings::open(Peer& peer) {
    Subchannel& subchannel = peer.subchannels[lanes_.chosen(peer)];
    aim(peer, subchannel);
    const auto* credit = reinterpret_cast<const std::uint64_t*>(peer.ring_layout().credit());
    auto ring = std::make_unique<RingWriter>(*context_.rails[subchannel.local_rail], *subchannel.qp,
                                             peer.remote_ring, credit, wr_id_of(&peer.ring_work));
    while (!ring->usable()) {
        if (!pool_.give_up_oldest()) {
            peer.remote_ring.units = 0;
            return;
        }
    }
    peer.ring_out = std::move(ring);
    peer.ring_capacity = peer.ring_out->most();
    map_answers(peer, subchannel);
}

void RemoteRings::migrate(Peer& peer, Subchannel& subchannel) {
    aim(peer, subchannel);
    peer.ring_out->migrate_to(*context_.rails[subchannel.local_rail], *subchannel.qp,
                              peer.remote_ring.key, peer.remote_ring.inline_bytes);
    map_answers(peer, subchannel);
}

void RemoteRings::aim(Peer& peer, Subchannel& subchannel) {
    peer.remote_ring.key = subchannel.remote_memory_key;
    peer.remote_ring.inline_bytes = context_.inline_bytes(subchannel.local_rail);
}

void RemoteRings::map_answers(Peer& peer, Subchannel& subchannel) {
    peer.answers = nullptr;
    peer.answer_data = nullptr;
    if (peer.remote_ring.room_address == 0) {
        return;
    }
    const auto map = [&](std::uint64_t address, Bytes length) {
        return subchannel.qp->map(address, length, subchannel.remote_memory_key);
    };
    peer.answers = static_cast<AnswerSlot*>(
        map(RingMemory::answer_behind(peer.credit_address), sizeof(AnswerSlot)));
    const Bytes lines_bytes = peer.remote_ring.units * kRingUnit;
    peer.answer_data = static_cast<std::byte*>(
        map(RingMemory::answer_data(peer.credit_address, lines_bytes), kMaxAssisted));
}

} // namespace adaptib
