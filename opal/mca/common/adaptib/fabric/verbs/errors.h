// SPDX-License-Identifier: BSD-3-Clause
// What the error numbers of libibverbs and of the system mean here.
// Threads: functions without state.
// May touch: base/, the system (rlimits, /proc/self/status).
#pragma once

#include <string>

#include "base/status.h"
#include "base/units.h"

namespace adaptib::verbs {

// Some providers return -1 and set errno, or the negated number, where the manual has the number.
int error_number(int result);

// REQUIRES: error > 0.
Status status_of(int error);

// Whether `needed` bytes more of locked memory are beyond the limit of this process.
bool beyond_memlock(Bytes needed);

// The same where memory was to be pinned: locked_memory and a text if the limit is the cause.
Status memory_status(int error, Bytes needed, std::string& trouble);

} // namespace adaptib::verbs
