// SPDX-License-Identifier: BSD-3-Clause
// PeerRoute: the rails that lead to a peer, its and ours, of one fabric; chosen at first contact, for good.
//
// Purpose: which rail of ours speaks with which of the peer's, and over which paths. Both ends find the same
// list by themselves, from what both have published.
// Ownership: a value type. Threads: functions without state.
// May touch: base/, fabric/.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "base/wire.h"
#include "fabric/fabric.h"

namespace adaptib {

struct PeerRoute {
    struct Pair {
        std::uint8_t local = 0;
        std::uint8_t remote = 0; // of ProcessAddress::rails
        std::uint8_t path = 0;   // of Rail::path_to

        friend bool operator==(const Pair&, const Pair&) = default;
    };
    std::uint32_t fabric = 0; // index of ours
    RailRange local;
    RailRange remote;
    // The first `count` are one a subchannel; of two that have a rail in common both are the same, and only the
    // path is another. What follows up to `total` are the other pairs whose rails look as much alike as those,
    // which nothing uses by itself. In the same order at both ends.
    std::uint8_t count = 0;
    std::uint8_t total = 0;
    std::array<Pair, kMaxSubchannels + kMaxRails * kMaxRails> pairs{};
};

using OfRails = std::function<std::uint32_t(std::uint32_t local, std::uint32_t remote)>;

// Fills in the pairs: the most alike first; of equal ones those that are faster together; of these, in the order
// of the rails of the process with the lower name, then of the other's. `lower`: ours is the lower name.
void pair_rails(
    PeerRoute& route, bool lower, const OfRails& likeness,
    const OfRails& rate = [](std::uint32_t, std::uint32_t) { return 0; });

// Behind those of subchannels the further paths between the same rails, of which each pair has `paths`: every
// pair's second path, then every pair's third, as long as there is room.
void add_paths(PeerRoute& route, const OfRails& paths);

} // namespace adaptib
