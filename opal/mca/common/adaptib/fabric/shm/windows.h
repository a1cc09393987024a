// SPDX-License-Identifier: BSD-3-Clause
// A process maps a peer's segment: its fixed part, and windows onto blocks of its heap.
//
// Purpose: a heap has blocks for every peer of its owner, and a process uses one or two of these;
// so a window is mapped for each, when it is used first. It is made of the mapping that there is,
// with no need of a descriptor or of permission to open the segment once more.
// Ownership: the PeerSegment's. Pointers are valid as long as it is.
// Threads: one thread at a time.
// May touch: base/, the system.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"

namespace adaptib::shm {

class Windows {
public:
    Windows() = default;
    ~Windows();
    Windows(const Windows&) = delete;
    Windows& operator=(const Windows&) = delete;

    // The first `mapped` bytes of a file of `size` are at `base`, which stays the caller's.
    // REQUIRES: a page at least, whole pages.
    void begin(std::byte* base, Bytes mapped, Bytes size);
    // Null: beyond the file, or there is no address space for it.
    std::byte* at(Bytes offset, Bytes length);

private:
    struct Window {
        Bytes begin = 0;
        Bytes length = 0;
        std::byte* base = nullptr;
    };
    bool add(Bytes offset, Bytes length);

    std::byte* base_ = nullptr;
    Bytes mapped_ = 0;
    Bytes size_ = 0;
    std::vector<Window> windows_;
};

} // namespace adaptib::shm
