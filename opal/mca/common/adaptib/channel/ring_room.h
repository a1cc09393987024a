// SPDX-License-Identifier: BSD-3-Clause
// RingRoom: how much of a ring has memory, in one word of the reader's memory that both sides
// change.
//
// Purpose: a ring has address space for all its units, and memory for those at its beginning. The
// writer knows when a lap is too short, and gets memory for more; the reader knows that nothing has
// arrived for long, and takes that memory back. So that neither takes the memory from under the
// other:
//
//     the writer   calls enter() before it stores beyond the first part, and leave() when it is
//                  at the beginning again; in between it alone changes the room
//     the reader   calls begin_to_shrink() while the writer is not beyond; until it calls
//                  end_shrinking(), the writer sees that and stays in the first part
//
// Neither waits for the other.
//
// A writer that does not know of the word (no call of mind()) may store anywhere, and the reader
// takes nothing back.
//
//     units that have memory 32 | ... | minded 1 | shrinking 1 | beyond 1
//
// Threads: one of each side, of two processes.
// May touch: base/.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/invariant.h"
#include "base/units.h"

namespace adaptib {

constexpr Bytes kRingUnit = 32;

class RingRoom {
public:
    // Null: the whole ring has memory.
    explicit RingRoom(std::byte* word = nullptr) : word_(reinterpret_cast<std::uint64_t*>(word)) {}

    bool bounded() const { return word_ != nullptr; }

    // REQUIRES, for all that follow: bounded().
    void begin(std::uint32_t units) const { word().store(units, std::memory_order_release); }
    std::uint32_t units() const {
        return static_cast<std::uint32_t>(word().load(std::memory_order_acquire));
    }

    // Writer.
    void mind() const { word().fetch_or(kMinded, std::memory_order_acq_rel); }
    // Returns false if the reader is about to take memory back; the writer may then use the first
    // part only.
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
    // REQUIRES: the writer is beyond the first part.
    void grow_to(std::uint32_t units) const {
        word().store(kBeyond | kMinded | units, std::memory_order_release);
    }

    // Reader. Returns false if only the first part has memory, if the writer is beyond it, or if
    // the writer does not know of the word.
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

    std::atomic_ref<std::uint64_t> word() const {
        ADAPTIB_INVARIANT(word_ != nullptr, "only a bounded ring has the word", word_);
        return std::atomic_ref<std::uint64_t>(*word_);
    }

    std::uint64_t* word_;
};

} // namespace adaptib
