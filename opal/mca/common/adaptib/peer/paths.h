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
    suspect, // it failed, and its rail is up again; nothing has come over it since
    failed,  // its rail is down
};

struct PathRecord {
    PathState state = PathState::up;
    Nanoseconds since{0}; // in this state; 0: from the beginning
    std::uint32_t failures = 0;
    std::uint32_t recoveries = 0;
    std::string last_error;
};

struct PeerPaths {
    std::vector<PathRecord> records; // by number in PeerRoute::pairs
    std::uint32_t not_up = 0;        // of them
    bool without = false;            // no path is up now
    Nanoseconds without_since{0};    // if so
    Nanoseconds without_total{0};    // of the times before
};

} // namespace adaptib
