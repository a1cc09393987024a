// SPDX-License-Identifier: BSD-3-Clause
// Stripe: the part of one transfer that one subchannel carries; what a schedule is made of.
// May touch: base/ only.
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"

namespace adaptib {

struct Stripe {
    std::uint32_t subchannel = 0; // index into the peer's subchannels
    Bytes offset = 0;
    Bytes length = 0;
};

// Reads and writes load opposite directions of a link.
enum class Direction : std::uint8_t { read, write };
constexpr Direction other(Direction direction) {
    return direction == Direction::read ? Direction::write : Direction::read;
}

// What a peer's paths have to do. Reads and writes alone may find paths of different speed: their bytes go opposite
// ways. Where both are under way a queue pair tells of their ends in the order of their starts, and a time is that of
// both.
enum class Mix : std::uint8_t { reads, writes, both };
constexpr std::array<Mix, 3> kMixes{Mix::reads, Mix::writes, Mix::both};

// What a scheduler sees of one subchannel.
struct SubchannelView {
    std::uint32_t index = 0;
    std::uint32_t port = 0;             // paths of one port share its rate
    BytesPerSecond rate{};              // nominal; 0: unknown
    Bytes max_stripe = 0;               // the longest work request
    std::array<Bytes, 2> outstanding{}; // by Direction: posted and not complete
    std::uint32_t distance = 10;        // of the port from the process, as hwloc has it; 10: near
};

enum class Marker : std::uint8_t { blocking, non_blocking, collective };

// What a scheduler sees of a transfer.
struct TransferView {
    Bytes length = 0;
    Marker marker = Marker::blocking;
    Direction direction = Direction::read;
};

// How long a stripe took, from posting to completion; if its path had earlier ones to carry first, its part, by
// bytes, of the time of all.
struct StripeTime {
    std::uint32_t subchannel = 0;
    Bytes length = 0;
    double seconds = 0;
    Bytes ahead = 0; // that its path had under way when it was posted
};

} // namespace adaptib
