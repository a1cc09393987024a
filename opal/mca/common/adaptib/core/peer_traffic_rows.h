// SPDX-License-Identifier: BSD-3-Clause
// Traffic of a core with each peer, from what the peers' parts have counted.
//
// Threads: one at a time (the core's lock).
// May touch: base/, peer/, stats/, core/.
#pragma once

#include <vector>

#include "core/attached_fabrics.h"
#include "core/peer_directory.h"
#include "stats/peer_traffic.h"

namespace adaptib {

// Returns a row for each process and fabric with traffic, in no order; the process itself included,
// as the target of its own one-sided operations.
std::vector<PeerTraffic> peer_traffic_rows(const PeerDirectory& peers,
                                           const AttachedFabrics& fabrics);

} // namespace adaptib
