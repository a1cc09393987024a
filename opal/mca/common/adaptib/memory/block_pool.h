// SPDX-License-Identifier: BSD-3-Clause
// BlockPool: memory for unexpected payloads and message records.
//
// Purpose: blocks of any size in O(1), without a system call when the working set repeats, and
// without keeping what a burst once needed.
// Structure: sizes are rounded up, to a power of two from 64 B to 2 KiB, then to a quarter of one
// (2.5, 3, 3.5, 4, 5 KiB …): a message of 4,000 B, with its record, takes 5 KiB.
//   up to 2 KiB   cut from slabs of 32 KiB; a slab has a LIFO list of its free blocks, and the slab
//                 that a block was last returned to is the next to be taken from
//   up to 64 KiB  a LIFO list of single free blocks per size
//   above         straight from and to the system
// Invariants:
//   1. cached() (single free blocks, and slabs of which no block is in use) is at most the limit.
//      A block that is released beyond it displaces blocks of other sizes, so that sizes that are
//      not used any more do not fill the cache forever; if there are none, the block itself goes
//      back to the system.
//   2. A slab is in its class's list exactly if it has both used and free blocks, and in the list
//      of empty slabs, from which any class takes, exactly if it has no used one. The pool cannot
//      return a slab of which a block is in use.
// Errors: nullptr if the system has no memory. Under AddressSanitizer free blocks, and the rest of
// a block behind the size asked for, are poisoned; a block that is released twice is reported.
// Ownership: blocks are the caller's until released; all are released before the pool is destroyed.
// Threads: not thread safe.
// May touch: base/ only.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "base/intrusive_list.h"
#include "base/invariant.h"
#include "base/units.h"

#if defined(__SANITIZE_ADDRESS__)
#define ADAPTIB_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADAPTIB_ASAN 1
#endif
#endif

namespace adaptib {

class BlockPool {
public:
    static constexpr Bytes kSmallestBlock = 64;
    static constexpr Bytes kLargestInSlab = 2 * kKiB;
    static constexpr Bytes kLargestBlock = 64 * kKiB;
    static constexpr Bytes kSlabBytes = 32 * kKiB;
    static constexpr Bytes kAlignment = kCacheLine;

    explicit BlockPool(Bytes keep_limit = 4 * kMiB) : keep_limit_(keep_limit) {}
    ~BlockPool();
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;

    // Returns a block of at least `size` bytes, aligned to kAlignment, contents undefined; nullptr
    // if the system has no memory. Size zero gives a block, too.
    [[nodiscard]] void* allocate(Bytes size);

    // REQUIRES: `block` is from allocate(size) of this pool with the same size, or null.
    void release(void* block, Bytes size);

    // allocate(kQuickBlock) and its release, for objects that live as long as one message: the last
    // few blocks are kept at hand. They count as free, but keep their slabs until trim(). The pool
    // does not touch them, so that a user of a part of a block has only those lines in its cache.
    static constexpr Bytes kQuickBlock = 256;
    [[nodiscard]] void* allocate_quick() {
        if (quick_count_ == 0) {
            return allocate(kQuickBlock);
        }
        void* const block = quick_[--quick_count_];
        mark_used(block, kQuickBlock);
        in_use_ += kQuickBlock;
        peak_ = in_use_ > peak_ ? in_use_ : peak_;
        return block;
    }
    void release_quick(void* block) {
        if (quick_count_ == kQuickCount) [[unlikely]] {
            release(block, kQuickBlock);
            return;
        }
        ADAPTIB_INVARIANT(in_use_ >= kQuickBlock, "what is released was handed out", in_use_);
        mark_free(block, kQuickBlock);
        quick_[quick_count_++] = block;
        in_use_ -= kQuickBlock;
    }

    // Creates an object in a block; nullptr as above. destroy() takes it back; null is allowed.
    template <class T, class... Arguments> [[nodiscard]] T* create(Arguments&&... arguments) {
        static_assert(alignof(T) <= kAlignment);
        void* const block = allocate(sizeof(T));
        return block == nullptr ? nullptr : new (block) T(std::forward<Arguments>(arguments)...);
    }
    template <class T> void destroy(T* object) {
        if (object != nullptr) {
            object->~T();
            release(object, sizeof(T));
        }
    }

    // Returns everything cached to the system.
    void trim();

    // Size of a block for `size` bytes, without slab headers.
    static constexpr Bytes block_bytes(Bytes size) {
        if (size > kLargestInSlab) {
            return round_up(size, size > kLargestBlock ? kAlignment : quarter_below(size));
        }
        return std::bit_ceil(size < kSmallestBlock ? kSmallestBlock : size);
    }

    Bytes in_use() const { return in_use_; } // block_bytes() of all blocks handed out
    Bytes peak_in_use() const { return peak_; }
    Bytes held() const { return held_; }     // memory that the pool has from the system
    Bytes cached() const { return cached_; } // the part of it that trim() would return
    std::uint64_t system_calls() const { return system_calls_; } // allocations from it so far

private:
    static constexpr std::size_t kSlabClasses = 6;    // 64 B … 2 KiB
    static constexpr std::size_t kSingleClasses = 20; // 2.5 … 64 KiB, four for each doubling

    struct FreeBlock {
        FreeBlock* next;
    };

    // Header of each slab. A slab is aligned to its size, so a block's address leads to it.
    struct Slab {
        ListLink<Slab> link;
        FreeBlock* free = nullptr;
        std::uint32_t in_use = 0;
        std::uint32_t cut = 0;   // blocks handed out for the first time since it was empty
        std::uint32_t count = 0; // blocks that it holds
    };
    static_assert(sizeof(Slab) <= kAlignment);
    using SlabList = IntrusiveList<Slab, &Slab::link>;

    static constexpr std::uint32_t kQuickCount = 32;
    static_assert(kSmallestBlock << (kSlabClasses - 1) == kLargestInSlab);
    static_assert(kLargestInSlab << (kSingleClasses / 4) == kLargestBlock);

    // For AddressSanitizer.
#if defined(ADAPTIB_ASAN)
    static void mark_free(void* memory, Bytes size);
    static void mark_used(void* memory, Bytes size);
#else
    static void mark_free(void*, Bytes) {}
    static void mark_used(void*, Bytes) {}
#endif
    void* allocate_in_slab(Bytes block);
    void* allocate_single(Bytes block);
    void release_in_slab(void* memory, Bytes block);
    void release_single(void* memory, Bytes block);
    bool make_room(Bytes size, std::size_t own_class);
    void drop_single(std::size_t index);
    void drop_empty_slab();
    void* from_system(Bytes alignment, Bytes size);
    void to_system(void* memory, Bytes size);

    // A quarter of the largest power of two below `size`, which is above 1.
    static constexpr Bytes quarter_below(Bytes size) { return std::bit_floor(size - 1) / 4; }
    static std::size_t slab_class(Bytes block) {
        return static_cast<std::size_t>(std::countr_zero(block) - std::countr_zero(kSmallestBlock));
    }
    static std::size_t single_class(Bytes block) {
        const Bytes quarter = quarter_below(block); // a quarter is 512 B in the first doubling
        const int doublings = std::countr_zero(quarter) - std::countr_zero(kLargestInSlab / 4);
        return static_cast<std::size_t>(doublings) * 4 + block / quarter - 5;
    }
    static Bytes single_block(std::size_t index) {
        return (kLargestInSlab / 4 << index / 4) * (index % 4 + 5);
    }

    const Bytes keep_limit_;
    std::uint32_t quick_count_ = 0;
    Bytes in_use_ = 0;
    Bytes peak_ = 0;
    Bytes held_ = 0;
    Bytes cached_ = 0;
    std::uint64_t system_calls_ = 0;
    SlabList slabs_[kSlabClasses];
    SlabList empty_slabs_;
    FreeBlock* singles_[kSingleClasses] = {};
    void* quick_[kQuickCount]; // a stack
};

} // namespace adaptib
