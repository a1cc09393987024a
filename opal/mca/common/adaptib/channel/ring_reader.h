// SPDX-License-Identifier: BSD-3-Clause
// RingReader: takes the messages that a peer has written into a ring in this process's memory.
//
// Purpose: finds the next message, hands it over in place, releases its units and counts them as
// credit for the writer. Layout and invariants: channel/ring_layout.h.
// Ownership: refers to the ring's memory, which outlives it.
// Threads: one at a time.
// May touch: base/, channel/ring_habits.h, channel/ring_layout.h, channel/ring_room.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/invariant.h"
#include "base/units.h"
#include "base/wire.h"
#include "channel/ring_habits.h"
#include "channel/ring_layout.h"
#include "channel/ring_room.h"

namespace adaptib {

constexpr Bytes kShortRetained = 4096 + 256; // short, although retained: a page and headers
constexpr std::uint32_t kAskedFor = 32; // units of an arrived message that the reader prefetches
// Behind a message of at most this many units the reader also prefetches the line where the next
// message begins: it looks there as soon as it has delivered this message, and cannot finish what
// it does next before that line is there.
constexpr std::uint32_t kNextAskedFor = 64;
// Maximum number of polls that find only the beginning of a first word, before the reader reports
// garbage. Corresponds to seconds.
constexpr std::uint32_t kBegunPolls = 1u << 24;

class RingReader {
public:
    enum class Found : std::uint8_t { nothing, message, garbage };

    // REQUIRES: `memory` is zero, `units` x 32 bytes, 64-byte aligned.
    // `room`: for a ring whose memory grows and shrinks.
    RingReader(std::byte* memory, std::uint64_t units, const RingHabits& habits = ring_habits(),
               RingRoom room = RingRoom())
        : memory_(memory), units_(static_cast<std::uint32_t>(units)),
          retained_step_(habits.dirties ? kCacheLine / kRingUnit : units_), room_(room) {
        ADAPTIB_AUDIT(reinterpret_cast<std::uintptr_t>(memory) % kCacheLine == 0,
                      "a ring begins at a cache line", memory);
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

    // Returns true if the next message has a number after `sequence`. False also if there is none,
    // or it is a skip. A posted message that is not whole may seem to have any number.
    bool next_is_after(std::uint32_t sequence) const {
        const std::uint64_t word = head();
        std::uint32_t number = sequence_ + 1; // a compact message's
        if (ring_format_of(ring_magic_of(word)) != RingFormat::compact) {
            std::memcpy(&number, place() + offsetof(MessageHeader, sequence), sizeof number);
        }
        return word != 0 && static_cast<MessageType>(word & 0xff) != MessageType::skip &&
               sequence_before(sequence, number);
    }

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
        constexpr RingFormat kFormat = kCompact ? RingFormat::compact : RingFormat::stored;
        const std::byte* at = place();
        found.flags = static_cast<std::uint8_t>(word >> 8);
        if constexpr (kCompact) {
            found.length = ring_compact_length(word);
            found.sequence = sequence_ + 1;
        } else {
            found.length = static_cast<std::uint32_t>(word >> 32);
            std::memcpy(&found.sequence, at + offsetof(MessageHeader, sequence), 4);
        }
        found.units = static_cast<std::uint32_t>(ring_units_for(found.length, kFormat));
        found.body = at + ring_body_at(kRetained ? kRetainedFrom : 0, kFormat);
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
        ADAPTIB_AUDIT(deferred_ == nullptr, "one message at most waits for its release", deferred_);
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
        ADAPTIB_INVARIANT(deferred_ != nullptr, "what is released was deferred", position_);
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
        ADAPTIB_AUDIT(current_ > 0 && current_ <= taken_ && deferred_ == nullptr,
                      "a message is found before it is consumed", current_, taken_);
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
    // True if it would be due if the writer had been told this count.
    bool credit_due_since(std::uint64_t count) const { return consumed_ - count >= return_at_; }
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
    // Returns true if the garbage that poll() found is a checked message that differs from what
    // was written: part of it was not there yet although its tail was.
    bool misplaced() const { return misplaced_; }

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
        ADAPTIB_AUDIT(position_ < units_, "the next message lies within the ring", position_,
                      units_);
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
    bool whole(std::byte* at, std::uint64_t head, Bytes length, RingFormat format);
    void take_count(const std::byte* tail, RingFormat format);

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
    bool misplaced_ = false;
    std::uint32_t begun_ = 0;       // polls that found only the beginning of a first word
    std::byte* deferred_ = nullptr; // the message before the next one, if its release is deferred
    std::uint32_t deferred_units_ = 0;
    std::uint32_t deferred_taken_ = 0;
};

} // namespace adaptib
