// SPDX-License-Identifier: BSD-3-Clause
// Text of what a process uses, for a person: one line, the same in all processes of a job that is
// set up alike.
// May touch: base/, core/attached_fabrics.h.
#pragma once

#include <string>

#include "base/parameters.h"
#include "core/attached_fabrics.h"

namespace adaptib {

// Rails within the host and between hosts, and how messages are spread over several rails: "within
// the host: shm0; between hosts: mlx5_0:1, mlx5_1:1; multiplexing binding, striping auto".
std::string setup_text(const AttachedFabrics& fabrics, const Parameters& parameters);

} // namespace adaptib
