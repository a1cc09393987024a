// SPDX-License-Identifier: BSD-3-Clause
// WayChoice: which of two or three ways of doing the same thing takes the least time here and now.
//
// Purpose: what a copy costs depends on the machine, on what else runs there, and on what the other
// end does; so the ways are timed. Small one-sided operations on a local peer are done by the
// initiator, by calls of the system, or by the target, which is asked by a message
// (protocol/asked.cc); long data is copied by one end, by both, or by both through staging memory
// (protocol/together.cc); streams of messages go through the ring or are fetched by the receiver
// (protocol/timed.cc).
// Rule: a way is tried in runs of operations: the one after a change of ways finds caches, and the
// other process, as the other way left them, and may take three times as long. At first each way has
// a run of kFew, of which the shorter time counts, since a machine's state lasts for some operations;
// or, where it is known which way is best for much the same operations, that one is taken. Then a run
// in kSpread is of another way, until each is known; one that took kFar times as long is not tried
// any more for now. From there on the way with the lowest median of its last kKept times is taken. It
// is timed now and then, and another one is tried now and then, in a run of kRun whose first
// operation is not timed: the more seldom the longer it loses, soon again when it was faster once,
// and from the start more seldom if it was far behind. So one disturbed time moves little, and the
// regret of the trials is bounded: a way that takes k times as long costs kFew operations at first,
// and (k - 1) kRun of kTryMost operations later.
// An offer to another process is taken back when it was not taken up within patience(), about what
// the first way costs; the time of one that was taken back lasts until the operation was done.
// Threads: one at a time. Neither clock nor I/O: who does it tells.
// May touch: base/, last_few.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "schedule/last_few.h"

namespace adaptib {

class WayChoice {
public:
    // 0 is taken until something is known. Names are given where the ways are.
    using Way = std::uint8_t;
    static constexpr std::size_t kMostWays = 3;

    explicit WayChoice(std::size_t ways = 2) : ways_(static_cast<std::uint8_t>(ways)) {}

    // Counts the operation. The way it is to go first; it is to be timed if timed() then.
    Way choose();
    bool timed() const { return timed_; }
    // Which way it is that was faster last; nothing is counted.
    Way better() const { return better_; }
    // The same as choose() where it has nothing to find out: the operation is counted, goes way 0
    // and is not timed. False: not counted, choose().
    bool goes_on() {
        if (better_ != 0 || count_ + 1 >= next_) {
            return false;
        }
        ++count_;
        return true;
    }
    // How long to wait for the other end.
    Nanoseconds patience() const { return patience_; }
    // It took so long from choose() on, all ways together if the first one failed.
    void note(Way first, Nanoseconds took);

    // Nothing was chosen or noted yet.
    bool is_fresh() const { return count_ == 0; }
    // Begins with what is known of operations that are much like these, if it is. REQUIRES: is_fresh,
    // as many ways.
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
        bool far = false; // it is no use to time it more now
        std::uint32_t pause = kTryFirst;
        std::uint64_t tried_at = 0; // number of the operation
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

    std::uint64_t count_ = 0; // first what goes_on() looks at
    std::uint64_t next_ = 0;  // number of the operation that is timed or tried
    std::uint8_t ways_;
    Way better_ = 0;
    bool timed_ = false;
    Way run_way_ = 0;
    std::uint8_t run_left_ = 0; // so many operations go run_way_ yet
    bool informed_ = false;     // the better way is a neighbor's, or found in turns
    bool learnt_ = false;       // every way is known
    Nanoseconds patience_ = kLeastPatience;
    std::uint64_t timed_at_ = 0;
    std::array<Known, kMostWays> known_{};
};

} // namespace adaptib
