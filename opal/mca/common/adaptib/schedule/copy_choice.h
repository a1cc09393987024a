// SPDX-License-Identifier: BSD-3-Clause
// CopyChoice: up to which size messages to a peer are copied twice, through its ring, instead of once, by a
// system call.
//
// Purpose: what a line costs that the other processor had last cannot be known beforehand: on one machine
// 2 ns, on the next 15, and on a virtual one it changes while the program runs. So the sender times some of
// its copies into the ring; the rest is arithmetic. With
//     w  what a byte costs the sender on its way into the ring, and as much the receiver on its way out,
//     s  what the system call takes for the message on a host without other processors' lines, p a plain copy,
// copying twice takes 2 w n, and copying once s + (w n - p): the lines of the sender's buffer change sides, too.
// So a message of n bytes is copied twice as long as w n + p <= s.
// w is the median of the last few times, so that a turn of another process in the middle of one says nothing;
// a limit that is left is left only when it is wrong by some percent.
// To notice that copying twice has become cheap, one in many of the longer messages is copied twice (explore()); at first one
// in two: who sends a few hundred in all is to have something of it, and none counts whose memory the kernel still has to give.
// Threads: one at a time. Neither clock nor I/O: who copies tells.
// May touch: base/, last_few.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/copy_costs.h"
#include "base/units.h"
#include "schedule/last_few.h"

namespace adaptib {

class CopyChoice {
public:
    // Shorter ones fit the processor's store buffer and say nothing.
    static constexpr Bytes kTimedFrom = 2048;

    // `start` is the limit until something was learnt, and the least; `most`: what a ring bears.
    CopyChoice(const CopyCosts& costs, Bytes start, Bytes most);

    Bytes limit() const { return limit_; }
    Bytes most() const { return most_; }
    // Whether this message, of kTimedFrom bytes or more, is to be timed.
    bool times() { return !costs_.known() || ++since_timed_ >= kTimeEvery; }
    // Whether this message, longer than limit() and no longer than most(), is to be copied twice, and timed.
    bool explore();
    // Such a copy took so long.
    void note(Bytes bytes, Nanoseconds took);

private:
    static constexpr std::size_t kKept = 7;
    static constexpr std::uint32_t kTimeEvery = 16;
    static constexpr std::uint32_t kExploreAfter = 8;   // messages, for the first time,
    static constexpr std::uint32_t kExploreSoon = 2;    // then, as long as little is known,
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
