// SPDX-License-Identifier: BSD-3-Clause
// The pool of bounce slots.
#include "fabric/shm/bounce.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/invariant.h"

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
    ADAPTIB_INVARIANT(slot < slots_.size() && slots_[slot].abandoned_to == nullptr,
                      "a free slot waits for nobody", slot, slots_.size());
    slots_[slot].tag = next_tag_++;
    header(slot)->answer.store(0, std::memory_order_relaxed);
    return true;
}

void BouncePool::give(std::uint32_t slot) {
    ADAPTIB_INVARIANT(slot < slots_.size() && slots_[slot].abandoned_to == nullptr,
                      "a slot that waits for an answer is not free", slot, slots_.size());
    ADAPTIB_AUDIT(std::count(free_.begin(), free_.end(), slot) == 0, "a slot is given back once",
                  slot);
    free_.push_back(slot);
    ADAPTIB_INVARIANT(free_.size() <= slots_.size(), "free slots are slots of the pool",
                      free_.size(), slots_.size());
}

void BouncePool::abandon(std::uint32_t slot, std::shared_ptr<PeerSegment> target) {
    ADAPTIB_INVARIANT(target != nullptr && slots_[slot].abandoned_to == nullptr,
                      "a slot is abandoned once, to a target", slot, target.get());
    ADAPTIB_AUDIT(std::count(free_.begin(), free_.end(), slot) == 0,
                  "a slot that is abandoned is in use", slot);
    slots_[slot].abandoned_to = std::move(target);
    ++abandoned_;
    ADAPTIB_INVARIANT(abandoned_ <= slots_.size(), "abandoned slots are slots of the pool",
                      abandoned_, slots_.size());
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
            ADAPTIB_INVARIANT(abandoned_ > 0, "an abandoned slot is counted", i, abandoned_);
            slot.abandoned_to.reset();
            --abandoned_;
            free_.push_back(i);
        }
    }
}

} // namespace adaptib::shm
