// SPDX-License-Identifier: BSD-3-Clause
// PeerRoute: the rails that lead to a peer, those of both sides, of one fabric; chosen at first
// contact. Where no path of the pairs chosen works, rails are paired anew.
//
// Purpose: tells which local rail talks to which of the peer's, and over which paths. Both ends
// compute the same list independently, from the addresses that both have published.
// Ownership: a value type. Threads: functions without state.
// May touch: base/, fabric/.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/wire.h"
#include "fabric/rail.h"

namespace adaptib {

struct PeerRoute {
    struct Pair {
        std::uint8_t local = 0;
        std::uint8_t remote = 0; // of ProcessAddress::rails
        std::uint8_t path = 0;   // of Rail::path_to

        friend bool operator==(const Pair&, const Pair&) = default;
    };
    std::uint32_t fabric = 0; // index of the local one
    RailRange local;
    RailRange remote;
    // The first `count` pairs are one per subchannel; two of them with a rail in common have both
    // rails in common, and differ in the path. The pairs from `count` to `total` are the other
    // pairs whose rails match as well as those; no subchannel uses them. In the same order at both
    // ends, until rails are paired anew.
    std::uint8_t count = 0;
    std::uint8_t total = 0;
    std::array<Pair, kMaxSubchannels + kMaxRails * kMaxRails> pairs{};
};

using OfRails = std::function<std::uint32_t(std::uint32_t local, std::uint32_t remote)>;

constexpr std::uint32_t kNoPair = UINT32_MAX; // a subnet match: nothing uses this pair

// Fills in the pairs: those with the best subnet match first; among equals the fastest pair; among
// these in the order of the rails of the process with the lower name, then of the other's. `lower`:
// this process has the lower name.
void pair_rails(
    PeerRoute& route, bool lower, const OfRails& subnet_match,
    const OfRails& rate = [](std::uint32_t, std::uint32_t) { return 0; });

// Adds further paths between the rails of each subchannel, of which each pair has `paths`: every
// pair's second path, then every pair's third, as long as there is room. They follow the first
// paths; the spare pairs come last.
void add_paths(PeerRoute& route, const OfRails& paths);

// Chooses the pairs of the subchannels anew, as many as before: takes the pairs in this order, by
// their numbers, and of each rail the first. Those that keep their local rail keep their place.
// Returns the former numbers of all pairs, in their new order; empty: nothing has changed, since
// the pairs are the same, or not as many, or several paths join two rails.
std::vector<std::uint8_t> pair_anew(PeerRoute& route, std::span<const std::uint8_t> order);

} // namespace adaptib
