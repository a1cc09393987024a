// SPDX-License-Identifier: BSD-3-Clause
// What copying costs on this host (base/copy_costs.h), measured on ourselves.
//
// Purpose: a cross-memory attach of our own memory costs what one of another process's does, but for the
// lines that come from its cache: these cost the same whoever copies.
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
    std::function<bool(std::byte* to, const std::byte* from, Bytes length)>
        single; // false: refused
    std::function<void(std::byte* to, const std::byte* from, Bytes length)> plain;
};

// Copies each size a few times, each way, and keeps the least time: what disturbs, prolongs. None if a
// single copy is refused, or if it takes longer than half a millisecond altogether (an instrumented
// program, a processor that is shared by many): such times say nothing.
std::optional<CopyCosts> measure_copies(const Clock& clock, const CopyTrial& trial);
// The same with the system's own copies.
std::optional<CopyCosts> measure_copies(const Clock& clock);

} // namespace adaptib::shm
