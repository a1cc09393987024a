// SPDX-License-Identifier: BSD-3-Clause
// Says what adaptib finds on this host, whether it would use it, and what to do where it would not;
// and which rails of another host this one can talk to. The program adaptib_info, as a function
// that tests can call.
//
// Threads: one; it keeps nothing between calls.
// May touch: tools/info/, base/, fabric/, the system.
#pragma once

#include <cstdio>
#include <string>

#include "fabric/verbs/verbs_fabric.h"

namespace adaptib {

// The environment of a run, which a test replaces.
struct InfoSettings {
    VerbsOptions options;
    std::string options_problem; // why the environment's parameters cannot be read; empty: they can
};

// Reads if_include, if_exclude, if_standby, gid_index and partition from the environment, as Open
// MPI does (OMPI_MCA_opal_common_adaptib_...).
InfoSettings info_settings();

// Runs the program with its arguments; argv[0] is its name. Returns its exit status: 0 done, and
// nothing is wrong; 1 something is, or no rail reaches the other host; 2 wrong arguments.
int run_info(int argc, const char* const* argv, const InfoSettings& settings, std::FILE* out,
             std::FILE* complaints);

} // namespace adaptib
