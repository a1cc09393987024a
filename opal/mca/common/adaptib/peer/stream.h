// SPDX-License-Identifier: BSD-3-Clause
// Stream and StreamChoices: consecutive messages to a local peer, and the way that they take.
//
// Purpose: the records of protocol/eager_tuning.h, which times whole streams: the stream that is
// going on, and what is known of both ways.
// Ownership: both belong to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, schedule/.
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"
#include "schedule/way_choice.h"

namespace adaptib {

// For streams to a local peer: whether messages above the eager limit go through the ring, copied
// by both sides, or are announced and copied by the receiver alone. By size, each twice the last.
using StreamChoices = std::array<WayChoice, 3>;
constexpr Bytes kStreamSizesFrom = 4096;
constexpr WayChoice::Way kThroughRing = 0; // the other way: fetched by the receiver

// Messages long enough for learnt_limit, sent since the peer last sent anything but FINs (`finish`)
// (protocol/eager_tuning.h).
struct Stream {
    std::uint32_t heard = 0;
    std::uint32_t sent = 0;
    WayChoice::Way way = kThroughRing;
    bool chosen = false;        // the stream is long: its way is fixed
    WayChoice* timed = nullptr; // to be told how long the stream took
    Nanoseconds start{0};
    Bytes bytes = 0; // of the messages that could go either way
};

} // namespace adaptib
