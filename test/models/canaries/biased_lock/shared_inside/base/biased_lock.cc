// SPDX-License-Identifier: BSD-3-Clause
#include "base/biased_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/spin.h"

namespace adaptib {

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kMayBias = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kMayBias = true;
#else
constexpr bool kMayBias = true;
#endif
#else
constexpr bool kMayBias = true;
#endif

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0u, 0) == 0; }

// Returns true if barrier_of_all_threads() works in this process.
bool can_bias() {
    static const bool can = kMayBias && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    return can;
}

// Each thread of this process executes a full memory barrier between the beginning and the end of
// the call. It cannot fail once the process is registered.
void barrier_of_all_threads() { static_cast<void>(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)); }

} // namespace

// The mutex keeps other threads that are not the owner out, the revoked bias the owner.
void BiasedLock::lock_shared() {
    mutex_.lock();
    static_cast<void>(revoke(true));
    shared_ = true;
    count_entry();
}

bool BiasedLock::try_lock_shared(bool counts) {
    if (!mutex_.try_lock()) {
        return false;
    }
    if (!revoke(false)) {
        mutex_.unlock();
        return false;
    }
    shared_ = true;
    if (counts) {
        count_entry();
    }
    return true;
}

void BiasedLock::unlock_shared() {
    shared_ = false;
    mutex_.unlock();
}

// The bias holds from this thread's next entry on; until it unlocks, mutex_ keeps others out.
void BiasedLock::count_entry() {
    if (const Thread last = last_.load(std::memory_order_relaxed); last != this_thread()) {
        alone_ = last == 0;
        last_.store(this_thread(), std::memory_order_relaxed);
        in_a_row_ = 0;
        return;
    }
    if (++in_a_row_ >= bias_after_) {
        in_a_row_ = 0;
        alone_ = true;
        biased_at_ = ticks();
        owner_.store(can_bias() ? this_thread() : 0, std::memory_order_relaxed);
    }
}

// Ends the bias. `wait`: for the owner to leave; else an owner that is inside keeps its bias.
// Returns false if the owner is inside. REQUIRES: mutex_ is locked by a thread other than the
// owner.
bool BiasedLock::revoke(bool wait) {
    constexpr int kLooks = 1000;                    // before this thread yields its processor
    constexpr std::uint64_t kLasting = 1ull << 25u; // some 10 ms
    const Thread owner = owner_.load(std::memory_order_relaxed);
    if (owner == 0) {
        return true;
    }
    if (!wait && inside_.load(std::memory_order_relaxed)) {
        return false;
    }
    owner_.store(0, std::memory_order_relaxed);
    barrier_of_all_threads();
    for (int looks = 0; inside_.load(std::memory_order_acquire); ++looks) {
        if (!wait) {
            owner_.store(owner, std::memory_order_relaxed);
            return false;
        }
        if (looks < kLooks) {
            look_once_more();
        } else {
            sched_yield();
        }
    }
    const bool lasted = ticks() - biased_at_ > kLasting;
    bias_after_ = lasted ? kBiasAfter : std::min(2 * bias_after_, kBiasAtMost);
    revocations_.store(revocations_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
}

} // namespace adaptib
