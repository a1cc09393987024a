// SPDX-License-Identifier: BSD-3-Clause
// UsageTable: which buffers have been sent from, and how often.
//
// Purpose: finds a buffer's count by its address in a few nanoseconds, in at most kMaxBytes.
// Structure: buckets of one cache line with eight slots each. The bucket follows from a
// multiplicative hash of the address's block of 512 bytes; a slot holds the rest of the hash, by
// which address and bucket determine each other, and a number. So no two buffers are taken for
// each other, unless they begin in the same 16 bytes, and the buffers of an unmapped range are
// found without a search of the table.
// The number is a buffer's progress towards kFull, or, for a frequent buffer, a value of the
// caller's.
// Adaptation: the table begins small. A buffer that finds its bucket full makes the table grow only
// if at least a fifth of the known buffers are frequent. Otherwise the buffer is not added, and
// every few such buffers the bucket ages: the progress of its buffers halves, and a buffer with
// little progress leaves. So a program without reuse stays with a small table in its cache.
// Errors: a table that cannot grow, for lack of memory, stays as it is.
// Threads: not thread safe.
// Source: Rashti and Afsahi, sections 3.3.3 (a table of 2^20 chains) and 3.4 (adaptation).
// May touch: base/.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/invariant.h"
#include "base/units.h"

namespace adaptib {

// Returns the inverse of an odd number modulo 2^64. Each step doubles the number of right bits, of
// which there are three at first.
constexpr std::uint64_t inverse_of(std::uint64_t odd) {
    std::uint64_t x = odd;
    for (int i = 0; i < 5; ++i) {
        x *= 2 - odd * x;
    }
    return x;
}

class UsageTable {
public:
    static constexpr std::uint32_t kFull = 1u << 19; // progress that makes a buffer frequent
    static constexpr Bytes kMaxBytes = kMiB;

    // A known buffer. Invalid after the next call of add() or forget().
    class Slot {
    public:
        bool is_frequent() const { return (word_ & kFrequent) != 0; }
        // REQUIRES: not frequent.
        std::uint32_t progress() const {
            ADAPTIB_AUDIT(!is_frequent(), "a frequent buffer has made its progress", word_);
            return static_cast<std::uint32_t>(word_ & kValue);
        }
        // REQUIRES: frequent.
        std::uint32_t value() const {
            ADAPTIB_INVARIANT(is_frequent(), "only a frequent buffer has a value", word_);
            return static_cast<std::uint32_t>(word_ & kValue);
        }
        // Adds to the progress of a buffer; at most kFull - 1 is kept. Returns true if that makes
        // kFull or more.
        bool advance(std::uint32_t progress) {
            const std::uint32_t sum = this->progress() + progress;
            set_progress(sum < kFull ? sum : kFull - 1);
            return sum >= kFull;
        }
        // 1 is the least progress of a known buffer.
        void set_progress(std::uint32_t progress) {
            word_ = (word_ & ~(kValue | kFrequent)) | (progress > 0 ? progress : 1);
        }

    private:
        friend class UsageTable;
        std::uint64_t word_ = 0; // kTag: the rest of the hash; 0: empty
    };

    UsageTable() = default;
    UsageTable(const UsageTable&) = delete;
    UsageTable& operator=(const UsageTable&) = delete;

    // Returns the buffer's slot, or null if it is not known. Most buffers are in the slot that they
    // prefer. If not, all slots of the bucket are compared, since a branch that is mispredicted
    // costs more than the eight comparisons.
    Slot* find(const void* address) {
        if (buckets_ == nullptr) [[unlikely]] {
            return nullptr;
        }
        const Place at = place(address);
        Bucket& bucket = buckets_[at.bucket];
        Slot& preferred = bucket.slots[preferred_slot(at.tag)];
        return is(preferred, at.tag) ? &preferred : find_elsewhere(bucket, at.tag);
    }
    // Adds a buffer with the least progress. Returns null if there is no room for it.
    // REQUIRES: find() does not find it.
    Slot* add(const void* address);
    // Marks a buffer as frequent, with a value below kFull.
    void make_frequent(Slot& slot, std::uint32_t value) {
        ADAPTIB_INVARIANT(value < kFull && slot.word_ != 0,
                          "a known buffer is frequent with a value below kFull", value, slot.word_);
        frequent_ += slot.is_frequent() ? 0 : 1;
        ADAPTIB_INVARIANT(frequent_ <= known_, "a frequent buffer is a known one", frequent_,
                          known_);
        slot.word_ = (slot.word_ & kTag) | kFrequent | value;
    }
    // Makes a frequent buffer an ordinary one, whose progress starts again.
    void make_ordinary(Slot& slot) {
        frequent_ -= slot.is_frequent() ? 1 : 0;
        slot.set_progress(1);
    }
    // Removes the buffers that begin within the range, in time proportional to its length, at most
    // to the table's. Calls `removed(value)` for each frequent one.
    template <class F> void forget(std::uintptr_t begin, std::uintptr_t end, F&& removed);

    std::size_t known() const { return known_; }
    std::size_t frequent() const { return frequent_; }
    std::size_t slots() const { return buckets_ == nullptr ? 0 : bucket_count() * kSlots; }
    Bytes bytes() const { return slots() * sizeof(Slot); }

private:
    static constexpr std::size_t kSlots = 8;
    static constexpr std::uint32_t kLeastBits = 9; // of the number of a bucket: 32 KiB
    static constexpr std::uint32_t kMostBits = 14;
    static constexpr std::uint32_t kAgeEvery = 16;       // buffers that found no room
    static constexpr std::uint32_t kLittle = kFull / 64; // progress with which a buffer may stay
    static constexpr std::size_t kFrequentPart = 5;      // the table grows from one in 5 on

    // An address has 57 bits: 48 of its block, 5 of its place in the block, 4 that do not matter.
    static constexpr std::uint32_t kBlockShift = 9;
    static constexpr std::uint32_t kPlaceShift = 4;
    static constexpr std::uint32_t kPlaceBits = kBlockShift - kPlaceShift;
    static constexpr std::uint32_t kBlockBits = 48;
    static constexpr std::uint64_t kBlockMask = (std::uint64_t{1} << kBlockBits) - 1;
    static constexpr std::uint32_t kRestBits = kBlockBits - kLeastBits; // of the hash, in a slot
    static constexpr std::uint64_t kRestMask = (std::uint64_t{1} << kRestBits) - 1;
    static constexpr std::uint32_t kTagShift = 64 - kRestBits - kPlaceBits;
    static constexpr std::uint64_t kFrequent = std::uint64_t{1} << (kTagShift - 1);
    static constexpr std::uint64_t kValue = kFrequent - 1;
    static constexpr std::uint64_t kTag = ~(kFrequent | kValue);
    static_assert(kFull == kValue + 1);

    // The golden ratio times 2^48, made odd, and its inverse modulo 2^48.
    static constexpr std::uint64_t kMultiplier = 0x9E3779B97F4B;
    static constexpr std::uint64_t kInverse = inverse_of(kMultiplier) & kBlockMask;
    static_assert(((kMultiplier * kInverse) & kBlockMask) == 1);

    struct alignas(kCacheLine) Bucket {
        std::array<Slot, kSlots> slots;
    };
    static_assert(sizeof(Bucket) == kCacheLine);
    static_assert((sizeof(Bucket) << kMostBits) <= kMaxBytes);

    struct Place {
        std::size_t bucket;
        std::uint64_t tag;
    };

    static std::uint64_t hash_of_block(std::uint64_t block) {
        return (block * kMultiplier) & kBlockMask;
    }
    std::size_t bucket_of(std::uint64_t hash) const { return hash >> (kBlockBits - bits_); }
    Place place(const void* address) const {
        const auto number = reinterpret_cast<std::uintptr_t>(address);
        const std::uint64_t hash = hash_of_block(number >> kBlockShift);
        const std::uint64_t in_block = (number >> kPlaceShift) & ((1u << kPlaceBits) - 1);
        return {bucket_of(hash), ((hash & kRestMask) << kPlaceBits | in_block) << kTagShift};
    }
    // Returns the hash of the block of a slot in the bucket.
    std::uint64_t hash_of(std::size_t bucket, const Slot& slot) const {
        const std::uint64_t rest = slot.word_ >> (kTagShift + kPlaceBits);
        return static_cast<std::uint64_t>(bucket) << (kBlockBits - bits_) | rest;
    }
    // An empty slot is 0; a known buffer's is not, whatever its tag.
    static bool is(const Slot& slot, std::uint64_t tag) {
        return slot.word_ - tag - 1 < (kFrequent << 1) - 1;
    }
    // Depends on bits of the hash that never choose the bucket, and on the place in the block.
    static std::size_t preferred_slot(std::uint64_t tag) {
        constexpr std::uint32_t kShift = kTagShift + kPlaceBits + kRestBits - 8;
        return ((tag >> kShift) ^ (tag >> kTagShift)) % kSlots;
    }
    static Slot* find_elsewhere(Bucket& bucket, std::uint64_t tag) {
        std::uint32_t equal = 0;
        for (std::uint32_t i = 0; i < kSlots; ++i) {
            equal |= static_cast<std::uint32_t>(is(bucket.slots[i], tag)) << i;
        }
        return equal != 0 ? &bucket.slots[static_cast<std::size_t>(std::countr_zero(equal))]
                          : nullptr;
    }
    std::size_t bucket_count() const { return std::size_t{1} << bits_; }
    bool may_grow() const { return bits_ < kMostBits && frequent_ * kFrequentPart >= known_; }
    bool open();
    bool grow();
    void age(Bucket& bucket);
    Slot* free_slot(Bucket& bucket, std::uint64_t tag);
    template <class F> void remove(Slot& slot, F& removed) {
        if (slot.is_frequent()) {
            --frequent_;
            removed(slot.value());
        }
        ADAPTIB_INVARIANT(known_ > frequent_, "a buffer that is removed was counted", known_,
                          frequent_);
        --known_;
        slot = Slot();
    }

    std::uint32_t bits_ = kLeastBits;
    std::uint32_t refused_ = 0;
    std::size_t known_ = 0;
    std::size_t frequent_ = 0;
    std::unique_ptr<Bucket[]> buckets_; // null: nothing is known
};

template <class F> void UsageTable::forget(std::uintptr_t begin, std::uintptr_t end, F&& removed) {
    if (known_ == 0 || begin >= end) {
        return;
    }
    const std::uint64_t first = begin >> kBlockShift;
    const std::uint64_t last = (end - 1) >> kBlockShift;
    // A block whose first or last part alone is unmapped is forgotten as a whole: only counts.
    const auto in_range = [&](std::uint64_t hash) {
        return ((hash * kInverse - first) & kBlockMask) <= last - first;
    };
    const auto sweep = [&](std::size_t number) {
        for (Slot& slot : buckets_[number].slots) {
            if (slot.word_ != 0 && in_range(hash_of(number, slot))) {
                remove(slot, removed);
            }
        }
    };
    if (last - first < bucket_count()) {
        for (std::uint64_t block = first; block <= last; ++block) {
            sweep(bucket_of(hash_of_block(block)));
        }
    } else {
        for (std::size_t number = 0; number < bucket_count(); ++number) {
            sweep(number);
        }
    }
}

} // namespace adaptib
