// SPDX-License-Identifier: BSD-3-Clause
// Cores over the shared-memory fabric, all in this process; their turns are drawn at random.
//
// A program sets faults (simulator/faults/fault.h) of all fabrics in lines "fault NAME VALUE".
// datagram_doubled, datagram_delayed, completion_delayed, send_refused, commit_fails,
// cm_connect_fails: in this many of a thousand cases; the first two break the promise of
// reliable_ud, and random programs do not set them yet.
// lacks_whole_memory, lacks_direct, lacks_reliable_ud: 1: the rails hide these capabilities.
// meets: 1: queue pairs connect through a connection manager.
// Threads: one.
#pragma once

#include "simulator/torture/driver.h"
#include "simulator/torture/program.h"

namespace adaptib::torture {

// Null if the fabric or a core cannot be made; `problem` says why.
std::unique_ptr<Driver> open_shm(const Program& program, std::string& problem);

} // namespace adaptib::torture
