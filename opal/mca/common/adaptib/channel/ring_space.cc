// SPDX-License-Identifier: BSD-3-Clause
// The memory of a ring, as its writer knows it (channel/ring_space.h).
#include "channel/ring_space.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

namespace {

// Laps between two attempts to get memory that was refused
constexpr std::uint32_t kLapsBetweenTries = 64;

} // namespace

void RingSpace::bound_by(RingRoom room) {
    room_ = room;
    if (room_.bounded()) {
        room_.mind();
        memory_ = units_said();
    }
}

void RingSpace::leave() {
    ADAPTIB_INVARIANT(beyond_, "only a lap beyond the first part leaves it", memory_, first_);
    beyond_ = false;
    room_.leave();
}

// Returns how many units have memory, as the word says, which the peer writes, too.
std::uint32_t RingSpace::units_said() const { return std::clamp(room_.units(), 1u, units_); }

void RingSpace::extend_to(std::uint64_t wanted, std::uint64_t needed, const RingPoster& poster) {
    if (wanted > end() && room_.bounded() && !beyond_) {
        beyond_ = room_.enter();
        memory_ = units_said();
    }
    if (wanted > end() && beyond_) {
        grow(wanted, needed, poster);
    }
}

// Gets memory for twice as many units, or if that is refused for `needed` units only.
void RingSpace::grow(std::uint64_t wanted, std::uint64_t needed, const RingPoster& poster) {
    if (refused_ && ++laps_ % kLapsBetweenTries != 0) {
        return;
    }
    const RingTarget& target = poster.target();
    const auto get = [&](std::uint64_t units) {
        const std::uint64_t whole = std::min<std::uint64_t>(units, units_);
        ADAPTIB_INVARIANT(whole >= memory_, "memory that is got is no less than there was", whole,
                          memory_);
        const Bytes begin = std::uint64_t{memory_} * kRingUnit;
        if (!poster.qp()
                 .commit(target.address + begin, whole * kRingUnit - begin, target.key)
                 .ok()) {
            return false;
        }
        room_.grow_to(static_cast<std::uint32_t>(whole));
        memory_ = static_cast<std::uint32_t>(whole);
        return true;
    };
    refused_ = !get(std::max(2 * std::uint64_t{memory_}, wanted + 1)) &&
               (needed <= end() || !get(needed + 1));
    laps_ = 0;
}

} // namespace adaptib
