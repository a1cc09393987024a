// SPDX-License-Identifier: BSD-3-Clause
// Alternate path specification: lists the ways that a connected queue pair may take, in their
// order.
//
// Purpose: a queue pair begins on the first of its ways and goes from each to the next, and from
// the last to the first. The ends need not tell each other: both compute the same list from the
// addresses that both have published, and both see every migration.
//
//     condition                             ways after the first
//     other ports: both ends have another   the other ports, by the same path
//       port of the same adapter, and
//       these ports are a pair
//     several paths (LIDs) between the      the same ports, by the neighboring path
//       two ports
//     both                                  the other ports, by the same path; the other ports, by
//                                           the neighboring path; the same ports, by that path
// So after a port has failed the next way does not need that port, unless there is nothing else.
// Neighboring LIDs of a port are those that a subnet manager first sends over different links.
// Ownership: value types. Threads: functions without state.
// Source: Vishnu, 9.2.1.
// May touch: base/, fabric/, peer/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/address.h"
#include "base/invariant.h"
#include "fabric/rail.h"
#include "peer/route.h"

namespace adaptib {

struct Ways {
    std::array<PeerRoute::Pair, 4> list{};
    std::uint8_t count = 0;

    const PeerRoute::Pair& after(std::uint8_t way) const {
        ADAPTIB_INVARIANT(count > 0 && way < list.size(), "a queue pair is on one of its ways", way,
                          count);
        return list[(way + 1u) % count];
    }
};

// `adapters`: of the local rails, as AddressRail::adapter; `paths`: Rail::paths_to of such a pair.
Ways ways_of(const PeerRoute& route, std::size_t subchannel, std::span<const std::uint8_t> adapters,
             std::span<const AddressRail> remote,
             const std::function<std::uint32_t(const PeerRoute::Pair&)>& paths);

// Returns the path in the form that QueuePair::modify takes.
PathSpec path_of(const PeerRoute::Pair& way, RailList rails, std::span<const AddressRail> remote);

} // namespace adaptib
