// SPDX-License-Identifier: BSD-3-Clause
// PeerHealth: the part of a Peer for evidence of its life, and for the state of the paths to it.
//
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include <cstdint>
#include <memory>

#include "base/intrusive_list.h"
#include "peer/life.h"
#include "peer/paths.h"

namespace adaptib {

class Peer;

struct PeerHealth {
    PeerLife life;
    ListLink<Peer> life_link;         // linked while it is asked whether it is alive
    std::unique_ptr<PeerPaths> paths; // null: all are up, and always were
    ListLink<Peer> paths_link;        // linked while known to the path repository
    ListLink<Peer>
        troubled_link; // linked while a path is not up, or the peer may not know an address
    std::uint32_t unconnected_paths = 0; // bit by pair: its queue pair could not be connected
    std::uint8_t waiting_events = 0;     // bit by PeerEvent: it has been reported
};

} // namespace adaptib
