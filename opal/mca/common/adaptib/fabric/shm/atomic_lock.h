// SPDX-License-Identifier: BSD-3-Clause
// Lock that makes atomics on a process's private memory atomic among each other.
//
// Purpose: an atomic on private memory is a read and a write, so its initiator, or the target that
// serves it, holds the lock in the target's segment meanwhile. The lock names its holder, so that
// a lock whose holder has ended can be freed.
// Threads: any process that maps the segment.
// May touch: base/, layout.h, process.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/invariant.h"
#include "fabric/shm/layout.h"

namespace adaptib::shm {

class AtomicLock {
public:
    // Stands for the segment's owner, in place of a producer slot.
    static constexpr std::uint32_t kOwner = 0xffff;

    // `pid` and `slot` name this process: producer slot + 1 in that segment, or kOwner.
    AtomicLock(std::byte* segment, std::uint32_t pid, std::uint32_t slot)
        : segment_(segment), name_(static_cast<std::uint64_t>(pid) << 32 | slot) {
        ADAPTIB_INVARIANT(slot != 0, "the name of a holder is not that of a free lock", slot);
    }

    bool try_lock() {
        std::uint64_t free = 0;
        return word().compare_exchange_strong(free, name_, std::memory_order_acquire,
                                              std::memory_order_relaxed);
    }
    // REQUIRES: try_lock() was true.
    void unlock() { word().store(0, std::memory_order_release); }
    // Frees the lock if its holder has ended. Reads /proc.
    void break_dead();

private:
    std::atomic<std::uint64_t>& word() { return header_of(segment_)->atomic_lock; }

    std::byte* segment_;
    std::uint64_t name_;
};

} // namespace adaptib::shm
