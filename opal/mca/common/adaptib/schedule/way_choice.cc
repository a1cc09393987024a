// SPDX-License-Identifier: BSD-3-Clause
// Choice of the way that takes the least time (schedule/way_choice.h).
#include "schedule/way_choice.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

WayChoice::Way WayChoice::choose() {
    ADAPTIB_INVARIANT(better_ < ways_ && run_way_ < ways_, "a choice is of its ways", better_,
                      run_way_, ways_);
    ++count_;
    timed_ = true;
    if (run_left_ > 0) {
        --run_left_;
        plan();
        return run_way_;
    }
    if (!learnt_) {
        return choose_to_learn();
    }
    for (Way way = 0; way < ways_; ++way) {
        if (way != better_ && count_ >= known_[way].tried_at) {
            known_[way].pause = std::min(2 * known_[way].pause, kTryMost);
            begin_to_try(way);
            return begin_run(way, kRun, false);
        }
    }
    timed_ = count_ >= timed_at_;
    if (timed_) {
        timed_at_ = count_ + kTimeEvery + 1;
        plan();
    }
    return better_;
}

// Starts a run and returns its way. `timed`: whether its first operation is timed. The operation
// behind the run, which goes the better way, is not timed.
WayChoice::Way WayChoice::begin_run(Way way, std::uint32_t length, bool timed) {
    ADAPTIB_INVARIANT(run_left_ == 0 && length > 0, "a run begins when the one before has ended",
                      run_left_, length);
    run_way_ = way;
    run_left_ = static_cast<std::uint8_t>(length - 1);
    timed_ = timed;
    timed_at_ = std::max(timed_at_, count_ + length + 1);
    plan();
    return way;
}

// Returns the way of the next operation while not every way is known: all ways have runs in turns,
// and once one is known to be best, the others have theirs between its operations.
WayChoice::Way WayChoice::choose_to_learn() {
    if (informed_ && count_ % (kSpread * kFew) != 0) {
        timed_ = run_way_ == better_; // not behind a run of another way
        run_way_ = better_;
        return better_;
    }
    const Way next = next_to_learn();
    return next == better_ && informed_ ? next : begin_run(next, kFew, true);
}

// Returns the way that was timed least among those that are not known yet; the better one if all
// are.
WayChoice::Way WayChoice::next_to_learn() const {
    Way next = better_;
    for (Way way = 0; way < ways_; ++way) {
        if (!is_known(way) &&
            (is_known(next) || known_[way].times.count() < known_[next].times.count())) {
            next = way;
        }
    }
    return next;
}

// REQUIRES: the way was timed.
Nanoseconds WayChoice::cost(Way way) const {
    const auto& times = known_[way].times;
    return times.count() < kEnough ? times.least() : times.median();
}

// Returns the fastest of the ways that were timed often enough to be compared.
WayChoice::Way WayChoice::fastest() const {
    Way fastest = better_;
    if (known_[better_].times.count() < kFew) {
        return fastest;
    }
    for (Way way = 0; way < ways_; ++way) {
        if (known_[way].times.count() >= kFew && cost(way) < cost(fastest)) {
            fastest = way;
        }
    }
    return fastest;
}

bool WayChoice::is_far(Way way) const {
    const auto& mine = known_[way].times;
    return way != better_ && mine.count() >= kFew && known_[better_].times.count() >= kFew &&
           mine.least() > kFar * cost(better_);
}

void WayChoice::begin_to_try(Way way) { known_[way].tried_at = count_ + known_[way].pause; }

void WayChoice::plan() {
    if (run_left_ > 0) {
        next_ = count_;
        return;
    }
    next_ = timed_at_;
    for (Way way = 0; way < ways_; ++way) {
        if (way != better_) {
            next_ = std::min(next_, known_[way].tried_at);
        }
    }
}

void WayChoice::learn() {
    better_ = fastest();
    bool compared = true;
    learnt_ = true;
    for (Way way = 0; way < ways_; ++way) {
        known_[way].far = known_[way].far || is_far(way);
        compared = compared && (known_[way].far || known_[way].times.count() >= kFew);
        learnt_ = learnt_ && is_known(way);
    }
    informed_ = informed_ || compared;
    if (learnt_) {
        for (Way way = 0; way < ways_; ++way) {
            known_[way].pause = known_[way].far ? kTryFar : kTryFirst;
            begin_to_try(way);
        }
        plan();
    }
}

void WayChoice::note(Way first, Nanoseconds took) {
    ADAPTIB_INVARIANT(first < ways_ && took.count() >= 0, "a way of the choice takes time", first,
                      took);
    Known& known = known_[first];
    known.times.add(took);
    if (known_[0].times.count() > 0) {
        patience_ = std::clamp(known_[0].times.median(), kLeastPatience, kMostPatience);
    }
    if (!learnt_) {
        learn();
        return;
    }
    ADAPTIB_INVARIANT(known_[better_].times.count() > 0, "the better way was timed", better_,
                      first);
    const Nanoseconds usual = cost(better_);
    if (const Way best = fastest(); best != better_) {
        better_ = best;
        for (Way way = 0; way < ways_; ++way) {
            known_[way].pause = std::min(known_[way].pause, is_far(way) ? kTryFar : kTryFirst);
            begin_to_try(way);
        }
    } else if (first != better_ && took < usual) {
        known.tried_at = count_ + kTrySoon;
    } else if (first != better_ && took > kFar * usual) {
        known.pause = std::max(known.pause, kTryFar);
        begin_to_try(first);
    }
    plan();
}

void WayChoice::learn_from(const WayChoice& neighbor) {
    ADAPTIB_INVARIANT(is_fresh() && ways_ == neighbor.ways_,
                      "a choice that knows nothing learns from one of the same ways", count_, ways_,
                      neighbor.ways_);
    if (learnt_ || !neighbor.learnt_) {
        return;
    }
    informed_ = true;
    better_ = neighbor.better_;
    for (Way way = 0; way < ways_; ++way) {
        known_[way].far = neighbor.is_far(way);
    }
}

} // namespace adaptib
