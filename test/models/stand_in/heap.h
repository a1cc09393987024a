// SPDX-License-Identifier: BSD-3-Clause
// In place of the heap, for models of sources that allocate what their threads share: memory comes
// from the explorer's, so that it finds races on it, and uses of what was deleted. A model includes
// this once, and makes a WatchedHeap in each execution: the set-up allocates so as long as it is
// there, the threads always.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <sys/single_threaded.h>

#include "explorer.h"
#include "machine.h"

namespace adaptib::model {

// Each thread has a part of its own: what only one of them uses is nobody else's place in another
// execution.
struct HeapPart {
    static constexpr std::size_t kBytes = 12 * 1024;
    std::byte* begin = nullptr;
    std::size_t used = 0;
};
inline HeapPart g_heap[kMostThreads + 1];
inline bool g_set_up_is_watched = false;

class WatchedHeap {
public:
    explicit WatchedHeap(Execution& execution) {
        __libc_single_threaded = 0; // shared_ptr counts by atomic operations
        for (HeapPart& part : g_heap) {
            part = {execution.memory("heap", HeapPart::kBytes, alignof(std::max_align_t)), 0};
        }
        g_set_up_is_watched = true;
    }
    ~WatchedHeap() { g_set_up_is_watched = false; }
    WatchedHeap(const WatchedHeap&) = delete;
    WatchedHeap& operator=(const WatchedHeap&) = delete;
};

[[gnu::no_sanitize("thread")]] inline void* allocate(std::size_t size) {
    constexpr std::size_t kHead = alignof(std::max_align_t); // has the size
    if (!machine_active() || !(machine_thread() > 0 || g_set_up_is_watched)) {
        return std::malloc(size);
    }
    HeapPart& part = g_heap[machine_thread()];
    const std::size_t bytes = (size + 2 * kHead - 1) / kHead * kHead;
    if (part.begin == nullptr || part.used + bytes > HeapPart::kBytes) {
        std::abort(); // a larger kBytes would do
    }
    std::byte* const at = part.begin + part.used;
    part.used += bytes;
    *reinterpret_cast<std::size_t*>(at) = size;
    return at + kHead;
}

[[gnu::no_sanitize("thread")]] inline void release(void* at) {
    constexpr std::size_t kHead = alignof(std::max_align_t);
    const auto* const place = static_cast<std::byte*>(at);
    if (g_heap[0].begin == nullptr || place < g_heap[0].begin ||
        place >= g_heap[kMostThreads].begin + HeapPart::kBytes) {
        std::free(at);
    } else if (machine_active()) {
        machine_freed(at, *reinterpret_cast<const std::size_t*>(place - kHead));
    }
}

} // namespace adaptib::model

void* operator new(std::size_t size) { return adaptib::model::allocate(size); }
void operator delete(void* at) noexcept { adaptib::model::release(at); }
void operator delete(void* at, std::size_t) noexcept { adaptib::model::release(at); }
