// SPDX-License-Identifier: BSD-3-Clause
// Windows onto a peer's heap (fabric/shm/windows.h).
#include "fabric/shm/windows.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/invariant.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/segment_file.h"

namespace adaptib::shm {

Windows::~Windows() {
    for (const Window& window : windows_) {
        munmap(window.base, window.length);
    }
}

bool Windows::can_make(std::byte* base) {
    void* again = mremap(base, 0, page_bytes(), MREMAP_MAYMOVE);
    return again != MAP_FAILED && munmap(again, page_bytes()) == 0;
}

void Windows::begin(std::byte* base, Bytes mapped, Bytes size) {
    ADAPTIB_INVARIANT(base_ == nullptr && windows_.empty(), "windows begin once", base_,
                      windows_.size());
    ADAPTIB_INVARIANT(mapped >= page_bytes() && (mapped & (page_bytes() - 1)) == 0,
                      "the fixed part is whole pages, at least one", mapped);
    base_ = base;
    mapped_ = mapped;
    size_ = size;
}

std::byte* Windows::at(Bytes offset, Bytes length) {
    if (offset > size_ || length > size_ - offset) {
        return nullptr;
    }
    if (offset + length <= mapped_) {
        return base_ + offset;
    }
    if (offset < mapped_) {
        return nullptr; // a peer's record says so
    }
    const auto holds = [&](const Window& window) {
        return is_within(offset, length, window.begin, window.length);
    };
    auto found = std::find_if(windows_.begin(), windows_.end(), holds);
    if (found == windows_.end()) {
        if (!add(offset, length)) {
            return nullptr;
        }
        found = std::prev(windows_.end());
    }
    ADAPTIB_INVARIANT(is_within(offset, length, found->begin, found->length),
                      "a window holds what it was made for", offset, length, found->begin,
                      found->length);
    return found->base + (offset - found->begin);
}

// mremap can map a shared mapping once more, from any of its pages and beyond its end: this maps
// from its last page. The part before the window is unmapped at once.
bool Windows::add(Bytes offset, Bytes length) {
    const Bytes page = page_bytes();
    const Bytes from = mapped_ - page;
    const Bytes begin = offset / page * page;
    const Bytes end = std::min(round_up(offset + length, page), round_up(size_, page));
    ADAPTIB_INVARIANT(from < begin && begin < end, "a window is not empty", from, begin, end);
    void* all = mremap(base_ + from, 0, end - from, MREMAP_MAYMOVE);
    if (all == MAP_FAILED) {
        return false;
    }
    auto* at = static_cast<std::byte*>(all);
    munmap(at, begin - from);
    windows_.push_back({begin, end - begin, at + (begin - from)});
    return true;
}

} // namespace adaptib::shm
