// SPDX-License-Identifier: BSD-3-Clause
// Stripe: the part of one transfer that one subchannel carries; what a schedule is made of.
// May touch: base/ only.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace adaptib {

struct Stripe {
    std::uint32_t subchannel = 0; // index into the peer's subchannels
    Bytes offset = 0;
    Bytes length = 0;
};

// What a scheduler sees of one subchannel.
struct SubchannelView {
    std::uint32_t index = 0;
    BytesPerSecond rate{}; // nominal
    Bytes max_stripe = 0;  // the longest work request
};

enum class Marker : std::uint8_t { blocking, non_blocking, collective };

} // namespace adaptib
