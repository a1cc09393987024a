// SPDX-License-Identifier: BSD-3-Clause
#include "base/biased_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace adaptib {

namespace {

#if defined(ADAPTIB_MODEL)
constexpr bool kKnowsBarrier = true;
#elif defined(__SANITIZE_THREAD__)
constexpr bool kKnowsBarrier = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kKnowsBarrier = false;
#else
constexpr bool kKnowsBarrier = true;
#endif
#else
constexpr bool kKnowsBarrier = true;
#endif

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0u, 0) == 0; }

bool can_bias() {
    static const bool can = kKnowsBarrier && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    return can;
}

// Each thread of this process executes a full memory barrier between the beginning and the end of
// the call. Returns false where the system has begun to refuse that (a filter of system calls that
// the program has installed since); then each has done so, too: a processor completes within
// microseconds what it has begun, and a thread that loses its processor executes a barrier.
bool barrier_of_all_threads() {
    constexpr useconds_t kLongEnough = 10'000;
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        return true;
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    usleep(kLongEnough);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return false;
}

// Pauses between two looks at a flag that another thread clears soon, unless that thread has lost
// its processor: a thread of real-time priority must sleep then, for yielding does not give the
// processor to one of lower priority.
void pause(std::uint32_t looks) {
    constexpr std::uint32_t kLooks = 1000;
    constexpr std::uint32_t kYields = 20;
    constexpr useconds_t kSleep = 50;
    if (looks < kLooks) {
        look_once_more();
    } else if (looks < kLooks + kYields) {
        sched_yield();
    } else {
        usleep(kSleep);
    }
}

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
    const std::uintptr_t last = last_.load(std::memory_order_relaxed);
    if (last != this_thread()) {
        alone_ = last == 0;
        last_.store(this_thread(), std::memory_order_relaxed);
        in_a_row_ = 0;
        return;
    }
    if (++in_a_row_ >= bias_after_) {
        in_a_row_ = 0;
        alone_ = true;
        bias_to_this_thread();
    }
}

void BiasedLock::bias_to_this_thread() {
    Seat* const seat = may_bias_ && can_bias() ? seat_of_this_thread() : nullptr;
    if (seat != nullptr) {
        biased_at_ = ticks();
        seat->revoked.store(false, std::memory_order_relaxed);
        biased_.store(seat, std::memory_order_relaxed);
    }
}

// Returns null if other threads have all seats.
BiasedLock::Seat* BiasedLock::seat_of_this_thread() {
    for (Seat& seat : seats_) {
        const std::uintptr_t thread = seat.thread.load(std::memory_order_relaxed);
        if (thread == 0) {
            seat.thread.store(this_thread(), std::memory_order_relaxed);
        }
        if (thread == 0 || thread == this_thread()) {
            return &seat;
        }
    }
    return nullptr;
}

// Ends the bias. `wait`: for the owner to leave; else an owner that is inside keeps its bias.
// Returns false if the owner is inside. The bias of this thread itself disturbs nobody, since it
// has mutex_. REQUIRES: this thread has mutex_, and is not inside by its bias.
bool BiasedLock::revoke(bool wait) {
    constexpr std::uint64_t kLasting = 1ull << 25u; // some 10 ms
    Seat& seat = *biased_.load(std::memory_order_relaxed);
    if (&seat == &nobody_ || seat.thread.load(std::memory_order_relaxed) == this_thread()) {
        return true;
    }
    if (!wait && seat.inside.load(std::memory_order_relaxed)) {
        return false;
    }
    seat.revoked.store(true, std::memory_order_relaxed);
    may_bias_ = barrier_of_all_threads();
    for (std::uint32_t looks = 0; seat.inside.load(std::memory_order_acquire); ++looks) {
        if (!wait) {
            seat.revoked.store(false, std::memory_order_relaxed);
            return false;
        }
        pause(looks);
    }
    biased_.store(&nobody_, std::memory_order_relaxed);
    const bool lasted = ticks() - biased_at_ > kLasting;
    bias_after_ = lasted ? bias_after_first_ : std::min(2 * bias_after_, kBiasAtMost);
    revocations_.store(revocations_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
}

} // namespace adaptib
