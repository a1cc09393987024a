// SPDX-License-Identifier: BSD-3-Clause
// Shows what the processes of running jobs on this host do: messages, bytes and troubles a second.
//
// Purpose: the program adaptib_top, as a function that tests can call. It reads the counters that
// each process shares (stats/live_counters.h), and disturbs none.
// Threads: any; it keeps nothing between calls.
// May touch: base/, stats/, the system.
#pragma once

#include <cstdio>

namespace adaptib {

// Runs the program with its arguments; argv[0] is its name. Returns its exit status: 0 done, 1 no
// process of this user shares counters, 2 wrong arguments. Except after 0, `complaints` says why.
int run_top(int argc, const char* const* argv, std::FILE* out, std::FILE* complaints);

} // namespace adaptib
