// SPDX-License-Identifier: BSD-3-Clause
// BiasedLock: a mutex that costs next to nothing while one thread alone takes it.
//
// Purpose: a program that asks for MPI_THREAD_MULTIPLE and then calls MPI from one thread, or from
// one thread per endpoint, should not pay for atomic instructions in each call. After a thread has
// taken the lock many times in a row, the lock is biased to it: from then on this thread enters by
// a store and a load, and leaves by a store, all of them plain. The first other thread that wants
// the lock revokes the bias: it makes every processor that runs a thread of this process execute a
// memory barrier (membarrier(2)), after which either the owner sees that the bias is gone, or the
// revoker sees the owner inside and waits. Then the lock is an ordinary mutex, until again one
// thread takes it many times in a row; each revocation doubles how often, since a bias that does
// not last costs more than it saves.
//
// Threads: any. Not recursive. A thread that ends while the lock is biased to it leaves nothing
// behind. Where membarrier is missing, and under ThreadSanitizer, which does not know it, the lock
// is a mutex.
// Source: Dice, Moir, Scherer: Quickly Reacquirable Locks, 2003; membarrier(2).
// May touch: nothing.
#pragma once

#include "base/spin.h"
#include <atomic>
#include <cstdint>
#include <mutex>

namespace adaptib {

class BiasedLock {
public:
    static constexpr std::uint32_t kBiasAfter = 64;         // times in a row, at first
    static constexpr std::uint32_t kBiasAtMost = 1u << 22u; // bound of the doubling

    explicit BiasedLock(std::uint32_t bias_after = kBiasAfter) : bias_after_(bias_after) {}
    [[gnu::always_inline]] void lock() {
        if (!enter_as_owner()) [[unlikely]] {
            lock_shared();
        }
    }
    // Does not disturb an owner that is inside.
    bool try_lock() { return enter_as_owner() || try_lock_shared(true); }
    // REQUIRES: this thread has the lock.
    [[gnu::always_inline]] void unlock() {
        if (shared_) [[unlikely]] {
            unlock_shared();
        } else {
            inside_.store(false, std::memory_order_release);
        }
    }

    // As try_lock(), for a thread that looks after the owner's business: the lock does not count as
    // taken by it.
    bool try_lock_to_help() { return enter_as_owner() || try_lock_shared(false); }
    // Returns true if this thread was the last one that took the lock. Any thread; what it says of
    // others may be out of date.
    bool is_mine() const {
        const Thread owner = owner_.load(std::memory_order_relaxed);
        return owner == this_thread() ||
               (owner == 0 && last_.load(std::memory_order_relaxed) == this_thread());
    }
    // Returns true if no other thread has taken the lock for as many times in a row as it takes to
    // bias it, or ever: this thread may keep it for some time. False for a thread that helps.
    // REQUIRES: this thread has the lock, or the lock is not taken by anybody, as only one thread
    // calls.
    bool is_wanted_by_no_other() const {
        const Thread owner = owner_.load(std::memory_order_relaxed);
        const Thread last = last_.load(std::memory_order_relaxed);
        return owner == this_thread() ||
               (owner == 0 && (last == 0 || (last == this_thread() && alone_)));
    }
    // Number of revocations so far; for tests and reports. Any thread.
    std::uint64_t revocations() const { return revocations_.load(std::memory_order_relaxed); }

private:
    using Thread = std::uintptr_t; // 0: none

    static Thread this_thread() { return adaptib::this_thread(); }
    // The compiler must not move the load before the store; the processor may, which is what the
    // revoker's barrier is for.
    [[gnu::always_inline]] bool enter_as_owner() {
        if (owner_.load(std::memory_order_relaxed) != this_thread()) {
            return false;
        }
        inside_.store(true, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (owner_.load(std::memory_order_relaxed) == this_thread()) [[likely]] {
            return true;
        }
        inside_.store(false, std::memory_order_release);
        return false;
    }
    void lock_shared();
    bool try_lock_shared(bool counts);
    void unlock_shared();
    void count_entry();
    bool revoke(bool wait);

    std::atomic<Thread> owner_{0};    // the lock is biased to it; written with mutex_ locked
    std::atomic<bool> inside_{false}; // the owner has the lock, or tries to enter
    bool shared_ = false;             // the lock is taken by mutex_; written by its holder
    bool alone_ = true; // in_a_row_ has reached its bound, or last_ is the first thread of all
    std::uint32_t in_a_row_ = 0; // entries of last_; these five: with mutex_ locked
    std::uint32_t bias_after_ = kBiasAfter;
    std::uint64_t biased_at_ = 0; // ticks()
    std::atomic<Thread> last_{0};
    std::mutex mutex_;
    std::atomic<std::uint64_t> revocations_{0};
};

} // namespace adaptib
