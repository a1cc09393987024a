// SPDX-License-Identifier: BSD-3-Clause
#include "connect/offered_rings.h"

namespace adaptib {

Status OfferedRings::offer(Peer& peer) {
    peer.in.credit_work.begin();
    const bool lines = context_.counters.rings_open < context_.options.ring_max;
    const bool kept =
        peer.in.ring_memory != nullptr && (peer.in.ring_parts.lines_bytes > 0) == lines;
    if (!kept) {
        pool_.free_ring(peer);
        if (const Status status = make(peer, lines); !status.ok()) {
            return status;
        }
    }
    if (peer.in.ring_parts.lines_bytes > 0) {
        ++context_.counters.rings_open;
        begin(peer);
    }
    return kOk;
}

Status OfferedRings::make(Peer& peer, bool lines) {
    Status status = allocate(peer, lines ? peer.in.ring_bytes : 0);
    if (!status.ok() && lines) {
        if (!no_room_reported_) {
            no_room_reported_ = true;
            context_.options.message(
                Severity::notice,
                "There is no room for another ring; further peers share the queue, which is "
                "slower. Enlarge opal_common_adaptib_shm_memory or "
                "opal_common_adaptib_shm_segment_max.");
        }
        status = allocate(peer, 0);
    }
    if (status.ok()) {
        ++context_.counters.buffers;
        context_.counters.buffers_bytes += peer.in.ring_memory->length();
    }
    return status;
}

// Destroys kept rings of closed connections to make room if need be.
Status OfferedRings::allocate(Peer& peer, Bytes lines_bytes) {
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteWrite | kOrdered;
    const bool direct =
        context_.rails[peer.contact.route.local.first]->info().has(Capability::direct);
    peer.in.ring_parts = {.lines_bytes = lines_bytes,
                          .direct = direct,
                          .measuring = lines_bytes > 0 && peer.contact.route.count > 1 && !direct};
    const Bytes bytes = RingMemory::bytes(peer.in.ring_parts);
    const Bytes first = direct ? RingMemory::first_bytes(peer.in.ring_parts) : bytes;
    Status status = kOk;
    do {
        peer.in.ring_memory.reset();
        peer.transfers.answer_bytes = 0;
        status = allocate_sparse_from(context_.rails, peer.contact.route.local, bytes, first,
                                      kAccess, peer.in.ring_memory);
        if (status.ok()) {
            status = peer.in.ring_registration.make(context_.rails, peer.contact.route.local,
                                                    peer.in.ring_memory->address(), bytes, kAccess);
        }
    } while (status.wants_room() && pool_.destroy_oldest());
    if (!status.ok()) {
        peer.in.ring_memory.reset();
    }
    return status;
}

// REQUIRES: the ring's memory is zero.
void OfferedRings::begin(Peer& peer) {
    const RingMemory memory = peer.in.ring_layout();
    memory.begin();
    peer.in.ring.emplace(memory.lines(), memory.lines_bytes() / kRingUnit, ring_habits(),
                         memory.room());
    context_.listener.on_ring_offered(peer);
}

void OfferedRings::renew(Peer& peer) {
    peer.in.ring_layout().clean(peer.in.ring_parts.lines_bytes);
    if (peer.in.ring.has_value()) {
        context_.listener.on_ring_withdrawn(peer);
        begin(peer);
    }
    peer.in.credit_work.begin();
}

void OfferedRings::withdraw(Peer& peer) {
    if (peer.in.ring.has_value()) {
        context_.listener.on_ring_withdrawn(peer);
        peer.in.ring.reset();
        --context_.counters.rings_open;
    }
}

void OfferedRings::clean(Peer& peer, Bytes used) {
    peer.in.ring_layout().clean(used);
    peer.in.credit_work.begin();
}

} // namespace adaptib
