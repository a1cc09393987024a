// SPDX-License-Identifier: BSD-3-Clause
// Cores over the shared-memory fabric, all in this process; their turns are drawn at random.
//
// Faults (lines "fault NAME VALUE", driver.h) are those of each rank's fabric. datagram_doubled and
// datagram_delayed break the promise of reliable_ud, and random programs do not set them yet.
// Threads: one.
#pragma once

#include "simulator/torture/driver.h"
#include "simulator/torture/program.h"

namespace adaptib::torture {

// Null if the fabric or a core cannot be made; `problem` says why.
std::unique_ptr<Driver> open_shm(const Program& program, std::string& problem);

} // namespace adaptib::torture
