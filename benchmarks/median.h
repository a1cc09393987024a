// SPDX-License-Identifier: BSD-3-Clause
// The median of measurements; of an even number, the greater of the two in the middle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace adaptib::bench {

// REQUIRES: `values` is not empty.
inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace adaptib::bench
