// SPDX-License-Identifier: BSD-3-Clause
// Clock: where the core's time comes from.
//
// Purpose: the core never reads a clock of its own (architecture: rule 3). The process gives it the
// monotonic clock, a test or the simulator gives it virtual time.
// Threads: now() may be called from any thread.
// May touch: base/ only.
#pragma once

#include "base/units.h"

namespace adaptib {

class Clock {
public:
    virtual ~Clock() = default;
    virtual Nanoseconds now() const = 0;
};

// CLOCK_MONOTONIC of this host.
class MonotonicClock final : public Clock {
public:
    Nanoseconds now() const override;
};

// Time that moves only when told to. Not thread safe.
class ManualClock final : public Clock {
public:
    Nanoseconds now() const override { return now_; }
    void advance(Nanoseconds by) { now_ += by; }

private:
    Nanoseconds now_{0};
};

} // namespace adaptib
