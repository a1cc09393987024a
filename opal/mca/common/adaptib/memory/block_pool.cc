// SPDX-License-Identifier: BSD-3-Clause
// BlockPool: allocation, release, and marks for AddressSanitizer.
#include "memory/block_pool.h"

#include <cstdlib>

#ifdef ADAPTIB_ASAN
#include <sanitizer/asan_interface.h>

#include "base/invariant.h"
#endif

namespace adaptib {

#ifdef ADAPTIB_ASAN
void BlockPool::mark_free(void* memory, Bytes size) { __asan_poison_memory_region(memory, size); }
void BlockPool::mark_used(void* memory, Bytes size) { __asan_unpoison_memory_region(memory, size); }
#endif

namespace {

// Reads a block that is being released: if it is free already, AddressSanitizer reports that.
#ifdef ADAPTIB_ASAN
void check_used(const void* memory) {
    static_cast<void>(*static_cast<const volatile char*>(memory));
}
#else
void check_used(const void*) {}
#endif

} // namespace

BlockPool::~BlockPool() {
    ADAPTIB_INVARIANT(in_use_ == 0, "all blocks are released before their pool ends", in_use_);
    trim();
    ADAPTIB_INVARIANT(held_ == 0, "a pool without a block in use gives all memory back", held_);
}

void* BlockPool::allocate(Bytes size) {
    if (size > PTRDIFF_MAX - kAlignment) {
        return nullptr;
    }
    const Bytes block = block_bytes(size);
    void* memory = nullptr;
    if (block <= kLargestInSlab) {
        memory = allocate_in_slab(block);
    } else if (block <= kLargestBlock) {
        memory = allocate_single(block);
    } else {
        memory = from_system(kAlignment, block);
    }
    if (memory == nullptr) {
        return nullptr;
    }
    in_use_ += block;
    ADAPTIB_INVARIANT(in_use_ + cached_ <= held_, "what is used or kept is memory of the pool",
                      in_use_, cached_, held_);
    peak_ = in_use_ > peak_ ? in_use_ : peak_;
    mark_free(memory, block);
    mark_used(memory, size == 0 ? 1 : size);
    return memory;
}

void BlockPool::release(void* memory, Bytes size) {
    if (memory == nullptr) {
        return;
    }
    check_used(memory);
    const Bytes block = block_bytes(size);
    ADAPTIB_INVARIANT(in_use_ >= block, "what is released was handed out", in_use_, block);
    in_use_ -= block;
    if (block <= kLargestInSlab) {
        release_in_slab(memory, block);
    } else if (block <= kLargestBlock) {
        release_single(memory, block);
    } else {
        to_system(memory, block);
    }
}

void* BlockPool::allocate_in_slab(Bytes block) {
    SlabList& slabs = slabs_[slab_class(block)];
    Slab* slab = slabs.front();
    if (slab == nullptr) {
        void* memory = empty_slabs_.pop_front();
        if (memory != nullptr) {
            cached_ -= kSlabBytes;
        } else {
            memory = from_system(kSlabBytes, kSlabBytes);
            if (memory == nullptr) {
                return nullptr;
            }
            mark_free(static_cast<char*>(memory) + kAlignment, kSlabBytes - kAlignment);
        }
        slab = new (memory) Slab;
        slab->count = static_cast<std::uint32_t>((kSlabBytes - kAlignment) / block);
        slabs.push_front(*slab);
    }
    ADAPTIB_INVARIANT(slab->in_use < slab->count, "a slab in the list of its class has free blocks",
                      slab->in_use, slab->count, block);
    void* memory = slab->free;
    if (memory != nullptr) {
        mark_used(memory, sizeof(FreeBlock));
        slab->free = slab->free->next;
    } else {
        ADAPTIB_INVARIANT(slab->cut < slab->count, "a slab is cut into the blocks that it holds",
                          slab->cut, slab->count, block);
        memory = reinterpret_cast<char*>(slab) + kAlignment + slab->cut * block;
        ++slab->cut;
    }
    if (++slab->in_use == slab->count) {
        slabs.remove(*slab);
    }
    return memory;
}

void BlockPool::release_in_slab(void* memory, Bytes block) {
    SlabList& slabs = slabs_[slab_class(block)];
    Slab* const slab = reinterpret_cast<Slab*>(reinterpret_cast<std::uintptr_t>(memory) &
                                               ~(std::uintptr_t{kSlabBytes} - 1));
    ADAPTIB_INVARIANT(slab->in_use > 0 && slab->in_use <= slab->count,
                      "a block that is released is in use", slab->in_use, slab->count, block);
    ADAPTIB_AUDIT(slab->count == (kSlabBytes - kAlignment) / block &&
                      (reinterpret_cast<std::uintptr_t>(memory) - kAlignment -
                       reinterpret_cast<std::uintptr_t>(slab)) %
                              block ==
                          0,
                  "a block is released with the size that it was allocated with", memory, block);
    mark_used(memory, sizeof(FreeBlock));
    slab->free = new (memory) FreeBlock{slab->free};
    mark_free(memory, block);
    if (slabs.front() != slab) {
        if (slab->link.linked()) {
            slabs.remove(*slab);
        }
        slabs.push_front(*slab);
    }
    if (--slab->in_use > 0) {
        return;
    }
    slabs.remove(*slab);
    if (make_room(kSlabBytes, kSingleClasses)) {
        empty_slabs_.push_front(*slab);
        cached_ += kSlabBytes;
        ADAPTIB_INVARIANT(cached_ <= keep_limit_, "the pool keeps no more than its limit", cached_,
                          keep_limit_);
    } else {
        to_system(slab, kSlabBytes);
    }
}

void* BlockPool::allocate_single(Bytes block) {
    FreeBlock*& free = singles_[single_class(block)];
    if (free == nullptr) {
        return from_system(kAlignment, block);
    }
    FreeBlock* const memory = free;
    mark_used(memory, sizeof(FreeBlock));
    free = memory->next;
    ADAPTIB_INVARIANT(cached_ >= block, "a free block is counted as kept", cached_, block);
    cached_ -= block;
    return memory;
}

void BlockPool::release_single(void* memory, Bytes block) {
    const std::size_t own_class = single_class(block);
    if (!make_room(block, own_class)) {
        to_system(memory, block);
        return;
    }
    mark_used(memory, sizeof(FreeBlock));
    singles_[own_class] = new (memory) FreeBlock{singles_[own_class]};
    mark_free(memory, block);
    cached_ += block;
    ADAPTIB_INVARIANT(cached_ <= keep_limit_, "the pool keeps no more than its limit", cached_,
                      keep_limit_);
}

// Returns true if there is room for `size` more cached bytes, after making room at the cost of the
// other classes if need be. `own_class` is an index of singles_, or kSingleClasses for a slab.
bool BlockPool::make_room(Bytes size, std::size_t own_class) {
    if (size > keep_limit_) {
        return false;
    }
    for (std::size_t i = kSingleClasses; i-- > 0 && cached_ + size > keep_limit_;) {
        while (i != own_class && singles_[i] != nullptr && cached_ + size > keep_limit_) {
            drop_single(i);
        }
    }
    while (own_class != kSingleClasses && !empty_slabs_.empty() && cached_ + size > keep_limit_) {
        drop_empty_slab();
    }
    return cached_ + size <= keep_limit_;
}

void BlockPool::drop_single(std::size_t index) {
    FreeBlock* const memory = singles_[index];
    const Bytes block = single_block(index);
    mark_used(memory, sizeof(FreeBlock));
    singles_[index] = memory->next;
    cached_ -= block;
    to_system(memory, block);
}

void BlockPool::drop_empty_slab() {
    cached_ -= kSlabBytes;
    to_system(empty_slabs_.pop_front(), kSlabBytes);
}

void BlockPool::trim() {
    while (quick_count_ > 0) {
        release_in_slab(quick_[--quick_count_], kQuickBlock);
    }
    for (std::size_t i = 0; i < kSingleClasses; ++i) {
        while (singles_[i] != nullptr) {
            drop_single(i);
        }
    }
    while (!empty_slabs_.empty()) {
        drop_empty_slab();
    }
    ADAPTIB_INVARIANT(cached_ == 0, "what is kept is free blocks and empty slabs", cached_);
}

void* BlockPool::from_system(Bytes alignment, Bytes size) {
    ++system_calls_;
    void* const memory = std::aligned_alloc(alignment, size);
    if (memory != nullptr) {
        held_ += size;
    }
    return memory;
}

void BlockPool::to_system(void* memory, Bytes size) {
    ADAPTIB_INVARIANT(held_ >= size, "what goes back is memory of the pool", held_, size);
    mark_used(memory, size);
    held_ -= size;
    std::free(memory);
}

} // namespace adaptib
