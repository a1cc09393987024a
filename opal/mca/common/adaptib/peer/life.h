// SPDX-License-Identifier: BSD-3-Clause
// PeerLife: when a peer was last known to be alive, and what said so.
//
// Purpose: the record that recovery/liveness.h reads and writes.
// Ownership: belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace adaptib {

// Evidence that a peer lives.
enum class Evidence : std::uint8_t {
    none,
    datagram, // it has sent something itself
    process,  // the system of this host says that the process runs
};

struct PeerLife {
    Nanoseconds alive{0};               // the last time that there was evidence of it
    Evidence evidence = Evidence::none; // the last
};

} // namespace adaptib
