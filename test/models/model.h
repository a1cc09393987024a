// SPDX-License-Identifier: BSD-3-Clause
// A model: a program of several threads that the explorer runs (explorer.h). Each model's source
// defines models(), and main.cc runs them.
#pragma once

#include <string>
#include <vector>

#include "explorer.h"

namespace adaptib::model {

struct Model {
    std::string name;
    Bounds bounds;
    void (*program)(Execution&);
};

const std::vector<Model>& models();

// How often something is done: `few` times, or twice as often in the long run.
int scaled(int few);

} // namespace adaptib::model
