// SPDX-License-Identifier: BSD-3-Clause
// BiasedLock: a mutex that costs next to nothing while one thread alone takes it.
//
// Purpose: a program that asks for MPI_THREAD_MULTIPLE and then calls MPI from one thread, or from
// one thread per endpoint, should not pay for atomic instructions in each call. After a thread has
// taken the lock many times in a row, the lock is biased to it: from then on this thread enters by
// a store and a load, and leaves by a store, all of them plain, until another thread wants the
// lock. Each revocation doubles how often a thread must take the lock in a row, since a bias that
// does not last costs more than it saves.
//
// Algorithm: each thread that ever gets the bias has a seat of its own in the lock, for good.
//     the seat's thread:   inside = true;  if revoked: inside = false, and takes the mutex instead
//     another one, with the mutex:   revoked = true;  barrier;  waits until inside is false
// Both store first and load afterwards. The barrier (membarrier(2)) is one of all processors that
// run threads of this process, so it also separates the store and the load of the seat's thread,
// wherever that is: one of the two sees what the other has stored. A thread that loses its
// processor between any two steps finds its seat revoked when it goes on, for only that thread
// itself, with the mutex, ends this; and nobody but a revoker of that seat looks at its `inside`.
//
// Threads: any. Not recursive. A thread that ends while the lock is biased to it leaves nothing
// behind. Where membarrier is missing, and under ThreadSanitizer, which does not know it, the lock
// is a mutex.
// Source: Dice, Moir, Scherer: Quickly Reacquirable Locks, 2003; membarrier(2). test/models tries
// all orders of the steps.
// May touch: base/spin.h, base/units.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/spin.h"
#include "base/units.h"

namespace adaptib {

class BiasedLock {
public:
    static constexpr std::uint32_t kBiasAfter = 64;         // times in a row, at first
    static constexpr std::uint32_t kBiasAtMost = 1u << 22u; // bound of the doubling
    static constexpr std::uint32_t kSeats = 3;              // threads that may ever get the bias

    explicit BiasedLock(std::uint32_t bias_after = kBiasAfter)
        : bias_after_(bias_after), bias_after_first_(bias_after) {}

    [[gnu::always_inline]] void lock() {
        if (!enter_by_bias()) [[unlikely]] {
            lock_shared();
        }
    }
    // Does not disturb an owner that is inside.
    bool try_lock() { return enter_by_bias() || try_lock_shared(true); }
    // REQUIRES: this thread has the lock.
    [[gnu::always_inline]] void unlock() {
        if (shared_) [[unlikely]] {
            unlock_shared();
        } else {
            biased_.load(std::memory_order_relaxed)->inside.store(false, std::memory_order_release);
        }
    }

    // As try_lock(), for a thread that looks after the owner's business: the lock does not count as
    // taken by it.
    bool try_lock_to_help() { return enter_by_bias() || try_lock_shared(false); }
    // Returns true if this thread was the last one that took the lock. Any thread; what it says of
    // others may be out of date.
    bool is_mine() const {
        const std::uintptr_t owner = this->owner();
        return owner == this_thread() ||
               (owner == 0 && last_.load(std::memory_order_relaxed) == this_thread());
    }
    // Returns true if no other thread has taken the lock for as many times in a row as it takes to
    // bias it, or ever: this thread may keep it for some time. False for a thread that helps.
    // REQUIRES: this thread has the lock, or the lock is not taken by anybody, as only one thread
    // calls.
    bool is_wanted_by_no_other() const {
        const std::uintptr_t owner = this->owner();
        const std::uintptr_t last = last_.load(std::memory_order_relaxed);
        return owner == this_thread() ||
               (owner == 0 && (last == 0 || (last == this_thread() && alone_)));
    }
    // Number of revocations so far; for tests and reports. Any thread.
    std::uint64_t revocations() const { return revocations_.load(std::memory_order_relaxed); }

private:
    struct Seat {
        std::atomic<std::uintptr_t> thread{0}; // 0: of none; written once, with mutex_
        std::atomic<bool> inside{false};       // by its thread: has the lock, or tries to enter
        std::atomic<bool> revoked{false};      // with mutex_
    };

    std::uintptr_t owner() const {
        return biased_.load(std::memory_order_relaxed)->thread.load(std::memory_order_relaxed);
    }
    // The compiler must not move the load before the store; the processor may, which is what the
    // revoker's barrier is for. A thread that finds itself revoked has just let all others in.
    [[gnu::always_inline]] bool enter_by_bias() {
        Seat& seat = *biased_.load(std::memory_order_relaxed);
        if (seat.thread.load(std::memory_order_relaxed) != this_thread()) {
            return false;
        }
        seat.inside.store(true, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (!seat.revoked.load(std::memory_order_relaxed)) [[likely]] {
            return true;
        }
        seat.inside.store(false, std::memory_order_release);
        return false;
    }
    void lock_shared();
    bool try_lock_shared(bool counts);
    void unlock_shared();
    void count_entry();
    void bias_to_this_thread();
    Seat* seat_of_this_thread();
    bool revoke(bool wait);

    // The seat that has the bias, or nobody_. Written with mutex_ while no thread is inside by it.
    alignas(kCacheLine) std::atomic<Seat*> biased_{&nobody_};
    bool shared_ = false; // the lock is taken by mutex_; written by its holder
    bool alone_ = true;   // in_a_row_ has reached its bound, or last_ is the first thread of all
    bool may_bias_ = true;
    std::array<Seat, kSeats> seats_; // a bias needs nothing beyond this cache line
    Seat nobody_;
    std::uint32_t in_a_row_ = 0; // entries of last_; these: with mutex_
    std::uint32_t bias_after_;
    const std::uint32_t bias_after_first_;
    std::uint64_t biased_at_ = 0; // ticks()
    std::atomic<std::uintptr_t> last_{0};
    std::mutex mutex_;
    std::atomic<std::uint64_t> revocations_{0};
};

} // namespace adaptib
