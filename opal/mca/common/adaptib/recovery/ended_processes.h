// SPDX-License-Identifier: BSD-3-Clause
// EndedProcesses: names of processes that have ended, as somebody outside of the core says.
//
// Purpose: the runtime that started a job's processes sees them end, and says so in a thread of its
// own. tell() notes it there; the core, which looks at any_told() now and then, takes it in its
// turn, and remembers it: a peer may be met, or waited for, only later.
// Threads: tell() any, all else one at a time (the core's lock).
// May touch: the standard library.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace adaptib {

class EndedProcesses {
public:
    void tell(std::uint64_t name) {
        const std::lock_guard lock(mutex_);
        told_.push_back(name);
        any_told_.store(true, std::memory_order_release);
    }
    bool any_told() const { return any_told_.load(std::memory_order_relaxed); }
    // Calls f(name) for each that was told since the last call.
    template <typename F> void take(F&& f) {
        std::vector<std::uint64_t> names;
        {
            const std::lock_guard lock(mutex_);
            names.swap(told_);
            any_told_.store(false, std::memory_order_relaxed);
        }
        for (const std::uint64_t name : names) {
            if (known_.insert(name).second) {
                f(name);
            }
        }
    }
    // Was taken.
    bool contains(std::uint64_t name) const { return known_.contains(name); }

private:
    std::mutex mutex_;
    std::vector<std::uint64_t> told_; // under the mutex
    std::atomic<bool> any_told_{false};
    std::unordered_set<std::uint64_t> known_;
};

} // namespace adaptib
