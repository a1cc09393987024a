// SPDX-License-Identifier: BSD-3-Clause
// Replay: runs a pattern on ranks that can send and receive, and says when each step was over.
//
// Purpose: Ranks is all that a replay knows of the world below: the complete cores of a simulation
// (simulated_ranks.h) or, in its own test, a clock with a delay. Payloads carry who sent them in
// which step, and are checked.
// Ownership: the caller's pattern and ranks; both outlive the call.  Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/units.h"
#include "study/patterns.h"

namespace adaptib::study {

class Ranks {
public:
    // Told once when what was started has ended, maybe within the call that started it.
    class Waiter {
    public:
        virtual void on_end(bool good) = 0;

    protected:
        ~Waiter() = default;
    };

    virtual ~Ranks() = default;
    virtual std::size_t size() const = 0;
    // Non-blocking. Messages of a pair and a tag are matched in the order of their sending.
    virtual void send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data,
                      Bytes bytes, Waiter& waiter) = 0;
    virtual void receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data,
                         Bytes bytes, Waiter& waiter) = 0;
    // Virtual time, as this rank sees it.
    virtual Nanoseconds now(std::uint32_t rank) const = 0;
    // Lets things happen until the condition is true; false if it will never be.
    virtual bool run_until(const std::function<bool()>& condition) = 0;
};

struct Timing {
    struct Step {
        Nanoseconds begin{0}; // the first rank began it
        Nanoseconds end{0};   // the last one ended it
    };
    std::vector<Step> steps;
    std::vector<Nanoseconds> mean_step; // of the ranks' own times for it
    Nanoseconds total{0};               // from the first begin to the last end
};

// False with `text` set if a message fails, carries something else, or nothing happens any more
// before the end: the ranks then still hold what was started, and are of no further use.
bool replay(const Pattern& pattern, Ranks& ranks, Timing& out, std::string& text);

} // namespace adaptib::study
