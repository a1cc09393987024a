// SPDX-License-Identifier: BSD-3-Clause
// EagerLimit: the size up to which messages to a local peer are copied twice, into the peer's ring
// and out of it, instead of once, by a system call.
//
// Purpose: the cost of a cache line that the other processor used last cannot be known beforehand:
// 2 ns on one machine, 15 ns on the next, and on a virtual machine it changes while the program
// runs. So the sender times some of its copies into the ring and computes the limit. With
//     w  the cost of a byte for the sender on its way into the ring, and the same for the receiver
//        on its way out,
//     s  the time of the system call for the message, were no line in another processor's cache,
//     p  the time of a plain copy of the message,
// two copies take 2 w n, and one copy takes s + (w n - p), since the lines of the sender's buffer
// then cross between the processors, too. So a message of n bytes is copied twice as long as
// w n + p <= s.
// w is the median of the last few times, so that preemption during one copy does not count. The
// limit changes only when it is wrong by some percent.
// To notice that two copies have become cheap, one in many of the longer messages is copied twice,
// too (explore()). At first it is one in two: a program that sends only a few hundred messages
// should gain, too, and a copy does not count if the kernel still had to populate the ring's
// memory.
// Threads: one at a time. No clock and no I/O: the caller, which copies, reports the times.
// May touch: base/, last_few.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/copy_costs.h"
#include "base/units.h"
#include "schedule/last_few.h"

namespace adaptib {

class EagerLimit {
public:
    // Shorter messages fit the processor's store buffer, so their times say nothing.
    static constexpr Bytes kTimedFrom = 2048;

    // `start`: the limit until enough is learnt, and the least limit. `most`: the longest message
    // that a ring can carry.
    EagerLimit(const CopyCosts& costs, Bytes start, Bytes most);

    Bytes limit() const { return limit_; }
    Bytes most() const { return most_; }
    // Counts a message of kTimedFrom bytes or more. Returns true if the caller is to time its copy.
    bool times() { return !costs_.known() || ++since_timed_ >= kTimeEvery; }
    // Counts a message that is longer than limit() and no longer than most(). Returns true if the
    // caller is to copy it twice all the same, and to time that.
    bool explore();
    // Reports the time of a copy into the ring.
    void note(Bytes bytes, Nanoseconds took);

private:
    static constexpr std::size_t kKept = 7;
    static constexpr std::uint32_t kTimeEvery = 16;
    static constexpr std::uint32_t kExploreAfter = 8;   // messages until the first trial,
    static constexpr std::uint32_t kExploreSoon = 2;    // between trials while little is known,
    static constexpr std::uint32_t kExploreEvery = 256; // and later

    void choose();

    // The most that a byte may cost on its way into the ring, in ns, for each of CopyCosts::kSizes.
    std::array<double, CopyCosts::kSizes.size()> bearable_{};
    LastFew<double, kKept> costs_; // ns a byte
    Bytes start_;
    Bytes most_;
    Bytes limit_;
    std::uint32_t since_timed_ = 0;
    std::uint32_t since_explored_ = 0;
    std::uint32_t explore_soon_ = kExploreAfter;
};

} // namespace adaptib
