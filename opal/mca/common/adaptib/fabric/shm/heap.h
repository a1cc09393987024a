// SPDX-License-Identifier: BSD-3-Clause
// The heap of a process's own segment: blocks that peers can map, with memory only where they are
// used.
//
// Purpose: the file of a segment has its full size from the start; address space and memory come
// with use. Address space is mapped in extents, and each block lies in one of them. Whole pages of
// memory are committed before use, so that running out of memory is a Status and not a signal. A
// sparse block has memory at its beginning only: its owner and the peers that write into it commit
// more (Heap::commit, PeerSegment::commit), and its owner discards what it no longer needs.
// Ownership: the OwnSegment's; refers to its file.
// Threads: one thread at a time.
// May touch: base/, layout.h, segment_file.h, the system.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "fabric/shm/segment_file.h"

namespace adaptib::shm {

class Heap {
public:
    Heap() = default;
    ~Heap();
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;

    // Manages the file from `begin` to `end`, both page-aligned.
    void begin(const SegmentFile& file, Bytes begin, Bytes end);

    // Allocates zeroed memory, aligned to a cache line.
    Status allocate(Bytes length, Bytes& offset);
    // Allocates zeroed whole pages, of which only the first bytes have memory now. REQUIRES: first
    // <= length.
    Status allocate_sparse(Bytes length, Bytes first, Bytes& offset);
    void release(Bytes offset);

    // Both apply to a sparse block. commit() gives the range memory. discard() zeroes it and frees
    // its whole pages; false if the system cannot free pages, and then nothing has changed.
    // REQUIRES, of discard(): the range ends at a page boundary.
    Status commit(Bytes offset, Bytes length);
    bool discard(Bytes offset, Bytes length);

    // REQUIRES: the offset is in a block.
    std::byte* at(Bytes offset) const;
    // Offset of [address, +length) in the file; false if it is not in this heap.
    bool find(const void* address, Bytes length, Bytes& offset) const;

    // Text for a person: reason of the last failure.
    const std::string& last_error_text() const { return last_error_text_; }
    Bytes in_use() const { return in_use_; }

private:
    struct Extent {
        Bytes begin = 0;
        Bytes length = 0;
        std::byte* base = nullptr;
    };
    struct Block {
        Bytes length = 0;
        bool sparse = false;
    };

    Status take(Bytes need, Bytes alignment, Bytes& offset);
    bool take_free(Bytes need, Bytes alignment, Bytes& offset);
    Status add_extent(Bytes need);
    void give(Bytes offset, Bytes length);
    const Extent& extent_of(Bytes offset) const;
    bool has_memory(Bytes offset, Bytes length) const;
    void clear(Bytes offset, Bytes length);
    void mark(Bytes offset, Bytes length, bool committed);
    Status refuse(std::string text);
    // Returns true if free and used blocks together are all mapped memory.
    bool adds_up() const;

    const SegmentFile* file_ = nullptr;
    Bytes begin_ = 0;
    Bytes end_ = 0;
    Bytes mapped_ = 0; // end of the last extent
    std::vector<Extent> extents_;
    std::vector<bool> pages_;     // one per kPage from begin_: may hold nonzero bytes
    std::map<Bytes, Bytes> free_; // offset -> length; each within one extent, no two adjacent
    std::map<Bytes, Block> blocks_;
    Bytes in_use_ = 0;
    std::string last_error_text_;
};

} // namespace adaptib::shm
