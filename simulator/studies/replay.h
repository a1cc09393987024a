// SPDX-License-Identifier: BSD-3-Clause
// Replay: runs a pattern on ranks that can send and receive, and reports when each step was over.
//
// Purpose: Ranks is all that a replay knows of the world below: the complete cores of a simulation
// (simulated_ranks.h) or, in its own test, a clock with a delay. Payloads name their sender and
// step, and are checked.
// Ownership: the caller's pattern and ranks; both outlive the call.  Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "simulator/studies/patterns.h"

namespace adaptib::study {

class Ranks {
public:
    // Called once when the operation has ended, maybe within the call that started it.
    class Waiter {
    public:
        virtual void on_end(bool good) = 0;

    protected:
        ~Waiter() = default;
    };

    virtual ~Ranks() = default;
    // A rank's memory for what it sends, or receives: whole pages that stay where they are as long
    // as the ranks live, so that a replay finds the registrations of the one before, as a program
    // that repeats a pattern does, wherever the heap has room.
    std::byte* buffer(std::uint32_t rank, bool receives, Bytes bytes);
    virtual std::size_t size() const = 0;
    // Non-blocking. Messages of a pair and a tag are matched in the order of their sending.
    virtual void send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data,
                      Bytes bytes, Waiter& waiter) = 0;
    virtual void receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data,
                         Bytes bytes, Waiter& waiter) = 0;
    // Virtual time of this rank.
    virtual Nanoseconds now(std::uint32_t rank) const = 0;
    // Runs the world until the condition is true; false if it never will be.
    virtual bool run_until(const std::function<bool()>& condition) = 0;

private:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    struct Buffer {
        std::unique_ptr<std::byte, Free> memory;
        Bytes bytes = 0;
    };
    // The last one of each is in use; those before were too short.
    std::map<std::pair<std::uint32_t, bool>, std::vector<Buffer>> buffers_;
};

struct Timing {
    struct Step {
        Nanoseconds begin{0}; // when the first rank began it
        Nanoseconds end{0};   // when the last rank ended it
    };
    std::vector<Step> steps;
    std::vector<Nanoseconds> mean_step; // mean of the ranks' own times
    Nanoseconds total{0};               // from the first begin to the last end
};

// Returns false with `text` set if a message fails, carries something else, or nothing more happens
// before the end. The ranks then still hold the operations that were started, and are of no further
// use.
bool replay(const Pattern& pattern, Ranks& ranks, Timing& out, std::string& text);

} // namespace adaptib::study
