// SPDX-License-Identifier: BSD-3-Clause
// Lists the virtual rails of running jobs, and takes them down, brings them up or slows them.
//
// Purpose: shows striping and failover on one machine, while a job runs; the program adaptib_rails,
// as a function that tests can call.
// Threads: any; it keeps nothing between calls.
// May touch: the system.
#pragma once

#include <cstdio>

namespace adaptib {

// Runs the program with its arguments; argv[0] is its name. Returns its exit status: 0 done, 1 no
// process of this user has such a rail, 2 wrong arguments. Except after 0, `complaints` says why.
int run_rails(int argc, const char* const* argv, std::FILE* out, std::FILE* complaints);

} // namespace adaptib
