// SPDX-License-Identifier: BSD-3-Clause
// TrafficCount: a number of messages or operations, and their bytes without headers.
//
// Threads: a value type.
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace adaptib {

struct TrafficCount {
    [[gnu::always_inline]] void add(Bytes length) {
        ++number;
        bytes += length;
    }
    void add(const TrafficCount& other) {
        number += other.number;
        bytes += other.bytes;
    }

    std::uint64_t number = 0;
    Bytes bytes = 0;
};

} // namespace adaptib
