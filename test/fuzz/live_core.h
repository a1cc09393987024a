// SPDX-License-Identifier: BSD-3-Clause
// Two live cores over the shm fabric, and a stranger that knows all keys and sends arbitrary
// messages.
#pragma once

#include "fuzz/input.h"

namespace adaptib::fuzz {

// Makes a new world and runs it through one input, which is a list of actions: of users, of the
// stranger, and of time.
void run_live_cores(Input& input);

} // namespace adaptib::fuzz
