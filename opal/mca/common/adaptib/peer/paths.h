// SPDX-License-Identifier: BSD-3-Clause
// PeerPaths: what is known of the paths to one peer; kept only once one of them was not up.
//
// Purpose: the record that the path repository (recovery/path_repository.h) writes.
// Ownership: belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace adaptib {

enum class PathState : std::uint8_t {
    up,      // nothing is known against it
    suspect, // nobody has answered over it; maybe the peer is busy with other things
    failed,  // the rail is down, a queue pair said so, or the peer answers over others alone
};

struct PathRecord {
    PathState state = PathState::up;
    Nanoseconds since{0}; // in this state; 0: from the beginning
    std::uint32_t failures = 0;
    std::uint32_t recoveries = 0;
    std::string last_error;

    // How it is asked whether it is back (recovery/path_probes.h).
    std::uint32_t nonce = 0; // of the question that is outstanding, 0: none
    std::uint32_t asked = 0; // times, since the state is what it is
    Nanoseconds ask_at{0};
    Nanoseconds interval{0};
};

struct PeerPaths {
    std::vector<PathRecord> records; // by number in PeerRoute::pairs
    std::uint32_t not_up = 0;        // of them
    bool without = false;            // no path is up now
    Nanoseconds without_since{0};    // if so
    Nanoseconds without_total{0};    // of the times before
    Nanoseconds heard{0};            // when something last came from the peer while one was not up
};

} // namespace adaptib
