// SPDX-License-Identifier: BSD-3-Clause
// Growth and ageing of the table (memory/usage_table.h).
#include "memory/usage_table.h"

#include <new>
#include <utility>

#include "base/invariant.h"

namespace adaptib {

UsageTable::Slot* UsageTable::add(const void* address) {
    if (buckets_ == nullptr && !open()) {
        return nullptr;
    }
    Place at = place(address);
    Slot* slot = free_slot(buckets_[at.bucket], at.tag);
    while (slot == nullptr && may_grow() && grow()) {
        at = place(address);
        slot = free_slot(buckets_[at.bucket], at.tag);
    }
    if (slot == nullptr) {
        if (++refused_ % kAgeEvery == 0) {
            age(buckets_[at.bucket]);
        }
        return nullptr;
    }
    slot->word_ = at.tag | 1;
    ++known_;
    return slot;
}

UsageTable::Slot* UsageTable::free_slot(Bucket& bucket, std::uint64_t tag) {
    Slot& preferred = bucket.slots[preferred_slot(tag)];
    if (preferred.word_ == 0) {
        return &preferred;
    }
    for (Slot& slot : bucket.slots) {
        if (slot.word_ == 0) {
            return &slot;
        }
    }
    return nullptr;
}

bool UsageTable::open() {
    buckets_.reset(new (std::nothrow) Bucket[bucket_count()]);
    return buckets_ != nullptr;
}

// Doubles the number of buckets. The slots of each one go to two.
bool UsageTable::grow() {
    std::unique_ptr<Bucket[]> grown(new (std::nothrow) Bucket[bucket_count() * 2]);
    if (grown == nullptr) {
        return false;
    }
    for (std::size_t number = 0; number < bucket_count(); ++number) {
        for (const Slot& slot : buckets_[number].slots) {
            if (slot.word_ != 0) {
                const std::uint64_t half =
                    (hash_of(number, slot) >> (kBlockBits - bits_ - 1)) & std::uint64_t{1};
                Slot* const place = free_slot(grown[number * 2 + half], slot.word_ & kTag);
                ADAPTIB_INVARIANT(place != nullptr, "a bucket that is split has room", number);
                *place = slot;
            }
        }
    }
    ++bits_;
    buckets_ = std::move(grown);
    return true;
}

void UsageTable::age(Bucket& bucket) {
    const auto ignored = [](std::uint32_t) {};
    for (Slot& slot : bucket.slots) {
        if (slot.word_ == 0 || slot.is_frequent()) {
            continue;
        }
        slot.set_progress(slot.progress() / 2);
        if (slot.progress() < kLittle) {
            remove(slot, ignored);
        }
    }
}

} // namespace adaptib
