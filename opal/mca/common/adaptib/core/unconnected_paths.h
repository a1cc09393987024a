// SPDX-License-Identifier: BSD-3-Clause
// UnconnectedPaths: the paths whose queue pairs could not be connected, or have carried nothing.
//
// Purpose: a connection does without such a path for a while, if there is another one, since a
// retry interrupts the connection. After that while all such paths are forgiven at once.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/units.h"
#include "peer/peer.h"

namespace adaptib {

class UnconnectedPaths {
public:
    static constexpr Nanoseconds kForgiveAfter{30'000'000'000};

    // `pair`: the path's number in PeerRoute::pairs.
    static bool has(const Peer& peer, std::size_t pair) {
        return pair < kMaxSubchannels && (peer.health.unconnected_paths & (1u << pair)) != 0;
    }
    void add(Peer& peer, std::size_t pair, Nanoseconds now) {
        peer.health.unconnected_paths |= 1u << pair;
        forgive_at_ = std::min(forgive_at_, now + kForgiveAfter);
    }
    // The peer's paths join other rails now.
    static void forget(Peer& peer) { peer.health.unconnected_paths = 0; }
    // max: there are none.
    Nanoseconds deadline() const { return forgive_at_; }
    // Forgives all, and calls `retry` with each of the peers that has some. `peers`: of
    // PeerDirectory's kind.
    template <typename Peers, typename Retry> void forgive(const Peers& peers, Retry&& retry) {
        forgive_at_ = Nanoseconds::max();
        peers.for_each([&](Peer& peer) {
            if (std::exchange(peer.health.unconnected_paths, 0) != 0) {
                retry(peer);
            }
        });
    }

private:
    Nanoseconds forgive_at_ = Nanoseconds::max();
};

} // namespace adaptib
