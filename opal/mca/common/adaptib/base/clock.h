// SPDX-License-Identifier: BSD-3-Clause
// Clock: where the core's time comes from.
//
// Purpose: the core never reads a clock of its own (architecture: rule 3). The process gives it the
// monotonic clock; a test or the simulator gives it virtual time.
// Threads: now() and yield() may be called from any thread.
// May touch: base/ only.
#pragma once

#include <atomic>

#include "base/units.h"

namespace adaptib {

class Clock {
public:
    virtual ~Clock() = default;
    virtual Nanoseconds now() const = 0;
    // Lets other processes run while this one waits. Virtual time does not pass by that.
    virtual void yield() const {}
};

// CLOCK_MONOTONIC of this host.
class MonotonicClock final : public Clock {
public:
    Nanoseconds now() const override;
    void yield() const override;
};

// Time that moves only when told to, by any thread.
class ManualClock final : public Clock {
public:
    Nanoseconds now() const override { return Nanoseconds{now_.load(std::memory_order_relaxed)}; }
    void advance(Nanoseconds by) { now_.fetch_add(by.count(), std::memory_order_relaxed); }

private:
    std::atomic<Nanoseconds::rep> now_{0};
};

// Time during which the process polls. Between two calls of now() it advances by `most` at most, so
// that timeouts for a peer's answer do not count time in which this process was not polling and
// could not have taken the answer.
// Threads: one at a time.
class AttendedClock final : public Clock {
public:
    explicit AttendedClock(const Clock& clock) : clock_(clock), looked_(clock.now()) {}

    void at_most(Nanoseconds most) { most_ = most; }
    Nanoseconds now() const override;
    // Returns the time of the underlying clock at which to call now() again in order to see `then`.
    // That is earlier than `then` if it lies further ahead than `most`, since time beyond `most` is
    // not counted. max: never.
    Nanoseconds look_at(Nanoseconds then) const;

private:
    const Clock& clock_;
    Nanoseconds most_{100'000'000};
    mutable Nanoseconds looked_;
    mutable Nanoseconds absent_{0};
};

} // namespace adaptib
