// SPDX-License-Identifier: BSD-3-Clause
// PeerEnding: the part of a Peer for the end of the traffic: release by the user, the disconnect
// handshake (protocol/disconnects.h), failure.
//
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: peer/.
#pragma once

#include <cstdint>
#include <string>

#include "peer/pending.h"

namespace adaptib {

// Says whether this side is done with the peer.
enum class Release : std::uint8_t {
    none,
    released, // by the user of the core
    left,     // this process ends, and has told the peer (Disconnects::leave)
};

struct PeerEnding {
    bool disconnect_received = false; // the peer's disconnect arrived, and this side has answered
    bool disconnect_acked = false;    // the peer has received everything sent
    Release release = Release::none;
    bool failure_reported = false;
    bool refusal_reported = false; // a refused one-sided operation was reported
    std::uint64_t disconnect_number = 0;
    // Requests that may not be sent yet: a disconnect is under way, or the peer takes no messages
    // (Allowance::nothing).
    PendingQueue queued;
    std::string failure; // why the state is failed

    bool released() const { return release != Release::none; }
};

} // namespace adaptib
