// SPDX-License-Identifier: BSD-3-Clause
// RingRoom: how much of a ring has memory, one word in the reader's memory that both sides change.
//
// Purpose: a ring has address space for all its units, and memory at its beginning. Its writer, who
// knows when a lap is too short, gets memory for more; its reader, who knows that nothing has come
// for long, takes that back. So that neither does under the other's hands:
//
//     the writer   enter() before it stores beyond the first part, leave() when it is at the
//                  beginning again; in between the room is its own, and it alone changes it
//     the reader   begin_to_shrink() where the writer is not beyond; until end_shrinking() the
//                  writer, who finds that, stays in the first part
//
// Neither waits for the other.
//
// A writer that does not know of the word (mind()) may store anywhere, and nothing is taken back.
//
//     units that have memory 32 | ... | minded 1 | shrinking 1 | beyond 1
//
// Threads: one of each side, of two processes.
// May touch: base/.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace adaptib {

constexpr Bytes kRingUnit = 32;

class RingRoom {
public:
    // Null: all of the ring has memory.
    explicit RingRoom(std::byte* word = nullptr) : word_(reinterpret_cast<std::uint64_t*>(word)) {}

    bool bounded() const { return word_ != nullptr; }

    // REQUIRES, of all that follow: bounded().
    void begin(std::uint32_t units) const { word().store(units, std::memory_order_release); }
    std::uint32_t units() const {
        return static_cast<std::uint32_t>(word().load(std::memory_order_acquire));
    }

    // Writer.
    void mind() const { word().fetch_or(kMinded, std::memory_order_acq_rel); }
    // False: the reader is about to take memory back; the first part can be used, no more.
    bool enter() const {
        std::uint64_t now = word().load(std::memory_order_acquire);
        while ((now & kShrinking) == 0) {
            if (word().compare_exchange_weak(now, now | kBeyond, std::memory_order_acq_rel)) {
                return true;
            }
        }
        return false;
    }
    void leave() const { word().fetch_and(~kBeyond, std::memory_order_release); }
    // REQUIRES: it is beyond.
    void grow_to(std::uint32_t units) const {
        word().store(kBeyond | kMinded | units, std::memory_order_release);
    }

    // Reader. False: there is no more than the first part, or the writer is beyond it.
    bool begin_to_shrink(std::uint32_t first) const {
        std::uint64_t now = word().load(std::memory_order_acquire);
        return (now & (kBeyond | kShrinking | kMinded)) == kMinded &&
               static_cast<std::uint32_t>(now) > first &&
               word().compare_exchange_strong(now, kShrinking | kMinded | first,
                                              std::memory_order_acq_rel);
    }
    void end_shrinking(std::uint32_t units) const {
        word().store(kMinded | units, std::memory_order_release);
    }

private:
    static constexpr std::uint64_t kBeyond = std::uint64_t{1} << 63;
    static constexpr std::uint64_t kShrinking = std::uint64_t{1} << 62;
    static constexpr std::uint64_t kMinded = std::uint64_t{1} << 61;

    std::atomic_ref<std::uint64_t> word() const { return std::atomic_ref<std::uint64_t>(*word_); }

    std::uint64_t* word_;
};

} // namespace adaptib
