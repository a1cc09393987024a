// SPDX-License-Identifier: BSD-3-Clause
// Scheduler's view of a peer: the subchannels that are up, without standbys unless only these are.
// Threads: as the peer.
// May touch: base/, fabric/, memory/, peer/.
#pragma once

#include <vector>

#include "peer/peer.h"

namespace adaptib {

inline void collect_subchannel_stats(const Peer& peer, RailList rails,
                                     std::vector<SubchannelStats>& out) {
    out.clear();
    const std::uint64_t carry = peer.lanes.live_bits();
    for (std::uint32_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        const Subchannel& subchannel = peer.lanes.subchannels[i];
        if ((carry >> i & 1u) != 0) {
            const RailInfo& info = rails[subchannel.local_rail]->info();
            out.push_back({i, subchannel.local_rail, subchannel.rate, info.max_message_bytes,
                           subchannel.outstanding, info.distance});
        }
    }
}

} // namespace adaptib
