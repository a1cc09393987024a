// SPDX-License-Identifier: BSD-3-Clause
// Contents of a RailAddress of the shm fabric.
// Threads: a value type.
// May touch: base/, fabric/rail_address.h, visibility.h.
#pragma once

#include <cstdint>

#include "fabric/rail_address.h"
#include "fabric/shm/visibility.h"

namespace adaptib::shm {

struct WireAddress {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint8_t rail;
    std::uint8_t unused;
    std::uint32_t pid;
    std::uint32_t fd;
    std::uint64_t start_time;
    std::uint64_t cookie;
    std::uint64_t host;
    std::uint64_t
        answer_key; // of the server (descriptor_server.h), whose request key is the cookie
    Visibility visibility;
};
static_assert(sizeof(WireAddress) <= RailAddress::kMaxBytes);

RailAddress encode(const WireAddress& wire);

// Returns true if each of the two processes can map the other's segment, as far as addresses tell.
inline bool reach_each_other(const WireAddress& a, const WireAddress& b) {
    return a.host == b.host && can_open_each_other(a.visibility, b.visibility);
}

} // namespace adaptib::shm
