// SPDX-License-Identifier: BSD-3-Clause
// Obstacle: the reason why a process cannot map a peer's segment, for a person, and as one word in
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
        none,     // unknown
        open,     // open of the segment's file in /proc/<pid>/fd
        request,  // the same was refused, and so was asking the process for the file
        map,      // mmap
        commit,   // fallocate
        identity, // /proc/self/stat
        places,   // the segment has no free ProducerSlot
        contents, // the file is not the segment that the address names
    };
    Step step = Step::none;
    Reason reason = Reason::none;
    int error = 0; // errno of the step
    // Step::request: errno of request_descriptor; `error` is then that of the open.
    int request_error = 0;

    // Format of ProducerSlot::refused, where 0 means "not refused".
    std::uint64_t pack() const;
    static Obstacle unpack(std::uint64_t word);
    // Text for a person: "open of the shared segment of process 12: Too many open files; ...".
    // `here`: this process met the obstacle, so the text names the limits of this process that its
    // system calls ran into.
    std::string text(std::uint32_t pid, bool here) const;
};

} // namespace adaptib::shm
