// SPDX-License-Identifier: BSD-3-Clause
// Incident: something that has happened to a rail, a path or the connection to a peer. Reports list
// incidents (stats/run_history.h), and MPI_T has an event for each kind (stats/incident_queue.h).
//
// Threads: values; any.
// May touch: base/, and the table type of common_adaptib.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/units.h"
#include "common_adaptib.h"

namespace adaptib {

// X(name, words in reports, what has happened)
#define ADAPTIB_INCIDENTS(X)                                                                       \
    X(rail_up, "rail up", "A rail of this process can be used again.")                             \
    X(rail_down, "rail down", "A rail of this process has failed, with all of its paths.")         \
    X(rail_changed, "rail has another address",                                                    \
      "A rail of this process has another address; peers get it.")                                 \
    X(path_up, "path up", "A path to a peer can be used again.")                                   \
    X(path_suspect, "path suspect", "A path to a peer does not answer, and is probed.")            \
    X(path_failed, "path failed", "A path to a peer has failed; others carry its traffic.")        \
    X(path_migrated, "path migrated", "The adapter has moved traffic to an alternate path.")       \
    X(repair, "repair begun", "A connection is interrupted and is made anew over other paths.")    \
    X(repaired, "repaired", "A connection is open again after an interruption.")                   \
    X(standby_used, "standby in use", "Traffic to a peer goes over standby rails now.")            \
    X(standby_over, "standby at rest", "Traffic to a peer needs no standby rail any more.")        \
    X(unreachable, "no path has worked",                                                           \
      "No path to a peer has worked for partition_timeout (a partition); the peer is given up.")   \
    X(peer_lost, "peer lost", "A peer is lost; operations that need it end with an error.")

enum class IncidentKind : std::uint8_t {
#define ADAPTIB_INCIDENT(kind, name, help) kind,
    ADAPTIB_INCIDENTS(ADAPTIB_INCIDENT)
#undef ADAPTIB_INCIDENT
};
std::string_view incident_text(IncidentKind kind);

// Returns a row for each kind, in the order of IncidentKind.
std::span<const opal_common_adaptib_incident_kind_t> incident_table();

struct Incident {
    static constexpr std::uint8_t kNoRail = 0xff;
    static constexpr std::uint64_t kNoPeer = ~std::uint64_t{0};

    Nanoseconds at{0};            // by the core's clock; of the first
    std::uint64_t peer = kNoPeer; // of the first
    Nanoseconds lasted{0};        // of repaired and unreachable; the longest
    std::uint32_t count = 1;
    IncidentKind kind{};
    std::uint8_t rail = kNoRail;
};

} // namespace adaptib
