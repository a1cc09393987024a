// SPDX-License-Identifier: BSD-3-Clause
// Links: the way of packets over the links that the topology file describes.
//
// Purpose: counts packets by link, loses those onto a link that is down, and delays those onto
// links with a rate, so that paths which share a link share its rate.
// Threads: any, of all processes.
// May touch: packet.h, shared.h, topology.h.
#pragma once

#include <cstdint>
#include <vector>

#include "packet.h"
#include "shared.h"
#include "topology.h"

namespace adaptib::hca {

class Links {
public:
    // Packets wait before a link that needs longer than this for what it has already.
    static constexpr std::int64_t kMostQueued = 2'000'000; // ns

    enum class Fate : std::uint8_t {
        goes,  // and arrives at `due`
        lost,  // a link is down
        waits, // it was not put onto any link: send it again later
    };

    Links(const Topology& topology, Shared& shared) : topology_(topology), shared_(shared) {}

    // Sends a packet at the time `now`. due: when the last link has carried it; 0: at once.
    Fate send(const PacketHeader& packet, std::int64_t now, std::int64_t& due);

private:
    const std::vector<unsigned>* route_of(const PacketHeader& packet) const;
    // Returns when the link has carried a packet that comes at a time.
    std::int64_t carry(unsigned link, std::uint64_t bytes, std::int64_t at);

    const Topology& topology_;
    Shared& shared_;
};

} // namespace adaptib::hca
