// SPDX-License-Identifier: BSD-3-Clause
// Counters: plain numbers about the work of a core, readable by any thread while the core runs.
//
// Purpose: one row per counter. The C glue registers each row as an MPI_T performance variable; the
// report prints the counters. Each core increments its own set: an endpoint of the process uses
// endpoint_counters(), and what a tool reads is made of all of them.
// Adding one: a row in stats/traffic_counters.h or stats/connection_counters.h.
// Threads: the core writes under its lock; a reader without the lock sees some recent value.
// May touch: base/ and the table type of common_adaptib.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "common_adaptib.h"
#include "stats/connection_counters.h"
#include "stats/traffic_counters.h"

namespace adaptib {

class IncidentQueue;
class RunHistory;
class Trace;

#define ADAPTIB_COUNTERS(X) ADAPTIB_TRAFFIC_COUNTERS(X) ADAPTIB_CONNECTION_COUNTERS(X)

struct Counters {
#define ADAPTIB_FIELD(name, unit, kind, level, help) std::uint64_t name = 0;
    ADAPTIB_COUNTERS(ADAPTIB_FIELD)
#undef ADAPTIB_FIELD
    Trace* trace = nullptr;        // takes events beside the numbers; null: nobody asked for them
    RunHistory* history = nullptr; // takes samples of the numbers, and incidents; null: likewise
    IncidentQueue* incidents =
        nullptr; // takes incidents for those who hear of them; null: likewise
};

// The weights of paths among the counters, by number of the path: the part of a long message that
// the path would carry.
#define ADAPTIB_WEIGHT(i) &Counters::path_weight_##i
constexpr std::array<std::uint64_t Counters::*, 16> kPathWeights{
    ADAPTIB_WEIGHT(0),  ADAPTIB_WEIGHT(1),  ADAPTIB_WEIGHT(2),  ADAPTIB_WEIGHT(3),
    ADAPTIB_WEIGHT(4),  ADAPTIB_WEIGHT(5),  ADAPTIB_WEIGHT(6),  ADAPTIB_WEIGHT(7),
    ADAPTIB_WEIGHT(8),  ADAPTIB_WEIGHT(9),  ADAPTIB_WEIGHT(10), ADAPTIB_WEIGHT(11),
    ADAPTIB_WEIGHT(12), ADAPTIB_WEIGHT(13), ADAPTIB_WEIGHT(14), ADAPTIB_WEIGHT(15)};
#undef ADAPTIB_WEIGHT

// Bytes over each rail among the counters, by number of the rail.
#define ADAPTIB_BYTES(i) &Counters::rail_bytes_##i
constexpr std::array<std::uint64_t Counters::*, 8> kRailBytes{
    ADAPTIB_BYTES(0), ADAPTIB_BYTES(1), ADAPTIB_BYTES(2), ADAPTIB_BYTES(3),
    ADAPTIB_BYTES(4), ADAPTIB_BYTES(5), ADAPTIB_BYTES(6), ADAPTIB_BYTES(7)};
#undef ADAPTIB_BYTES

// Returns the counters of an endpoint of this process, whose number is below kMaxEndpoints.
Counters& endpoint_counters(std::uint32_t endpoint);
inline Counters& process_counters() { return endpoint_counters(0); }

// Returns the rows, whose values lie in the counters of endpoint 0.
std::span<const opal_common_adaptib_counter_t> counter_table();

// Returns the value of a row for the whole process: the sum over its endpoints, or of a VALUE the
// largest one. Any thread.
std::uint64_t process_value(const opal_common_adaptib_counter_t& row);

// Formats the counters for a reader, in a few lines: messages and bytes by carrier, connections.
// `who` names the process.
std::string traffic_report(const Counters& counters, const std::string& who);

} // namespace adaptib
