// SPDX-License-Identifier: BSD-3-Clause
// PeerPaths: knowledge about the paths to one peer; allocated when the first of them is not up.
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
    suspect, // no answers arrive over it; or it failed, and its rail is up again
    failed,
};

struct PathRecord {
    PathState state = PathState::up;
    Nanoseconds since{0}; // in this state; 0: from the beginning
    std::uint32_t failures = 0;
    std::uint32_t recoveries = 0;
    Nanoseconds recovered{0}; // when it came back last
    std::string last_error;
    std::uint32_t vain = 0; // queue pairs in a row that failed, and had carried nothing

    // Probing of the path (recovery/path_probes.h).
    bool worked = true;         // it ever worked, or is expected to: else nobody probes it
    std::uint32_t nonce = 0;    // of the outstanding question, 0: none
    std::uint32_t answered = 0; // nonce of the peer's last question that was answered
    std::uint32_t asked = 0;    // questions since the last change of state
    std::uint32_t ignored = 0;  // consecutive questions unanswered by a peer heard later
    bool unjudged = false;      // the last question is not judged yet: ignored or not
    Nanoseconds asked_at{0};
    Nanoseconds ask_at{0};
    Nanoseconds interval{0};
    Nanoseconds rest{0}; // pause before the first question, after the last failure

    // 0 once the peer's process is known to have the address that the local rail has now.
    Nanoseconds announce_every{0};
    Nanoseconds announce_at{0};

    bool unannounced() const { return announce_every.count() > 0; }

    bool usable() const {
        return state == PathState::up || (state == PathState::suspect && failures == recoveries);
    }
};

struct PeerPaths {
    std::vector<PathRecord> records; // by number in PeerRoute::pairs
    std::uint32_t not_up = 0;        // of these
    bool without = false;            // no path is up now
    Nanoseconds without_since{0};    // if so
    Nanoseconds without_total{0};    // of earlier times
};

} // namespace adaptib
