// SPDX-License-Identifier: BSD-3-Clause
// RingWriter: writes messages into a ring in a peer's memory.
//
// Purpose: reserves room in the ring and makes what the caller fills in a message. Stores messages
// directly if the ring's memory is mapped; otherwise posts them over a queue pair from a mirror of
// the ring, which also keeps what a broken connection may have lost. Begins laps, and commits more
// memory when a lap is too short. Layout and invariants: channel/ring_layout.h.
// Ownership: owns the mirror and its registrations; uses a queue pair and a rail that outlive it.
// Threads: one at a time.
// May touch: base/, fabric/fabric.h, channel/ring_habits.h, channel/ring_layout.h,
// channel/ring_room.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/status.h"
#include "base/units.h"
#include "base/wire.h"
#include "channel/ring_habits.h"
#include "channel/ring_layout.h"
#include "channel/ring_room.h"
#include "fabric/fabric.h"

namespace adaptib {

// Signals every kSignalEvery-th write to a queue pair; its completion also releases the send queue
// entries of the unsignaled writes before it. Send queues are several times deeper than this.
constexpr std::uint32_t kSignalEvery = 32;

// Inline bytes requested for a queue pair that posts into a ring, if the rail supports that many:
// enough for a message with up to 96 bytes.
constexpr Bytes kRingInline = 128;

constexpr std::uint32_t kLongerBy = 32; // units
// Maximum number of messages between two checks whether the reader has caught up; a check costs a
// cache line or two.
constexpr std::uint32_t kCaughtUpEvery = 64;

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

} // namespace adaptib
