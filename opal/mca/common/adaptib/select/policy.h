// SPDX-License-Identifier: BSD-3-Clause
// ChannelPlan: the meaning of the parameter `channel_policy` and its budgets for the devices at
// hand.
//
// Purpose: one place that knows the parameter's values, their meaning, and what happens instead if
// the devices cannot do it, with a text for the user who set it.
// Threads: pure functions.
// Source: Takagi et al., section 4: the methods that the paper's own is compared with.
// May touch: base/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameters.h"
#include "base/sharing.h"
#include "base/units.h"

namespace adaptib {

// Known properties of the devices.
struct ChannelBounds {
    std::uint64_t queue_pairs = 0;      // most that one process can have; 0: unknown
    std::uint64_t paths = 1;            // queue pairs of one connection, at least
    bool dynamically_connected = false; // rings can be written over a pool of DC queue pairs
};

struct ChannelPlan {
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};

    Sharing sharing = Sharing::never;
    bool selects = false; // channels are selected every `period`, for the busiest peers
    Nanoseconds period{0};
    std::uint64_t connect_threshold = 0; // messages; kNever: small messages do not connect
    std::uint64_t connections = 0;       // h; 0: no limit but the device's
    std::uint64_t rings = 0;             // tau
    std::uint64_t kept = 0;              // pi: most closed connections kept for reuse
    std::vector<std::string> notices;    // one line each
};

// REQUIRES: check_parameters() returned true.
ChannelPlan plan_channels(const Parameters& parameters, const ChannelBounds& bounds);

} // namespace adaptib
