// SPDX-License-Identifier: BSD-3-Clause
// The pool of bounce slots.
#include "fabric/shm/bounce.h"

#include <new>
#include <utility>

namespace adaptib::shm {

std::byte* find_slot(PeerSegment& initiator, const BounceRequest& request) {
    constexpr Bytes kSlot = sizeof(BounceHeader) + kBounceBytes;
    const Bytes offset = request.slot_offset;
    if (offset % kCacheLine != 0 || offset < kRingOffset || initiator.size() < kSlot ||
        offset > initiator.size() - kSlot || request.length > kBounceBytes) {
        return nullptr;
    }
    return initiator.at(offset, kSlot);
}

bool BouncePool::take(std::uint32_t& slot) {
    if (free_.empty()) {
        sweep();
    }
    if (free_.empty()) {
        if (slots_.size() - abandoned_ >= kBounceSlots) {
            return false;
        }
        Slot fresh;
        if (!segment_->allocate(sizeof(BounceHeader) + kBounceBytes, fresh.offset).ok()) {
            return false;
        }
        new (segment_->at(fresh.offset)) BounceHeader{};
        slots_.push_back(std::move(fresh));
        free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
    }
    slot = free_.back();
    free_.pop_back();
    slots_[slot].tag = next_tag_++;
    header(slot)->answer.store(0, std::memory_order_relaxed);
    return true;
}

void BouncePool::give(std::uint32_t slot) { free_.push_back(slot); }

void BouncePool::abandon(std::uint32_t slot, std::shared_ptr<PeerSegment> target) {
    slots_[slot].abandoned_to = std::move(target);
    ++abandoned_;
}

BounceAnswer BouncePool::answer(std::uint32_t slot) const {
    const std::uint64_t word = header(slot)->answer.load(std::memory_order_acquire);
    const auto kind = static_cast<BounceAnswer>(word & 0xff);
    if (word >> 8 != slots_[slot].tag || kind > BounceAnswer::not_ready) {
        return BounceAnswer::none;
    }
    return kind;
}

void BouncePool::sweep() {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        Slot& slot = slots_[i];
        if (slot.abandoned_to != nullptr &&
            (answer(i) != BounceAnswer::none || slot.abandoned_to->gone())) {
            slot.abandoned_to.reset();
            --abandoned_;
            free_.push_back(i);
        }
    }
}

} // namespace adaptib::shm
