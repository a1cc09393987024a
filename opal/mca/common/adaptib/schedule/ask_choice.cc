// SPDX-License-Identifier: BSD-3-Clause
// The way of small one-sided operations (schedule/ask_choice.h).
#include "schedule/ask_choice.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kLeastPatience{300};
constexpr Nanoseconds kMostPatience{20'000};

} // namespace

void AskChoice::Times::add(Nanoseconds took) {
    last[next] = took;
    next = (next + 1) % kKept;
    count = std::min(count + 1, kKept);
}

Nanoseconds AskChoice::Times::median() const {
    std::array<Nanoseconds, kKept> sorted = last;
    std::nth_element(sorted.begin(), sorted.begin() + kKept / 2, sorted.end());
    return sorted[kKept / 2];
}

AskChoice::Way AskChoice::choose() {
    timed_ = true;
    if (!of(Way::direct).known()) {
        return Way::direct;
    }
    if (!of(Way::asked).known()) {
        return Way::asked;
    }
    if (--until_tried_ == 0) {
        pause_ = std::min(2 * pause_, kTryMost);
        until_tried_ = pause_;
        return other();
    }
    timed_ = until_timed_ == 0;
    until_timed_ = timed_ ? kTimeEvery : until_timed_ - 1;
    return better_;
}

Nanoseconds AskChoice::patience() const {
    return std::clamp(of(Way::direct).median(), kLeastPatience, kMostPatience);
}

void AskChoice::note(Way first, Nanoseconds took) {
    of(first).add(took);
    if (!of(Way::asked).known()) {
        return;
    }
    const Nanoseconds usual = of(better_).median();
    if (of(other()).median() < usual) {
        better_ = other();
        pause_ = kTryFirst;
        until_tried_ = pause_;
    } else if (first == other() && took < usual) {
        until_tried_ = kTrySoon;
    }
}

} // namespace adaptib
