// SPDX-License-Identifier: BSD-3-Clause
// What a rail can do, for a person to read.
// May touch: fabric/fabric.h.
#pragma once

#include <string>

#include "fabric/fabric.h"

namespace adaptib {

// "mlx5_0:1: rc, ud, dc, ...": its name and its capabilities.
std::string rail_text(const RailInfo& info);

} // namespace adaptib
