// SPDX-License-Identifier: BSD-3-Clause
// Dynamically connected queue pairs, which verbs do not know and mlx5 adapters have (mlx5dv).
//
// Names nothing of mlx5dv, so the rest of the fabric is the same whether or not its header was there.
// Ownership: the caller's.  Threads: one.
// May touch: base/, fabric/, libibverbs; dc*.cc besides: libmlx5 by its table (mlx5_calls.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fabric/verbs/qp.h"

namespace adaptib::verbs {

// `library` if it drives this device, else null.
const Mlx5Calls* mlx5_of(const Mlx5Calls* library, ibv_device* device);

// Makes an initiator and a target and brings them up. `limits`, the rail's, are what is wished for at first and what there
// is afterwards. False: the rail has none, as `why` says.
// REQUIRES: what the rail has else is known.
bool try_dc(VerbsRail& rail, DcLimits& limits, std::string& why);

// REQUIRES: the rail has Capability::dc, or is tried for it; init.type is one of the two.
std::unique_ptr<VerbsQueuePair> new_dc_queue_pair(VerbsRail& rail, const QpInit& init);

} // namespace adaptib::verbs
