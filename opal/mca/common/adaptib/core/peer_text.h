// SPDX-License-Identifier: BSD-3-Clause
// Texts about peers, for people.
//
// Threads: functions without state.
// May touch: base/.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace adaptib {

// "Process 3 of job 7 on host node1"; without the host if that is empty.
std::string peer_text(std::uint64_t name, const std::string& host);
// Returns what the user can do if a peer cannot be reached for that reason.
const char* advice(Reason reason);

} // namespace adaptib
