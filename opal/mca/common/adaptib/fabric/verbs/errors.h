// SPDX-License-Identifier: BSD-3-Clause
// Translation of the error numbers of libibverbs and of the system.
// Threads: functions without state.
// May touch: base/, fabric/, the system (rlimits, /proc/self/status).
#pragma once

#include <string>

#include "base/status.h"
#include "base/units.h"
#include "fabric/address_handle.h"

namespace adaptib::verbs {

// Returns the error number of a failed call. Some providers return -1 and set errno, or return the
// negated number, where the manual promises the number.
int error_number(int result);

// REQUIRES: error > 0.
Status status_of(int error);

// As status_of, for calls that find a way to an address. kUnanswered, which may pass: a neighbor
// does not answer, or the entry of the GID table is empty until the interface has its address
// again.
Status path_status(int error);

// Returns true if `needed` more bytes of locked memory exceed the limit of this process.
bool beyond_memlock(Bytes needed);

// As status_of, for calls that pin memory: locked_memory and a text if the limit is the cause.
Status memory_status(int error, Bytes needed, std::string& error_text);

} // namespace adaptib::verbs
