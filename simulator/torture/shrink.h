// SPDX-License-Identifier: BSD-3-Clause
// Shrinking: finds the shortest program that still fails.
//
// Purpose: delta debugging over operations, then ranks, parameters and sizes, until nothing more
// can be left out.
// May touch: simulator/torture/program.h.
#pragma once

#include <functional>

#include "simulator/torture/program.h"

namespace adaptib::torture {

// REQUIRES: fails(program). At most `trials` calls of `fails`.
Program shrink(Program program, const std::function<bool(const Program&)>& fails, int trials);

} // namespace adaptib::torture
