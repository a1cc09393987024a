// SPDX-License-Identifier: BSD-3-Clause
// Progress of an RC request's execution.
// May touch: base/; in fabric/: completion_queue.h.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "fabric/completion_queue.h"

namespace adaptib::shm {

inline constexpr Nanoseconds kNever{-1};

struct Attempt {
    Bytes moved = 0;           // bytes copied, sent, or handed to the pipeline
    bool data_done = false;    // write with immediate: only the notice is left
    std::uint64_t message = 0; // its number, which the target acknowledges; 0: not issued
    // Time at which a missing reply becomes retry_exceeded.
    Nanoseconds give_up{kNever};
    Nanoseconds rnr_since{kNever};
    std::uint32_t lock_waits = 0;
    bool unpinned = false; // cross-memory attach failed at an address: the target copies
    bool faulted = false; // and either end cannot copy: the request ends once the pipeline is empty

    // Status of a write or read that is over without another error.
    WorkStatus outcome() const { return faulted ? WorkStatus::memory_fault : WorkStatus::success; }
};

// Outcome of one try. over: the request's status is known. issued: a message is in the target's
// queue. wait: another try is needed.
enum class Step : std::uint8_t { over, issued, wait };

} // namespace adaptib::shm
