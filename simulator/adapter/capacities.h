// SPDX-License-Identifier: BSD-3-Clause
// Capacities that drivers give for those that a program asks for (rules max_*, inline_returned,
// send_depth, entry_block, cqe_depth).
// Threads: none of their own; no state.
// May touch: infiniband/verbs.h, topology.h.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "topology.h"

namespace adaptib::hca {

// Checks the capacities of a queue pair and changes them to those that it gets. `shared`: it has a
// shared receive queue. Result: 0 or EINVAL.
int fit(const DeviceDescription& device, ibv_qp_type type, bool shared, ibv_qp_cap& capacities);

// Entries that a completion queue gets; 0: so many are not possible.
int fit_completions(const DeviceDescription& device, std::int64_t wanted);

} // namespace adaptib::hca
