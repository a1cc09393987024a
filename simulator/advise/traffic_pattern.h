// SPDX-License-Identifier: BSD-3-Clause
// Patterns for the simulator from a traffic matrix, which does not tell the order of messages.
//
// Purpose: one pattern for each plausible order. Policies are compared in all of them.
// Ownership: values.  Threads: none of its own.
// May touch: base/, simulator/advise/traffic_matrix.h, simulator/studies/patterns.h.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/advise/traffic_matrix.h"
#include "simulator/studies/patterns.h"

namespace adaptib::advise {

// Bounds of a pattern, so that it is simulated in seconds: heavier pairs are cut down, and the
// lightest ones left out.
constexpr Bytes kLongestMessage = kMiB;
constexpr std::uint64_t kMostOfPair = 8;       // messages
constexpr std::uint64_t kMostMessages = 20000; // of all pairs

struct OrderedTraffic {
    // shifted: in step j rank i sends to i + j. paired: to i xor j. together: all at once.
    std::vector<study::Pattern> orders;
    double share = 1; // of the matrix's bytes, in the pairs that are simulated
};

// `hosts`: the host of each rank; pairs within a host are left out, since they do not go over the
// network. Without any other pair there is no order.
OrderedTraffic order_traffic(const TrafficMatrix& traffic, const std::vector<std::uint32_t>& hosts);

} // namespace adaptib::advise
