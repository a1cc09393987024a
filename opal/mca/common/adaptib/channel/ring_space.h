// SPDX-License-Identifier: BSD-3-Clause
// RingSpace: how far a writer may go in a ring, whose memory grows when a lap is too short.
//
// Purpose: knows the units that have memory, and gets memory for more from the reader's queue pair.
// Goes beyond the first part of the ring only while the reader does not take memory back
// (channel/ring_room.h), and asks rarely once memory was refused. The last unit that has memory is
// kept for the message that reports the end of a lap.
// Threads: one at a time.
// May touch: base/, fabric/fabric.h, channel/ring_poster.h, channel/ring_room.h.
#pragma once

#include <cstdint>

#include "channel/ring_poster.h"
#include "channel/ring_room.h"
#include "fabric/fabric.h"

namespace adaptib {

class RingSpace {
public:
    // The whole ring has memory, until bound_by().
    explicit RingSpace(std::uint32_t units) : units_(units), memory_(units), first_(units) {}

    // `room`: the word that says how much has memory; not bounded: it cannot be reached.
    void bound_by(RingRoom room);
    // Takes what has memory now as the first part of the ring, which stays.
    void begin_here() { first_ = memory_; }

    // Units that this lap may store into: the reader does not take their memory back.
    std::uint32_t memory() const { return beyond_ ? memory_ : first_; }
    // Units before which messages of this lap may lie.
    std::uint32_t end() const { return end_of(memory()); }
    // Units before which messages may lie once there is memory, as far as known.
    std::uint32_t most() const { return refused_ ? end_of(memory_) : units_; }

    // Returns true while this lap uses more than the first part; leave() ends that.
    bool beyond() const { return beyond_; }
    void leave();

    // Raises end() to `wanted` units if possible, otherwise to `needed` units, or not at all.
    // `poster`: has the queue pair that gets memory.
    void extend_to(std::uint64_t wanted, std::uint64_t needed, const RingPoster& poster);

private:
    std::uint32_t units_said() const;
    void grow(std::uint64_t wanted, std::uint64_t needed, const RingPoster& poster);
    // Keeps the last unit that has memory for the message that reports the end of a lap.
    std::uint32_t end_of(std::uint32_t memory) const {
        return memory == units_ ? units_ : memory - 1;
    }

    const std::uint32_t units_; // of the ring
    std::uint32_t memory_;      // units that have memory, unless the reader has taken some back
    std::uint32_t first_;       // those of the first part
    std::uint32_t laps_ = 0;    // since memory was refused
    bool beyond_ = false;       // this lap uses more than the first part of the ring
    bool refused_ = false;      // more memory was refused the last time
    RingRoom room_;
};

} // namespace adaptib
