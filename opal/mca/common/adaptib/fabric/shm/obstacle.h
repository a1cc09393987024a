// SPDX-License-Identifier: BSD-3-Clause
// Obstacle: what keeps a process from mapping a peer's segment, for a person, and as one word in
// shared memory.
// Threads: a value type.
// May touch: base/, layout.h, the system.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace adaptib::shm {

struct Obstacle {
    enum class Step : std::uint8_t {
        none,     // not known
        open,     // of the segment's file, by /proc/<pid>/fd
        request,  // the same was refused, and asking the process for it did not help either
        map,      // mmap
        commit,   // fallocate
        identity, // /proc/self/stat
        places,   // the segment has no free ProducerSlot
        contents, // it is not the segment that the address speaks of
    };
    Step step = Step::none;
    Reason reason = Reason::none;
    int error = 0;         // errno of the step
    int request_error = 0; // Step::request: what request_descriptor says; `error` is that of `open`

    // ProducerSlot::refused; 0 is "not refused".
    std::uint64_t pack() const;
    static Obstacle unpack(std::uint64_t word);
    // "open of the shared segment of process 12: Too many open files; ...". `here`: this process
    // has met it, and the limits that its own system calls have run into are named.
    std::string text(std::uint32_t pid, bool here) const;
};

} // namespace adaptib::shm
