// SPDX-License-Identifier: BSD-3-Clause
#include "connect/offered_rings.h"

namespace adaptib {

Status OfferedRings::offer(Peer& peer) {
    const bool lines = context_.counters.rings_open < context_.options.ring_max;
    const bool kept = peer.ring_memory != nullptr && (peer.ring_parts.lines_bytes > 0) == lines;
    if (!kept) {
        pool_.free_ring(peer);
        if (const Status status = make(peer, lines); !status.ok()) {
            return status;
        }
    }
    if (peer.ring_parts.lines_bytes > 0) {
        ++context_.counters.rings_open;
        begin(peer);
    }
    return kOk;
}

Status OfferedRings::make(Peer& peer, bool lines) {
    Status status = allocate(peer, lines ? peer.ring_bytes : 0);
    if (!status.ok() && lines) {
        if (!no_room_reported_) {
            no_room_reported_ = true;
            context_.listener.on_notice(
                "There is no room for another ring; further peers share the queue, which is "
                "slower. Enlarge opal_common_adaptib_shm_memory or "
                "opal_common_adaptib_shm_segment_max.");
        }
        status = allocate(peer, 0);
    }
    if (status.ok()) {
        ++context_.counters.buffers;
        context_.counters.buffers_bytes += peer.ring_memory->length();
    }
    return status;
}

// Destroys kept rings of closed connections to make room if need be.
Status OfferedRings::allocate(Peer& peer, Bytes lines_bytes) {
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteWrite;
    const bool direct = context_.rails[peer.route.local.first]->info().has(Capability::direct);
    peer.ring_parts = {.lines_bytes = lines_bytes,
                       .direct = direct,
                       .measuring = lines_bytes > 0 && peer.route.count > 1 && !direct};
    const Bytes bytes = RingMemory::bytes(peer.ring_parts);
    const Bytes first = direct ? RingMemory::first_bytes(peer.ring_parts) : bytes;
    Status status = kOk;
    do {
        peer.ring_memory.reset();
        peer.answer_bytes = 0;
        status = allocate_sparse_from(context_.rails, peer.route.local, bytes, first, kAccess,
                                      peer.ring_memory);
        if (status.ok()) {
            status = peer.ring_registration.make(context_.rails, peer.route.local,
                                                 peer.ring_memory->address(), bytes, kAccess);
        }
    } while (status.wants_room() && pool_.give_up_oldest());
    if (!status.ok()) {
        peer.ring_memory.reset();
    }
    return status;
}

// REQUIRES: the ring's memory is zero.
void OfferedRings::begin(Peer& peer) {
    const RingMemory memory = peer.ring_layout();
    memory.begin();
    peer.ring_in.emplace(memory.lines(), memory.lines_bytes() / kRingUnit, ring_habits(),
                         memory.room());
    context_.listener.on_ring_offered(peer);
}

void OfferedRings::renew(Peer& peer) {
    peer.ring_layout().clean(peer.ring_parts.lines_bytes);
    if (peer.ring_in.has_value()) {
        context_.listener.on_ring_withdrawn(peer);
        begin(peer);
    }
    peer.credits_posted = 0;
}

void OfferedRings::withdraw(Peer& peer) {
    if (peer.ring_in.has_value()) {
        context_.listener.on_ring_withdrawn(peer);
        peer.ring_in.reset();
        --context_.counters.rings_open;
    }
}

void OfferedRings::clean(Peer& peer, Bytes used) {
    peer.ring_layout().clean(used);
    peer.credits_posted = 0;
}

} // namespace adaptib
