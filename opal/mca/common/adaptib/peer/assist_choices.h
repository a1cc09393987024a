// SPDX-License-Identifier: BSD-3-Clause
// AssistChoices: whether small one-sided operations on a peer are direct or target-assisted.
//
// Purpose: one choice for the atomics, and one for each size of puts and gets
// (protocol/intranode/synchronous_rma.cc).
// Ownership: belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, schedule/.
#pragma once

#include <array>
#include <bit>
#include <cstddef>

#include "base/units.h"
#include "base/wire.h"
#include "schedule/way_choice.h"

namespace adaptib {

// Choices between direct and target-assisted operations on the peer.
struct AssistChoices {
    static constexpr WayChoice::Way kDirect = 0;
    static constexpr WayChoice::Way kAssisted = 1;
    static constexpr std::size_t kSizes = 5; // of puts and gets: up to 256 B, then times four
    std::array<WayChoice, kSizes> transfers;
    WayChoice atomics;

    // REQUIRES: length is 1..kMaxAssisted.
    WayChoice& of_transfer(Bytes length) {
        return length <= 256
                   ? transfers[0]
                   : transfers[(static_cast<std::size_t>(std::bit_width(length - 1)) - 7) / 2];
    }
    static_assert((std::bit_width(kMaxAssisted - 1) - 7) / 2 == kSizes - 1);
};

} // namespace adaptib
