// SPDX-License-Identifier: BSD-3-Clause
// What the explorer's memory and threads do for the accesses that a compiler reports (runtime.cc).
//
// Only while code of a model runs (machine_active), and for watched memory (machine_watches).
// `order` is one of __ATOMIC_RELAXED ... __ATOMIC_SEQ_CST.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace adaptib::model {

// Outcome of an atomic operation at an old value.
struct Changed {
    std::uint64_t value = 0;
    bool stores = true;
    bool loads = true; // not: a store, which learns nothing of the value before
};
using Change = std::function<Changed(std::uint64_t)>;

bool machine_active();
bool machine_watches(const void* at);
void machine_plain(const void* at, std::size_t size, bool write);
std::uint64_t machine_load(const void* at, int size, int order);
void machine_store(void* at, int size, std::uint64_t value, int order);
// `order_if_none`: of the load, if nothing is stored (a compare-exchange that fails).
std::uint64_t machine_change(void* at, int size, int order, int order_if_none,
                             const Change& change);
void machine_fence(int order);
void machine_fence_all();
void machine_lock(const void* mutex);
bool machine_try_lock(const void* mutex);
void machine_unlock(const void* mutex);
void machine_wait();
// Returns true if another thread notifies `condition` before the time is over, which may be soon.
bool machine_wait_notified(const void* condition, const void* mutex);
void machine_notify(const void* condition);
void machine_freed(const void* at, std::size_t size);
int machine_thread(); // 0: the set-up
std::uint64_t machine_clock();
const void* machine_identity();
std::uint64_t machine_ticks();

} // namespace adaptib::model
