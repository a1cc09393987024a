// SPDX-License-Identifier: BSD-3-Clause
// The heap of a process's own segment: blocks that peers can map, with memory as far as they are
// used.
//
// Purpose: the file of a segment has its full size from the start; address space and memory come
// with use. Address space is mapped in extents, and a block lies in one of them. Memory is
// committed by whole pages before it is used, so that running out of it is a Status and not a
// signal. A sparse
// block has memory at its beginning only: its owner and the peers that write into it commit more
// (Heap::commit, PeerSegment::commit), and its owner gives back what is not needed any more.
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

    // Of the file from `begin` to `end`, both at the beginning of a page.
    void begin(const SegmentFile& file, Bytes begin, Bytes end);

    // Zeroed memory, aligned to a cache line.
    Status allocate(Bytes length, Bytes& offset);
    // Zeroed memory of whole pages, of which the first bytes have memory now. REQUIRES: first <=
    // length.
    Status allocate_sparse(Bytes length, Bytes first, Bytes& offset);
    void release(Bytes offset);

    // Of a sparse block. commit(): the range has memory. discard(): it is zero, and its whole pages
    // have none; false if the system cannot take pages back, and nothing has changed. REQUIRES, of
    // discard(): the range ends with a page.
    Status commit(Bytes offset, Bytes length);
    bool discard(Bytes offset, Bytes length);

    // REQUIRES: the offset is in a block.
    std::byte* at(Bytes offset) const;
    // Where in the file [address, +length) lies; false if it is not in this heap.
    bool find(const void* address, Bytes length, Bytes& offset) const;

    // What the last failure was about, for a person.
    const std::string& trouble() const { return trouble_; }
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

    const SegmentFile* file_ = nullptr;
    Bytes begin_ = 0;
    Bytes end_ = 0;
    Bytes mapped_ = 0; // end of the last extent
    std::vector<Extent> extents_;
    std::vector<bool> pages_;     // by kPage from begin_: may hold something that is not zero
    std::map<Bytes, Bytes> free_; // offset -> length, none of two extents, no two adjacent
    std::map<Bytes, Block> blocks_;
    Bytes in_use_ = 0;
    std::string trouble_;
};

} // namespace adaptib::shm
