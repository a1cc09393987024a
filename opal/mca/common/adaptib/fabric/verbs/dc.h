// SPDX-License-Identifier: BSD-3-Clause
// Dynamically connected (DC) queue pairs. Verbs does not know them; mlx5 adapters have them
// (mlx5dv).
//
// This header names nothing of mlx5dv, so the rest of the fabric is the same with and without its
// header.
// Ownership: the caller's.  Threads: one.
// May touch: base/, fabric/, libibverbs; dc*.cc also libmlx5 through its table (mlx5_calls.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fabric/verbs/qp.h"

namespace adaptib::verbs {

// Returns `library` if libmlx5 drives this device, else null.
const Mlx5Calls* mlx5_of(const Mlx5Calls* library, ibv_device* device);

// Creates a trial initiator and target and brings them up. `limits`: on entry the wished-for limits
// (the rail's), on return the actual ones. False: the rail has no DC; `why` says why.
// REQUIRES: all other capabilities of the rail are known.
bool try_dc(VerbsRail& rail, DcLimits& limits, std::string& why);

// REQUIRES: the rail has Capability::dc, or try_dc is running; init.type is a DC type.
std::unique_ptr<VerbsQueuePair> new_dc_queue_pair(VerbsRail& rail, const QpInit& init);

} // namespace adaptib::verbs
