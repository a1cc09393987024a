// SPDX-License-Identifier: BSD-3-Clause
// Address space of the user's memory in torture: the same addresses in every run.
//
// Purpose: cores register buffers by pages and count their uses by address, so the course of a run
// depends on where its buffers lie. The system's allocator depends on all that the process did
// before. Here the n-th block has the same address each time: the space has a fixed base, blocks of
// a size are handed out again last in, first out, and a space without blocks begins anew.
// Ownership: a block belongs to its caller until it is given back.
// Errors: where the base is taken, the space lies elsewhere, and runs still repeat within the
// process. Ends the process if the space is full or there is no memory.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstddef>

#include "base/units.h"

namespace adaptib::torture {

// Returns a block that is aligned to cache lines; neighbours may share pages.
void* take_block(Bytes bytes);
void give_block(void* block, Bytes bytes);

// Allocator of containers over the two.
template <typename T> struct BlockAllocator {
    using value_type = T;
    BlockAllocator() = default;
    template <typename U> explicit BlockAllocator(const BlockAllocator<U>&) {}
    T* allocate(std::size_t count) { return static_cast<T*>(take_block(count * sizeof(T))); }
    void deallocate(T* block, std::size_t count) { give_block(block, count * sizeof(T)); }
    friend bool operator==(const BlockAllocator&, const BlockAllocator&) { return true; }
};

} // namespace adaptib::torture
