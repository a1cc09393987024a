// SPDX-License-Identifier: BSD-3-Clause
// Stripe: the part of one transfer that one subchannel carries; a plan is a list of stripes.
// May touch: base/ only.
#pragma once

#include <array>
#include <cstdint>

#include "base/inline_vector.h"
#include "base/units.h"

namespace adaptib {

struct Stripe {
    std::uint32_t subchannel = 0; // index into the peer's subchannels
    Bytes offset = 0;
    Bytes length = 0;
};

// Stripes of a transfer. Most transfers have one, and need no allocation for it.
using StripePlan = InlineVector<Stripe, 1>;

// Reads and writes load opposite directions of a link.
enum class Direction : std::uint8_t { read, write };
constexpr Direction other(Direction direction) {
    return direction == Direction::read ? Direction::write : Direction::read;
}

// The directions in which a peer's paths carry transfers. Reads and writes alone may find paths of
// different speed, since their bytes go opposite ways. If both are outstanding, a queue pair
// reports their completions in the order of their posts, so a measured time is that of both.
enum class Mix : std::uint8_t { reads, writes, both };
constexpr std::array<Mix, 3> kMixes{Mix::reads, Mix::writes, Mix::both};

// A subchannel as a scheduler sees it.
struct SubchannelStats {
    std::uint32_t index = 0;
    std::uint32_t port = 0;             // paths of one port share its rate
    BytesPerSecond rate{};              // nominal; 0: unknown
    Bytes max_stripe = 0;               // length of the longest work request
    std::array<Bytes, 2> outstanding{}; // by Direction: posted and not complete
    std::uint32_t distance = 10;        // from process to port, as hwloc counts; 10: near
};

enum class OpKind : std::uint8_t { blocking, non_blocking, collective };

// A transfer as a scheduler sees it.
struct TransferShape {
    Bytes length = 0;
    OpKind op_kind = OpKind::blocking;
    Direction direction = Direction::read;
};

// Time that a stripe took from posting to completion. If its path had earlier stripes to carry
// first: the share of the total time that its bytes make up.
struct StripeTime {
    std::uint32_t subchannel = 0;
    Bytes length = 0;
    double seconds = 0;
    Bytes ahead = 0; // bytes outstanding on its path when it was posted
};

} // namespace adaptib
