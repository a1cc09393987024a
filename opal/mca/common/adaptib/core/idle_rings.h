// SPDX-License-Identifier: BSD-3-Clause
// IdleRings: rings in which nothing has arrived for a while release the memory that they have grown
// by.
//
// Threads: one at a time (the core's lock).
// May touch: base/, channel/, peer/, stats/.
#pragma once

#include "base/units.h"
#include "peer/peer.h"
#include "stats/counters.h"

namespace adaptib {

class IdleRings {
public:
    static constexpr Nanoseconds kEvery{5'000'000'000};

    explicit IdleRings(Counters& counters) : counters_(counters) {}

    bool is_due(Nanoseconds now) const { return now >= shrink_at_; }
    // Looks at the rings of all peers. `peers`: of PeerDirectory's kind.
    template <typename Peers> void shrink(const Peers& peers, Nanoseconds now) {
        shrink_at_ = now + kEvery;
        peers.for_each([this](Peer& peer) { shrink(peer); });
    }

private:
    void shrink(Peer& peer);

    Counters& counters_;
    Nanoseconds shrink_at_{0};
};

} // namespace adaptib
