// SPDX-License-Identifier: BSD-3-Clause
// The writer's side of the ring channel.
#include "channel/ring_writer.h"

#include <utility>

namespace adaptib {

namespace {

// Laps between two attempts to get memory that was refused
constexpr std::uint32_t kLapsBetweenTries = 64;
constexpr std::uint64_t kRetainedMark = std::uint64_t{kRetainedMagic - kHeaderMagic} << 16;

} // namespace

RingWriter::RingWriter(Rail& rail, QueuePair& qp, const Target& target, const std::uint64_t* credit,
                       std::uint64_t wr_id, const RingHabits& habits)
    : units_(static_cast<std::uint32_t>(target.units)), habits_(habits), credit_(credit),
      wr_id_(wr_id), qp_(&qp), target_(target), rail_(&rail) {
    lap_ = std::min(kShortLap, units_);
    end_ = memory_ = units_;
    map();
    first_end_ = end_;
    base_ = mapped_;
    if (mapped_ == nullptr) {
        post_from_now();
    }
}

void RingWriter::map() {
    mapped_ =
        static_cast<std::byte*>(qp_->map(target_.address, target_.units * kRingUnit, target_.key));
    if (target_.room_address != 0) {
        room_ = RingRoom(static_cast<std::byte*>(
            qp_->map(target_.room_address, sizeof(std::uint64_t), target_.key)));
    }
    if (room_.bounded()) {
        room_.mind();
        note_room(room_.units());
    }
}

// Keeps the last unit that has memory for the message that reports the end of a lap.
void RingWriter::note_room(std::uint32_t units) {
    memory_ = std::min(units, units_);
    end_ = memory_ == units_ ? units_ : memory_ - 1;
}

void RingWriter::leave_room() {
    beyond_ = false;
    room_.leave();
}

// Makes the lap `wanted` units long, or as long as possible. Returns false if even `needed` units
// are impossible.
bool RingWriter::make_lap(std::uint64_t wanted, std::uint64_t needed) {
    if (wanted > first_end_ && room_.bounded() && !beyond_) {
        beyond_ = room_.enter();
        note_room(room_.units());
    }
    if (wanted > end_ && beyond_) {
        grow(wanted, needed);
    }
    lap_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, end_));
    return needed <= end_;
}

// Gets memory for twice as many units, or if that is refused for `needed` units only.
void RingWriter::grow(std::uint64_t wanted, std::uint64_t needed) {
    if (refused_ && ++laps_ % kLapsBetweenTries != 0) {
        return;
    }
    const auto get = [&](std::uint64_t units) {
        const std::uint64_t whole = std::min<std::uint64_t>(units, units_);
        const Bytes begin = std::uint64_t{memory_} * kRingUnit;
        if (!qp_->commit(target_.address + begin, whole * kRingUnit - begin, target_.key).ok()) {
            return false;
        }
        room_.grow_to(static_cast<std::uint32_t>(whole));
        note_room(static_cast<std::uint32_t>(whole));
        return true;
    };
    refused_ = !get(std::max<std::uint64_t>(2 * memory_, wanted + 1)) && !get(needed + 1);
    laps_ = 0;
}

bool RingWriter::has_room(std::uint64_t units) {
    units += must_zero() ? 1 : 0; // the unit behind
    if (produced_ + units - consumed_ <= units_) [[likely]] {
        return true;
    }
    heard(returned());
    return produced_ + units - consumed_ <= units_;
}

// Chooses between storing directly and posting, message by message: a rail may go down or be
// slowed.
bool RingWriter::choose_way() {
    if (mapped_ != nullptr && qp_->usable()) [[likely]] {
        const Status arrived = direct() ? kOk : flush();
        if (arrived.is_again()) {
            return false;
        }
        if (arrived.ok()) {
            base_ = mapped_;
            guard_ = qp_->fast_path_guard();
            return true;
        }
        // The next post fails, too, and reports the error to its caller.
    }
    if (!posts_ && !begin_to_post()) {
        return false;
    }
    posted_from_ = direct() ? produced_ : posted_from_;
    base_ = static_cast<std::byte*>(mirror_->address());
    post_from_now();
    return true;
}

bool RingWriter::begin_to_post() {
    if (paused_) {
        return false;
    }
    if (mirror_ == nullptr) {
        const Bytes bytes = units_ * kRingUnit;
        mirror_memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes)));
        if (mirror_memory_ == nullptr ||
            !rail_->register_memory(mirror_memory_.get(), bytes, kLocalWrite, mirror_).ok()) {
            return false;
        }
        std::memset(mirror_memory_.get(), 0, bytes);
    }
    posts_ = true;
    return true;
}

Status RingWriter::pause(Rail& next) {
    if (mirror_ != nullptr) {
        if (const Status status = next.register_memory(mirror_memory_.get(), mirror_->length(),
                                                       kLocalWrite, next_mirror_);
            !status.ok()) {
            return status;
        }
    }
    paused_ = true;
    posts_ = false;
    return kOk;
}

// Direct stores may go through another mapping from now on.
void RingWriter::migrate_to(Rail& next, QueuePair& qp, std::uint32_t key, Bytes inline_bytes) {
    rail_ = &next;
    qp_ = &qp;
    target_.key = key;
    target_.inline_bytes = inline_bytes;
    unsignaled_ = 0;
    if (mirror_ != nullptr) {
        mirror_ = std::move(next_mirror_);
    }
    paused_ = false;
    map();
    if (direct() && mapped_ != nullptr) {
        base_ = mapped_;
        guard_ = qp_->fast_path_guard();
    } else if (direct()) {
        posted_from_ = produced_;
        post_from_now();
    }
}

// Returns true if the reader has consumed all messages: the first word of the last one is zero
// again.
bool RingWriter::caught_up() const {
    return direct() && load_ring_word(base_ + std::size_t{last_} * kRingUnit) == 0;
}

// Places a message of `units` that does not fit into the lap: begins the next lap, or lengthens
// this one. Lengthens by little at first: a writer that usually waits for replies may have been
// early just once. Returns false if there is no room yet.
bool RingWriter::go_on(std::uint64_t units) {
    ends_lap_ = false;
    looked_at_ = position_;
    if (position_ + units > units_) {
        return next_lap(units);
    }
    if (habits_.lap_messages * units <= position_ && units <= habits_.lap_longest && caught_up()) {
        if (position_ + units > end_) {
            return next_lap(units);
        }
        consumed_ = produced_;
        lap_ = position_; // any message committed before this one checks again
        ends_lap_ = true;
        return true;
    }
    if (retained_behind_) {
        retained_behind_ = false;
        zero_until_ = std::max(zero_until_, produced_ + (units_ - position_));
    }
    const std::uint64_t more = std::max(kLongerBy, std::max(lap_, kShortLap) - kShortLap);
    const std::uint64_t most = std::max<std::uint64_t>(kShortLap, kCaughtUpEvery * units);
    const std::uint64_t longer = std::max(lap_ + std::min(more, most), position_ + units);
    return make_lap(std::min<std::uint64_t>(longer, units_), position_ + units) || next_lap(units);
}

// Begins the next lap behind a message that announces it. Returns false if there is no room yet, or
// too little memory for that message.
bool RingWriter::next_lap(std::uint64_t units) {
    const std::uint32_t end = position_;
    if (end > 0 && !skip_rest()) {
        return false;
    }
    begin_lap(end);
    return units <= lap_ || make_lap(units, units);
}

// Stores the last message of a lap: the reader has consumed everything before it, and continues at
// the beginning of the ring after it. REQUIRES: ends_lap_.
void RingWriter::commit_last(const MessageHeader& header) {
    ends_lap_ = false;
    const auto units = static_cast<std::uint32_t>(ring_units_for(header.length, RingWay::stored));
    const bool retained = header.length >= kRetainedFrom || retained_in_lap_;
    const bool dirty = retained || must_zero();
    const std::uint32_t end = position_ + units;
    std::byte* const at = unit_address(position_);
    std::uint64_t head = header.head_word() | kRingLast;
    head += header.length >= kRetainedFrom ? kRetainedMark : 0;
    write_fields(at, header);
    store_ring_word(at, head, std::memory_order_release);
    // The next lap may end later than this one, and its first words behind this end must be zero.
    for (std::uint32_t unit = end; dirty && !retained && unit <= kShortLap && unit < units_;
         ++unit) {
        store_ring_word(unit_address(unit), 0, std::memory_order_relaxed);
    }
    last_ = position_;
    sequence_ = header.sequence;
    produced_ += units_ - position_;
    begin_lap(end);
    if (dirty) {
        retained_behind_ = true;
        zero_until_ = retained ? produced_ + kShortLap : produced_;
    }
    claim_ahead(0, units);
}

// Leaves the rest of the ring unused; the skip message itself needs one unit of it.
bool RingWriter::skip_rest() {
    const std::uint64_t rest = units_ - position_;
    if (!has_room(rest)) {
        return false;
    }
    MessageHeader skip;
    skip.type = MessageType::skip;
    if (direct()) {
        store(skip, rest);
    } else if (!post_message(skip, RingWay::posted, rest).ok()) {
        return false;
    }
    if (must_zero()) { // retained messages in the skipped units stay there
        zero_until_ = produced_ + rest + units_;
    }
    produced_ += rest;
    position_ = 0;
    return true;
}

std::byte* RingWriter::reserve_with_care(Bytes length) {
    if (!choose_way()) {
        return nullptr;
    }
    counted_ = to_carry_ != 0;
    const std::uint64_t units = ring_units_for(length, way_now());
    if ((position_ + units > lap_ && !go_on(units)) || !has_room(units)) {
        return nullptr;
    }
    return unit_address(position_) + ring_body_at(length, way_now());
}

// Restores invariant 1: the caller's data may cover the first words of units.
void RingWriter::abandon(Bytes length) {
    for (std::uint64_t i = 0; i < ring_units_for(length, way_now()); ++i) {
        store_ring_word(unit_address(position_ + i), 0, std::memory_order_relaxed);
    }
}

// Returns the first word of the message, and zeroes the first word behind it if that may be
// non-zero.
std::uint64_t RingWriter::store_behind(std::uint64_t head, Bytes length, std::uint64_t units) {
    if (unclean(units)) {
        store_ring_word(unit_address(unit_behind(units)), 0, std::memory_order_relaxed);
        clean_until_ = produced_ + units + 1;
    }
    if (length < kRetainedFrom) {
        return head;
    }
    retained_in_lap_ = true;
    zero_until_ = produced_ + units + units_;
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
    const std::uint64_t end = std::min(produced_ + kAhead, consumed_ + units_);
    for (clean_until_ = std::max(clean_until_, produced_); clean_until_ < end; ++clean_until_) {
        const std::uint64_t unit = position_ + (clean_until_ - produced_);
        const std::uint64_t place = unit < units_ ? unit : unit - units_;
        if (place < memory_) [[likely]] { // memory committed later is zero
            store_ring_word(unit_address(place), 0, std::memory_order_relaxed);
        }
    }
}

Status RingWriter::post(const MessageHeader& header) {
    const std::uint64_t units = ring_units_for(header.length, way_now());
    const Status status = post_message(header, way_now(), units);
    if (status.ok()) {
        advance(units);
        sequence_ = header.sequence;
        if (counted_) {
            carried_ = to_carry_;
            to_carry_ = 0;
        }
    }
    return status;
}

// `taken`: the units up to the next message.
Status RingWriter::post_message(const MessageHeader& header, RingWay way, std::uint64_t taken) {
    static_assert(ring_units_for(0, RingWay::posted) == 1, "a skip is one unit");
    MessageHeader tailed = header;
    tailed.magic = way == RingWay::counted ? kCountedMagic : kTailedMagic;
    const std::uint64_t head = tailed.head_word();
    const std::uint64_t tail = ring_tail_word(head, header.sequence);
    const Bytes bytes = ring_posted_bytes(header.length, way);
    std::byte* at = unit_address(position_);
    std::memcpy(at, &head, sizeof head);
    write_fields(at, header);
    if (way == RingWay::counted) {
        std::memcpy(at + bytes - sizeof tail - sizeof to_carry_, &to_carry_, sizeof to_carry_);
    }
    std::memcpy(at + bytes - sizeof tail, &tail, sizeof tail);
    if (unclean(taken)) [[unlikely]] {
        if (const Status status = post_zero(unit_behind(taken)); !status.ok()) {
            return status;
        }
    }
    // A side that takes a connection down waits for the completion of its disconnect, the last
    // message.
    return post_write({at, bytes, mirror_->local_key()}, position_,
                      header.type == MessageType::disconnect);
}

// The mirror may hold a new message before the zero has left it: then the reader gets the first
// word of that message, which is just as correct.
Status RingWriter::post_zero(std::uint64_t unit) {
    std::byte* at = unit_address(unit);
    store_ring_word(at, 0, std::memory_order_relaxed);
    return post_write({at, sizeof(std::uint64_t), mirror_->local_key()}, unit, false);
}

Status RingWriter::post_write(const Gather& gather, std::uint64_t unit, bool signaled) {
    SendWork work;
    work.wr_id = wr_id_;
    work.opcode = Opcode::write;
    work.flags = gather.length <= target_.inline_bytes ? kPublish | kInline : +kPublish;
    if (++unsignaled_ == kSignalEvery || signaled) {
        work.flags |= kSignaled;
    }
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = target_.address + unit * kRingUnit;
    work.remote_key = target_.key;
    const Status status = qp_->post_send(work);
    if (!status.ok()) {
        --unsignaled_;
    } else if ((work.flags & kSignaled) != 0) {
        unsignaled_ = 0;
        ++awaited_;
    }
    return status;
}

// ok: the reader has all that was posted. again: not yet.
Status RingWriter::flush() {
    if (unsignaled_ > 0) {
        const Status status = qp_->post_send(empty_write(wr_id_, target_.address, target_.key));
        if (!status.ok()) {
            return status;
        }
        unsignaled_ = 0;
        ++awaited_;
    }
    return settled() ? kOk : Status::again(Reason::none);
}

} // namespace adaptib
