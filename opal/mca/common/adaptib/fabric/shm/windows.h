// SPDX-License-Identifier: BSD-3-Clause
// Mapping of a peer's segment: its fixed part, and windows onto blocks of its heap.
//
// Purpose: a heap has blocks for every peer of its owner, and a process uses one or two of them, so
// it maps a window for each at first use. A window is made from the existing mapping and needs
// neither a descriptor nor permission to open the segment again.
// Ownership: the PeerSegment's. Pointers are valid as long as it lives.
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

    // Returns false if the system cannot map a shared mapping once more, as under valgrind: there
    // the whole segment has to be mapped from the start.
    static bool can_make(std::byte* base);

    // The first `mapped` bytes of a file of `size` bytes are at `base`, which stays the caller's.
    // REQUIRES: `mapped` is whole pages, at least one.
    void begin(std::byte* base, Bytes mapped, Bytes size);
    // Null: beyond the file, across the end of the fixed part, where no block of a heap lies, or
    // there is no address space for it.
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
