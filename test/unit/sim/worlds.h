// SPDX-License-Identifier: BSD-3-Clause
// Worlds in which connections are few: ranks around one switch, with queue pairs of
// connected type only.
#pragma once

#include <string>
#include <utility>

#include "unit/sim/traffic.h"

namespace adaptib::sim {

inline RanksOptions world_of(std::size_t ranks) {
    RanksOptions options;
    options.ranks = ranks;
    options.world.machine = *machine("connect-ib");
    options.world.machine.offers.dc = false; // sharing_test.cc tests what changes with DC
    options.world.topology = crossbar(4, {}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    return options;
}

} // namespace adaptib::sim
