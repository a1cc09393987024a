// SPDX-License-Identifier: BSD-3-Clause
// Where connections are few: some ranks around one switch, all of whose queue pairs are connected ones.
#pragma once

#include <string>
#include <utility>

#include "unit/sim/traffic.h"

namespace adaptib::sim {

inline RanksOptions world_of(std::size_t ranks) {
    RanksOptions options;
    options.ranks = ranks;
    options.world.machine = *machine("connect-ib");
    options.world.machine.dc = false; // sharing_test.cc has what becomes of it with these
    options.world.topology = crossbar(4, {}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    return options;
}

} // namespace adaptib::sim
