// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/atomic_lock.h"

#include "fabric/shm/process.h"

namespace adaptib::shm {

void AtomicLock::break_dead() {
    std::uint64_t holder = word().load(std::memory_order_acquire);
    const auto slot = static_cast<std::uint32_t>(holder);
    const auto pid = static_cast<std::uint32_t>(holder >> 32);
    if (holder == 0) {
        return;
    }
    std::uint64_t start = header_of(segment_)->start_time;
    if (slot != kOwner && slot >= 1 && slot <= kMaxProducers) {
        start = producers_of(segment_)[slot - 1].start_time.load(std::memory_order_acquire);
    }
    if (!process_alive(pid, start)) {
        word().compare_exchange_strong(holder, 0, std::memory_order_acq_rel);
    }
}

} // namespace adaptib::shm
