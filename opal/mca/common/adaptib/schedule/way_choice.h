// SPDX-License-Identifier: BSD-3-Clause
// WayChoice: chooses, from times, the fastest of two or three ways to do the same thing.
//
// Purpose: the cost of a copy depends on the machine, on what else runs there, and on what the
// other end does; so the ways are timed. There are three uses:
//   * small one-sided operations on a local peer: the initiator does them, by system calls, or they
//     are target-assisted, requested by a message (protocol/intranode/synchronous_rma.cc);
//   * long data: one end copies it, or both ends, or both through staging memory
//     (protocol/intranode/synchronous_rma.cc);
//   * streams of messages: they go through the ring, or the receiver fetches them
//     (protocol/eager_tuning.h).
// Rule: a way is tried in runs of operations, because the first operation after a change of ways
// finds the caches and the other process as the previous way left them, and may take three times as
// long. At first each way gets a run of kFew, whose shorter time counts: a machine's state lasts
// for some operations, so these runs compare the ways in one state. Or, if the best way is known
// for very similar operations, that way is taken. Then one run in kSpread tries another way, until
// each is known; a way that took kFar times as long is left out until kTryFar operations later.
// From there on the way with the lowest median of its last kKept times is taken. It is timed now
// and then, and another way is tried now and then, in a run of kRun whose first operation is not
// timed: more seldom the longer it loses, soon again when it was faster once, and from the start
// more seldom if it was far behind. So one disturbed time changes little, and the regret of the
// trials is bounded: a way that takes k times as long costs kFew operations at first, and later
// (k - 1) kRun operations in kTryMost. The initiator takes an offer back if the other process does
// not take it within patience(), which is about the cost of way 0; the time of such an operation
// lasts until the initiator has done it.
// Threads: one at a time. No clock and no I/O: the caller times the operations.
// May touch: base/, last_few.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/invariant.h"
#include "base/units.h"
#include "schedule/last_few.h"

namespace adaptib {

class WayChoice {
public:
    // 0 is taken until something is known. Each user of this class names its ways.
    using Way = std::uint8_t;
    static constexpr std::size_t kMostWays = 3;

    explicit WayChoice(std::size_t ways = 2) : ways_(static_cast<std::uint8_t>(ways)) {
        ADAPTIB_INVARIANT(ways > 1 && ways <= kMostWays, "a choice is of two or three ways", ways);
    }

    // Counts the operation and returns the way to try first. If timed() is true then, the caller is
    // to time the operation.
    Way choose();
    bool timed() const { return timed_; }
    // Returns the way that was fastest last; counts nothing.
    Way better() const { return better_; }
    // Fast path of choose(). True: way 0 is the better one and there is nothing to find out; the
    // operation is counted, goes way 0 and is not timed. False: it is not counted; call choose().
    bool goes_on() {
        if (better_ != 0 || count_ + 1 >= next_) {
            return false;
        }
        ++count_;
        return true;
    }
    // Returns how long to wait for the other end to take an offer.
    Nanoseconds patience() const { return patience_; }
    // Reports the time of an operation from choose() on. `first`: the way that was tried first; if
    // it failed, the time includes the other way.
    void note(Way first, Nanoseconds took);

    // Returns true while no operation has been counted.
    bool is_fresh() const { return count_ == 0; }
    // Begins with what `neighbor` knows of very similar operations, if it knows every way, and this
    // choice does not: reported times may have taught it, though nothing was chosen.
    // REQUIRES: is_fresh(); both have the same number of ways.
    void learn_from(const WayChoice& neighbor);

private:
    static constexpr std::size_t kKept = 5;
    static constexpr std::uint32_t kRun = 3;
    static constexpr std::size_t kFew = 2;
    static constexpr std::size_t kEnough = 3;
    static constexpr std::uint64_t kSpread = 4;
    static constexpr int kFar = 2;
    static constexpr Nanoseconds kLeastPatience{300};
    static constexpr Nanoseconds kMostPatience{20'000};
    static constexpr std::uint32_t kTimeEvery = 64; // operations of the better way
    // Operations until another way is tried, for the first time, if it was far behind, and at most.
    static constexpr std::uint32_t kTryFirst = 32;
    static constexpr std::uint32_t kTryFar = 256;
    static constexpr std::uint32_t kTryMost = 1024;
    static constexpr std::uint32_t kTrySoon = 4; // the same after it was faster once

    struct Known {
        LastFew<Nanoseconds, kKept> times;
        bool far = false; // too slow: tried again after kTryFar operations
        std::uint32_t pause = kTryFirst;
        std::uint64_t tried_at = 0; // number of the operation that tries it next
    };

    bool is_known(Way way) const { return known_[way].far || known_[way].times.count() >= kEnough; }
    bool is_far(Way way) const;
    Nanoseconds cost(Way way) const;
    Way next_to_learn() const;
    Way choose_to_learn();
    Way begin_run(Way way, std::uint32_t length, bool timed);
    Way fastest() const;
    void learn();
    void begin_to_try(Way way);
    void plan();

    std::uint64_t count_ = 0; // operations; the members that goes_on() reads come first
    std::uint64_t next_ = 0;  // number of the next operation that is timed or tries another way
    std::uint8_t ways_;
    Way better_ = 0;
    bool timed_ = false;
    Way run_way_ = 0;           // way of the current or last run
    std::uint8_t run_left_ = 0; // operations of the current run that are to come
    bool informed_ = false;     // better_ comes from a neighbor, or was found in turns
    bool learnt_ = false;       // every way is known
    Nanoseconds patience_ = kLeastPatience;
    std::uint64_t timed_at_ = 0;
    std::array<Known, kMostWays> known_{};
};

} // namespace adaptib
