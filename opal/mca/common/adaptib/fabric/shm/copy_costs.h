// SPDX-License-Identifier: BSD-3-Clause
// Cost of copies on this host (base/copy_costs.h), measured within this process.
//
// Purpose: a cross-memory attach of this process's own memory costs as much as one of another
// process's memory, except for cache lines that come from the other process's cache. Those cost the
// same for every kind of copy.
// Threads: free functions without state.
// May touch: base/, the system.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/copy_costs.h"

namespace adaptib::shm {

struct CopyTrial {
    // Returns false if the system refuses.
    std::function<bool(std::byte* to, const std::byte* from, Bytes length)> single;
    std::function<void(std::byte* to, const std::byte* from, Bytes length)> plain;
};

// Copies each size a few times in each way and keeps the shortest time, since disturbances only
// prolong a copy. Returns none if a single copy is refused, or if all of it takes longer than a
// millisecond (an instrumented program, a processor shared by many): such times say nothing.
std::optional<CopyCosts> measure_copies(const Clock& clock, const CopyTrial& trial);
// As above, with the system's own copies.
std::optional<CopyCosts> measure_copies(const Clock& clock);

} // namespace adaptib::shm
