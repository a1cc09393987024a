// SPDX-License-Identifier: BSD-3-Clause
// Advice for a person: what was simulated, what it means, what to do, what it rests on.
//
// Threads: functions without state.
// May touch: base/, simulator/advise/.
#pragma once

#include <string>

#include "simulator/advise/advisor.h"
#include "simulator/advise/traffic_matrix.h"

namespace adaptib::advise {

std::string advice_text(const Advice& advice, const TrafficMatrix& traffic,
                        const JobNetwork& network);
std::string advice_json(const Advice& advice, const JobNetwork& network);

} // namespace adaptib::advise
