// SPDX-License-Identifier: BSD-3-Clause
// Size that this process's files may have (ulimit -f, RLIMIT_FSIZE). The system does not merely
// refuse to make a file larger: it raises SIGXFSZ, which ends the process, so ask before.
// Threads: any.
// May touch: the C library.
#pragma once

#include <sys/resource.h>

#include "base/units.h"

namespace adaptib {

// Bytes; the largest number if there is no limit.
inline Bytes file_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return ~Bytes{0};
    }
    return limit.rlim_cur;
}

} // namespace adaptib
