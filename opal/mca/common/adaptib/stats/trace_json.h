// SPDX-License-Identifier: BSD-3-Clause
// Traces as JSON for viewers of timelines (the "trace event format" of Chrome, which Perfetto and
// others read): one process of the viewer for each rank, one track for each peer and rail.
//
// Threads: any; the traces do not change meanwhile.
// May touch: base/, stats/trace.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "stats/trace.h"

namespace adaptib {

struct TraceOfEndpoint {
    std::size_t number = 0;
    const Trace* trace = nullptr;
    std::vector<std::string> rails; // names
};

struct TraceOfProcess {
    std::uint64_t name = 0; // base/process_name.h
    std::string host;
    // A moment by the clock of the traces, from which the text counts; and the same moment in
    // nanoseconds since 1970, by which the traces of several hosts are put side by side. 0:
    // unknown, as in a simulation.
    Nanoseconds start{};
    std::int64_t started = 0;
    std::vector<TraceOfEndpoint> endpoints;
};

// Calls `out` for each piece of a JSON text.
void write_trace_json(std::span<const TraceOfProcess> processes,
                      const std::function<void(const std::string&)>& out);
// Prints the last events to stderr, a line each, latest last.
void print_last_events(const Trace& trace, std::size_t most);
// Returns false, and sets errno, if not all could be written.
bool write_trace_file(const std::string& path, std::span<const TraceOfProcess> processes);

} // namespace adaptib
