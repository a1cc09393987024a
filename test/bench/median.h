// SPDX-License-Identifier: BSD-3-Clause
// The median of measurements; of an even number of them the greater one of the two in the middle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace adaptib::bench {

// REQUIRES: there are some.
inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace adaptib::bench
