// SPDX-License-Identifier: BSD-3-Clause
// What the parameter `channel_policy` and its budgets come to with the devices at hand.
//
// Purpose: one place that knows which values the parameter has, what each means, and what happens instead where
// the devices cannot do it, with words for whoever chose it.
// Threads: pure functions.
// Source: Takagi et al., section 4: the methods that theirs is compared with.
// May touch: base/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameters.h"
#include "base/sharing.h"
#include "base/units.h"

namespace adaptib {

// What is known of the devices.
struct ChannelBounds {
    std::uint64_t queue_pairs = 0;      // that one process can have; 0: not known
    std::uint64_t paths = 1;            // queue pairs of one connection, at least
    bool dynamically_connected = false; // rings can be written over a pool of such queue pairs
};

struct ChannelPlan {
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};

    Sharing sharing = Sharing::never;
    bool selects = false; // the busiest are looked for every `period`
    Nanoseconds period{0};
    std::uint64_t connect_threshold = 0; // messages; kNever: small ones do not connect
    std::uint64_t connections = 0;       // h; 0: no limit but the device's
    std::uint64_t rings = 0;             // tau
    std::uint64_t kept = 0;              // pi: closed connections
    std::vector<std::string> notices;    // one line each
};

// REQUIRES: check_parameters() is content.
ChannelPlan plan_channels(const Parameters& parameters, const ChannelBounds& bounds);

} // namespace adaptib
