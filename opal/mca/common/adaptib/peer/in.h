// SPDX-License-Identifier: BSD-3-Clause
// PeerIn: the part of a Peer for arriving messages, and for the ring in this process's memory that
// they come through.
//
// Purpose: a short message that arrives reads one cache line of the Peer: the fields up to the
// beginning of `ring`, whose own first fields end the line.
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, channel/, fabric/, memory/, peer/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/units.h"
#include "channel/ring_memory.h"
#include "channel/ring_reader.h"
#include "fabric/fabric.h"
#include "memory/registration.h"
#include "peer/pending.h"
#include "peer/work_targets.h"

namespace adaptib {

struct alignas(kCacheLine) PeerIn {
    // REQUIRES: there is ring_memory.
    RingMemory ring_layout() const { return {*ring_memory, ring_parts}; }

    EarlyMessage* early = nullptr; // by sequence
    std::uint64_t busy_at = 0;     // last pass of the core that found a message
    std::uint32_t next_receive = 0;
    bool teardown_pending = false; // disconnected; the connection is about to be taken down
    bool unheard = false;          // failed: arrivals may follow missing messages
    std::optional<RingReader> ring;

    // Address in the peer's memory where this side reports how much it has consumed.
    std::uint64_t credit_address = 0;
    CreditWork credit_work;
    std::uint64_t ring_seen = 0;  // units consumed at the last check (core/idle_rings.cc)
    std::vector<std::byte> parts; // parts received so far of an active message
    Bytes ring_bytes = 0;         // size of the ring offered to the peer
    std::unique_ptr<MemoryRegion> ring_memory; // channel/ring_memory.h
    RingParts ring_parts;                      // of ring_memory
    EarlyMessage* last_early = nullptr;        // of `early`
    Bytes early_bytes = 0;                     // of their records
    Registration ring_registration;            // of ring_memory, with the route's rails
};

} // namespace adaptib
