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
        if (peer.ring_out != nullptr) { // memory that was once refused may be available now
            peer.ring_capacity = peer.ring_out->most();
        }
        if (!peer.ring_in.has_value() || peer.state != ConnectState::open) {
            return;
        }
        const std::uint64_t seen = std::exchange(peer.ring_seen, peer.ring_in->consumed());
        if (seen == peer.ring_in->consumed() && peer.ring_layout().shrink(*peer.ring_in)) {
            ++counters_.rings_shrunk;
        }
    });
}

} // namespace adaptib
