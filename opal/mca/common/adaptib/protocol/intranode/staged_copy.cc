// SPDX-License-Identifier: BSD-3-Clause
// The two ends of a staged copy (protocol/intranode/staged_copy.h).
#include "protocol/intranode/staged_copy.h"

#include <algorithm>

#include "base/copy.h"

namespace adaptib {

namespace {

constexpr Bytes kUnit = SharedWork::kUnit;

Bytes unit_bytes(std::uint32_t unit, Bytes length) {
    return std::min(kUnit, length - unit * kUnit);
}

} // namespace

StagedCopy::StagedCopy(const RmaWork& work, std::uint64_t number, AnswerSlot& slot,
                       std::byte* staging, std::uint32_t depth)
    : work_(work), number_(number), slot_(slot), staging_(staging), depth_(depth),
      units_(SharedWork::units_of(work.length)) {}

StagedStep StagedCopy::step() {
    state_ = SharedWork::of(slot_.shared_word().load(std::memory_order_acquire));
    if (state_.number != number_ || state_.done > state_.back || state_.back > units_) {
        close();
        return StagedStep::bad;
    }
    const bool empties = work_.opcode == Opcode::read;
    if (empties ? moved_ < state_.done
                : !state_.closed && moved_ < std::min(units_, state_.done + depth_)) {
        std::byte* const user = static_cast<std::byte*>(work_.local) + moved_ * kUnit;
        std::byte* const staged = staging_ + moved_ % depth_ * kUnit;
        copy_small(empties ? user : staged, empties ? staged : user,
                   unit_bytes(moved_, work_.length));
        slot_.moved_word().store(++moved_, std::memory_order_release);
        return StagedStep::moved;
    }
    const bool ends = state_.closed || state_.refused || state_.done == units_;
    if (ends && (state_.refused || state_.done == state_.back)) {
        close();
        return StagedStep::over;
    }
    return StagedStep::waits;
}

void StagedCopy::close() { slot_.close_offer(); }

bool StagedCopy::has_heard() {
    const bool heard = state_.done != heard_;
    heard_ = state_.done;
    return heard;
}

Bytes StagedCopy::in_place() const { return std::min(state_.done * kUnit, work_.length); }

StagedOffer::StagedOffer(const CooperativeCopyBody& body, AnswerSlot& slot, QueuePair* qp,
                         std::byte* staging, std::byte* own)
    : body_(body), slot_(&slot), qp_(qp), staging_(staging), own_(own),
      units_(SharedWork::units_of(body.length)),
      unit_(SharedWork::of(slot.shared_word().load(std::memory_order_acquire)).back) {}

bool StagedOffer::stands() const {
    const SharedWork work = SharedWork::of(slot_->shared_word().load(std::memory_order_relaxed));
    return work.number == body_.number && !work.closed && !work.refused && unit_ < units_;
}

StagedStep StagedOffer::step() {
    const std::uint32_t depth = body_.staging_units;
    const std::uint64_t moved = slot_->moved_word().load(std::memory_order_acquire);
    if (fills() ? unit_ >= moved + depth : unit_ >= moved) {
        return stands() ? StagedStep::waits : StagedStep::over;
    }
    if (!take()) {
        return StagedStep::over;
    }
    const Bytes bytes = unit_bytes(unit_, body_.length);
    if (!copy(staging_ + unit_ % depth * kUnit, unit_ * kUnit, bytes)) {
        slot_->refuse_offer();
        return StagedStep::over;
    }
    slot_->count_done(1);
    moved_ += bytes;
    ++unit_;
    return StagedStep::moved;
}

// Takes the next unit. Returns false if there is none, or the offer is over.
bool StagedOffer::take() {
    std::uint64_t word = slot_->shared_word().load(std::memory_order_acquire);
    for (;;) {
        SharedWork work = SharedWork::of(word);
        if (work.number != body_.number || work.closed || work.back != unit_ || unit_ >= units_) {
            return false;
        }
        ++work.back;
        if (slot_->shared_word().compare_exchange_weak(word, work.word(), std::memory_order_acq_rel,
                                                       std::memory_order_acquire)) {
            return true;
        }
    }
}

// To fill a unit, the helper reads its own memory, as a read by the initiator would
// (QueuePair::serve_rma); to empty a unit, it writes its memory.
bool StagedOffer::copy(std::byte* staged, Bytes offset, Bytes bytes) {
    if (own_ != nullptr) {
        copy_small(fills() ? staged : own_ + offset, fills() ? own_ + offset : staged, bytes);
        return true;
    }
    const Gather gather{staged, bytes, 0};
    SendWork work;
    work.opcode = fills() ? Opcode::read : Opcode::write;
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = body_.theirs + offset;
    work.remote_key = body_.their_key;
    return qp_->serve_rma(work).ok();
}

} // namespace adaptib
