// SPDX-License-Identifier: BSD-3-Clause
// The history of an endpoint as members of the report's JSON (schema adaptib-report).
//
// Units: times in microseconds from the history's start, whose time is in nanoseconds since 1970;
// bytes of a rail or path in the interval that ends with the sample; weights per mille.
// Threads: any; the history does not change meanwhile.
// May touch: base/, stats/run_history.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "stats/run_history.h"

namespace adaptib {

struct EndpointHistory {
    std::size_t endpoint = 0;
    const RunHistory* history = nullptr; // of another owner, never null
    std::int64_t started = 0;            // its start, in nanoseconds since 1970
    std::vector<std::string> rails;      // names
};

// Writes one object of an array. Rails without bytes, and paths without weights, are left out.
void write_history(JsonWriter& json, const EndpointHistory& of);

} // namespace adaptib
