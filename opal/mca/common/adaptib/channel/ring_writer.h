// SPDX-License-Identifier: BSD-3-Clause
// RingWriter: writes messages into a ring in a peer's memory.
//
// Purpose: reserves room in the ring and makes what the caller fills in a message. Stores messages
// directly if the ring's memory is mapped; otherwise posts them over a queue pair. Begins laps, and
// zeroes words behind retained messages. Layout and invariants: channel/ring_layout.h.
// Parts: the place of the next message (RingCursor), the memory that the ring has (RingSpace), the
// queue pair (RingPoster), the posted messages (RingMirror), and the count that a posted message
// takes along (CarriedCredit).
// Ownership: owns its parts; uses a queue pair and a rail that outlive it.
// Threads: one at a time.
// May touch: base/, fabric/fabric.h, channel/ring_*.h, channel/carried_credit.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/invariant.h"
#include "base/status.h"
#include "base/units.h"
#include "base/wire.h"
#include "channel/carried_credit.h"
#include "channel/ring_cursor.h"
#include "channel/ring_habits.h"
#include "channel/ring_layout.h"
#include "channel/ring_mirror.h"
#include "channel/ring_poster.h"
#include "channel/ring_space.h"
#include "fabric/fabric.h"

namespace adaptib {

constexpr std::uint32_t kLongerBy = 32; // units by which a lap grows the first time
// Maximum number of messages between two checks whether the reader has caught up; a check costs a
// cache line or two.
constexpr std::uint32_t kCaughtUpEvery = 64;

class RingWriter {
public:
    // `credit`: the 64-bit count that the reader writes. Failed work completes with `wr_id`.
    RingWriter(Rail& rail, QueuePair& qp, const RingTarget& target, const std::uint64_t* credit,
               std::uint64_t wr_id, const RingHabits& habits = ring_habits());

    // Returns false if the ring has to be posted to and there is no memory for the mirror. Called
    // before the first reserve().
    bool prepare() { return choose_way(); }

    // Reserves room for `length` bytes of body and payload. The caller fills it, then calls
    // commit() to make it a message or abandon() to undo the reservation. Returns null if the ring
    // has no room now, which may include the unit behind. REQUIRES: the message takes at most half
    // the units.
    [[gnu::always_inline]] std::byte* reserve(Bytes length) {
        const std::uint64_t units = ring_units_for(length, RingFormat::stored);
        if (cursor_.has_place(units)) [[likely]] {
            return cursor_.here() + ring_body_at(length, RingFormat::stored);
        }
        return reserve_with_care(length);
    }
    void abandon(Bytes length);
    // Longest body and payload that fits, given the memory that can be had now.
    Bytes most() const {
        const Bytes room = std::uint64_t{space_.most()} / 2 * kRingUnit;
        const Bytes write = poster_.target().write_bytes;
        return (write == 0 ? room : std::min(room, write)) - kRingOverhead;
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
        const std::uint64_t units = ring_units_for(header.length, RingFormat::stored);
        ADAPTIB_AUDIT(cursor_.position() + units <= cursor_.lap(), "a message lies within its lap",
                      cursor_.position(), units, cursor_.lap());
        store(header, units);
        advance(units);
        cursor_.sent(header.sequence, header.length);
        if (cursor_.must_zero()) [[unlikely]] {
            zero_ahead(header.length, units);
        } else {
            claim_ahead(kClaimed, units);
        }
        return kOk;
    }

    // Same for a gathered message, whose last payload.length bytes the device reads from `payload`
    // until the completion of the write `poster().signaled()`: the caller has filled only what is
    // in front of them. REQUIRES: the queue pair takes kRingGather pieces; gathers(header.length).
    Status commit_gathered(const MessageHeader& header, const Gather& payload) {
        return post(header, &payload);
    }
    // Returns true if the next message may be gathered: it is posted, and not inline. Called after
    // reserve(length).
    bool gathers(Bytes length) {
        return !direct() &&
               ring_posted_bytes(length, format_now()) > poster_.target().inline_bytes &&
               mirror_.prepare_to_gather();
    }

    // Reserves and commits a short stored message in one call, which is the most frequent case:
    // fill(to) puts header.length bytes of body and payload at `to`. Returns false, having done
    // nothing, if the caller must use reserve().
    template <typename Fill>
    [[gnu::always_inline]] bool store_short(const MessageHeader& header, Fill&& fill) {
        const bool compact =
            header.type == MessageType::active && header.sequence == cursor_.sequence() + 1;
        const std::uint64_t units =
            ring_units_for(header.length, compact ? RingFormat::compact : RingFormat::stored);
        if (cursor_.must_zero() || !cursor_.has_place(units)) [[unlikely]] {
            return false;
        }
        std::byte* const at = cursor_.here();
        advance(units);
        cursor_.sent(header.sequence, header.length);
        claim_ahead(kClaimed, units);
        if (compact) [[likely]] {
            fill(at + ring_body_at(0, RingFormat::compact));
            store_ring_word(at, ring_compact_word(header), std::memory_order_release);
            return true;
        }
        fill(at + sizeof(MessageHeader));
        write_fields(at, header);
        store_ring_word(at, header.head_word(), std::memory_order_release);
        return true;
    }

    // Knows how much has been sent.
    RingCursor& cursor() { return cursor_; }

    // Posts messages that are not stored, and knows when the reader has them.
    RingPoster& poster() { return poster_; }
    const RingPoster& poster() const { return poster_; }
    // Returns true if messages are stored into the reader's memory.
    bool direct() const { return cursor_.direct(); }
    // Returns true if what is stored into the reader's memory arrives, at this moment.
    bool stores() const { return cursor_.stores(); }
    // Called when something has arrived from the reader, which may have caught up: a writer that
    // has gone beyond a short lap then checks at the next message, but not all the time.
    void answered() {
        const std::uint32_t position = cursor_.position();
        if (cursor_.lap() > kShortLap && position - looked_at_ >= kCaughtUpEvery) [[unlikely]] {
            cursor_.set_lap(position);
        }
    }
    // Returns true if the last message lies where earlier ones have lain: both sides have that part
    // of the ring in memory.
    bool lapped() const { return direct() && cursor_.position() <= used_; }

    // Prepares to continue over another queue pair, of rail `next`, which reaches the same memory.
    // Writes over two queue pairs have no order, so from now on nothing is posted; direct stores
    // continue. Errors: of the rail; nothing has changed then.
    Status pause(Rail& next);
    // Ends pause() without a change of queue pair.
    void resume() { mirror_.resume(); }
    // Continues over the other queue pair. REQUIRES: pause(next); an empty write posted after all
    // earlier work is complete; poster().settled().
    void migrate_to(Rail& next, QueuePair& qp, std::uint32_t key, Bytes inline_bytes);

    // Credit in messages: the reader's count from one of its messages, and the count of the ring in
    // the other direction, which the next posted message takes along.
    void heard(std::uint64_t count) { cursor_.heard(count); }
    CarriedCredit& carried_credit() { return carried_; }

    // Calls f(header, body), in order, for each posted message that the reader's count does not
    // cover; `body` is null for a gathered one. The reader has all stored messages, and all that
    // were posted before them (invariant 4). REQUIRES: the count does not change meanwhile. Returns
    // false if the count is impossible.
    template <typename F> bool for_each_in_doubt(F&& f) const {
        return direct() || mirror_.for_each_between(std::max(cursor_.consumed(), returned()),
                                                    cursor_.produced(), f);
    }

private:
    void advance(std::uint64_t units) {
        if (cursor_.advance(units)) [[unlikely]] {
            begin_lap(cursor_.units());
        }
    }
    // Begins the next lap; the last message of this one ends at `end`.
    void begin_lap(std::uint32_t end) {
        used_ = std::max(used_, end);
        retained_in_lap_ = false;
        cursor_.begin_lap();
        looked_at_ = 0;
        if (space_.beyond() && direct()) [[unlikely]] { // posted messages would arrive later
            space_.leave();
        }
    }
    // Prefetches the lines of the next messages: as many units as the last message took, up to
    // most_claimed.
    static constexpr std::uint64_t kClaimed = 8; // units ahead
    void claim_ahead(std::uint64_t first, std::uint64_t units) const {
        cursor_.claim(first, std::min<std::uint64_t>(units, habits_.most_claimed));
    }
    std::byte* reserve_with_care(Bytes length);
    void commit_last(const MessageHeader& header);
    RingFormat format_now() const {
        return direct()                   ? RingFormat::stored
               : poster_.target().checked ? RingFormat::checked
               : carried_.reserved()      ? RingFormat::counted
                                          : RingFormat::posted;
    }
    std::uint64_t returned() const {
        return load_ring_word(reinterpret_cast<const std::byte*>(credit_));
    }
    bool has_room(std::uint64_t units);
    bool choose_way();
    void map();
    bool go_on(std::uint64_t units);
    bool next_lap(std::uint64_t units);
    bool make_lap(std::uint64_t wanted, std::uint64_t needed);
    bool skip_rest();
    Status post(const MessageHeader& header, const Gather* payload = nullptr);
    Status post_message(const MessageHeader& header, RingFormat format, std::uint64_t taken,
                        const Gather* payload = nullptr);
    Status post_pieces(const MessageHeader& header, Bytes bytes, const Gather& payload);
    Status post_zero(std::uint64_t unit);

    // Writes field by field, as head_word() reads (the reason is there).
    static void write_fields(std::byte* at, const MessageHeader& header) {
        std::memcpy(at + offsetof(MessageHeader, sequence), &header.sequence, 4);
        std::memcpy(at + offsetof(MessageHeader, context), &header.context, 4);
        std::memcpy(at + offsetof(MessageHeader, source), &header.source, 4);
        std::memcpy(at + offsetof(MessageHeader, tag), &header.tag, 4);
    }
    [[gnu::always_inline]] void store(const MessageHeader& header, std::uint64_t units) {
        std::byte* at = cursor_.here();
        std::uint64_t head = header.head_word();
        if (header.length >= kRetainedFrom || cursor_.must_zero()) [[unlikely]] {
            head = store_behind(head, header.length, units);
        }
        write_fields(at, header);
        store_ring_word(at, head, std::memory_order_release);
    }
    void zero_ahead(Bytes length, std::uint64_t units);
    // Returns true if the first word of the unit behind may be non-zero.
    bool unclean(std::uint64_t units) const {
        return cursor_.must_zero() && cursor_.produced() + units >= clean_until_;
    }
    std::uint64_t store_behind(std::uint64_t head, Bytes length, std::uint64_t units);

    // Hot: these two, next to each other.
    alignas(kCacheLine) RingCursor cursor_;
    const RingHabits habits_;
    // Count of units produced up to which the first words of coming units are zero
    std::uint64_t clean_until_ = 0;
    std::uint32_t looked_at_ = 0;  // unit of this lap where go_on() last checked
    std::uint32_t used_ = 0;       // messages of earlier laps have reached up to this unit
    bool ends_lap_ = false;        // the reserved message is the last one of the lap
    bool retained_in_lap_ = false; // a message of this lap is retained
    bool retained_behind_ = false; // a retained message may lie behind the short lap
    RingSpace space_;
    const std::uint64_t* credit_;
    CarriedCredit carried_;
    RingPoster poster_;
    std::byte* mapped_ = nullptr;
    // Has memory only for a ring that cannot be mapped, or that direct stores cannot reach any
    // more.
    RingMirror mirror_;
    static_assert(sizeof(RingCursor) + sizeof(RingHabits) <= 2 * kCacheLine,
                  "store_short() reads two cache lines at most");
};

} // namespace adaptib
