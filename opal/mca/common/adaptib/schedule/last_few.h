// SPDX-License-Identifier: BSD-3-Clause
// LastFew: the last N measurements of something, and their median, which one outlier hardly moves.
// Threads: one at a time. May touch: base/.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/invariant.h"

namespace adaptib {

template <typename Value, std::size_t N> class LastFew {
public:
    void add(Value value) {
        ADAPTIB_INVARIANT(next_ == count_ || count_ == N, "the first places are filled in order",
                          next_, count_);
        values_[next_] = value;
        next_ = (next_ + 1) % N;
        count_ = std::min(count_ + 1, N);
    }
    // Returns true once there are N measurements.
    bool known() const { return count_ == N; }
    std::size_t count() const { return count_; }
    // Returns the upper of the two middle values if their number is even; zero if there are none.
    Value median() const {
        std::array<Value, N> sorted = values_;
        const auto middle = sorted.begin() + count_ / 2;
        std::nth_element(sorted.begin(), middle, sorted.begin() + count_);
        return *middle;
    }
    // REQUIRES: count() > 0.
    Value least() const { return *std::min_element(values_.begin(), values_.begin() + count_); }

private:
    std::array<Value, N> values_{};
    std::size_t count_ = 0;
    std::size_t next_ = 0;
};

} // namespace adaptib
