// SPDX-License-Identifier: BSD-3-Clause
// The ring channel: a peer writes its messages into memory of ours that we poll.
//
// Layout: `units` of 32 bytes, so that two short messages share a cache line. A message takes whole,
// consecutive units:
//
//     unit p        | MessageHeader 24 | body and payload   |
//     ...           | ...                                   |
//     unit p+k-1    | ...  | pad to 8 | count 8 | tail word 8 |
//
// Only posted messages have a tail, and only some of these a count: how much of the ring in the other direction
// their sender has consumed. Nothing behind the tail is written.
//
// An active message that is stored and short has no more of the header than its first word, which is `brief`: two of 8
// bytes for ob1, with its own header of 14 bytes, share a cache line then. The number of such a message is the one
// behind that of the message before it in the ring (if it is not, it has a whole header); its low 16 bits are in the word:
//
//     type 8 | flags 8 | magic 16 | length 16 | number 16
//
// A message that does not fit before the last unit is preceded by a `skip` message and starts at unit 0. One that goes
// beyond the first kShortLap units, while the reader is found to have consumed everything before it, is marked as the last
// one of its lap (kRingLast): the next one starts at unit 0. If the reader has not, that is looked at after kLongerBy units
// more, twice as many, and so on up to kCaughtUpEvery messages, and when something came from the reader. Who waits for
// answers uses a few KiB again and again, which stay in the caches next to both processors; who sends a lot uses the whole
// ring.
//
// Invariants
//   1. When a message becomes visible, the first 8 bytes of the unit behind it are zero. So a non-zero word
//      at the reader's position is the header of the next message (its first word is never zero). As a rule
//      these words are zero in all units that hold no part of a message not yet consumed: the reader zeroes
//      them as it consumes. But a store into a line that was only read makes the processors talk once more,
//      and so a long stored message has a third magic number, and is left where it is but for its first
//      word, or one word in each of its lines (RingHabits::dirties), which may be a little later (hold_short). Until
//      it is overwritten the writer zeroes the words that must be, a few units ahead.
//   2. A writer that stores directly stores the header's first word last, releasing: what is seen is
//      complete. A message that is posted becomes visible in address order (an adapter, kPublish), byte
//      by byte maybe (soft-RoCE): it has another magic number and ends with a tail word that follows from
//      the header, sequence number included; it is there when header and tail are. The reader zeroes the
//      tail once it has seen it: no message finds the tail of an earlier one, of the same place and
//      length, before its own. Of a number less than all bytes may be new (the reader's count, too): with
//      the low ones first it is no more than the whole.
//   3. produced - consumed <= units. The reader tells the writer what it has consumed by writing a
//      64-bit count into memory of the writer's, at the latest after half of the ring's memory
//      (ring_room.h), beyond which the writer does not go; what a `skip` or the
//      last message of a lap leaves unused counts, so that a message of half the ring finds room once the
//      reader has taken all there is. After a quarter the count goes along with a message, if one is posted
//      the other way: a write less. It is known by a magic number of its own.
//   4. With a posting writer, units not yet consumed are kept in the writer's mirror of the ring, and
//      are reused only after the reader's count has passed them. So what a broken connection may have
//      lost can be sent again. A writer that has posted stores again only when all that it has posted is
//      known to have arrived.
//
// Ownership: a Ring* object owns its memory regions, and uses a queue pair that outlives it.
// Threads: one at a time for each side.
// Source: Takagi et al., section 2 (message channels with RDMA); the rings of MVAPICH have the same idea.
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

// Of the unsignaled writes to one queue pair, one in so many is signaled: its completion releases the
// others. Send queues are deeper than a few times this.
constexpr std::uint32_t kSignalEvery = 32;

// A queue pair that posts into a ring takes so much inline, if its rail does: a message with up to 96 bytes.
constexpr Bytes kRingInline = 128;

constexpr std::uint16_t kTailedMagic = kHeaderMagic + 1; // in a ring: a posted message
constexpr std::uint16_t kLeftMagic = kHeaderMagic + 2; // in a ring: a stored one that is left there
constexpr std::uint16_t kCountedMagic = kHeaderMagic + 3; // in a ring: a posted one with a count
constexpr std::uint16_t kBriefMagic = kHeaderMagic + 4;   // in a ring: one with a word of header
constexpr Bytes kLeftFrom = 768;                          // bytes of body and payload
constexpr Bytes kShortLeft = 4096 + 256; // below, those are short, too: a page and headers
constexpr std::uint32_t kShortLap = 256; // units: 8 KiB
constexpr std::uint32_t kLongerBy = 32;  // units
constexpr std::uint32_t kAskedFor = 32;  // units, of a message that has come
// Behind a message of so many units at most, the line in which the next one begins is asked for, too: the reader looks
// there as soon as it has handed the message over, and what it does then cannot end before that line is there.
constexpr std::uint32_t kNextAskedFor = 64;
// Messages, at most; to look whether the reader has caught up costs a line or two.
constexpr std::uint32_t kCaughtUpEvery = 64;
// So often a message's first word may be found begun and no more, before it is taken for garbage: seconds.
constexpr std::uint32_t kBegunPolls = 1u << 24;
constexpr std::uint32_t kRingOverhead = sizeof(MessageHeader) + 2 * sizeof(std::uint64_t);

// How two processors of this host pass lines between them best (TUNING.md of test/bench has the figures).
struct RingHabits {
    std::uint32_t most_claimed; // units that a writer asks for ahead
    std::uint32_t lap_messages; // in a short lap, at least
    std::uint32_t lap_longest;  // units of a message that begins one
    bool dirties;               // the reader stores into each line of what it leaves where it is
};
const RingHabits& ring_habits();
// Those of another processor, for tests; null: this one's. While there is no ring.
void assume_ring_habits(const RingHabits* habits);

enum class RingWay : std::uint8_t {
    stored,
    posted,
    counted, // posted with a count
    brief,   // stored with one word of header
};

// The number of "the message before" the first one of a ring.
constexpr std::uint32_t kBeforeFirst = 0xffffffff;

// Where the body begins.
constexpr Bytes ring_body_at(Bytes length, RingWay way) {
    if (way == RingWay::brief) {
        return sizeof(std::uint64_t);
    }
    return way == RingWay::stored && length >= kLeftFrom ? kRingUnit : sizeof(MessageHeader);
}

// From the beginning of a posted message to the end of its tail.
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
    return magic == kCountedMagic  ? RingWay::counted
           : magic == kTailedMagic ? RingWay::posted
           : magic == kBriefMagic  ? RingWay::brief
                                   : RingWay::stored;
}

// The first word of a brief message, and what it says.
constexpr std::uint64_t ring_brief_word(const MessageHeader& header) {
    return static_cast<std::uint64_t>(header.type) | (std::uint64_t{header.flags} << 8) |
           (std::uint64_t{kBriefMagic} << 16) | (std::uint64_t{header.length} << 32) |
           (std::uint64_t{header.sequence} << 48);
}
constexpr std::uint32_t ring_brief_length(std::uint64_t word) {
    return static_cast<std::uint16_t>(word >> 32);
}
constexpr bool ring_brief_is(std::uint64_t word, std::uint32_t sequence) {
    return word >> 48 == static_cast<std::uint16_t>(sequence);
}

constexpr std::uint64_t ring_tail_word(std::uint64_t head, std::uint32_t sequence) {
    return ~head ^ (static_cast<std::uint64_t>(sequence) * 0x9e3779b97f4a7c15u);
}

// Of the magic number of a stored message: the next one is at the ring's beginning.
constexpr std::uint64_t kRingLast = std::uint64_t{1} << 28;
static_assert((std::uint64_t{kHeaderMagic | kTailedMagic | kLeftMagic | kCountedMagic | kBriefMagic}
                   << 16 &
               kRingLast) == 0);
constexpr std::uint16_t ring_magic_of(std::uint64_t head) {
    return static_cast<std::uint16_t>((head & ~kRingLast) >> 16);
}

// Type and magic number in the first word of a stored message.
constexpr std::uint64_t kRingKindBits = 0xffff00ff & ~kRingLast;
constexpr std::uint64_t ring_kind_of(MessageType type, std::uint16_t magic) {
    return std::uint64_t{magic} << 16 | static_cast<std::uint64_t>(type);
}
constexpr std::uint64_t kRingEager = ring_kind_of(MessageType::eager, kHeaderMagic);
constexpr std::uint64_t kRingLeftEager = ring_kind_of(MessageType::eager, kLeftMagic);
constexpr std::uint64_t kRingLeftActive = ring_kind_of(MessageType::active, kLeftMagic);
constexpr std::uint64_t kRingBrief = ring_kind_of(MessageType::active, kBriefMagic);
constexpr bool ring_kind_is_left(std::uint64_t kind) {
    return kind == kRingLeftEager || kind == kRingLeftActive;
}

// f.operator()<kind>() if the first word is that of a message which may be taken the short way; else false.
template <typename F> [[gnu::always_inline]] inline bool with_ring_kind(std::uint64_t head, F&& f) {
    const std::uint64_t kind = head & kRingKindBits;
    return kind == kRingBrief        ? f.template operator()<kRingBrief>()
           : kind == kRingEager      ? f.template operator()<kRingEager>()
           : kind == kRingLeftEager  ? f.template operator()<kRingLeftEager>()
           : kind == kRingLeftActive ? f.template operator()<kRingLeftActive>()
                                     : false;
}

// Words of a ring that the other side reads or writes at any time.
inline std::uint64_t load_ring_word(const std::byte* at) {
    auto* word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
    return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

inline void store_ring_word(std::byte* at, std::uint64_t value, std::memory_order order) {
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at)).store(value, order);
}

// Asks for a cache line to be stored into.
inline void claim_line(const std::byte* at) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*at)); // the builtin's needs -mprfchw
#else
    __builtin_prefetch(at, 1);
#endif
}

// Of data that another processor has stored and this one has copied out, and that is to be stored again.
inline void dirty_lines(std::byte* data, Bytes length) {
    if (length >= kLeftFrom && ring_habits().dirties) {
        for (Bytes at = 0; at + sizeof(std::uint64_t) <= length; at += kCacheLine) {
            store_ring_word(data + at, 0, std::memory_order_relaxed);
        }
    }
}

class RingReader {
public:
    enum class Found : std::uint8_t { nothing, message, garbage };

    // REQUIRES: memory is zero, `units` x 32 bytes, 64-byte aligned.
    // `room`: of memory that comes and goes.
    RingReader(std::byte* memory, std::uint64_t units, const RingHabits& habits = ring_habits(),
               RingRoom room = RingRoom())
        : memory_(memory), units_(static_cast<std::uint32_t>(units)),
          left_step_(habits.dirties ? kCacheLine / kRingUnit : units_), room_(room) {
        look_at_room();
    }

    // message: `header` is a copy, `body` points into the ring until consume(). garbage: what lies there is not
    // a message; the ring cannot be used any more. A message is found once.
    Found poll(MessageHeader& header, const std::byte*& body) {
        const std::uint64_t word = head();
        return word == 0 ? Found::nothing : read(word, header, body);
    }

    // The reader has taken all that came and given it back, and the next message comes into the
    // first units.
    bool idle_within(std::uint32_t units) const {
        return head() == 0 && held_ == nullptr && position_ < units;
    }
    // The first word of what lies there; 0: nothing does.
    std::uint64_t head() const { return load_ring_word(place()); }

    // What comes most, without a copy of its header, which is at next(): an eager or active message that was stored and
    // is short.
    struct Short {
        const std::byte* body = nullptr;
        std::uint32_t length = 0;
        std::uint32_t sequence = 0;
        std::uint32_t units = 0;
        std::uint32_t taken = 0; // units up to the next one
        std::uint8_t flags = 0;
    };
    // The same as poll() for one of that kind; in place of consume(), consume_short() follows. False: it is not what its
    // kind says, poll() knows. Once for each kind: where a body is must not be reckoned from the word, but be known while
    // it is on its way, so that the next lines are, too.
    // REQUIRES: the word is head(), and of that kind.
    template <std::uint64_t kKind>
    [[gnu::always_inline]] bool take_short(std::uint64_t word, Short& found) {
        constexpr bool kBrief = kKind == kRingBrief;
        constexpr bool kLeft = ring_kind_is_left(kKind);
        constexpr RingWay kWay = kBrief ? RingWay::brief : RingWay::stored;
        const std::byte* at = place();
        found.flags = static_cast<std::uint8_t>(word >> 8);
        if constexpr (kBrief) {
            found.length = ring_brief_length(word);
            found.sequence = sequence_ + 1;
        } else {
            found.length = static_cast<std::uint32_t>(word >> 32);
            std::memcpy(&found.sequence, at + offsetof(MessageHeader, sequence), 4);
        }
        found.units = static_cast<std::uint32_t>(ring_units_for(found.length, kWay));
        found.body = at + ring_body_at(kLeft ? kLeftFrom : 0, kWay);
        const bool fits = kLeft ? found.length >= kLeftFrom && found.length < kShortLeft
                                : found.length < kLeftFrom;
        found.taken = taken_by(word, found.units);
        ask_for_rest(at, found.units);
        if (!kLeft || found.units <= kNextAskedFor) {
            __builtin_prefetch(at + found.taken * kRingUnit);
        }
        return fits && found.units <= units_ - position_ &&
               (!kBrief || ring_brief_is(word, found.sequence));
    }
    template <std::uint64_t kKind> [[gnu::always_inline]] void consume_short(const Short& found) {
        posted_ = false;
        release(found.units, found.taken, ring_kind_is_left(kKind) ? left_step_ : 1,
                found.sequence);
    }
    // The same, but the message's place is given back by let_go(), which is to come soon, and before the next message is
    // taken. For who has something more urgent to store.
    template <std::uint64_t kKind> [[gnu::always_inline]] void hold_short(const Short& found) {
        posted_ = false;
        held_ = place();
        held_units_ = found.units;
        held_taken_ = found.taken;
        sequence_ = found.sequence;
        step_over(found.taken);
    }
    bool holds() const { return held_ != nullptr; }
    // REQUIRES: holds(), of a message that is left where it is.
    void let_go() {
        give_back(held_, held_units_, held_taken_, left_step_);
        held_ = nullptr;
    }
    // That is worth it where all of a message's lines are stored into when it is given back, and may last: credit is not
    // due with it, so a message of any length finds room beside it.
    bool may_hold(const Short& found) const {
        return left_step_ < units_ && untold_ + found.taken < units_ / 2;
    }
    // The message that was found, whose number is `sequence`.
    void consume(std::uint32_t sequence) {
        release(current_, taken_, left_ ? left_step_ : 1, sequence);
    }

    // The ring has shrunk.
    void on_shrunk() { look_at_room(); }
    // Where the next message will begin: while the word there is zero, poll() finds nothing.
    const std::byte* next() const { return place(); }

    std::uint64_t consumed() const { return consumed_; }
    // The writer should be told of consumed() now; or with the next message to it.
    bool credit_due() { return untold_ >= tell_at_ && still_due(); }
    bool credit_soon_due() const { return untold_ >= tell_at_ / 2; }
    void credit_told() { untold_ = 0; }
    // It was told of `consumed`, by a message. False: of more already.
    bool credit_told(std::uint64_t consumed) {
        const std::uint64_t untold = consumed_ - consumed;
        const bool news = untold < untold_;
        untold_ = news ? static_cast<std::uint32_t>(untold) : untold_;
        return news;
    }

    // The last message found was posted: counts may come, and go, with messages.
    bool posted() const { return posted_; }
    // What the writer has consumed of the ring in the other direction, as its messages say.
    std::uint64_t count() const { return count_; }

private:
    std::byte* place() const { return memory_ + std::size_t{position_} * kRingUnit; }
    // By what is in registers, and field by field (base/pieces.h).
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
    // The message there, whose first word, and one in so many units, becomes zero.
    [[gnu::always_inline]] void release(std::uint32_t units, std::uint32_t taken,
                                        std::uint32_t step, std::uint32_t sequence) {
        give_back(place(), units, taken, step);
        sequence_ = sequence;
        step_over(taken);
    }
    [[gnu::always_inline]] void give_back(std::byte* at, std::uint32_t units, std::uint32_t taken,
                                          std::uint32_t step) {
        for (std::uint32_t i = step; i < units; i += step) {
            store_ring_word(at + i * kRingUnit, 0, std::memory_order_relaxed);
        }
        store_ring_word(at, 0, std::memory_order_release); // last: the writer may look (caught_up)
        consumed_ += taken;
        untold_ += taken;
    }
    void step_over(std::uint32_t taken) {
        position_ = position_ + taken == units_ ? 0 : position_ + taken;
    }
    // Units from this message of so many to the next one.
    std::uint32_t taken_by(std::uint64_t head, std::uint32_t units) const {
        return (head & kRingLast) == 0 ? units : units_ - position_;
    }
    // The other lines of a message whose first one is there: they are on their way while it is handed to whoever waits
    // for it. Of a long one the processor asks for the rest by itself.
    [[gnu::always_inline]] static void ask_for_rest(const std::byte* at, std::uint32_t units) {
        const auto within = reinterpret_cast<std::uintptr_t>(at) % kCacheLine;
        const std::byte* const end = at + std::min(units, kAskedFor) * kRingUnit;
        for (const std::byte* line = at - within + kCacheLine; line < end; line += kCacheLine) {
            __builtin_prefetch(line);
        }
    }
    void look_at_room() {
        tell_at_ = (room_.bounded() ? std::min(room_.units(), units_) : units_) / 2;
    }
    // The ring may have grown.
    bool still_due() {
        look_at_room();
        return untold_ >= tell_at_;
    }
    Found read(std::uint64_t head, MessageHeader& header, const std::byte*& body);
    Found read_brief(std::uint64_t head, MessageHeader& header, const std::byte*& body);
    bool begins(std::uint64_t head);
    bool whole(std::byte* at, std::uint64_t head, Bytes length, RingWay way);

    // All that a short message needs, up to posted_.
    std::byte* memory_;
    std::uint64_t consumed_ = 0; // units, ever
    std::uint32_t units_;
    std::uint32_t untold_ = 0;              // of those consumed
    std::uint32_t position_ = 0;            // unit of the next message
    std::uint32_t current_ = 0;             // units of the message that poll found ...
    std::uint32_t taken_ = 0;               // ... and up to the next one
    std::uint32_t sequence_ = kBeforeFirst; // of the last one consumed
    std::uint32_t left_step_; // units between those that are zeroed of one that stays there
    bool left_ = false;       // that message stays there
    bool posted_ = false;
    std::uint32_t tell_at_; // half of the units that had memory at the last look
    RingRoom room_;
    std::uint64_t count_ = 0;
    std::uint32_t begun_ = 0;   // polls that found a first word begun
    std::byte* held_ = nullptr; // the message before the next one, if it is to be given back
    std::uint32_t held_units_ = 0;
    std::uint32_t held_taken_ = 0;
};

class RingWriter {
public:
    struct Target {
        std::uint64_t address = 0; // of the reader's ring
        std::uint32_t key = 0;
        std::uint64_t units = 0;
        Bytes inline_bytes = 0; // of a message that the queue pair takes inline: it is not read
        std::uint64_t room_address = 0; // of its word in the reader's memory; 0: it has all memory
    };

    // `credit`: the 64-bit count that the reader writes. Work that fails comes back with `wr_id`.
    RingWriter(Rail& rail, QueuePair& qp, const Target& target, const std::uint64_t* credit,
               std::uint64_t wr_id, const RingHabits& habits = ring_habits());

    // False: it has to be posted to, and there is no memory for the mirror. Before the first reserve().
    bool usable() { return choose_way(); }

    // Room for `length` bytes of body and payload, to be filled by the caller and made a message by
    // commit() or undone by abandon(); null if the ring has no room now, which may include the unit
    // behind. REQUIRES: it takes no more than half the units.
    [[gnu::always_inline]] std::byte* reserve(Bytes length) {
        const std::uint64_t units = ring_units_for(length, RingWay::stored);
        if (has_place(units)) [[likely]] {
            return unit_address(position_) + ring_body_at(length, RingWay::stored);
        }
        return reserve_with_care(length);
    }
    void abandon(Bytes length);
    // The longest body and payload that fits, as far as memory can be had now.
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

    // The same at once for what is sent most, a short message that is stored: fill(to) puts header.length
    // bytes of body and payload there. False: nothing is done, reserve() knows what there is to do.
    template <typename Fill>
    [[gnu::always_inline]] bool store_short(const MessageHeader& header, Fill&& fill) {
        const bool brief = header.type == MessageType::active && header.sequence == sequence_ + 1;
        const std::uint64_t units =
            ring_units_for(header.length, brief ? RingWay::brief : RingWay::stored);
        if (must_zero() || !has_place(units)) [[unlikely]] {
            return false;
        }
        std::byte* const at = unit_address(position_);
        advance(units);
        sequence_ = header.sequence;
        claim_ahead(kClaimed, units);
        if (brief) [[likely]] {
            fill(at + ring_body_at(0, RingWay::brief));
            store_ring_word(at, ring_brief_word(header), std::memory_order_release);
            return true;
        }
        fill(at + sizeof(MessageHeader));
        write_fields(at, header);
        store_ring_word(at, header.head_word(), std::memory_order_release);
        return true;
    }

    // Whether the reader has all that was posted (what was stored, it has): as far as completions were
    // asked for, or all of it; the latter asks, call again.
    bool settled() const { return awaited_ == 0; }
    bool flushed() { return !flush().is_again(); }
    // Messages are stored into the reader's memory.
    bool direct() const { return gate_.trouble != nullptr; }
    // What is stored into memory of the reader's arrives, now.
    bool stores() const { return direct() && gate_.open(); }
    // Something came from the reader, who may have caught up: who has used more than a short lap looks with the next
    // message, but not all the time.
    void answered() {
        if (lap_ > kShortLap && position_ - looked_at_ >= kCaughtUpEvery) [[unlikely]] {
            lap_ = position_;
        }
    }
    // The last message lies where others have lain: that part of the ring is in the memory of both sides.
    bool lapped() const { return direct() && position_ <= used_; }
    // A completion with our wr_id was taken.
    void on_completion() { awaited_ -= awaited_ > 0 ? 1 : 0; }
    bool posts_to(const QueuePair& qp) const { return qp_ == &qp; }

    // To go on over another queue pair of that rail, which leads to the same memory. Nothing orders what is written over
    // two of them: so from now on nothing is posted; what is stored directly goes on. Errors: of the rail; nothing has
    // changed.
    Status hold(Rail& next);
    // Goes on as before.
    void release() {
        held_ = false;
        next_mirror_.reset();
    }
    // Goes on over the other one. REQUIRES: hold(next); an empty write behind all that was posted before is
    // complete; settled().
    void move_to(Rail& next, QueuePair& qp, std::uint32_t key, Bytes inline_bytes);

    // Credit by messages: the reader's count, as one of its messages said; the count of the ring in the other
    // direction, which the next posted message takes along (0: none); the last one that was taken along.
    void heard(std::uint64_t count) {
        if (count > consumed_ && count <= produced_) {
            consumed_ = count;
        }
    }
    void carry(std::uint64_t count) { to_carry_ = count; }
    std::uint64_t carried() const { return carried_; }

    // Calls f(header, body) for each message, in order, that was posted and that the reader's count does not
    // cover; what was stored, the reader has, and all that was posted before it (invariant 4). REQUIRES: the
    // count does not change meanwhile. False: the count cannot be.
    template <typename F> bool for_each_in_doubt(F&& f) const {
        if (mirror_ == nullptr || direct()) {
            return true;
        }
        const std::uint64_t consumed = std::max(consumed_, told());
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
    // So many units are free, behind the last message, and can be stored into.
    bool has_place(std::uint64_t units) const {
        return direct() && position_ + units <= lap_ && produced_ + units < units_ + consumed_ &&
               gate_.open();
    }
    // Within a lap of a message that is left where it is.
    bool must_zero() const { return produced_ < zero_until_; }
    void advance(std::uint64_t units) {
        last_ = position_;
        produced_ += units;
        position_ += static_cast<std::uint32_t>(units);
        if (position_ == units_) [[unlikely]] {
            begin_lap(units_);
        }
    }
    // The last one has reached `end`.
    void begin_lap(std::uint32_t end) {
        used_ = std::max(used_, end);
        left_in_lap_ = false;
        position_ = 0;
        looked_at_ = 0;
        lap_ = std::min(kShortLap, units_);
        if (beyond_ && direct()) [[unlikely]] { // what is posted comes later
            leave_room();
        }
    }
    // The reader's processor owns the lines it has emptied. Those of the next messages are asked back
    // early, so that storing into them does not wait: as many as the last message took, up to most_claimed.
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
    std::uint64_t told() const {
        return load_ring_word(reinterpret_cast<const std::byte*>(credit_));
    }
    bool has_room(std::uint64_t units);
    bool choose_way();
    bool begin_to_post();
    void map();
    void post_from_now() { gate_.trouble = nullptr; }
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

    // Field by field, as head_word() is: see there.
    static void write_fields(std::byte* at, const MessageHeader& header) {
        std::memcpy(at + offsetof(MessageHeader, sequence), &header.sequence, 4);
        std::memcpy(at + offsetof(MessageHeader, context), &header.context, 4);
        std::memcpy(at + offsetof(MessageHeader, source), &header.source, 4);
        std::memcpy(at + offsetof(MessageHeader, tag), &header.tag, 4);
    }
    [[gnu::always_inline]] void store(const MessageHeader& header, std::uint64_t units) {
        std::byte* at = unit_address(position_);
        std::uint64_t head = header.head_word();
        if (header.length >= kLeftFrom || must_zero()) [[unlikely]] {
            head = store_behind(head, header.length, units);
        }
        write_fields(at, header);
        store_ring_word(at, head, std::memory_order_release);
    }
    void zero_ahead(Bytes length, std::uint64_t units);
    // The unit behind is not known to be zero.
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
    std::uint64_t zero_until_ = 0; // produced: until then words may have to be zeroed
    Gate gate_;                    // of qp_; without `trouble`: messages are posted
    std::uint32_t position_ = 0;
    std::uint32_t lap_ = 0;  // up to this unit messages are stored; never beyond units_
    std::uint32_t last_ = 0; // where the last message is
    std::uint32_t units_;    // of the ring
    std::uint32_t sequence_ = kBeforeFirst; // of the last message
    const RingHabits habits_;
    // Units produced, up to which the first words of those to come are zero
    std::uint64_t clean_until_ = 0;
    std::uint32_t looked_at_ = 0; // unit of this lap where go_on() was asked last
    std::uint32_t used_ = 0;      // up to this unit there have been messages, in earlier laps
    bool ends_lap_ = false;    // the message that room was reserved for is the last one of the lap
    bool left_in_lap_ = false; // a message of this lap is left where it is
    bool left_behind_ = false; // one may be, behind the short lap
    bool beyond_ = false;      // this lap uses more than the ring's first part
    bool refused_ = false;     // memory for more, the last time
    std::uint32_t memory_ = 0; // units that have memory
    std::uint32_t end_;        // the units before this one can be used
    std::uint32_t first_end_ = 0; // the same of the first part
    std::uint32_t laps_ = 0;      // since memory was refused
    RingRoom room_;
    const std::uint64_t* credit_;
    bool counted_ = false; // the message that room was reserved for takes to_carry_ along
    bool posts_ = false;   // there is a mirror, and held_ is false
    bool held_ = false;
    std::uint64_t wr_id_; // constant
    // Constant but for move_to().
    QueuePair* qp_;
    Target target_;
    Rail* rail_;
    std::byte* mapped_ = nullptr;
    // Only for a ring that cannot be mapped, or cannot be reached directly any more.
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> mirror_memory_;
    std::unique_ptr<MemoryRegion> mirror_;
    std::unique_ptr<MemoryRegion> next_mirror_; // the same memory, with the rail that is next
    std::uint64_t to_carry_ = 0;
    std::uint64_t carried_ = 0;
    std::uint32_t unsignaled_ = 0;  // posted since the last one that is signaled
    std::uint32_t awaited_ = 0;     // signaled, and not over
    std::uint64_t posted_from_ = 0; // units produced before the first message that is in the mirror
};

// What the messages of `in` said of `out`, and what those of `out`, the same peer's, are to say of `in`. True: its
// writer was told by one.
inline bool exchange_credit(RingReader& in, RingWriter& out) {
    out.heard(in.count());
    const bool told = in.credit_told(out.carried());
    out.carry(in.credit_soon_due() ? in.consumed() : 0);
    return told;
}

} // namespace adaptib
