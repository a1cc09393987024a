// SPDX-License-Identifier: BSD-3-Clause
// Two live cores over the shm fabric, and a stranger who knows all keys and sends what he likes.
#pragma once

#include "fuzz/input.h"

namespace adaptib::fuzz {

// One input is one life of a new world: a list of actions of users, the stranger, and time.
void run_live_cores(Input& input);

} // namespace adaptib::fuzz
