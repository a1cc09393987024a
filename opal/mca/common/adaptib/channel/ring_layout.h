// SPDX-License-Identifier: BSD-3-Clause
// Layout of the ring channel: a peer writes its messages into this process's memory, which this
// process polls.
//
// Purpose: how messages lie in a ring, and the invariants that the reader (channel/ring_reader.h)
// and the writer (channel/ring_writer.h) maintain.
//
// Layout: `units` of 32 bytes, so that two short messages share a cache line. A message takes
// whole, consecutive units:
//
//     unit p        | MessageHeader 24 | body and payload   |
//     ...           | ...                                   |
//     unit p+k-1    | ...  | pad to 8 | checksum 8 | count 8 | tail word 8 |
//
// Only posted messages have a tail word, and only some of these have a count: how much of the ring
// in the other direction their sender has consumed. Nothing is written behind the tail word. A
// checked message (parameter ring_check) has a checksum, and always a count, which may be 0.
//
// A short active message that is stored is compact (RingFormat::compact): it carries only the first
// word of the header. Two compact messages of 8 bytes for ob1, each with ob1's own header of 14
// bytes, share a cache line. The sequence number of a compact message is one more than that of the
// message before it in the ring (a message whose number is not has a whole header); the word holds
// its low 16 bits:
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
//      number and is retained (kRetainedMagic): the reader zeroes only its first word, or one word
//      in each of its cache lines (RingHabits::dirties), maybe a little later (defer_release).
//      Until the writer overwrites a retained message, it zeroes the words that must be zero, a few
//      units ahead.
//   2. A writer that stores directly stores the first word of the header last, with release order:
//      a visible message is complete. A posted message becomes visible in address order (an
//      adapter, kPublish), maybe byte by byte (soft-RoCE). So it has another magic number and ends
//      with a tail word that follows from the header, including the sequence number; the message is
//      complete when header and tail word are there. The reader zeroes the tail word once it has
//      seen it, so that no message takes the tail word of an earlier one at the same place and of
//      the same length for its own. A device that places the packets of a write in any order
//      breaks this for messages of several packets; the writer posts none there
//      (RingTarget::write_bytes). A reader of a 64-bit count (the consumed count, too) may see
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
//      broken connection may have lost. The payload of a gathered message stays in the user's
//      buffer until its write is complete: then it has arrived (gathered_messages.h). A writer that
//      has posted stores again only when all that it has posted is known to have arrived.
//
// Ownership: none; functions on words of a ring, which belongs to its reader.
// Threads: one at a time for each side; the two sides are two processes.
// Source: Takagi et al., section 2 (message channels with RDMA); the rings of MVAPICH have the same
// idea.
// May touch: base/, channel/ring_room.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "base/wire.h"
#include "channel/ring_room.h"

namespace adaptib {

constexpr std::uint16_t kTailedMagic = kHeaderMagic + 1;   // in a ring: a posted message
constexpr std::uint16_t kRetainedMagic = kHeaderMagic + 2; // in a ring: stored and retained
constexpr std::uint16_t kCountedMagic = kHeaderMagic + 3;  // in a ring: posted, with a count
constexpr std::uint16_t kCompactMagic = kHeaderMagic + 4;  // in a ring: compact, one word of header
constexpr std::uint16_t kCheckedMagic = kHeaderMagic + 5;  // in a ring: posted, with a checksum
constexpr Bytes kRetainedFrom = 768;                       // bytes of body and payload
constexpr std::uint32_t kShortLap = 256;                   // units: 8 KiB
constexpr std::uint32_t kRingOverhead = sizeof(MessageHeader) + 3 * sizeof(std::uint64_t);

enum class RingFormat : std::uint8_t {
    stored,
    posted,
    counted, // posted with a count
    checked, // posted with a checksum and a count
    compact, // stored with one word of header (compact)
};

// Sequence number "before" the first message of a ring.
constexpr std::uint32_t kBeforeFirst = 0xffffffff;

// Offset of the body within a message.
constexpr Bytes ring_body_at(Bytes length, RingFormat format) {
    if (format == RingFormat::compact) {
        return sizeof(std::uint64_t);
    }
    return format == RingFormat::stored && length >= kRetainedFrom ? kRingUnit
                                                                   : sizeof(MessageHeader);
}

// Bytes from the beginning of a posted message to the end of its tail word.
constexpr Bytes ring_posted_bytes(Bytes length, RingFormat format) {
    constexpr Bytes kWord = sizeof(std::uint64_t);
    const Bytes words = format == RingFormat::checked ? 3 : format == RingFormat::counted ? 2 : 1;
    return round_up(length + sizeof(MessageHeader), kWord) + words * kWord;
}

constexpr std::uint64_t ring_units_for(Bytes length, RingFormat format) {
    const bool posted = format == RingFormat::posted || format == RingFormat::counted ||
                        format == RingFormat::checked;
    const Bytes bytes =
        posted ? ring_posted_bytes(length, format) : length + ring_body_at(length, format);
    return (bytes + kRingUnit - 1) / kRingUnit;
}

constexpr RingFormat ring_format_of(std::uint16_t magic) {
    return magic == kCountedMagic   ? RingFormat::counted
           : magic == kTailedMagic  ? RingFormat::posted
           : magic == kCheckedMagic ? RingFormat::checked
           : magic == kCompactMagic ? RingFormat::compact
                                    : RingFormat::stored;
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

// Checksum of a message: of its header as it lies in the ring, and of its body and payload. A word
// that is still an earlier message's changes it, and so does one at another place.
std::uint64_t ring_checksum(const std::byte* header, const std::byte* body, Bytes length);

// Bit in the magic number of a stored message: the next message is at the beginning of the ring.
constexpr std::uint64_t kRingLast = std::uint64_t{1} << 28;
static_assert((std::uint64_t{kHeaderMagic | kTailedMagic | kRetainedMagic | kCountedMagic |
                             kCompactMagic | kCheckedMagic}
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

} // namespace adaptib
