// SPDX-License-Identifier: BSD-3-Clause
// PeerLife: when a peer was last known to be alive, and what said so.
//
// Purpose: the record that recovery/liveness.h reads and writes.
// Ownership: belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace adaptib {

// Evidence that a peer lives.
enum class Evidence : std::uint8_t {
    none,
    datagram,  // it has sent something itself
    process,   // the system of this host says that the process runs
    responder, // its responder has answered
};

// The last question over one path to the peer's responder.
struct PathQuestion {
    std::uint32_t sequence = 0; // 0: it is answered
    Nanoseconds asked{0};
    Nanoseconds answered{0}; // when the last that was answered had been asked
};

struct PeerLife {
    Nanoseconds alive{0};               // the last time that there was evidence of it
    Evidence evidence = Evidence::none; // the last
    bool ended = false; // its process has, says the runtime (recovery/ended_processes.h)

    // What its responder has said (recovery/life_watch.h).
    bool responded = false;  // ever
    bool calls = false;      // it has called MPI between its last two answers, or that is not known
    std::uint64_t beats = 0; // in the last answer
    std::uint32_t sequence = 0; // of the last question
    std::uint32_t turn = 0;     // the pair that was asked last besides that of its datagrams
    std::vector<PathQuestion> questions;           // by pair; empty: it was never asked
    Nanoseconds silent_since = Nanoseconds::max(); // the first question since its last answer
    Nanoseconds ask_at{0};
    Nanoseconds interval{0};
};

} // namespace adaptib
