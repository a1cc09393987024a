// SPDX-License-Identifier: BSD-3-Clause
// Alternate path specification: which ways a connected queue pair may take, and in which order.
//
// Purpose: a queue pair begins on the first of its ways and goes from each to the next, and from the last to
// the first. Nobody tells the other end: both find the same list from what both have published, and both see
// every migration.
//
//     both ends have another port of the same adapters that are a pair        the way there, by the same path
//     there are several paths (LIDs) between the two ports                    there by a neighbouring path
//     both                                                                    there; there by the neighbouring
//                                                                             path; back here by that path
// So the next way after a port has failed does not need that port, unless there is nothing else. Neighbouring
// LIDs of a port are those that a subnet manager sends over different links first.
// Ownership: value types. Threads: functions without state.
// Source: Vishnu, 9.2.1.
// May touch: base/, fabric/, peer/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "fabric/fabric.h"
#include "peer/peer.h"

namespace adaptib {

struct Ways {
    std::array<PeerRoute::Pair, 4> list{};
    std::uint8_t count = 0;

    const PeerRoute::Pair& after(std::uint8_t way) const { return list[(way + 1u) % count]; }
};

// `adapters`: of our rails, as AddressRail::adapter; `paths`: Rail::paths_to of such a pair.
Ways ways_of(const PeerRoute& route, std::size_t subchannel, std::span<const std::uint8_t> adapters,
             std::span<const AddressRail> remote,
             const std::function<std::uint32_t(const PeerRoute::Pair&)>& paths);

// As QueuePair::modify takes it.
PathSpec path_of(const PeerRoute::Pair& way, RailList rails, std::span<const AddressRail> remote);

} // namespace adaptib
