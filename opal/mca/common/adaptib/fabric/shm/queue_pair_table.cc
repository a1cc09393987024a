// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/queue_pair_table.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib::shm {

Status QueuePairTable::add(LocalQueuePair* qp, std::uint32_t& number) {
    std::uint32_t index = 0;
    // Reuses a number as late as possible, but does not take new pages of the table for that.
    if (free_.size() > 64 || (used_.size() == kMaxQueuePairs && !free_.empty())) {
        index = free_.front();
        free_.pop_front();
    } else if (used_.size() < kMaxQueuePairs) {
        index = static_cast<std::uint32_t>(used_.size());
        const Status status = segment_.commit(kQueuePairsOffset + index * sizeof(QueuePairEntry),
                                              sizeof(QueuePairEntry));
        if (!status.ok()) {
            error_text_ = segment_.last_error_text();
            return status;
        }
        used_.emplace_back();
    } else {
        return Status::error(Reason::no_memory);
    }
    ADAPTIB_INVARIANT(used_[index].qp == nullptr, "a free entry belongs to no queue pair", index,
                      used_[index].qp);
    constexpr std::uint32_t kGenerations = 1u << (24 - kQpIndexBits);
    std::uint32_t generation = ((used_[index].number >> kQpIndexBits) + 1) % kGenerations;
    if (generation == 0) {
        generation = 1;
    }
    number = generation << kQpIndexBits | index;
    ADAPTIB_INVARIANT(number >> 24 == 0 && qp_index(number) == index,
                      "a number names its entry in 24 bits", number, index);
    used_[index] = {qp, number};
    QueuePairEntry& entry = queue_pairs_of(segment_.base())[index];
    entry.posted.store(0, std::memory_order_relaxed);
    entry.busy.store(0, std::memory_order_relaxed);
    return kOk;
}

void QueuePairTable::remove(std::uint32_t number) {
    const std::uint32_t index = qp_index(number);
    ADAPTIB_INVARIANT(find(number) != nullptr, "a queue pair that ends is in the table", number);
    ADAPTIB_AUDIT(std::count(free_.begin(), free_.end(), index) == 0, "an entry in use is not free",
                  index);
    used_[index].qp = nullptr;
    free_.push_back(index);
    ADAPTIB_INVARIANT(free_.size() <= used_.size(), "free entries are entries of the table",
                      free_.size(), used_.size());
}

Status SrqTable::add(std::uint32_t& index) {
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
        ADAPTIB_INVARIANT(index < end_, "a free queue was taken before", index, end_);
        return kOk;
    }
    if (end_ == kMaxSrqs) {
        return Status::error(Reason::no_memory);
    }
    index = end_;
    const Status status = segment_.commit(kSrqsOffset + index * sizeof(SrqEntry), sizeof(SrqEntry));
    if (status.ok()) {
        ++end_;
    }
    return status;
}

} // namespace adaptib::shm
