// SPDX-License-Identifier: BSD-3-Clause
// Text of a rail's capabilities, for a person.
// May touch: capability.h.
#pragma once

#include <string>

#include "fabric/capability.h"

namespace adaptib {

// Name and capabilities: "mlx5_0:1: rc, ud, dc, ...", and "standby" if it is one.
std::string rail_text(const RailInfo& info);

} // namespace adaptib
