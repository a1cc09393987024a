// SPDX-License-Identifier: BSD-3-Clause
#include "core/idle_rings.h"

#include <utility>

namespace adaptib {

void IdleRings::shrink(Peer& peer) {
    if (peer.out.ring != nullptr) { // memory that was once refused may be available now
        peer.out.ring_capacity = peer.out.ring->most();
    }
    if (!peer.in.ring.has_value() || !peer.session.is_open()) {
        return;
    }
    const std::uint64_t seen = std::exchange(peer.in.ring_seen, peer.in.ring->consumed());
    if (seen == peer.in.ring->consumed() && peer.in.ring_layout().shrink(*peer.in.ring)) {
        ++counters_.rings_shrunk;
    }
}

} // namespace adaptib
