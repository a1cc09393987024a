// SPDX-License-Identifier: BSD-3-Clause
// Amount of memory that the processes of this node may use.
//
// Threads: any. May touch: base/, the system.
#pragma once

#include <string>

#include "base/units.h"

namespace adaptib::shm {

// Memory of the node: that of the machine, or less where the control group of this process, or one
// around it, has a lower limit (containers, batch systems). `proc` and `sys` replace /proc and /sys
// in tests.
Bytes node_memory(const std::string& proc = "/proc", const std::string& sys = "/sys");

// Memory that one process may use where no parameter says it: a fixed share of the node's memory,
// divided among that many processes.
Bytes default_memory(Bytes node, std::uint32_t processes);

// As above, for this node, whose memory is read only once.
Bytes default_memory(std::uint32_t processes);

} // namespace adaptib::shm
