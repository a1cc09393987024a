// SPDX-License-Identifier: BSD-3-Clause
// The process's monotonic clock.
#include "base/clock.h"

#include <ctime>

namespace adaptib {

Nanoseconds MonotonicClock::now() const {
    timespec ts{};
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return std::chrono::seconds{ts.tv_sec} + Nanoseconds{ts.tv_nsec};
}

} // namespace adaptib
