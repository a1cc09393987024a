// SPDX-License-Identifier: BSD-3-Clause
// AskChoice: whether small one-sided operations on a local peer are done by the initiator, by calls of the
// system, or by the target, which is asked to by a message.
//
// Purpose: a put or get costs the initiator one call of the system, an atomic operation two and a lock. A
// message and its answer cost a few cache lines, which is less for an atomic, and for all where lines are
// cheap, but only as long as the target looks at its ring: one that computes answers late. So an offer is taken
// back when it was not taken up within patience(), about what the other way costs: never much worse than
// twice that. The last times of both ways are kept, of an offer that was taken back the whole time until the
// operation was done; the way with the lower median is taken, and the other one tried again now and then,
// the more seldom the longer it loses.
// The same for long data, which the initiator copies alone or together with the other end (protocol/together.cc), who
// offers it and does not wait for long in any case; and for streams of messages, which go through the ring or are
// fetched by the receiver (protocol/timed.cc).
// Threads: one at a time. Neither clock nor I/O: who does it tells.
// May touch: base/, last_few.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "schedule/last_few.h"

namespace adaptib {

class AskChoice {
public:
    enum class Way : std::uint8_t { direct, asked };

    // Counts the operation. The way it is to go first; it is to be timed if timed() then.
    Way choose();
    bool timed() const { return timed_; }
    // Which way it is that was faster last; nothing is counted.
    Way better() const { return better_; }
    // The same as choose() where it has nothing to find out: the operation is counted, goes the direct way and is
    // not timed. False: not counted, choose().
    bool goes_on() {
        if (better_ != Way::direct || until_timed_ == 0 || until_tried_ <= 1) {
            return false;
        }
        --until_timed_;
        --until_tried_;
        return true;
    }
    // How long to wait for the target.
    Nanoseconds patience() const { return patience_; }
    // It took so long from choose() on, both ways if the first one failed.
    void note(Way first, Nanoseconds took);

private:
    static constexpr std::size_t kKept = 5;
    static constexpr Nanoseconds kLeastPatience{300};
    static constexpr Nanoseconds kMostPatience{20'000};
    static constexpr std::uint32_t kTimeEvery = 64; // operations of the better way
    static constexpr std::uint32_t kTryFirst = 64;  // operations until the other way is tried
    static constexpr std::uint32_t kTryMost = 1024;
    static constexpr std::uint32_t kTrySoon = 4; // the same after it was faster once

    using Times = LastFew<Nanoseconds, kKept>;

    Way other() const { return better_ == Way::direct ? Way::asked : Way::direct; }
    Times& of(Way way) { return times_[static_cast<std::size_t>(way)]; }
    const Times& of(Way way) const { return times_[static_cast<std::size_t>(way)]; }

    Way better_ = Way::direct; // first what goes_on() looks at
    bool timed_ = false;
    std::uint32_t until_timed_ = 0;
    std::uint32_t until_tried_ = kTryFirst;
    std::uint32_t pause_ = kTryFirst;
    Nanoseconds patience_ = kLeastPatience;
    std::array<Times, 2> times_;
};

} // namespace adaptib
