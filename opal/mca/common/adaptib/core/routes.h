// SPDX-License-Identifier: BSD-3-Clause
// Routes: the fabric and the rails over which this process reaches another one.
//
// Purpose: a peer is reached over the first fabric that reaches it (Rail::is_reachable). Both ends
// choose that fabric at first contact from what both have published, and so alike.
// Ownership: the fabrics and their rails are the caller's. Threads: one at a time.
// May touch: base/, fabric/, peer/.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "fabric/rail.h"
#include "peer/route.h"

namespace adaptib {

class Routes {
public:
    struct Options {
        std::uint64_t self = 0; // name of this process
        std::string host;
        std::string left_out;             // why there are no other fabrics
        std::uint32_t paths_per_port = 0; // parameter of that name; 0: as many as are worthwhile
        bool uses_all = false;            // the user has named the rails: slow Ethernet, too
    };
    // `fabrics`: the rails of each, nearest first.
    Routes(const Options& options, RailList rails, std::vector<RailRange> fabrics)
        : options_(options), rails_(rails), fabrics_(std::move(fabrics)) {}

    bool uses_all() const { return options_.uses_all; }
    // Returns true if Ethernet of that rate is left out where the best network has the other one.
    static bool is_slow(std::uint64_t rate, std::uint64_t best) { return rate * 4 < best; }

    std::uint32_t last_fabric() const { return static_cast<std::uint32_t>(fabrics_.size() - 1); }
    // Pairs the peer's rails that the fabric reaches with our own; rails of one fabric are
    // published consecutively. Returns false if it reaches none.
    bool route_over(std::uint32_t fabric, const ProcessAddress& address, PeerRoute& out) const;
    // Returns false if no fabric reaches the process.
    bool choose(const ProcessAddress& address, PeerRoute& out) const;
    // REQUIRES: !choose(address).
    std::string why_none(const ProcessAddress& address) const;
    // The route of this process to itself.
    PeerRoute to_itself(std::uint32_t fabric) const;

    // For the address to publish: MB/s, and paths of the rail.
    std::uint32_t published_rate(std::uint32_t rail) const;
    std::uint8_t paths_of(std::uint32_t rail) const;

private:
    Options options_;
    RailList rails_;
    std::vector<RailRange> fabrics_;
};

} // namespace adaptib
