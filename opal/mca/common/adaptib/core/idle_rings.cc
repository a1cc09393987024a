// SPDX-License-Identifier: BSD-3-Clause
// Rings in which nothing has arrived for a while release the memory that they have grown by.
//
// May touch: the same as core/core.h.
#include <utility>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kLookEvery{5'000'000'000};

} // namespace

void Core::shrink_idle_rings(Nanoseconds now) {
    shrink_rings_at_ = now + kLookEvery;
    peers_->for_each([this](Peer& peer) {
        if (peer.out.ring != nullptr) { // memory that was once refused may be available now
            peer.out.ring_capacity = peer.out.ring->most();
        }
        if (!peer.in.ring.has_value() || peer.session.state != ConnectState::open) {
            return;
        }
        const std::uint64_t seen = std::exchange(peer.in.ring_seen, peer.in.ring->consumed());
        if (seen == peer.in.ring->consumed() && peer.in.ring_layout().shrink(*peer.in.ring)) {
            ++counters_.rings_shrunk;
        }
    });
}

} // namespace adaptib
