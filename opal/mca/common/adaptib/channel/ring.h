// SPDX-License-Identifier: BSD-3-Clause
// The ring channel: a peer writes its messages into this process's memory, which this process
// polls.
//
// Layout: `units` of 32 bytes, so that two short messages share a cache line. A message takes
// whole, consecutive units:
//
//     unit p        | MessageHeader 24 | body and payload   |
//     ...           | ...                                   |
//     unit p+k-1    | ...  | pad to 8 | count 8 | tail word 8 |
//
// Only posted messages have a tail word, and only some of these have a count: how much of the ring
// in the other direction their sender has consumed. Nothing is written behind the tail word.
//
// A short active message that is stored is compact (`compact`): it carries only the first word of
// the header. Two compact messages of 8 bytes for ob1, each with ob1's own header of 14 bytes,
// share a cache line. The sequence number of a compact message is one more than that of the message
// before it in the ring (a message whose number is not has a whole header); the word holds its low
// 16 bits:
//
//     type 8 | flags 8 | magic 16 | length 16 | number 16
//
// If a message does not fit before the last unit, the writer puts a `skip` message there and starts
// the message at unit 0. If a message goes beyond the first kShortLap units, and the writer finds
// that the reader has consumed everything before it, the writer marks the message as the last one
// of its lap (kRingLast), and the next message starts at unit 0. If the reader has not consumed
// everything, the writer looks again after kLongerBy more units, then after twice as many, and so
// on up to kCaughtUpEvery messages, and also when something arrives from the reader. So a
// request-reply exchange reuses a few KiB, which stay in the caches next to both processors, while
// a stream uses the whole ring.
//
// Invariants
//   1. When a message becomes visible, the first 8 bytes of the unit behind it are zero. So a
//      non-zero word at the reader's position is the header of the next message (the first word of
//      a header is never zero). As a rule these words are zero in all units that hold no part of an
//      unconsumed message: the reader zeroes them as it consumes. But a store into a line that was
//      only read makes the processors talk once more. So a long stored message has a third magic
//      number and is retained (`retained`): the reader zeroes only its first word, or one word in
//      each of its cache lines (RingHabits::dirties), maybe a little later (defer_release). Until
//      the writer overwrites a retained message, it zeroes the words that must be zero, a few units
//      ahead.
//   2. A writer that stores directly stores the first word of the header last, with release order:
//      a visible message is complete. A posted message becomes visible in address order (an
//      adapter, kPublish), maybe byte by byte (soft-RoCE). So it has another magic number and ends
//      with a tail word that follows from the header, including the sequence number; the message is
//      complete when header and tail word are there. The reader zeroes the tail word once it has
//      seen it, so that no message takes the tail word of an earlier one at the same place and of
//      the same length for its own. A reader of a 64-bit count (the consumed count, too) may see
//      only some of its new bytes; since the low bytes arrive first, such a value does not exceed
//      the complete one.
//   3. produced - consumed <= units. The reader reports what it has consumed by writing a 64-bit
//      count into the writer's memory, at the latest after half of the ring's committed memory
//      (ring_room.h), and the writer does not go beyond that memory. Units that a `skip` or the
//      last message of a lap leaves unused count as consumed, so that a message of half the ring
//      finds room once the reader has consumed everything. After a quarter of the memory the count
//      travels in a message that is posted the other way, if there is one, which saves a write.
//      Such a message has a magic number of its own.
//   4. With a posting writer, unconsumed units are kept in the writer's mirror of the ring, and are
//      reused only after the reader's count has passed them. So the writer can send again what a
//      broken connection may have lost. A writer that has posted stores again only when all that it
//      has posted is known to have arrived.
//
// Ownership: a Ring* object owns its memory regions, and uses a queue pair that outlives it.
// Threads: one at a time for each side.
// Source: Takagi et al., section 2 (message channels with RDMA); the rings of MVAPICH have the same
// idea.
// May touch: base/, fabric/.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/status.h"
#include "base/units.h"
#include "base/wire.h"
#include "channel/ring_room.h"
#include "fabric/fabric.h"

namespace adaptib {

// Signals every kSignalEvery-th write to a queue pair; its completion also releases the send queue
// entries of the unsignaled writes before it. Send queues are several times deeper than this.
constexpr std::uint32_t kSignalEvery = 32;

// Inline bytes requested for a queue pair that posts into a ring, if the rail supports that many:
// enough for a message with up to 96 bytes.
constexpr Bytes kRingInline = 128;

constexpr std::uint16_t kTailedMagic = kHeaderMagic + 1;   // in a ring: a posted message
constexpr std::uint16_t kRetainedMagic = kHeaderMagic + 2; // in a ring: stored and retained
constexpr std::uint16_t kCountedMagic = kHeaderMagic + 3;  // in a ring: posted, with a count
constexpr std::uint16_t kCompactMagic = kHeaderMagic + 4;  // in a ring: compact, one word of header
constexpr Bytes kRetainedFrom = 768;                       // bytes of body and payload
constexpr Bytes kShortRetained = 4096 + 256; // short, although retained: a page and headers
constexpr std::uint32_t kShortLap = 256;     // units: 8 KiB
constexpr std::uint32_t kLongerBy = 32;      // units
constexpr std::uint32_t kAskedFor = 32; // units of an arrived message that the reader prefetches
// Behind a message of at most this many units the reader also prefetches the line where the next
// message begins: it looks there as soon as it has delivered this message, and cannot finish what
// it does next before that line is there.
constexpr std::uint32_t kNextAskedFor = 64;
// Maximum number of messages between two checks whether the reader has caught up; a check costs a
// cache line or two.
constexpr std::uint32_t kCaughtUpEvery = 64;
// Maximum number of polls that find only the beginning of a first word, before the reader reports
// garbage. Corresponds to seconds.
constexpr std::uint32_t kBegunPolls = 1u << 24;
constexpr std::uint32_t kRingOverhead = sizeof(MessageHeader) + 2 * sizeof(std::uint64_t);

// Best ways for two processors of this host to pass cache lines (TUNING.md of test/bench has the
// figures).
struct RingHabits {
    std::uint32_t most_claimed; // maximum units that a writer prefetches for writing
    std::uint32_t lap_messages; // minimum number of messages in a short lap
    std::uint32_t lap_longest;  // maximum units of a message that ends a lap early
    bool dirties;               // the reader stores into each cache line of a retained message
};
const RingHabits& ring_habits();
// Overrides the habits, for tests; null restores those of this processor. REQUIRES: no ring exists.
void assume_ring_habits(const RingHabits* habits);

enum class RingWay : std::uint8_t {
    stored,
    posted,
    counted, // posted with a count
    compact, // stored with one word of header (compact)
};

// Sequence number "before" the first message of a ring.
constexpr std::uint32_t kBeforeFirst = 0xffffffff;

// Offset of the body within a message.
constexpr Bytes ring_body_at(Bytes length, RingWay way) {
    if (way == RingWay::compact) {
        return sizeof(std::uint64_t);
    }
    return way == RingWay::stored && length >= kRetainedFrom ? kRingUnit : sizeof(MessageHeader);
}

// Bytes from the beginning of a posted message to the end of its tail word.
constexpr Bytes ring_posted_bytes(Bytes length, RingWay way) {
    constexpr Bytes kWord = sizeof(std::uint64_t);
    return round_up(length + sizeof(MessageHeader), kWord) +
           (way == RingWay::counted ? 2 * kWord : kWord);
}

constexpr std::uint64_t ring_units_for(Bytes length, RingWay way) {
    const bool posted = way == RingWay::posted || way == RingWay::counted;
    const Bytes bytes =
        posted ? ring_posted_bytes(length, way) : length + ring_body_at(length, way);
    return (bytes + kRingUnit - 1) / kRingUnit;
}

constexpr RingWay ring_way_of(std::uint16_t magic) {
    return magic == kCountedMagic   ? RingWay::counted
           : magic == kTailedMagic  ? RingWay::posted
           : magic == kCompactMagic ? RingWay::compact
                                    : RingWay::stored;
}

// The first word of a compact message, and the fields in it.
constexpr std::uint64_t ring_compact_word(const MessageHeader& header) {
    return static_cast<std::uint64_t>(header.type) | (std::uint64_t{header.flags} << 8) |
           (std::uint64_t{kCompactMagic} << 16) | (std::uint64_t{header.length} << 32) |
           (std::uint64_t{header.sequence} << 48);
}
constexpr std::uint32_t ring_compact_length(std::uint64_t word) {
    return static_cast<std::uint16_t>(word >> 32);
}
constexpr bool ring_compact_is(std::uint64_t word, std::uint32_t sequence) {
    return word >> 48 == static_cast<std::uint16_t>(sequence);
}

constexpr std::uint64_t ring_tail_word(std::uint64_t head, std::uint32_t sequence) {
    return ~head ^ (static_cast<std::uint64_t>(sequence) * 0x9e3779b97f4a7c15u);
}

// Bit in the magic number of a stored message: the next message is at the beginning of the ring.
constexpr std::uint64_t kRingLast = std::uint64_t{1} << 28;
static_assert(
    (std::uint64_t{kHeaderMagic | kTailedMagic | kRetainedMagic | kCountedMagic | kCompactMagic}
         << 16 &
     kRingLast) == 0);
constexpr std::uint16_t ring_magic_of(std::uint64_t head) {
    return static_cast<std::uint16_t>((head & ~kRingLast) >> 16);
}

// Bits of type and magic number in the first word of a stored message.
constexpr std::uint64_t kRingKindBits = 0xffff00ff & ~kRingLast;
constexpr std::uint64_t ring_kind_of(MessageType type, std::uint16_t magic) {
    return std::uint64_t{magic} << 16 | static_cast<std::uint64_t>(type);
}
constexpr std::uint64_t kRingEager = ring_kind_of(MessageType::eager, kHeaderMagic);
constexpr std::uint64_t kRingRetainedEager = ring_kind_of(MessageType::eager, kRetainedMagic);
constexpr std::uint64_t kRingRetainedActive = ring_kind_of(MessageType::active, kRetainedMagic);
constexpr std::uint64_t kRingCompact = ring_kind_of(MessageType::active, kCompactMagic);
constexpr bool ring_kind_is_retained(std::uint64_t kind) {
    return kind == kRingRetainedEager || kind == kRingRetainedActive;
}

// Calls f.operator()<kind>() if `head` is the first word of a message that may take the fast path;
// otherwise returns false.
template <typename F> [[gnu::always_inline]] inline bool with_ring_kind(std::uint64_t head, F&& f) {
    const std::uint64_t kind = head & kRingKindBits;
    return kind == kRingCompact          ? f.template operator()<kRingCompact>()
           : kind == kRingEager          ? f.template operator()<kRingEager>()
           : kind == kRingRetainedEager  ? f.template operator()<kRingRetainedEager>()
           : kind == kRingRetainedActive ? f.template operator()<kRingRetainedActive>()
                                         : false;
}

// Access to words of a ring that the other side may read or write at any time.
inline std::uint64_t load_ring_word(const std::byte* at) {
    auto* word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
    return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

inline void store_ring_word(std::byte* at, std::uint64_t value, std::memory_order order) {
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at)).store(value, order);
}

// Prefetches a cache line for writing.
inline void claim_line(const std::byte* at) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*at)); // the builtin needs -mprfchw for this
#else
    __builtin_prefetch(at, 1);
#endif
}

// Stores into each cache line of data that another processor has stored, that this one has copied
// out, and that will be overwritten.
inline void dirty_lines(std::byte* data, Bytes length) {
    if (length >= kRetainedFrom && ring_habits().dirties) {
        for (Bytes at = 0; at + sizeof(std::uint64_t) <= length; at += kCacheLine) {
            store_ring_word(data + at, 0, std::memory_order_relaxed);
        }
    }
}

class RingReader {
public:
    enum class Found : std::uint8_t { nothing, message, garbage };

    // REQUIRES: `memory` is zero, `units` x 32 bytes, 64-byte aligned.
    // `room`: for a ring whose memory grows and shrinks.
    RingReader(std::byte* memory, std::uint64_t units, const RingHabits& habits = ring_habits(),
               RingRoom room = RingRoom())
        : memory_(memory), units_(static_cast<std::uint32_t>(units)),
          retained_step_(habits.dirties ? kCacheLine / kRingUnit : units_), room_(room) {
        look_at_room();
    }

    // message: `header` is a copy, `body` points into the ring until consume(). garbage: the bytes
    // there are not a message; the ring cannot be used any more. Returns each message once.
    Found poll(MessageHeader& header, const std::byte*& body) {
        const std::uint64_t word = head();
        return word == 0 ? Found::nothing : read(word, header, body);
    }

    // Returns true if the reader has consumed and released all that has arrived, and the next
    // message arrives within the first `units` units.
    bool idle_within(std::uint32_t units) const {
        return head() == 0 && deferred_ == nullptr && position_ < units;
    }
    // First word at the reader's position; 0: no message.
    std::uint64_t head() const { return load_ring_word(place()); }

    // A short eager or active message that was stored, the most frequent kind. Its header is not
    // copied; it is at next().
    struct Short {
        const std::byte* body = nullptr;
        std::uint32_t length = 0;
        std::uint32_t sequence = 0;
        std::uint32_t units = 0;
        std::uint32_t taken = 0; // units up to the next message
        std::uint8_t flags = 0;
    };
    // Does poll() for a message of that kind; consume_short() then replaces consume(). Returns
    // false if the message is not what its kind says; the caller then uses poll(). A template on
    // the kind, so that the address of the body does not depend on the loaded word: it is known
    // while that word is still on its way, and so the next lines can be prefetched.
    // REQUIRES: `word` is head(), and of that kind.
    template <std::uint64_t kKind>
    [[gnu::always_inline]] bool take_short(std::uint64_t word, Short& found) {
        constexpr bool kCompact = kKind == kRingCompact;
        constexpr bool kRetained = ring_kind_is_retained(kKind);
        constexpr RingWay kWay = kCompact ? RingWay::compact : RingWay::stored;
        const std::byte* at = place();
        found.flags = static_cast<std::uint8_t>(word >> 8);
        if constexpr (kCompact) {
            found.length = ring_compact_length(word);
            found.sequence = sequence_ + 1;
        } else {
            found.length = static_cast<std::uint32_t>(word >> 32);
            std::memcpy(&found.sequence, at + offsetof(MessageHeader, sequence), 4);
        }
        found.units = static_cast<std::uint32_t>(ring_units_for(found.length, kWay));
        found.body = at + ring_body_at(kRetained ? kRetainedFrom : 0, kWay);
        const bool fits = kRetained ? found.length >= kRetainedFrom && found.length < kShortRetained
                                    : found.length < kRetainedFrom;
        found.taken = taken_by(word, found.units);
        ask_for_rest(at, found.units);
        if (!kRetained || found.units <= kNextAskedFor) {
            __builtin_prefetch(at + found.taken * kRingUnit);
        }
        return fits && found.units <= units_ - position_ &&
               (!kCompact || ring_compact_is(word, found.sequence));
    }
    template <std::uint64_t kKind> [[gnu::always_inline]] void consume_short(const Short& found) {
        posted_ = false;
        release(found.units, found.taken, ring_kind_is_retained(kKind) ? retained_step_ : 1,
                found.sequence);
    }
    // Consumes like consume_short(), but defers the release of the message's place to
    // release_deferred(), which must follow soon and before the next message is taken. For a caller
    // that has something more urgent to store.
    template <std::uint64_t kKind> [[gnu::always_inline]] void defer_release(const Short& found) {
        posted_ = false;
        deferred_ = place();
        deferred_units_ = found.units;
        deferred_taken_ = found.taken;
        sequence_ = found.sequence;
        step_over(found.taken);
    }
    bool has_deferred() const { return deferred_ != nullptr; }
    // Releases the message that defer_release() kept. REQUIRES: has_deferred(), and that message is
    // retained.
    void release_deferred() {
        release_at(deferred_, deferred_units_, deferred_taken_, retained_step_);
        deferred_ = nullptr;
    }
    // Returns true if deferring is worthwhile and safe. It is worthwhile where the release stores
    // into all lines of a message. It is safe while this message does not make credit due, so that
    // a message of any length finds room beside it.
    bool may_defer_release(const Short& found) const {
        return retained_step_ < units_ && untold_ + found.taken < units_ / 2;
    }
    // Consumes the message that poll() found, whose number is `sequence`.
    void consume(std::uint32_t sequence) {
        release(current_, taken_, retained_ ? retained_step_ : 1, sequence);
    }

    // Called when the ring has shrunk.
    void on_shrunk() { look_at_room(); }
    // Place of the next message: while the word there is zero, poll() finds nothing.
    const std::byte* next() const { return place(); }

    std::uint64_t consumed() const { return consumed_; }
    // credit_due(): the reader should report consumed() to the writer now. credit_soon_due(): it
    // should put the count into the next message to the writer.
    bool credit_due() { return untold_ >= return_at_ && still_due(); }
    bool credit_soon_due() const { return untold_ >= return_at_ / 2; }
    void credit_returned() { untold_ = 0; }
    // Notes that a message has reported `consumed` to the writer. Returns false if the writer
    // already knew as much or more.
    bool credit_returned(std::uint64_t consumed) {
        const std::uint64_t untold = consumed_ - consumed;
        const bool news = untold < untold_;
        untold_ = news ? static_cast<std::uint32_t>(untold) : untold_;
        return news;
    }

    // Returns true if the last message found was posted: then counts may arrive, and leave, with
    // messages.
    bool posted() const { return posted_; }
    // Count that the writer has consumed of the ring in the other direction, as its messages
    // report.
    std::uint64_t count() const { return count_; }

private:
    std::byte* place() const { return memory_ + std::size_t{position_} * kRingUnit; }
    // Copies from registers, and field by field (base/copy.h).
    static void copy_head(MessageHeader& header, std::uint64_t head) {
        header.type = static_cast<MessageType>(static_cast<std::uint8_t>(head));
        header.flags = static_cast<std::uint8_t>(head >> 8);
        header.length = static_cast<std::uint32_t>(head >> 32);
    }
    static void copy_rest(MessageHeader& header, const std::byte* at) {
        std::memcpy(&header.sequence, at + offsetof(MessageHeader, sequence), 4);
        std::memcpy(&header.context, at + offsetof(MessageHeader, context), 4);
        std::memcpy(&header.source, at + offsetof(MessageHeader, source), 4);
        std::memcpy(&header.tag, at + offsetof(MessageHeader, tag), 4);
    }
    // Consumes the message at the current place: zeroes its first word, and the first word of every
    // `step`-th unit.
    [[gnu::always_inline]] void release(std::uint32_t units, std::uint32_t taken,
                                        std::uint32_t step, std::uint32_t sequence) {
        release_at(place(), units, taken, step);
        sequence_ = sequence;
        step_over(taken);
    }
    [[gnu::always_inline]] void release_at(std::byte* at, std::uint32_t units, std::uint32_t taken,
                                           std::uint32_t step) {
        for (std::uint32_t i = step; i < units; i += step) {
            store_ring_word(at + i * kRingUnit, 0, std::memory_order_relaxed);
        }
        store_ring_word(at, 0, std::memory_order_release); // last: the writer may check (caught_up)
        consumed_ += taken;
        untold_ += taken;
    }
    void step_over(std::uint32_t taken) {
        position_ = position_ + taken == units_ ? 0 : position_ + taken;
    }
    // Units from this message, which takes `units`, to the next one.
    std::uint32_t taken_by(std::uint64_t head, std::uint32_t units) const {
        return (head & kRingLast) == 0 ? units : units_ - position_;
    }
    // Prefetches the other lines of a message whose first line is there: they are on their way
    // while the message is delivered. For a long message the processor prefetches the rest by
    // itself.
    [[gnu::always_inline]] static void ask_for_rest(const std::byte* at, std::uint32_t units) {
        const auto within = reinterpret_cast<std::uintptr_t>(at) % kCacheLine;
        const std::byte* const end = at + std::min(units, kAskedFor) * kRingUnit;
        for (const std::byte* line = at - within + kCacheLine; line < end; line += kCacheLine) {
            __builtin_prefetch(line);
        }
    }
    void look_at_room() {
        return_at_ = (room_.bounded() ? std::min(room_.units(), units_) : units_) / 2;
    }
    // Checks again, since the ring may have grown.
    bool still_due() {
        look_at_room();
        return untold_ >= return_at_;
    }
    Found read(std::uint64_t head, MessageHeader& header, const std::byte*& body);
    Found read_compact(std::uint64_t head, MessageHeader& header, const std::byte*& body);
    bool begins(std::uint64_t head);
    bool whole(std::byte* at, std::uint64_t head, Bytes length, RingWay way);

    // Up to posted_: all fields that a short message needs.
    std::byte* memory_;
    std::uint64_t consumed_ = 0; // units since the ring began
    std::uint32_t units_;
    std::uint32_t untold_ = 0;              // consumed units that the writer has not been told of
    std::uint32_t position_ = 0;            // unit of the next message
    std::uint32_t current_ = 0;             // units of the message that poll() found ...
    std::uint32_t taken_ = 0;               // ... and up to the next one
    std::uint32_t sequence_ = kBeforeFirst; // of the last message consumed
    std::uint32_t retained_step_; // units between two words that are zeroed in a retained message
    bool retained_ = false;       // the message that poll() found is retained
    bool posted_ = false;
    std::uint32_t return_at_; // half of the units that had memory at the last check
    RingRoom room_;
    std::uint64_t count_ = 0;
    std::uint32_t begun_ = 0;       // polls that found only the beginning of a first word
    std::byte* deferred_ = nullptr; // the message before the next one, if its release is deferred
    std::uint32_t deferred_units_ = 0;
    std::uint32_t deferred_taken_ = 0;
};

class RingWriter {
public:
    struct Target {
        std::uint64_t address = 0; // of the reader's ring
        std::uint32_t key = 0;
        std::uint64_t units = 0;
        // Length up to which the queue pair takes a message inline, without reading it later
        Bytes inline_bytes = 0;
        // Of the RingRoom word in the reader's memory; 0: the whole ring has memory
        std::uint64_t room_address = 0;
    };

    // `credit`: the 64-bit count that the reader writes. Failed work completes with `wr_id`.
    RingWriter(Rail& rail, QueuePair& qp, const Target& target, const std::uint64_t* credit,
               std::uint64_t wr_id, const RingHabits& habits = ring_habits());

    // Returns false if the ring has to be posted to and there is no memory for the mirror. Called
    // before the first reserve().
    bool usable() { return choose_way(); }

    // Reserves room for `length` bytes of body and payload. The caller fills it, then calls
    // commit() to make it a message or abandon() to undo the reservation. Returns null if the ring
    // has no room now, which may include the unit behind. REQUIRES: the message takes at most half
    // the units.
    [[gnu::always_inline]] std::byte* reserve(Bytes length) {
        const std::uint64_t units = ring_units_for(length, RingWay::stored);
        if (has_place(units)) [[likely]] {
            return unit_address(position_) + ring_body_at(length, RingWay::stored);
        }
        return reserve_with_care(length);
    }
    void abandon(Bytes length);
    // Longest body and payload that fits, given the memory that can be had now.
    Bytes most() const {
        const std::uint64_t units = refused_ ? end_ : units_;
        return units / 2 * kRingUnit - kRingOverhead;
    }
    // REQUIRES: header.length is the length of the last reserve.
    [[gnu::always_inline]] Status commit(const MessageHeader& header) {
        if (!direct()) [[unlikely]] {
            return post(header);
        }
        if (ends_lap_) [[unlikely]] {
            commit_last(header);
            return kOk;
        }
        const std::uint64_t units = ring_units_for(header.length, RingWay::stored);
        store(header, units);
        advance(units);
        sequence_ = header.sequence;
        if (must_zero()) [[unlikely]] {
            zero_ahead(header.length, units);
        } else {
            claim_ahead(kClaimed, units);
        }
        return kOk;
    }

    // Reserves and commits a short stored message in one call, which is the most frequent case:
    // fill(to) puts header.length bytes of body and payload at `to`. Returns false, having done
    // nothing, if the caller must use reserve().
    template <typename Fill>
    [[gnu::always_inline]] bool store_short(const MessageHeader& header, Fill&& fill) {
        const bool compact = header.type == MessageType::active && header.sequence == sequence_ + 1;
        const std::uint64_t units =
            ring_units_for(header.length, compact ? RingWay::compact : RingWay::stored);
        if (must_zero() || !has_place(units)) [[unlikely]] {
            return false;
        }
        std::byte* const at = unit_address(position_);
        advance(units);
        sequence_ = header.sequence;
        claim_ahead(kClaimed, units);
        if (compact) [[likely]] {
            fill(at + ring_body_at(0, RingWay::compact));
            store_ring_word(at, ring_compact_word(header), std::memory_order_release);
            return true;
        }
        fill(at + sizeof(MessageHeader));
        write_fields(at, header);
        store_ring_word(at, header.head_word(), std::memory_order_release);
        return true;
    }

    // settled(): the reader has all that was posted and that a completion was requested for.
    // flushed(): the reader has all that was posted; requests the missing completion, so the caller
    // calls it again. (What was stored has arrived anyway.)
    bool settled() const { return awaited_ == 0; }
    bool flushed() { return !flush().is_again(); }
    // Returns true if messages are stored into the reader's memory.
    bool direct() const { return guard_.faults != nullptr; }
    // Returns true if what is stored into the reader's memory arrives, at this moment.
    bool stores() const { return direct() && guard_.open(); }
    // Called when something has arrived from the reader, which may have caught up: a writer that
    // has gone beyond a short lap then checks at the next message, but not all the time.
    void answered() {
        if (lap_ > kShortLap && position_ - looked_at_ >= kCaughtUpEvery) [[unlikely]] {
            lap_ = position_;
        }
    }
    // Returns true if the last message lies where earlier ones have lain: both sides have that part
    // of the ring in memory.
    bool lapped() const { return direct() && position_ <= used_; }
    // Called for each completion taken that has this writer's wr_id.
    void on_completion() { awaited_ -= awaited_ > 0 ? 1 : 0; }
    bool posts_to(const QueuePair& qp) const { return qp_ == &qp; }

    // Prepares to continue over another queue pair, of rail `next`, which reaches the same memory.
    // Writes over two queue pairs have no order, so from now on nothing is posted; direct stores
    // continue. Errors: of the rail; nothing has changed then.
    Status pause(Rail& next);
    // Ends pause() without a change of queue pair.
    void resume() {
        paused_ = false;
        next_mirror_.reset();
    }
    // Continues over the other queue pair. REQUIRES: hold(next); an empty write posted after all
    // earlier work is complete; settled().
    void migrate_to(Rail& next, QueuePair& qp, std::uint32_t key, Bytes inline_bytes);

    // Credit in messages. heard(): the reader's count, from one of its messages. carry(): the count
    // of the ring in the other direction, which the next posted message takes along (0: none).
    // carried(): the last count that a message took along.
    void heard(std::uint64_t count) {
        if (count > consumed_ && count <= produced_) {
            consumed_ = count;
        }
    }
    void carry(std::uint64_t count) { to_carry_ = count; }
    std::uint64_t carried() const { return carried_; }

    // Calls f(header, body), in order, for each posted message that the reader's count does not
    // cover. The reader has all stored messages, and all that were posted before them (invariant
    // 4). REQUIRES: the count does not change meanwhile. Returns false if the count is impossible.
    template <typename F> bool for_each_in_doubt(F&& f) const {
        if (mirror_ == nullptr || direct()) {
            return true;
        }
        const std::uint64_t consumed = std::max(consumed_, returned());
        if (consumed > produced_ || produced_ - consumed > units_) {
            return false;
        }
        const auto* base = static_cast<const std::byte*>(mirror_->address());
        std::uint64_t at = std::max(consumed, posted_from_);
        while (at != produced_) {
            const std::uint64_t position = at % units_;
            const std::byte* message = base + position * kRingUnit;
            MessageHeader header;
            std::memcpy(reinterpret_cast<std::byte*>(&header), message, sizeof header);
            if (header.type == MessageType::skip) {
                at += units_ - position;
                continue;
            }
            const std::uint64_t units = ring_units_for(header.length, ring_way_of(header.magic));
            if (units > produced_ - at || units > units_ - position) {
                return false; // not the beginning of a message
            }
            header.magic = kHeaderMagic;
            f(header, message + sizeof header);
            at += units;
        }
        return true;
    }

private:
    std::byte* unit_address(std::uint64_t unit) { return base_ + unit * kRingUnit; }
    // Returns true if that many units behind the last message are free and can be stored into.
    bool has_place(std::uint64_t units) const {
        return direct() && position_ + units <= lap_ && produced_ + units < units_ + consumed_ &&
               guard_.open();
    }
    // Returns true less than a lap after a retained message.
    bool must_zero() const { return produced_ < zero_until_; }
    void advance(std::uint64_t units) {
        last_ = position_;
        produced_ += units;
        position_ += static_cast<std::uint32_t>(units);
        if (position_ == units_) [[unlikely]] {
            begin_lap(units_);
        }
    }
    // Begins the next lap; the last message of this one ends at `end`.
    void begin_lap(std::uint32_t end) {
        used_ = std::max(used_, end);
        retained_in_lap_ = false;
        position_ = 0;
        looked_at_ = 0;
        lap_ = std::min(kShortLap, units_);
        if (beyond_ && direct()) [[unlikely]] { // posted messages would arrive later
            leave_room();
        }
    }
    // The reader's processor owns the lines that it has emptied. Prefetches those of the next
    // messages early, so that storing into them does not wait: as many units as the last message
    // took, up to most_claimed.
    static constexpr std::uint64_t kClaimed = 8; // units ahead
    void claim_ahead(std::uint64_t first, std::uint64_t units) const {
        std::uint64_t unit = position_ + first;
        const std::uint64_t end = unit + std::min<std::uint64_t>(units, habits_.most_claimed);
        for (; unit < end; unit += kCacheLine / kRingUnit) {
            claim_line(base_ + (unit < lap_ ? unit : unit - lap_) * kRingUnit);
        }
    }
    std::byte* reserve_with_care(Bytes length);
    void commit_last(const MessageHeader& header);
    RingWay way_now() const {
        return direct() ? RingWay::stored : counted_ ? RingWay::counted : RingWay::posted;
    }
    std::uint64_t returned() const {
        return load_ring_word(reinterpret_cast<const std::byte*>(credit_));
    }
    bool has_room(std::uint64_t units);
    bool choose_way();
    bool begin_to_post();
    void map();
    void post_from_now() { guard_.faults = nullptr; }
    Status flush();
    bool caught_up() const;
    bool go_on(std::uint64_t units);
    bool next_lap(std::uint64_t units);
    bool make_lap(std::uint64_t wanted, std::uint64_t needed);
    void grow(std::uint64_t wanted, std::uint64_t needed);
    void note_room(std::uint32_t units);
    void leave_room();
    bool skip_rest();
    Status post(const MessageHeader& header);
    Status post_message(const MessageHeader& header, RingWay way, std::uint64_t taken);
    Status post_zero(std::uint64_t unit);
    Status post_write(const Gather& gather, std::uint64_t unit, bool signaled);

    // Writes field by field, as head_word() reads (the reason is there).
    static void write_fields(std::byte* at, const MessageHeader& header) {
        std::memcpy(at + offsetof(MessageHeader, sequence), &header.sequence, 4);
        std::memcpy(at + offsetof(MessageHeader, context), &header.context, 4);
        std::memcpy(at + offsetof(MessageHeader, source), &header.source, 4);
        std::memcpy(at + offsetof(MessageHeader, tag), &header.tag, 4);
    }
    [[gnu::always_inline]] void store(const MessageHeader& header, std::uint64_t units) {
        std::byte* at = unit_address(position_);
        std::uint64_t head = header.head_word();
        if (header.length >= kRetainedFrom || must_zero()) [[unlikely]] {
            head = store_behind(head, header.length, units);
        }
        write_fields(at, header);
        store_ring_word(at, head, std::memory_order_release);
    }
    void zero_ahead(Bytes length, std::uint64_t units);
    // Returns true if the first word of the unit behind may be non-zero.
    bool unclean(std::uint64_t units) const {
        return must_zero() && produced_ + units >= clean_until_;
    }
    std::uint64_t store_behind(std::uint64_t head, Bytes length, std::uint64_t units);
    std::uint32_t unit_behind(std::uint64_t units) const {
        return position_ + units == units_ ? 0 : position_ + static_cast<std::uint32_t>(units);
    }

    // Hot: one cache line.
    alignas(kCacheLine) std::byte* base_ =
        nullptr; // the reader's memory if mapped, else the mirror
    std::uint64_t produced_ = 0;
    std::uint64_t consumed_ = 0;   // as last read from the credit word, or heard
    std::uint64_t zero_until_ = 0; // value of produced_ until which words may have to be zeroed
    FastPathGuard guard_;          // fast-path guard of qp_; without `faults`: messages are posted
    std::uint32_t position_ = 0;
    std::uint32_t lap_ = 0;  // messages are stored up to this unit; never beyond units_
    std::uint32_t last_ = 0; // unit of the last message
    std::uint32_t units_;    // of the ring
    std::uint32_t sequence_ = kBeforeFirst; // of the last message
    const RingHabits habits_;
    // Count of units produced up to which the first words of coming units are zero
    std::uint64_t clean_until_ = 0;
    std::uint32_t looked_at_ = 0;  // unit of this lap where go_on() last checked
    std::uint32_t used_ = 0;       // messages of earlier laps have reached up to this unit
    bool ends_lap_ = false;        // the reserved message is the last one of the lap
    bool retained_in_lap_ = false; // a message of this lap is retained
    bool retained_behind_ = false; // a retained message may lie behind the short lap
    bool beyond_ = false;          // this lap uses more than the first part of the ring
    bool refused_ = false;         // more memory was refused the last time
    std::uint32_t memory_ = 0;     // units that have memory
    std::uint32_t end_;            // units before this one can be used
    std::uint32_t first_end_ = 0;  // end_ of the first part
    std::uint32_t laps_ = 0;       // since memory was refused
    RingRoom room_;
    const std::uint64_t* credit_;
    bool counted_ = false; // the reserved message takes to_carry_ along
    bool posts_ = false;   // there is a mirror, and paused_ is false
    bool paused_ = false;
    std::uint64_t wr_id_; // constant
    // Constant except for migrate_to().
    QueuePair* qp_;
    Target target_;
    Rail* rail_;
    std::byte* mapped_ = nullptr;
    // Only for a ring that cannot be mapped, or that direct stores cannot reach any more.
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> mirror_memory_;
    std::unique_ptr<MemoryRegion> mirror_;
    std::unique_ptr<MemoryRegion> next_mirror_; // the same memory, registered with the next rail
    std::uint64_t to_carry_ = 0;
    std::uint64_t carried_ = 0;
    std::uint32_t unsignaled_ = 0; // writes posted since the last signaled one
    std::uint32_t awaited_ = 0;    // signaled writes that are not complete
    // Count of units produced before the first message in the mirror
    std::uint64_t posted_from_ = 0;
};

// Exchanges credit between the two rings of one peer: passes to `out` what the messages of `in`
// reported, and to the messages of `out` what they are to report of `in`. Returns true if such a
// message told the writer of `in` something new.
inline bool exchange_credit(RingReader& in, RingWriter& out) {
    out.heard(in.count());
    const bool returned = in.credit_returned(out.carried());
    out.carry(in.credit_soon_due() ? in.consumed() : 0);
    return returned;
}

} // namespace adaptib
