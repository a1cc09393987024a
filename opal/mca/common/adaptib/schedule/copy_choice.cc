// SPDX-License-Identifier: BSD-3-Clause
// The limit that follows from the measured times (schedule/copy_choice.h).
#include "schedule/copy_choice.h"

#include <algorithm>

namespace adaptib {

namespace {

constexpr double kMargin = 0.1; // a limit changes if it is wrong by more than this part

} // namespace

CopyChoice::CopyChoice(const CopyCosts& costs, Bytes start, Bytes most)
    : start_(start), most_(std::max(start, most)), limit_(start) {
    for (std::size_t i = 0; i < bearable_.size(); ++i) {
        const auto left = static_cast<double>((costs.single[i] - costs.plain[i]).count());
        bearable_[i] = left / static_cast<double>(CopyCosts::kSizes[i]);
    }
}

bool CopyChoice::explore() {
    if (++since_explored_ < (costs_.known() ? kExploreEvery : explore_soon_)) {
        return false;
    }
    since_explored_ = 0;
    explore_soon_ = kExploreSoon;
    return true;
}

void CopyChoice::note(Bytes bytes, Nanoseconds took) {
    since_timed_ = 0;
    costs_.add(static_cast<double>(took.count()) / static_cast<double>(bytes));
    if (costs_.known()) {
        choose();
    }
}

// Goes through the sizes upwards, and stops at the first one that does not pay: a long copy that
// happened to be fast when the costs were measured says nothing about shorter ones.
void CopyChoice::choose() {
    const double cost = costs_.median();
    Bytes limit = start_;
    for (std::size_t i = 0; i < bearable_.size() && CopyCosts::kSizes[i] <= most_; ++i) {
        const double margin = CopyCosts::kSizes[i] <= limit_ ? 1 + kMargin : 1 - kMargin;
        if (cost > bearable_[i] * margin) {
            break;
        }
        limit = std::max(limit, CopyCosts::kSizes[i]);
    }
    limit_ = limit;
}

} // namespace adaptib
