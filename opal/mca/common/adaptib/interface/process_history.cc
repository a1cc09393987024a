// SPDX-License-Identifier: BSD-3-Clause
#include "interface/process_history.h"

#include <chrono>
#include <utility>

#include "base/parameters.h"
#include "stats/counters.h"

namespace adaptib {

RunHistory* ProcessHistory::begin(std::uint32_t endpoint) {
    if (report_kind(process_parameters().report) != ReportKind::directory) {
        return nullptr;
    }
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    started_[endpoint] = std::chrono::duration_cast<Nanoseconds>(now).count();
    histories_[endpoint] = std::make_unique<RunHistory>(clock_, endpoint_counters(endpoint));
    return histories_[endpoint].get();
}

EndpointHistory ProcessHistory::end(std::uint32_t endpoint, std::vector<std::string> rails) {
    histories_[endpoint]->end();
    return {endpoint, histories_[endpoint].get(), started_[endpoint], std::move(rails)};
}

} // namespace adaptib
