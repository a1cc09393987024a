// SPDX-License-Identifier: BSD-3-Clause
// Cores over the shared-memory fabric, all in this process; whose turn it is is drawn.
//
// What a program says of faults (fabric/fault/fault.h) of all fabrics, in lines "fault NAME VALUE":
// datagram_doubled, datagram_delayed, completion_delayed, send_refused, in so many of a thousand cases;
// lacks_whole_memory, lacks_direct, lacks_reliable_ud, 1: the rails do not show these capabilities. The first
// two break what reliable_ud promises. Random programs have neither of them yet.
// Threads: one.
#pragma once

#include "sim/driver.h"
#include "sim/program.h"

namespace adaptib::torture {

// Null if the fabric or a core cannot be made; `problem` says why.
std::unique_ptr<Driver> open_shm(const Program& program, std::string& problem);

} // namespace adaptib::torture
