// SPDX-License-Identifier: BSD-3-Clause
// Blocks of a segment's heap (fabric/shm/heap.h).
#include "fabric/shm/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/invariant.h"
#include "fabric/shm/layout.h"

namespace adaptib::shm {

namespace {

constexpr Bytes kExtent = 2 * kMiB; // at least, if that much is left

} // namespace

Heap::~Heap() {
    for (const Extent& extent : extents_) {
        munmap(extent.base, extent.length);
    }
}

void Heap::begin(const SegmentFile& file, Bytes begin, Bytes end) {
    ADAPTIB_INVARIANT(extents_.empty() && blocks_.empty(), "a heap begins once", extents_.size(),
                      blocks_.size());
    ADAPTIB_INVARIANT(begin <= end && ((begin | end) & (kPage - 1)) == 0,
                      "a heap is whole pages of the file", begin, end);
    file_ = &file;
    begin_ = mapped_ = begin;
    end_ = end;
    pages_.assign((end - begin) / kPage, false);
}

Status Heap::refuse(std::string text) {
    last_error_text_ = std::move(text);
    return Status::error(Reason::no_memory);
}

// -------------------------------------------------------------------------------------------------
// Blocks

Status Heap::allocate(Bytes length, Bytes& offset) {
    const Bytes need = round_up(length, kCacheLine);
    if (length == 0) {
        return Status::error(Reason::bad_argument);
    }
    if (const Status status = take(need, kCacheLine, offset); !status.ok()) {
        return status;
    }
    if (const Status status = commit(offset, need); !status.ok()) {
        give(offset, need);
        return status;
    }
    clear(offset, need);
    mark(offset, need, true);
    blocks_.emplace(offset, Block{need, false});
    in_use_ += need;
    ADAPTIB_AUDIT(adds_up(), "mapped memory of a heap is used or free", mapped_, in_use_);
    return kOk;
}

Status Heap::allocate_sparse(Bytes length, Bytes first, Bytes& offset) {
    const Bytes need = round_up(length, page_bytes());
    ADAPTIB_INVARIANT(first <= length, "the first part of a block lies in it", first, length);
    if (length == 0) {
        return Status::error(Reason::bad_argument);
    }
    if (const Status status = take(need, page_bytes(), offset); !status.ok()) {
        return status;
    }
    // The whole block gets memory before it is cleared, if the system frees no pages.
    const bool to_clear = has_memory(offset, need) && !discard(offset, need);
    if (const Status status = commit(offset, to_clear ? need : first); !status.ok()) {
        give(offset, need);
        return status;
    }
    if (to_clear) {
        clear(offset, need);
    }
    mark(offset, need, true); // peers may commit and write any of them
    blocks_.emplace(offset, Block{need, true});
    in_use_ += need;
    ADAPTIB_AUDIT(adds_up(), "mapped memory of a heap is used or free", mapped_, in_use_);
    return kOk;
}

void Heap::release(Bytes offset) {
    const auto it = blocks_.find(offset);
    if (it == blocks_.end()) {
        return;
    }
    const Block block = it->second;
    blocks_.erase(it);
    if (block.sparse && discard(offset, block.length)) {
        mark(offset, block.length, false);
    }
    ADAPTIB_INVARIANT(block.length <= in_use_, "a block is part of what is in use", block.length,
                      in_use_);
    in_use_ -= block.length;
    give(offset, block.length);
    ADAPTIB_AUDIT(adds_up(), "mapped memory of a heap is used or free", mapped_, in_use_);
}

Status Heap::take(Bytes need, Bytes alignment, Bytes& offset) {
    if (need > end_ - begin_) {
        return refuse("a block of " + std::to_string(need) + " bytes of a heap of " +
                      std::to_string(end_ - begin_));
    }
    if (take_free(need, alignment, offset)) {
        return kOk;
    }
    if (const Status status = add_extent(need); !status.ok()) {
        return status;
    }
    const bool found = take_free(need, alignment, offset);
    ADAPTIB_INVARIANT(found, "a new extent has room for the block that it is made for", need,
                      mapped_);
    return kOk;
}

// First fit, so that low addresses stay warm.
bool Heap::take_free(Bytes need, Bytes alignment, Bytes& offset) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        const auto [start, length] = *it;
        const Bytes begin = round_up(start, alignment);
        if (length < need || begin - start > length - need) {
            continue;
        }
        free_.erase(it);
        if (begin > start) {
            free_.emplace(start, begin - start);
        }
        if (start + length > begin + need) {
            free_.emplace(begin + need, start + length - begin - need);
        }
        offset = begin;
        ADAPTIB_AUDIT(begin + need <= extent_of(begin).begin + extent_of(begin).length,
                      "a block lies in one extent", begin, need);
        return true;
    }
    return false;
}

Status Heap::add_extent(Bytes need) {
    const Bytes wanted = round_up(std::max(need, kExtent), page_bytes());
    const Bytes length = std::min(wanted, (end_ - mapped_) / page_bytes() * page_bytes());
    if (length < need) {
        return refuse("the shared segment is full: " + std::to_string(mapped_ + need) +
                      " bytes needed, " + std::to_string(end_) + " allowed");
    }
    void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_->fd,
                    static_cast<off_t>(mapped_));
    if (at == MAP_FAILED) {
        return refuse(std::string("cannot map more of the shared segment: ") +
                      std::strerror(errno) +
                      (errno == ENOMEM ? " (ulimit -v says how much address space a process may "
                                         "have)"
                                       : ""));
    }
    extents_.push_back({mapped_, length, static_cast<std::byte*>(at)});
    free_.emplace(mapped_, length);
    mapped_ += length;
    ADAPTIB_INVARIANT(mapped_ <= end_, "extents end with the file", mapped_, end_);
    return kOk;
}

// Merges adjacent free blocks of one extent.
void Heap::give(Bytes offset, Bytes length) {
    const Extent& extent = extent_of(offset);
    auto next = free_.lower_bound(offset);
    ADAPTIB_INVARIANT(offset + length <= extent.begin + extent.length, "a block lies in one extent",
                      offset, length);
    ADAPTIB_INVARIANT(next == free_.end() || offset + length <= next->first,
                      "memory that is given back is not free", offset, length);
    if (next != free_.end() && offset + length == next->first &&
        next->first < extent.begin + extent.length) {
        length += next->second;
        next = free_.erase(next);
    }
    if (next != free_.begin()) {
        const auto before = std::prev(next);
        ADAPTIB_INVARIANT(before->first + before->second <= offset,
                          "memory that is given back is not free", before->first, before->second,
                          offset);
        if (before->first + before->second == offset && before->first >= extent.begin) {
            before->second += length;
            return;
        }
    }
    free_.emplace(offset, length);
}

bool Heap::adds_up() const {
    Bytes free = 0;
    Bytes used = 0;
    for (const auto& [offset, length] : free_) {
        free += length;
    }
    for (const auto& [offset, block] : blocks_) {
        used += block.length;
    }
    return used == in_use_ && used + free == mapped_ - begin_;
}

// -------------------------------------------------------------------------------------------------
// Memory

Status Heap::commit(Bytes offset, Bytes length) {
    ADAPTIB_INVARIANT(is_within(offset, length, begin_, end_ - begin_),
                      "a heap commits its own memory", offset, length);
    if (const int error = commit_file(file_->fd, offset, length); error != 0) {
        return refuse(no_memory_text(*file_, error));
    }
    return kOk;
}

bool Heap::discard(Bytes offset, Bytes length) {
    const Bytes end = offset + length;
    const Bytes begin = std::min(round_up(offset, page_bytes()), end);
    if (begin < end && !discard_file(file_->fd, begin, end - begin)) {
        return false;
    }
    std::memset(at(offset), 0, begin - offset);
    return true;
}

bool Heap::has_memory(Bytes offset, Bytes length) const {
    for (Bytes page = (offset - begin_) / kPage; page * kPage < offset + length - begin_; ++page) {
        if (pages_[page]) {
            return true;
        }
    }
    return false;
}

void Heap::mark(Bytes offset, Bytes length, bool committed) {
    ADAPTIB_INVARIANT(is_within(offset, length, begin_, end_ - begin_), "a block lies in its heap",
                      offset, length);
    for (Bytes page = (offset - begin_) / kPage; page * kPage < offset + length - begin_; ++page) {
        pages_[page] = committed;
    }
}

// Zeroes what other blocks left in the range.
void Heap::clear(Bytes offset, Bytes length) {
    for (Bytes at = offset; at < offset + length;) {
        const Bytes next = std::min((at / kPage + 1) * kPage, offset + length);
        if (pages_[(at - begin_) / kPage]) {
            std::memset(this->at(at), 0, next - at);
        }
        at = next;
    }
}

// -------------------------------------------------------------------------------------------------
// Addresses

const Heap::Extent& Heap::extent_of(Bytes offset) const {
    const auto behind =
        std::upper_bound(extents_.begin(), extents_.end(), offset,
                         [](Bytes wanted, const Extent& extent) { return wanted < extent.begin; });
    ADAPTIB_INVARIANT(behind != extents_.begin(), "an address of the heap lies in an extent",
                      offset, mapped_);
    return *std::prev(behind);
}

std::byte* Heap::at(Bytes offset) const {
    const Extent& extent = extent_of(offset);
    ADAPTIB_INVARIANT(offset - extent.begin <= extent.length,
                      "an address of the heap lies in an extent", offset, extent.begin,
                      extent.length);
    return extent.base + (offset - extent.begin);
}

bool Heap::find(const void* address, Bytes length, Bytes& offset) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (const Extent& extent : extents_) {
        const auto base = reinterpret_cast<std::uintptr_t>(extent.base);
        if (at >= base && at - base < extent.length && length <= extent.length - (at - base)) {
            offset = extent.begin + (at - base);
            return true;
        }
    }
    return false;
}

} // namespace adaptib::shm
