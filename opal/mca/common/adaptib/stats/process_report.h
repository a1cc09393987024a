// SPDX-License-Identifier: BSD-3-Clause
// ProcessReport: what one process of a job reports of itself at its end, in bytes for another
// process and as JSON for tools.
//
// Threads: value types.
// May touch: base/, the rest of stats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stats/peer_traffic.h"
#include "stats/run_history_json.h"

namespace adaptib {

struct ProcessReport {
    std::uint64_t name = 0; // of the process (base/process_name.h)
    std::string host;
    std::vector<std::uint64_t> values; // of the rows of counter_table()
    // For report_json() alone:
    std::vector<PeerTraffic> peers;
    std::vector<EndpointHistory> histories; // empty: none was wanted
};

// Reads the counters of this process.
ProcessReport report_of_process(std::uint64_t name, const std::string& host);

std::vector<std::byte> encode_report(const ProcessReport& report);
// Returns false if the bytes are no report, or one of another table of counters.
bool decode_report(std::span<const std::byte> bytes, ProcessReport& out);

// A JSON text: name, unit, kind, level and value of each counter, the traffic with each peer, and
// its histories, and the texts that `report` = ranks shows. `texts`: one for each endpoint.
std::string report_json(const ProcessReport& report, std::span<const std::string> texts);

} // namespace adaptib
