// SPDX-License-Identifier: BSD-3-Clause
// The way of small one-sided operations (schedule/ask_choice.h).
#include "schedule/ask_choice.h"

#include <algorithm>

namespace adaptib {

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

void AskChoice::note(Way first, Nanoseconds took) {
    of(first).add(took);
    patience_ = std::clamp(of(Way::direct).median(), kLeastPatience, kMostPatience);
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
