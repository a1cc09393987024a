// SPDX-License-Identifier: BSD-3-Clause
// How much memory the processes of this node may use.
//
// Threads: any. May touch: base/, the system.
#pragma once

#include <string>

#include "base/units.h"

namespace adaptib::shm {

// What the machine has, or less where a control group of this process or of one around it allows
// less
// (containers, batch systems). `proc` and `sys` stand for /proc and /sys in tests.
Bytes node_memory(const std::string& proc = "/proc", const std::string& sys = "/sys");

// What a process's segment may have where nobody says: a share of that, divided among so many
// processes.
Bytes default_memory(Bytes node, std::uint32_t processes);

} // namespace adaptib::shm
