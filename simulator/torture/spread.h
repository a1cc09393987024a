// SPDX-License-Identifier: BSD-3-Clause
// Spreads a program over processes with several endpoints.
//
// Purpose: makes each rank of a program a process with 1, 2 or 4 endpoints, and each of these a
// rank (Program::endpoints). Messages go as those of production: a context has a number, and both
// sides use the endpoint of that number, modulo how many they have, so that wildcards and order
// stay within an endpoint. Other operations start at any endpoint, as of any thread.
// Threads: one.
// May touch: simulator/torture/program.h.
#pragma once

#include <cstdint>

#include "simulator/torture/program.h"

namespace adaptib::torture {

void spread_over_endpoints(Program& program, std::uint64_t seed);

} // namespace adaptib::torture
