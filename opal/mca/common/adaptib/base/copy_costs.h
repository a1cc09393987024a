// SPDX-License-Identifier: BSD-3-Clause
// CopyCosts: time that this host takes to copy a message, by a system call and by the processor.
//
// Purpose: fabric/shm/copy_costs.h measures the costs once; schedule/eager_limit.h uses them to
// choose between copying once (system call) and twice (through the ring).
// May touch: base/ only.
#pragma once

#include <array>

#include "base/units.h"

namespace adaptib {

struct CopyCosts {
    // Message sizes that are measured, and that the limit between the two ways is chosen from.
    static constexpr std::array<Bytes, 9> kSizes{4096,  6144,  8192,  12288, 16384,
                                                 24576, 32768, 49152, 65536};
    using Times = std::array<Nanoseconds, kSizes.size()>;

    Times single{}; // by a system call, from process to process
    Times plain{};  // by the processor, out of its cache into its cache
};

} // namespace adaptib
