// SPDX-License-Identifier: BSD-3-Clause
// The writer's side of the ring channel.
#include "channel/ring_writer.h"

#include <array>

#include "base/invariant.h"

namespace adaptib {

namespace {

constexpr std::uint64_t kRetainedMark = std::uint64_t{kRetainedMagic - kHeaderMagic} << 16;

// Words of a posted message behind its body.
struct Behind {
    RingFormat format;
    std::uint64_t count;
    const Gather* payload; // null: it lies in the message
};

// Writes the words behind the body of the message at `at`, up to `end`.
void add_words(const std::byte* at, std::byte* end, const MessageHeader& tailed,
               const Behind& behind) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    if (behind.format == RingFormat::counted || behind.format == RingFormat::checked) {
        std::memcpy(end - 2 * kWord, &behind.count, kWord);
    }
    if (behind.format == RingFormat::checked) {
        const std::byte* const body = behind.payload != nullptr
                                          ? static_cast<const std::byte*>(behind.payload->address)
                                          : at + sizeof(MessageHeader);
        const std::uint64_t sum = ring_checksum(at, body, tailed.length);
        std::memcpy(end - 3 * kWord, &sum, kWord);
    }
    const std::uint64_t tail = ring_tail_word(tailed.head_word(), tailed.sequence);
    std::memcpy(end - kWord, &tail, kWord);
}

} // namespace

RingWriter::RingWriter(Rail& rail, QueuePair& qp, const RingTarget& target,
                       const std::uint64_t* credit, std::uint64_t wr_id, const RingHabits& habits)
    : cursor_(static_cast<std::uint32_t>(target.units)), habits_(habits), space_(cursor_.units()),
      credit_(credit), poster_(qp, target, wr_id), mirror_(rail, cursor_.units()) {
    map();
    space_.begin_here();
    cursor_.store_to(mapped_, FastPathGuard());
    if (mapped_ == nullptr) {
        cursor_.stop_storing();
    }
}

void RingWriter::map() {
    const RingTarget& target = poster_.target();
    mapped_ = static_cast<std::byte*>(
        poster_.qp().map(target.address, target.units * kRingUnit, target.key));
    if (target.room_address != 0) {
        space_.bound_by(RingRoom(static_cast<std::byte*>(
            poster_.qp().map(target.room_address, sizeof(std::uint64_t), target.key))));
    }
}

// Makes the lap `wanted` units long, or as long as possible. Returns false if even `needed` units
// are impossible.
bool RingWriter::make_lap(std::uint64_t wanted, std::uint64_t needed) {
    space_.extend_to(wanted, needed, poster_);
    cursor_.set_lap(static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, space_.end())));
    return needed <= space_.end();
}

bool RingWriter::has_room(std::uint64_t units) {
    units += cursor_.must_zero() ? 1 : 0; // the unit behind
    if (cursor_.has_room(units)) [[likely]] {
        return true;
    }
    heard(returned());
    return cursor_.has_room(units);
}

// Chooses between storing directly and posting, message by message: a rail may go down or be
// slowed.
bool RingWriter::choose_way() {
    if (mapped_ != nullptr && poster_.qp().usable()) [[likely]] {
        const Status arrived = direct() ? kOk : poster_.flush();
        if (arrived.is_again()) {
            return false;
        }
        if (arrived.ok()) {
            cursor_.store_to(mapped_, poster_.qp().fast_path_guard());
            return true;
        }
        // The next post fails, too, and reports the error to its caller.
    }
    if (!mirror_.prepare()) {
        return false;
    }
    if (direct()) {
        mirror_.post_from(cursor_.produced());
    }
    cursor_.post_from(mirror_.base());
    return true;
}

Status RingWriter::pause(Rail& next) { return mirror_.pause(next); }

// Direct stores may go through another mapping from now on.
void RingWriter::migrate_to(Rail& next, QueuePair& qp, std::uint32_t key, Bytes inline_bytes) {
    poster_.migrate_to(qp, key, inline_bytes);
    mirror_.migrate_to(next);
    map();
    if (direct() && mapped_ != nullptr) {
        cursor_.store_to(mapped_, qp.fast_path_guard());
    } else if (direct()) {
        mirror_.post_from(cursor_.produced());
        cursor_.stop_storing();
    }
}

// Places a message of `units` that does not fit into the lap: begins the next lap, or lengthens
// this one. Lengthens by little at first: a writer that usually waits for replies may have been
// early just once. Returns false if there is no room yet.
bool RingWriter::go_on(std::uint64_t units) {
    ends_lap_ = false;
    looked_at_ = cursor_.position();
    if (cursor_.position() + units > cursor_.units()) {
        return next_lap(units);
    }
    if (habits_.lap_messages * units <= cursor_.position() && units <= habits_.lap_longest &&
        cursor_.caught_up()) {
        if (cursor_.position() + units > space_.end()) {
            return next_lap(units);
        }
        cursor_.all_consumed();
        cursor_.set_lap(cursor_.position()); // any message committed before this one checks again
        ends_lap_ = true;
        return true;
    }
    if (retained_behind_) {
        retained_behind_ = false;
        cursor_.set_zero_until(std::max(
            cursor_.zero_until(), cursor_.produced() + (cursor_.units() - cursor_.position())));
    }
    const std::uint64_t more = std::max(kLongerBy, std::max(cursor_.lap(), kShortLap) - kShortLap);
    const std::uint64_t most = std::max<std::uint64_t>(kShortLap, kCaughtUpEvery * units);
    const std::uint64_t longer =
        std::max(cursor_.lap() + std::min(more, most), cursor_.position() + units);
    return make_lap(std::min<std::uint64_t>(longer, cursor_.units()), cursor_.position() + units) ||
           next_lap(units);
}

// Begins the next lap behind a message that announces it. Returns false if there is no room yet, or
// too little memory for that message.
bool RingWriter::next_lap(std::uint64_t units) {
    const std::uint32_t end = cursor_.position();
    if (cursor_.caught_up()) {
        cursor_.all_consumed(); // of so little the reader does not report
    }
    if (end > 0 && !skip_rest()) {
        return false;
    }
    begin_lap(end);
    return units <= cursor_.lap() || make_lap(units, units);
}

// Stores the last message of a lap: the reader has consumed everything before it, and continues at
// the beginning of the ring after it. REQUIRES: ends_lap_.
void RingWriter::commit_last(const MessageHeader& header) {
    ends_lap_ = false;
    const auto units =
        static_cast<std::uint32_t>(ring_units_for(header.length, RingFormat::stored));
    ADAPTIB_INVARIANT(cursor_.consumed() == cursor_.produced(),
                      "a lap ends early when the reader has consumed all before",
                      cursor_.consumed(), cursor_.produced());
    ADAPTIB_INVARIANT(cursor_.position() + units <= cursor_.units(),
                      "the last message of a lap lies within the ring", cursor_.position(), units);
    const bool retained = header.length >= kRetainedFrom || retained_in_lap_;
    const bool dirty = retained || cursor_.must_zero();
    const std::uint32_t end = cursor_.position() + units;
    std::byte* const at = cursor_.here();
    std::uint64_t head = header.head_word() | kRingLast;
    head += header.length >= kRetainedFrom ? kRetainedMark : 0;
    write_fields(at, header);
    store_ring_word(at, head, std::memory_order_release);
    // The next lap may end later than this one, and its first words behind this end must be zero.
    for (std::uint32_t unit = end;
         dirty && !retained && unit <= kShortLap && unit < cursor_.units(); ++unit) {
        store_ring_word(cursor_.unit_address(unit), 0, std::memory_order_relaxed);
    }
    cursor_.advance(cursor_.units() - cursor_.position());
    cursor_.sent(header.sequence, header.length);
    begin_lap(end);
    if (dirty) {
        retained_behind_ = true;
        cursor_.set_zero_until(retained ? cursor_.produced() + kShortLap : cursor_.produced());
    }
    claim_ahead(0, units);
}

// Leaves the rest of the ring unused; the skip message itself needs one unit of it.
bool RingWriter::skip_rest() {
    const std::uint64_t rest = cursor_.units() - cursor_.position();
    ADAPTIB_INVARIANT(rest > 0 && rest <= cursor_.units(), "a skip has a unit to lie in", rest,
                      cursor_.position());
    if (!has_room(rest)) {
        return false;
    }
    MessageHeader skip;
    skip.type = MessageType::skip;
    if (direct()) {
        store(skip, rest);
    } else if (!post_message(skip, RingFormat::posted, rest).ok()) {
        return false;
    }
    if (cursor_.must_zero()) { // retained messages in the skipped units stay there
        cursor_.set_zero_until(cursor_.produced() + rest + cursor_.units());
    }
    cursor_.skip(rest);
    return true;
}

std::byte* RingWriter::reserve_with_care(Bytes length) {
    if (!choose_way()) {
        return nullptr;
    }
    carried_.reserve();
    const std::uint64_t units = ring_units_for(length, format_now());
    if ((cursor_.position() + units > cursor_.lap() && !go_on(units)) || !has_room(units)) {
        return nullptr;
    }
    ADAPTIB_AUDIT(cursor_.position() + units <= cursor_.units(), "a message is in one piece",
                  cursor_.position(), units, cursor_.units());
    return cursor_.here() + ring_body_at(length, format_now());
}

// Restores invariant 1: the caller's data may cover the first words of units.
void RingWriter::abandon(Bytes length) {
    for (std::uint64_t i = 0; i < ring_units_for(length, format_now()); ++i) {
        store_ring_word(cursor_.unit_address(cursor_.position() + i), 0, std::memory_order_relaxed);
    }
}

// Returns the first word of the message, and zeroes the first word behind it if that may be
// non-zero.
std::uint64_t RingWriter::store_behind(std::uint64_t head, Bytes length, std::uint64_t units) {
    if (unclean(units)) {
        store_ring_word(cursor_.unit_address(cursor_.unit_behind(units)), 0,
                        std::memory_order_relaxed);
        clean_until_ = cursor_.produced() + units + 1;
    }
    if (length < kRetainedFrom) {
        return head;
    }
    retained_in_lap_ = true;
    cursor_.set_zero_until(cursor_.produced() + units + cursor_.units());
    return head + kRetainedMark;
}

// Zeroes words for the next messages, after a short one: nobody waits for these stores before those
// messages are visible.
void RingWriter::zero_ahead(Bytes length, std::uint64_t units) {
    constexpr std::uint64_t kAhead = 8; // units
    if (length >= kRetainedFrom) {
        claim_ahead(kClaimed, units);
        return;
    }
    claim_ahead(kAhead + kClaimed, units);
    const std::uint64_t end =
        std::min(cursor_.produced() + kAhead, cursor_.consumed() + cursor_.units());
    for (clean_until_ = std::max(clean_until_, cursor_.produced()); clean_until_ < end;
         ++clean_until_) {
        const std::uint64_t unit = cursor_.position() + (clean_until_ - cursor_.produced());
        const std::uint64_t place = unit < cursor_.units() ? unit : unit - cursor_.units();
        if (place >= space_.memory()) [[unlikely]] {
            break; // of no use in this lap
        }
        store_ring_word(cursor_.unit_address(place), 0, std::memory_order_relaxed);
    }
}

Status RingWriter::post(const MessageHeader& header, const Gather* payload) {
    ADAPTIB_INVARIANT(!direct(), "a message is posted where it cannot be stored", header.sequence);
    const std::uint64_t units = ring_units_for(header.length, format_now());
    const Status status = post_message(header, format_now(), units, payload);
    if (status.ok()) {
        mirror_.note_gathered(cursor_.position(), payload != nullptr);
        advance(units);
        cursor_.sent(header.sequence, header.length);
        carried_.on_posted();
    }
    return status;
}

// `taken`: the units up to the next message.
Status RingWriter::post_message(const MessageHeader& header, RingFormat format, std::uint64_t taken,
                                const Gather* payload) {
    static_assert(ring_units_for(0, RingFormat::posted) == 1, "a skip is one unit");
    MessageHeader tailed = header;
    tailed.magic = format == RingFormat::checked   ? kCheckedMagic
                   : format == RingFormat::counted ? kCountedMagic
                                                   : kTailedMagic;
    const std::uint64_t head = tailed.head_word();
    const Bytes bytes = ring_posted_bytes(header.length, format);
    std::byte* at = cursor_.here();
    std::memcpy(at, &head, sizeof head);
    write_fields(at, header);
    add_words(at, at + bytes, tailed,
              {format, carried_.reserved() ? carried_.count() : 0, payload});
    if (unclean(taken)) [[unlikely]] {
        if (const Status status = post_zero(cursor_.unit_behind(taken)); !status.ok()) {
            return status;
        }
    }
    if (payload != nullptr) {
        return post_pieces(header, bytes, *payload);
    }
    // A side that takes a connection down waits for the completion of its disconnect, the last
    // message.
    return poster_.write({at, bytes, mirror_.local_key()}, cursor_.position(),
                         header.type == MessageType::disconnect);
}

// `bytes`: from the beginning of the message to the end of its tail word.
Status RingWriter::post_pieces(const MessageHeader& header, Bytes bytes, const Gather& payload) {
    ADAPTIB_INVARIANT(payload.length <= header.length, "a payload is a part of its message",
                      payload.length, header.length);
    std::byte* const at = cursor_.here();
    const Bytes end = sizeof header + header.length;
    const std::uint32_t key = mirror_.local_key();
    const std::array<Gather, kRingGather> pieces{Gather{at, end - payload.length, key}, payload,
                                                 Gather{at + end, bytes - end, key}};
    return poster_.write_gathered(pieces, cursor_.position());
}

// The mirror may hold a new message before the zero has left it: then the reader gets the first
// word of that message, which is just as correct.
Status RingWriter::post_zero(std::uint64_t unit) {
    std::byte* at = cursor_.unit_address(unit);
    store_ring_word(at, 0, std::memory_order_relaxed);
    return poster_.write({at, sizeof(std::uint64_t), mirror_.local_key()}, unit, false);
}

} // namespace adaptib
