// SPDX-License-Identifier: BSD-3-Clause
// RingCursor: the place in a ring where a writer's next message goes.
//
// Purpose: holds in one cache line all that decides whether a short message can be stored now, and
// where. Positions are units of the ring; counts are units since the ring began. Layout and
// invariants: channel/ring_layout.h.
// Ownership: refers to the ring's memory, or to its mirror (channel/ring_mirror.h), which outlives
// it.
// Threads: one at a time.
// May touch: base/, fabric/queue_pair.h, channel/ring_habits.h, channel/ring_layout.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/invariant.h"
#include "base/units.h"
#include "channel/ring_habits.h"
#include "channel/ring_layout.h"
#include "fabric/queue_pair.h"

namespace adaptib {

class RingCursor {
public:
    explicit RingCursor(std::uint32_t units) : lap_(std::min(kShortLap, units)), units_(units) {
        static_assert(offsetof(RingCursor, base_) == 0 &&
                          offsetof(RingCursor, lap_) + sizeof lap_ <= kCacheLine,
                      "has_place() reads one cache line");
    }

    // ---- The way of the messages

    // direct(): messages are stored into the reader's memory; otherwise they are posted.
    // stores(): and they arrive, at this moment.
    bool direct() const { return guard_.faults != nullptr; }
    bool stores() const { return direct() && guard_.open(); }
    // Stores messages into the reader's memory at `base`, while `guard` is open.
    void store_to(std::byte* base, const FastPathGuard& guard) {
        base_ = base;
        guard_ = guard;
    }
    // Posts messages, from the mirror at `base`.
    void post_from(std::byte* base) {
        base_ = base;
        stop_storing();
    }
    void stop_storing() { guard_.faults = nullptr; }

    // ---- The place

    std::uint32_t units() const { return units_; }
    std::uint32_t position() const { return position_; }
    std::byte* unit_address(std::uint64_t unit) const { return base_ + unit * kRingUnit; }
    std::byte* here() const { return unit_address(position_); }
    // Returns the unit behind a message of `units`.
    std::uint32_t unit_behind(std::uint64_t units) const {
        return position_ + units == units_ ? 0 : position_ + static_cast<std::uint32_t>(units);
    }
    // Returns true if that many units behind the last message are free and can be stored into.
    bool has_place(std::uint64_t units) const {
        return direct() && position_ + units <= lap_ && produced_ + units < units_ + consumed_ &&
               guard_.open();
    }
    // Moves behind a message of `units`. Returns true at the ring's end, where the caller begins a
    // lap.
    bool advance(std::uint64_t units) {
        last_ = position_;
        produced_ += units;
        position_ += static_cast<std::uint32_t>(units);
        ADAPTIB_AUDIT(position_ <= units_, "a message lies within the ring", position_, units_);
        ADAPTIB_AUDIT(produced_ - consumed_ <= units_, "a ring holds no more than its size",
                      produced_, consumed_, units_);
        return position_ == units_;
    }
    // Moves to the ring's beginning, behind a message that announces it and counts as `units`.
    void skip(std::uint64_t units) {
        last_ = position_;
        produced_ += units;
        position_ = 0;
        ADAPTIB_AUDIT(produced_ - consumed_ <= units_, "a ring holds no more than its size",
                      produced_, consumed_, units_);
    }
    void begin_lap() {
        ADAPTIB_AUDIT(produced_ % units_ == 0, "the units of a lap are those of the whole ring",
                      produced_, units_);
        position_ = 0;
        lap_ = std::min(kShortLap, units_);
        wraps_ = wraps();
        lap_sequence_ = sequence_ == kBeforeFirst ? lap_sequence_ : sequence_;
    }
    // Messages are stored up to this unit; never beyond units().
    std::uint32_t lap() const { return lap_; }
    void set_lap(std::uint32_t end) { lap_ = end; }

    // Sequence number of the last message.
    std::uint32_t sequence() const { return sequence_; }
    // Notes that a message has been sent, in one cache line.
    void sent(std::uint32_t sequence, Bytes length) {
        sequence_ = sequence;
        sent_bytes_ += length;
    }
    // Body and payload of all messages but those that the caller has uncounted.
    Bytes sent_bytes() const { return sent_bytes_; }
    void uncount(Bytes length) {
        ADAPTIB_INVARIANT(length <= sent_bytes_, "what is uncounted was counted", length,
                          sent_bytes_);
        sent_bytes_ -= length;
    }
    // Number of times that the sequence numbers have begun again, which is noted lap by lap.
    std::uint32_t wraps() const { return wraps_ + (has_wrapped() ? 1 : 0); }

    // ---- Counts

    std::uint64_t produced() const { return produced_; }
    // As last read from the credit word, or heard.
    std::uint64_t consumed() const { return consumed_; }
    bool has_room(std::uint64_t units) const { return produced_ + units - consumed_ <= units_; }
    // `count`: the reader's, of consumed units. Ignores an older or impossible one.
    void heard(std::uint64_t count) {
        if (count > consumed_ && count <= produced_) {
            consumed_ = count;
        }
    }
    // Returns true if the reader has consumed all messages: the first word of the last one, which
    // may be a skip, is zero again.
    bool caught_up() const { return direct() && load_ring_word(unit_address(last_)) == 0; }
    // REQUIRES: caught_up().
    void all_consumed() { consumed_ = produced_; }

    // Value of produced() until which words may have to be zeroed, and whether it is ahead: less
    // than a lap after a retained message.
    std::uint64_t zero_until() const { return zero_until_; }
    void set_zero_until(std::uint64_t count) { zero_until_ = count; }
    bool must_zero() const { return produced_ < zero_until_; }

    // The reader's processor owns the lines that it has emptied. Prefetches those of the next
    // messages early, so that storing into them does not wait: `units`, from the unit `ahead` of
    // the position.
    void claim(std::uint64_t ahead, std::uint64_t units) const {
        std::uint64_t unit = position_ + ahead;
        const std::uint64_t end = unit + units;
        for (; unit < end; unit += kCacheLine / kRingUnit) {
            claim_line(base_ + (unit < lap_ ? unit : unit - lap_) * kRingUnit);
        }
    }

private:
    bool has_wrapped() const { return sequence_ < lap_sequence_; }

    std::byte* base_ = nullptr; // the reader's memory if mapped, else the mirror
    std::uint64_t produced_ = 0;
    std::uint64_t consumed_ = 0;
    std::uint64_t zero_until_ = 0;
    FastPathGuard guard_; // of the queue pair; without `faults`: messages are posted
    std::uint32_t position_ = 0;
    std::uint32_t lap_;
    std::uint32_t last_ = 0; // unit of the last message
    const std::uint32_t units_;
    std::uint32_t sequence_ = kBeforeFirst;
    Bytes sent_bytes_ = 0;
    std::uint32_t lap_sequence_ = 0; // at the beginning of the lap; kBeforeFirst leaves it
    std::uint32_t wraps_ = 0;        // until then
};

} // namespace adaptib
