// SPDX-License-Identifier: BSD-3-Clause
// Alternate path specification (recovery/apm/alternate_path.h).
#include "recovery/apm/alternate_path.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

namespace {

using Pair = PeerRoute::Pair;

// Returns the pair of the other ports, or null.
const Pair* other_ports(const PeerRoute& route, const Pair& own,
                        std::span<const std::uint8_t> adapters,
                        std::span<const AddressRail> remote) {
    const auto* const end = route.pairs.begin() + route.count;
    const auto* const found = std::find_if(route.pairs.begin(), end, [&](const Pair& pair) {
        return pair.path == 0 && pair.local != own.local && pair.remote != own.remote &&
               adapters[pair.local] == adapters[own.local] &&
               remote[pair.remote].adapter == remote[own.remote].adapter;
    });
    return found == end ? nullptr : found;
}

// Returns the neighboring path. REQUIRES: the number of paths is a power of two.
std::uint8_t neighbour(std::uint8_t path) { return path ^ 1u; }

} // namespace

Ways ways_of(const PeerRoute& route, std::size_t subchannel, std::span<const std::uint8_t> adapters,
             std::span<const AddressRail> remote,
             const std::function<std::uint32_t(const Pair&)>& paths) {
    Ways ways;
    const auto add = [&ways](Pair pair, std::uint32_t path) {
        ADAPTIB_INVARIANT(ways.count < ways.list.size(), "a queue pair has four ways at most",
                          ways.count);
        pair.path = static_cast<std::uint8_t>(path);
        ways.list[ways.count++] = pair;
    };
    ADAPTIB_INVARIANT(subchannel < route.count, "a subchannel is of a pair of the route",
                      subchannel, route.count);
    const Pair& own = route.pairs[subchannel];
    add(own, own.path);
    const Pair* other = other_ports(route, own, adapters, remote);
    if (other != nullptr) {
        const std::uint32_t there = paths(*other);
        add(*other, own.path % there);
        if (there > 1) {
            add(*other, neighbour(own.path) % there);
        }
    }
    if (paths(own) > 1) {
        add(own, neighbour(own.path) % paths(own));
    }
    return ways;
}

PathSpec path_of(const Pair& way, RailList rails, std::span<const AddressRail> remote) {
    const Rail& rail = *rails[way.local];
    PathSpec path = rail.path_to({remote[way.remote].size, remote[way.remote].bytes}, way.path);
    path.source_port = rail.info().port;
    return path;
}

} // namespace adaptib
