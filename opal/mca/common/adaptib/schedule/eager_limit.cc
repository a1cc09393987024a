// SPDX-License-Identifier: BSD-3-Clause
// The limit that follows from the measured times (schedule/eager_limit.h).
#include "schedule/eager_limit.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

namespace {

constexpr double kMargin = 0.1; // a limit changes if it is wrong by more than this part

} // namespace

EagerLimit::EagerLimit(const CopyCosts& costs, Bytes start, Bytes most)
    : start_(start), most_(std::max(start, most)), limit_(start) {
    for (std::size_t i = 0; i < bearable_.size(); ++i) {
        const auto left = static_cast<double>((costs.single[i] - costs.plain[i]).count());
        bearable_[i] = left / static_cast<double>(CopyCosts::kSizes[i]);
    }
}

bool EagerLimit::explore() {
    if (++since_explored_ < (costs_.known() ? kExploreEvery : explore_soon_)) {
        return false;
    }
    since_explored_ = 0;
    explore_soon_ = kExploreSoon;
    return true;
}

void EagerLimit::note(Bytes bytes, Nanoseconds took) {
    ADAPTIB_INVARIANT(bytes > 0, "a copy that is timed has bytes", bytes);
    since_timed_ = 0;
    costs_.add(static_cast<double>(took.count()) / static_cast<double>(bytes));
    if (costs_.known()) {
        choose();
    }
}

// Goes through the sizes upwards, and stops at the first one that does not pay: a long copy that
// happened to be fast when the costs were measured says nothing about shorter ones.
void EagerLimit::choose() {
    const double cost = costs_.median();
    Bytes limit = start_;
    for (std::size_t i = 0; i < bearable_.size() && CopyCosts::kSizes[i] <= most_; ++i) {
        const double margin = CopyCosts::kSizes[i] <= limit_ ? 1 + kMargin : 1 - kMargin;
        if (cost > bearable_[i] * margin) {
            break;
        }
        limit = std::max(limit, CopyCosts::kSizes[i]);
    }
    ADAPTIB_INVARIANT(start_ <= limit && limit <= most_, "the limit is within its bounds", start_,
                      limit, most_);
    limit_ = limit;
}

} // namespace adaptib
