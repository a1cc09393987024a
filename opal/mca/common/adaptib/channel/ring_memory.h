// SPDX-License-Identifier: BSD-3-Clause
// RingMemory: layout of the memory that a process offers a connected peer.
//
//     credit line  what the peer has consumed of this process's messages;
//                  the word of the ring's room (channel/ring_room.h);
//                  in its second half what this process told last, if not inline
//     answer slot  one line where the peer answers target-assisted operations
//                  (protocol/intranode/synchronous_rma.cc), and the state of a cooperative copy;
//                  one with this process's offer of such a copy; if the peer can store there
//     lines        of the ring that the peer writes its messages into (channel/ring_layout.h);
//                  maybe none
//     answer data  data of the peer's answers
//     measuring    nothing: the peer overwrites it to time paths, if there are several
//                  (connect/path_measurement.h)
//
// In sparse memory everything behind the first lines has no memory until it is used.
// The peer finds the answer line behind the credit, whose address is in the handshake, and the
// answer data behind the lines.
// Ownership: refers to a region. Threads: any. May touch: base/, channel/, fabric/memory_region.h.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/invariant.h"
#include "base/units.h"
#include "base/wire_connect.h"
#include "channel/ring_reader.h"
#include "channel/ring_room.h"
#include "fabric/memory_region.h"

namespace adaptib {

// The word is OperateBody::number << 8 | AnswerState. An offered operation belongs to the side that
// changes the word first: the target, which then does the operation and leaves done or refused, or
// the initiator, which takes the offer back.
enum class AnswerState : std::uint8_t { none, offered, taken, done, refused };

constexpr std::uint64_t answer_word(std::uint64_t number, AnswerState state) {
    return number << 8 | static_cast<std::uint64_t>(state);
}

// The other word of the slot: data that both ends copy (protocol/intranode/synchronous_rma.cc), in
// units from its front and from its back. The end that advances a count owns the part it advanced
// over; `done` counts the back units that the other end has copied, in that order.
struct SharedWork {
    static constexpr std::uint32_t kMostUnits = 256;
    static constexpr Bytes kUnit = 16 * kKiB;
    static constexpr Bytes kMostBytes = kMostUnits * kUnit;
    static constexpr std::uint32_t units_of(Bytes length) {
        return static_cast<std::uint32_t>((length + kUnit - 1) / kUnit);
    }
    // CooperativeCopyBody::number is 1 to kNumbers; 0 belongs to no offer. A message that is late
    // by kNumbers offers would be taken for a new one; a ring has room for far fewer.
    static constexpr std::uint64_t kNumbers = (1u << 26) - 1;

    std::uint64_t number = 0;
    std::uint32_t front = 0;
    std::uint32_t back = 0;
    std::uint32_t done = 0;
    bool closed = false;  // nothing can be taken any more
    bool refused = false; // the other end failed to copy a part it had taken, and copies no more

    constexpr std::uint64_t word() const {
        return number << 38 | std::uint64_t{refused} << 37 | std::uint64_t{closed} << 36 |
               std::uint64_t{done} << 24 | std::uint64_t{back} << 12 | front;
    }
    static constexpr SharedWork of(std::uint64_t word) {
        const auto count = [&](int shift) {
            return static_cast<std::uint32_t>(word >> shift & 0xfff);
        };
        return {word >> 38,           count(0), count(12), count(24), (word >> 36 & 1) != 0,
                (word >> 37 & 1) != 0};
    }
};

// Lies in its owner's memory; the peer has it mapped.
struct alignas(kCacheLine) AnswerSlot {
    static constexpr std::size_t kOfferWords = sizeof(CooperativeCopyBody) / sizeof(std::uint64_t);

    std::uint64_t word;
    std::uint64_t shared; // SharedWork
    std::uint64_t moved;  // units that the owner has copied into staging memory, or out of it
    // The owner's offer, which the ring carries, too: for a peer that is in the middle of a copy of
    // its own and does not look at its ring.
    alignas(kCacheLine) std::array<std::uint64_t, kOfferWords> offer;

    enum class End : std::uint8_t { front, back };
    struct Part {
        Bytes offset = 0;
        Bytes length = 0; // 0: nothing is left
        std::uint32_t units = 0;
    };

    std::atomic_ref<std::uint64_t> assisted_word() { return std::atomic_ref(word); }
    std::atomic_ref<std::uint64_t> shared_word() { return std::atomic_ref(shared); }
    std::atomic_ref<std::uint64_t> moved_word() { return std::atomic_ref(moved); }
    // Owner. REQUIRES: the last offer is closed.
    void make_offer(const CooperativeCopyBody& body) {
        ADAPTIB_INVARIANT(body.number > 0 && body.number <= SharedWork::kNumbers,
                          "an offer has a number", body.number);
        const auto words = std::bit_cast<std::array<std::uint64_t, kOfferWords>>(body);
        moved_word().store(0, std::memory_order_relaxed);
        for (std::size_t i = 0; i < kOfferWords; ++i) {
            std::atomic_ref(offer[i]).store(words[i], std::memory_order_release);
        }
        shared_word().store(SharedWork{.number = body.number}.word(), std::memory_order_release);
    }
    // Owner. No unit can be taken from now on. Returns the state before.
    SharedWork close_offer() {
        return SharedWork::of(
            shared_word().fetch_or(SharedWork{.closed = true}.word(), std::memory_order_acq_rel));
    }
    // Takes the next part for one end. Returns an empty part if nothing is left, or the offer is
    // over.
    Part take_part(std::uint64_t number, Bytes length, End end);
    // Peer: it could not copy the units that it has taken, and copies no more; or has copied them.
    // REQUIRES: it has taken units that are not done.
    void refuse_offer() {
        shared_word().fetch_or(SharedWork{.refused = true}.word(), std::memory_order_acq_rel);
    }
    void count_done(std::uint32_t units) {
        shared_word().fetch_add(SharedWork{.done = units}.word(), std::memory_order_acq_rel);
    }
    // Peer. False: no offer is open.
    bool read_offer(CooperativeCopyBody& body) {
        const SharedWork before = SharedWork::of(shared_word().load(std::memory_order_acquire));
        if (before.number == 0 || before.closed) {
            return false;
        }
        std::array<std::uint64_t, kOfferWords> words;
        for (std::size_t i = 0; i < kOfferWords; ++i) {
            words[i] = std::atomic_ref(offer[i]).load(std::memory_order_acquire);
        }
        body = std::bit_cast<CooperativeCopyBody>(words);
        const SharedWork after = SharedWork::of(shared_word().load(std::memory_order_relaxed));
        return !after.closed && after.number == before.number && body.number == before.number;
    }
};
static_assert(sizeof(AnswerSlot) == 2 * kCacheLine);

inline AnswerSlot::Part AnswerSlot::take_part(std::uint64_t number, Bytes length, End end) {
    constexpr std::uint32_t kLeastPart = 8; // units; a system call for less is expensive
    const std::uint32_t all = SharedWork::units_of(length);
    std::uint64_t seen = shared_word().load(std::memory_order_acquire);
    for (;;) {
        SharedWork work = SharedWork::of(seen);
        if (work.number != number || work.closed || work.front + work.back >= all) {
            return {};
        }
        const std::uint32_t left = all - work.front - work.back;
        const std::uint32_t least = std::min(std::max(all / 2, 1u), kLeastPart);
        const std::uint32_t mine = std::max(left / 4, std::min(left, least));
        const std::uint32_t first = end == End::front ? work.front : all - work.back - mine;
        (end == End::front ? work.front : work.back) += mine;
        if (shared_word().compare_exchange_weak(seen, work.word(), std::memory_order_acq_rel,
                                                std::memory_order_acquire)) {
            const Bytes offset = first * SharedWork::kUnit;
            return {offset, std::min(mine * SharedWork::kUnit, length - offset), mine};
        }
    }
}

// Parts that a process offers besides the credit.
struct RingParts {
    Bytes lines_bytes = 0;
    bool direct = false;    // the peer stores into the answer line and its data; memory is sparse
    bool measuring = false; // there is an area to overwrite for measurements
};

class RingMemory {
public:
    // Bytes before the lines, and bytes in all.
    static constexpr Bytes before_lines(RingParts parts) {
        return kCacheLine + (parts.direct ? sizeof(AnswerSlot) : 0);
    }
    static constexpr Bytes bytes(RingParts parts) {
        return data_at(parts) + (parts.direct ? kMaxAssisted : 0) +
               (parts.measuring ? kMeasureBytes : 0);
    }
    // Bytes that have memory at first.
    static constexpr Bytes first_bytes(RingParts parts) {
        return std::min(kFirst, before_lines(parts) + parts.lines_bytes);
    }

    RingMemory(MemoryRegion& region, RingParts parts)
        : region_(region), base_(static_cast<std::byte*>(region.address())), parts_(parts) {}

    std::byte* credit() const { return base_; }
    std::byte* told() const { return credit() + kCacheLine / 2; }
    std::byte* lines() const { return base_ + before_lines(parts_); }
    Bytes lines_bytes() const { return parts_.lines_bytes; }
    // Null: the whole ring has memory.
    RingRoom room() const { return RingRoom(parts_.direct ? credit() + kRoomAt : nullptr); }
    // REQUIRES: there is an answer line.
    AnswerSlot& answer() const {
        ADAPTIB_INVARIANT(parts_.direct, "only memory that the peer stores into has answers",
                          base_);
        return *reinterpret_cast<AnswerSlot*>(base_ + kCacheLine);
    }
    std::byte* answer_data() const { return base_ + data_at(parts_); }
    std::byte* measuring() const { return answer_data() + (parts_.direct ? kMaxAssisted : 0); }
    // Commits memory for the first `bytes` of the answer data.
    Status commit_answer(Bytes bytes) const {
        return parts_.direct ? region_.commit(static_cast<Bytes>(answer_data() - base_), bytes)
                             : kOk;
    }

    // Clears the memory for a new ring; `used` bytes of the lines have been used. Behind these the
    // lines are as they were at first.
    void clean(Bytes used) const {
        Bytes dirty = std::min(used, parts_.lines_bytes);
        if (dirty > first_lines() && release_rest()) {
            dirty = first_lines();
        }
        std::memset(base_, 0, before_lines(parts_) + dirty);
        begin();
    }
    // REQUIRES: the memory is zero.
    void begin() const {
        if (parts_.direct) {
            room().begin(first_units());
        }
    }
    // Shrinks the ring to the memory it had at first. Returns false if it has no more, is in use,
    // or the system does not take memory back.
    bool shrink(RingReader& reader) const {
        const std::uint32_t units = parts_.direct ? room().units() : 0;
        if (units == 0 || !room().begin_to_shrink(first_units())) {
            return false;
        }
        // The reader now sees all that the writer has stored beyond the first part.
        const bool done = reader.idle_within(first_units()) && release_rest();
        room().end_shrinking(done ? first_units() : units);
        reader.on_shrunk();
        return done;
    }

    // Credit in the peer's memory, given its mapped answer line.
    static std::byte* credit_before(AnswerSlot& answers) {
        return reinterpret_cast<std::byte*>(&answers) - kCacheLine;
    }
    // The addresses in the handshake tell whether the peer's memory can be stored into, and where
    // its parts are then.
    static bool is_direct(std::uint64_t credit_address, std::uint64_t lines_address) {
        return lines_address - credit_address == before_lines({.direct = true});
    }
    static std::uint64_t room_address(std::uint64_t credit_address) {
        return credit_address + kRoomAt;
    }
    static std::uint64_t answer_behind(std::uint64_t credit_address) {
        return credit_address + kCacheLine;
    }
    static std::uint64_t answer_data(std::uint64_t credit_address, Bytes lines_bytes) {
        return credit_address + data_at({.lines_bytes = lines_bytes, .direct = true});
    }

    // Bytes of sparse memory that have memory at first.
    static constexpr Bytes kFirst = 16 * kKiB;

private:
    static constexpr Bytes kRoomAt = 16;
    static constexpr Bytes kLargestPage = 64 * kKiB; // largest page size of any system

    // Offset of the answer data. Rounded up, so that the lines behind the first ones are whole
    // pages with nothing else in them.
    static constexpr Bytes data_at(RingParts parts) {
        const Bytes end = before_lines(parts) + parts.lines_bytes;
        return parts.direct ? round_up(end, kLargestPage) : end;
    }
    // Lets the system take back the memory behind the first lines. Returns false if it does not.
    bool release_rest() const {
        return parts_.direct && region_.discard(kFirst, data_at(parts_) - kFirst);
    }

    Bytes first_lines() const { return first_bytes(parts_) - before_lines(parts_); }
    std::uint32_t first_units() const {
        return static_cast<std::uint32_t>(first_lines() / kRingUnit);
    }

    MemoryRegion& region_;
    std::byte* base_;
    RingParts parts_;
};

} // namespace adaptib
