// SPDX-License-Identifier: BSD-3-Clause
// The ways in which the costs of copied and gathered messages are measured on the machine at hand
// (memory/gather_costs.h).
//
// Threads: a free function without state.
// May touch: base/, fabric/, memory/.
#pragma once

#include "fabric/rail.h"
#include "memory/gather_costs.h"

namespace adaptib {

// Registrations are with the rails of the range; lookups are among a few thousand buffers.
GatherTrial gather_trial(RailList rails, RailRange with);

} // namespace adaptib
