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
    suspect, // nobody answers over it; or it failed, and its rail is up again
    failed,
};

struct PathRecord {
    PathState state = PathState::up;
    Nanoseconds since{0}; // in this state; 0: from the beginning
    std::uint32_t failures = 0;
    std::uint32_t recoveries = 0;
    std::string last_error;

    // How it is asked whether it works (recovery/path_probes.h).
    bool worked = true;         // ever, or it is expected to: else nobody asks for it
    std::uint32_t nonce = 0;    // of the question that is outstanding, 0: none
    std::uint32_t answered = 0; // the nonce of the peer's that was answered last
    std::uint32_t asked = 0;    // times, since the state is what it is
    std::uint32_t ignored = 0; // questions in a row not answered by the peer, which was heard after
    bool unjudged = false;     // the last question has not been counted as ignored or not yet
    Nanoseconds asked_at{0};
    Nanoseconds ask_at{0};
    Nanoseconds interval{0};
    Nanoseconds rest{0}; // how long it was left alone when it failed last

    bool usable() const {
        return state == PathState::up || (state == PathState::suspect && failures == recoveries);
    }
};

struct PeerPaths {
    std::vector<PathRecord> records; // by number in PeerRoute::pairs
    std::uint32_t not_up = 0;        // of them
    bool without = false;            // no path is up now
    Nanoseconds without_since{0};    // if so
    Nanoseconds without_total{0};    // of the times before
};

} // namespace adaptib
