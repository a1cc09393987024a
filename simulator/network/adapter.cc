// SPDX-License-Identifier: BSD-3-Clause
// Numbers and contexts of queue pairs (simulator/network/adapter.h).
#include "simulator/network/adapter.h"

namespace adaptib::sim {

Status Adapter::add(SimQueuePair* qp, std::uint32_t& number) {
    if (free_.empty()) {
        if (slots_.size() == kSlots) {
            return Status::error(Reason::no_memory);
        }
        free_.push_back(static_cast<std::uint32_t>(slots_.size()));
        slots_.emplace_back();
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    // The next generation gives a new number, never 0 and below 2^24, so that a late packet finds
    // no queue pair.
    constexpr std::uint32_t kGenerations = (1u << (24 - kSlotBits)) - 1;
    const std::uint32_t generation = (slot.number >> kSlotBits) % kGenerations + 1;
    slot.number = generation << kSlotBits | index;
    slot.qp = qp;
    number = slot.number;
    return kOk;
}

void Adapter::remove(SimQueuePair* qp, std::uint32_t number) {
    if (find(number) != qp) {
        return;
    }
    const std::uint32_t index = number & (kSlots - 1);
    slots_[index].qp = nullptr;
    leave_cache(index);
    free_.push_back(index);
}

Nanoseconds Adapter::use(std::uint32_t number) {
    if (machine_.adapter.qp_cache == 0) {
        return Nanoseconds{0};
    }
    const std::uint32_t index = number & (kSlots - 1);
    if (find(number) == nullptr || newest_ == index) {
        return Nanoseconds{0};
    }
    const bool hit = slots_[index].cached;
    leave_cache(index);
    if (cached_ == machine_.adapter.qp_cache) {
        leave_cache(oldest_);
    }
    enter_cache(index);
    return hit ? Nanoseconds{0} : machine_.adapter.qp_miss;
}

void Adapter::leave_cache(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (!slot.cached) {
        return;
    }
    (slot.newer == kNobody ? newest_ : slots_[slot.newer].older) = slot.older;
    (slot.older == kNobody ? oldest_ : slots_[slot.older].newer) = slot.newer;
    slot.cached = false;
    slot.newer = slot.older = kNobody;
    --cached_;
}

void Adapter::enter_cache(std::uint32_t index) {
    Slot& slot = slots_[index];
    slot.cached = true;
    slot.older = newest_;
    (newest_ == kNobody ? oldest_ : slots_[newest_].newer) = index;
    newest_ = index;
    ++cached_;
}

std::vector<SimQueuePair*> Adapter::queue_pairs() const {
    std::vector<SimQueuePair*> all;
    for (const Slot& slot : slots_) {
        if (slot.qp != nullptr) {
            all.push_back(slot.qp);
        }
    }
    return all;
}

} // namespace adaptib::sim
