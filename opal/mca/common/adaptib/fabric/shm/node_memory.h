// SPDX-License-Identifier: BSD-3-Clause
// How much memory the processes of this node may use.
//
// Threads: any. May touch: base/, the system.
#pragma once

#include <string>

#include "base/units.h"

namespace adaptib::shm {

// The node has what the machine has, or less where a control group of this process or of one around
// it allows less (containers, batch systems). `proc` and `sys` stand for /proc and /sys in tests.
Bytes node_memory(const std::string& proc = "/proc", const std::string& sys = "/sys");

// A process may have a share of that, divided among so many processes, where no parameter says how
// much.
Bytes default_memory(Bytes node, std::uint32_t processes);

// The same of this node, which is looked at once.
Bytes default_memory(std::uint32_t processes);

} // namespace adaptib::shm
