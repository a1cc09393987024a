// SPDX-License-Identifier: BSD-3-Clause
#include "late_packets.h"

#include <algorithm>
#include <limits>

namespace adaptib::hca {

void LatePackets::hold(const PacketHeader& packet, const std::uint8_t* payload,
                       std::int64_t until) {
    if (count_ >= kMost) {
        return;
    }
    std::deque<Held>& queue = held_[path_of(packet)];
    const std::int64_t before = queue.empty() ? until : queue.back().due;
    queue.push_back({packet, {payload, payload + packet.payload}, std::max(until, before)});
    ++count_;
}

std::int64_t LatePackets::next_due() const {
    std::int64_t next = std::numeric_limits<std::int64_t>::max();
    for (const auto& [path, queue] : held_) {
        next = std::min(next, queue.front().due);
    }
    return next;
}

} // namespace adaptib::hca
