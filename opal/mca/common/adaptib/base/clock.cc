// SPDX-License-Identifier: BSD-3-Clause
// MonotonicClock and AttendedClock (base/clock.h).
#include "base/clock.h"

#include <sched.h>

#include <algorithm>
#include <ctime>

namespace adaptib {

Nanoseconds MonotonicClock::now() const {
    timespec ts{};
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return std::chrono::seconds{ts.tv_sec} + Nanoseconds{ts.tv_nsec};
}

void MonotonicClock::yield() const { sched_yield(); }

Nanoseconds AttendedClock::now() const {
    const Nanoseconds now = clock_.now();
    absent_ += std::max(now - looked_ - most_, Nanoseconds{0});
    looked_ = now;
    return now - absent_;
}

Nanoseconds AttendedClock::look_at(Nanoseconds then) const {
    if (then == Nanoseconds::max()) {
        return then;
    }
    const Nanoseconds left = then - now();
    return looked_ + std::min(left, most_);
}

} // namespace adaptib
