// SPDX-License-Identifier: BSD-3-Clause
// RingHabits: how two processors of this host best pass cache lines to each other.
//
// Purpose: tells both sides of a ring, and other code that exchanges data through shared memory,
// which cache lines to prefetch for writing and which to store into after use.
// Ownership: the habits belong to the process.
// Threads: any; assume_ring_habits() only while no other thread runs.
// May touch: base/, channel/ring_layout.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "channel/ring_layout.h"

namespace adaptib {

// Best ways for two processors of this host to pass cache lines (TUNING.md of benchmarks has the
// figures).
struct RingHabits {
    std::uint32_t most_claimed; // maximum units that a writer prefetches for writing
    std::uint32_t lap_messages; // minimum number of messages in a short lap
    std::uint32_t lap_longest;  // maximum units of a message that ends a lap early
    bool dirties;               // the reader stores into each cache line of a retained message
};
const RingHabits& ring_habits();
// Overrides the habits, for tests; null restores those of this processor. REQUIRES: no ring exists.
void assume_ring_habits(const RingHabits* habits);

// Prefetches a cache line for writing.
inline void claim_line(const std::byte* at) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*at)); // the builtin needs -mprfchw for this
#else
    __builtin_prefetch(at, 1);
#endif
}

// Stores into each cache line of data that another processor has stored, that this one has copied
// out, and that will be overwritten.
inline void dirty_lines(std::byte* data, Bytes length) {
    if (length >= kRetainedFrom && ring_habits().dirties) {
        for (Bytes at = 0; at + sizeof(std::uint64_t) <= length; at += kCacheLine) {
            store_ring_word(data + at, 0, std::memory_order_relaxed);
        }
    }
}

} // namespace adaptib
