// SPDX-License-Identifier: BSD-3-Clause
// CooperativeCopyChoices: which end of a connection copies long data, or whether both do.
//
// Purpose: one choice for each pattern of traffic and each size, and what tells the patterns apart.
// Ownership: belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, schedule/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/way_choice.h"

namespace adaptib {

// Ways to copy long data: by the beginning end alone, by both ends, a part each, or by both ends
// through staging memory (protocol/intranode/synchronous_rma.cc). Chosen by pattern, since the
// other end does different things meanwhile, and since a store into a line that another processor
// had last may cost much more than a load; and by size, from 64 KiB to 4 MiB, each twice the last.
struct CooperativeCopyChoices {
    static constexpr std::size_t kSizes = 7;
    static constexpr WayChoice::Way kAlone = 0;
    static constexpr WayChoice::Way kCooperative = 1;
    static constexpr WayChoice::Way kStaged = 2;
    enum class Pattern : std::uint8_t {
        message, // a message; this process has sent something since the last one
        stream,  // one of several consecutive messages
        put,
        get,
        crossing, // a message, put or get while the peer copies something itself
        crossing_put,
        crossing_get,
    };
    static constexpr std::size_t kPatterns = 7;
    static constexpr Pattern when_crossing(Pattern pattern) {
        switch (pattern) {
        case Pattern::put:
        case Pattern::crossing_put: return Pattern::crossing_put;
        case Pattern::get:
        case Pattern::crossing_get: return Pattern::crossing_get;
        default: return Pattern::crossing;
        }
    }
    using Sizes = std::vector<WayChoice>; // empty until first used

    std::array<Sizes, kPatterns> patterns;
    std::optional<WayChoice::Way> only; // the only way that the user allows
    bool crossed = false; // at the end of the last copy the other end was copying something itself
    std::uint32_t crossing = 0; // number of further ones that count as crossing
    std::uint32_t sent = 0;     // messages sent when the last one arrived

    // A fresh choice learns from the next smaller or larger size, which behaves much the same.
    WayChoice& find(Pattern pattern, std::size_t size) {
        Sizes& sizes = patterns[static_cast<std::size_t>(pattern)];
        if (sizes.empty()) {
            sizes.assign(kSizes, WayChoice(3));
        }
        WayChoice& choice = sizes[size];
        if (choice.is_fresh()) {
            choice.learn_from(sizes[size > 0 && !sizes[size - 1].is_fresh() ? size - 1
                                    : size + 1 < kSizes                     ? size + 1
                                                                            : size]);
        }
        return choice;
    }
};

} // namespace adaptib
