// SPDX-License-Identifier: BSD-3-Clause
// EndedProcesses: names of processes that have ended, as reported from outside of the core.
//
// Purpose: the runtime that started a job's processes sees them end, and reports that in a thread
// of its own. report() records it there. The core checks any_reported() now and then, takes the
// names in its turn, and remembers them: it may contact a peer, or wait for it, only later.
// Threads: report() any, all else one at a time (the core's lock).
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
    void report(std::uint64_t name) {
        const std::lock_guard lock(mutex_);
        reported_.push_back(name);
        any_reported_.store(true, std::memory_order_release);
    }
    bool any_reported() const { return any_reported_.load(std::memory_order_relaxed); }
    // Calls f(name) for each newly ended process reported since the last call.
    template <typename F> void take(F&& f) {
        std::vector<std::uint64_t> names;
        {
            const std::lock_guard lock(mutex_);
            names.swap(reported_);
            any_reported_.store(false, std::memory_order_relaxed);
        }
        for (const std::uint64_t name : names) {
            if (known_.insert(name).second) {
                f(name);
            }
        }
    }
    // Returns true if take() has passed the name on.
    bool contains(std::uint64_t name) const { return known_.contains(name); }

private:
    std::mutex mutex_;
    std::vector<std::uint64_t> reported_; // under the mutex
    std::atomic<bool> any_reported_{false};
    std::unordered_set<std::uint64_t> known_;
};

} // namespace adaptib
