// SPDX-License-Identifier: BSD-3-Clause
// CopyCosts: what it costs this host to copy a message by a system call, and by the processor.
//
// Purpose: measured once by who knows the system (fabric/shm/copy_costs.h), used by who chooses between
// copying once and copying twice (schedule/copy_choice.h).
// May touch: base/ only.
#pragma once

#include <array>

#include "base/units.h"

namespace adaptib {

struct CopyCosts {
    // The limits between copying twice and once that there is a choice of.
    static constexpr std::array<Bytes, 9> kSizes{4096,  6144,  8192,  12288, 16384,
                                                 24576, 32768, 49152, 65536};
    using Times = std::array<Nanoseconds, kSizes.size()>;

    Times single{}; // by a system call, from process to process
    Times plain{};  // by the processor, out of its cache into its cache
};

} // namespace adaptib
