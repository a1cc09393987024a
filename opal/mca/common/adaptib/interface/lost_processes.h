// SPDX-License-Identifier: BSD-3-Clause
// LostProcesses: the processes whose loss the user has been told of.
//
// Purpose: a process that ends breaks a connection for each pair of endpoints, and each core learns
// of its own ones. The user gets one message per process.
// Threads: any.
// May touch: the standard library.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

namespace adaptib {

class LostProcesses {
public:
    // Returns false if the process has been inserted before.
    bool insert(std::uint64_t process) {
        const std::lock_guard guard(mutex_);
        return processes_.insert(process).second;
    }

private:
    std::mutex mutex_;
    std::set<std::uint64_t> processes_;
};

} // namespace adaptib
