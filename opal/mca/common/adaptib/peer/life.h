// SPDX-License-Identifier: BSD-3-Clause
// PeerLife: when a peer was last known to be alive, and the evidence for that.
//
// Purpose: the record that recovery/liveness.h reads and writes.
// Ownership: belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace adaptib {

// Evidence that a peer is alive.
enum class Evidence : std::uint8_t {
    none,
    datagram,  // the peer has sent something itself
    traffic,   // a message of the peer, or a completion of its queue pairs
    process,   // this host's system says that the process runs
    responder, // the peer's responder has answered
};

// Last question over one path to the peer's responder.
struct PathQuestion {
    std::uint32_t sequence = 0; // 0: it is answered
    Nanoseconds asked{0};
    Nanoseconds answered{0}; // when the last answered question was asked
};

// The questions to a peer since its last answer.
struct PeerSilence {
    Nanoseconds since = Nanoseconds::max(); // the first of them
    std::uint32_t questions = 0;
};

struct PeerLife {
    bool is_over() const { return ended || left; }

    Nanoseconds alive{0};               // last time of any evidence
    Evidence evidence = Evidence::none; // the last
    bool ended = false; // its process has ended, says the runtime (recovery/ended_processes.h)
    bool left = false;  // its process ends, it has said itself (Disconnects::leave)

    // Reports of the peer's responder (recovery/life_watch.h).
    bool responded = false;     // ever
    bool calls = false;         // it called MPI between its last two answers, or that is unknown
    std::uint64_t beats = 0;    // in the last answer
    std::uint32_t sequence = 0; // of the last question
    std::uint32_t turn = 0;     // last pair asked besides that of its datagrams
    std::vector<PathQuestion> questions; // by pair; empty: the peer was never asked
    PeerSilence silence;
    std::uint64_t traffic = 0; // messages and completions at the last look (ProcessWatch::attend)
    Nanoseconds ask_at{0};
    Nanoseconds interval{0};
};

} // namespace adaptib
