// SPDX-License-Identifier: BSD-3-Clause
// Choice of the way that takes the least time (schedule/way_choice.h).
#include "schedule/way_choice.h"

#include <algorithm>

namespace adaptib {

WayChoice::Way WayChoice::choose() {
    ++count_;
    timed_ = true;
    if (!learnt_) {
        return next_to_learn();
    }
    for (Way way = 0; way < ways_; ++way) {
        if (way != better_ && count_ >= known_[way].tried_at) {
            known_[way].pause = std::min(2 * known_[way].pause, kTryMost);
            begin_to_try(way);
            plan();
            return way;
        }
    }
    timed_ = count_ >= timed_at_;
    if (timed_) {
        timed_at_ = count_ + kTimeEvery + 1;
        plan();
    }
    return better_;
}

// Returns the way that was timed least among those that are not known yet. Once the better way is
// known (informed_), only one operation in kSpread does that, and the others take the better way.
WayChoice::Way WayChoice::next_to_learn() const {
    if (informed_ && count_ % kSpread != 0) {
        return better_;
    }
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
            known_[way].pause = known_[way].far ? kTryMost / 2 : kTryFirst;
            begin_to_try(way);
        }
        plan();
    }
}

void WayChoice::note(Way first, Nanoseconds took) {
    Known& known = known_[first];
    known.times.add(took);
    if (known_[0].times.count() > 0) {
        patience_ = std::clamp(known_[0].times.median(), kLeastPatience, kMostPatience);
    }
    if (!learnt_) {
        learn();
        return;
    }
    const Nanoseconds usual = cost(better_);
    if (const Way best = fastest(); best != better_) {
        better_ = best;
        for (Way way = 0; way < ways_; ++way) {
            known_[way].pause = std::min(known_[way].pause, is_far(way) ? kTryMost / 2 : kTryFirst);
            begin_to_try(way);
        }
    } else if (first != better_ && took < usual) {
        known.tried_at = count_ + kTrySoon;
    } else if (first != better_ && took > kFar * usual) {
        known.pause = kTryMost;
        begin_to_try(first);
    }
    plan();
}

void WayChoice::learn_from(const WayChoice& neighbor) {
    if (!neighbor.learnt_) {
        return;
    }
    informed_ = true;
    better_ = neighbor.better_;
    for (Way way = 0; way < ways_; ++way) {
        known_[way].far = neighbor.is_far(way);
    }
}

} // namespace adaptib
