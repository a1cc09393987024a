// SPDX-License-Identifier: BSD-3-Clause
// PeerActivity: how much a peer communicates and when it last asked for a connection.
//
// Purpose: the record that connect/ and the selection of channels (core/channel_selection.h) read
// to decide which peers have a connection, and of which kind.
// Ownership: belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace adaptib {

// Preference for the kind of the next connection, if the policy is not to decide.
enum class SharingPreference : std::uint8_t {
    any,
    shared, // queue pairs that other peers use, too
    own,    // queue pairs of its own
};

// Activity of a peer, for choosing the connection to close, and the peer to connect next
// (connect/connection_limit.h).
struct PeerActivity {
    std::uint32_t messages = 0; // both ways, at the last check
    Nanoseconds active{0};      // when a check last found that they had grown
    Nanoseconds asked{0};       // when the connection was last requested
    Nanoseconds turn_began{0};  // when the connection opened, or began or ceased to yield
    bool required = false;      // the peer was refused the connection, and cannot do without
    Nanoseconds ask_at{0};      // earliest time of the next request; for a one-sided operation ...
    Nanoseconds urgent_at{0};   // ... this one
    std::uint32_t refusals = 0; // consecutive
    std::uint32_t counted = 0;  // messages both ways, at the last selection of channels
    std::uint32_t mapped = 0;   // messages received, when the map of sources was last updated
    bool chosen = false;        // by the selection of channels: other connections are closed for it
    SharingPreference preference = SharingPreference::any; // for the next connection
    Nanoseconds own_after{0}; // earliest time of the next request for queue pairs of its own
    bool asks_itself = false; // the peer had no room for those, shares for now, and will ask itself
};

} // namespace adaptib
