// SPDX-License-Identifier: BSD-3-Clause
// Allowance and UnexpectedShare: which messages a process accepts from a peer, and how much memory
// the peer's unexpected messages take here.
//
// Purpose: the values that protocol/back_pressure.h reads and writes. `allowance` messages carry an
// Allowance.
// Ownership: belong to the Peer. Threads: one at a time (the core's lock).
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace adaptib {

// Permission that a process gives another: which messages to be matched it accepts
// (protocol/back_pressure.h).
enum class Allowance : std::uint8_t { all, announcements, nothing };

// Messages of the peer kept here, since no receive was posted for them.
struct UnexpectedShare {
    Bytes bytes = 0;
    Bytes look_at = 0;               // at this many bytes its allowance is decided again
    Allowance told = Allowance::all; // last allowance that the peer was told
};

} // namespace adaptib
