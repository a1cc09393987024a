// SPDX-License-Identifier: BSD-3-Clause
// ProcessHistory: the histories of this process's endpoints (stats/run_history.h), if the parameter
// `report` names a directory.
//
// Threads: one; no lock of an endpoint is held.
// May touch: base/, stats/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process_name.h"
#include "stats/run_history.h"
#include "stats/run_history_json.h"

namespace adaptib {

class ProcessHistory {
public:
    explicit ProcessHistory(const Clock& clock) : clock_(clock) {}

    // Returns the history of an endpoint, which begins now; null if none is wanted.
    RunHistory* begin(std::uint32_t endpoint);
    // Takes the endpoint's last sample. `rails`: names of its rails.
    // REQUIRES: nobody uses the endpoint; begin() has returned a history for it.
    EndpointHistory end(std::uint32_t endpoint, std::vector<std::string> rails);

private:
    const Clock& clock_;
    std::array<std::unique_ptr<RunHistory>, kMaxEndpoints> histories_;
    std::array<std::int64_t, kMaxEndpoints> started_{}; // in nanoseconds since 1970
};

} // namespace adaptib
