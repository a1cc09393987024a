// SPDX-License-Identifier: BSD-3-Clause
// Machine models: the cost of each operation on the simulated hosts and adapters.
//
// Purpose: plain data. A model is a named set of costs, each with its source beside it
// (machine.cc): a table or a figure of a paper, a consequence of one, a measurement, or a stated
// assumption. A study names the model that it used.
// Ownership: the models are constants.  Threads: any.
// May touch: base/, simulator/network/topology.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/units.h"
#include "simulator/network/topology.h"

namespace adaptib::sim {

// The process's own time (its processor).
struct ProcessorCosts {
    Nanoseconds post{0};            // per work request posted
    Nanoseconds post_receive{0};    // per receive posted
    Nanoseconds poll_empty{0};      // per poll that finds nothing
    Nanoseconds poll_completion{0}; // per completion taken
    Nanoseconds signal{0};          // extra for a signaled work request: its completion entry
    Nanoseconds copy_start{0};      // per copy of user data
    BytesPerSecond copy_rate{};     // of the copied bytes
    // True if puts from memory of the rail, and gets into it, cost a copy, too: that of bounce
    // buffers and staging blocks. False in every model: studies set it.
    bool stages = false;
    Nanoseconds registration{0};      // per memory region
    Nanoseconds registration_page{0}; // per page of 4 KiB of a region
    // Per queue pair created. 0 in every model, because it would hide all other costs of
    // connecting; studies set it.
    Nanoseconds queue_pair{0};
};

// `doorbell` and `ack` times of several work requests overlap; `work_request` and `receive_work`
// times follow one another.
struct AdapterCosts {
    Nanoseconds doorbell{0};     // from the post until a send engine may take it
    Nanoseconds work_request{0}; // per work request, on the engine that sends it
    Nanoseconds receive_work{0}; // per message, at the target
    Nanoseconds ack{0};        // at the target, until its acknowledgement leaves; then the way back
    std::uint32_t engines = 1; // send engines of a port; a queue pair is served by one at a time
    BytesPerSecond engine_rate{}; // of one engine; 0: the port's rate
    BytesPerSecond port_rate{};   // of a port, each direction
    // Host bus, shared by all ports of an adapter, one direction; 0: none.
    BytesPerSecond bus_rate{};
    bool bus_half_duplex = false; // bus_rate is for both directions together (PCI-X)
    std::uint32_t qp_cache = 0;   // number of queue-pair contexts that the adapter caches; 0: all
    Nanoseconds qp_miss{0};       // to fetch a context that is not cached, to send or to receive
};

struct WireCosts {
    Nanoseconds cable{0};          // per cable
    Nanoseconds switch_latency{0}; // per switch
};

// Limits of an adapter (RailInfo).
struct AdapterLimits {
    Bytes mtu = 0; // payload of one datagram
    Bytes inline_bytes = 0;
    std::uint32_t max_gather = 1;
    std::uint32_t max_reads = 0;
    std::uint32_t max_send_depth = 0;
};

// Dynamically connected transport (fabric/README.md).
struct DcCosts {
    // Extra time per message compared to RC: half at each end, one after another.
    Nanoseconds message{0};
    Nanoseconds connect{0}; // before the first message to another target, at both ends
    // After the last acknowledgement of the previous target, at both ends.
    Nanoseconds disconnect{0};
    Nanoseconds nack_backoff{0};  // until a refused initiator tries again
    std::uint32_t responders = 0; // number of initiators that one target serves at the same time
};

// Automatic path migration.
struct PathMigrationCosts {
    Nanoseconds migrate{0};        // to switch to the alternate path: ARMED to MIGRATED
    Nanoseconds load_alternate{0}; // to load an alternate path: MIGRATED to ARMED
};

// Capabilities of an adapter (Capability).
struct AdapterOffers {
    bool rc = true;
    bool ud = true;
    bool dc = false; // needs srq
    bool srq = true;
    bool read = true;
    bool atomics = true;
    bool migration = false;
    // Datagrams wait for a receive instead of being dropped. No adapter does that, but the
    // simulated network loses nothing unless it is told to (WorldOptions, simulator/faults). Over
    // rails without it the core numbers and resends datagrams.
    bool reliable_ud = true;
};

struct MachineModel {
    std::string_view name;
    ProcessorCosts processor;
    AdapterCosts adapter;
    WireCosts wire;
    AdapterLimits limits;
    DcCosts dc;
    PathMigrationCosts path_migration;
    AdapterOffers offers;
};

// The links that go with a model: all have the rate of its port.
inline LinkModel links_of(const MachineModel& model) {
    return {model.adapter.port_rate, model.adapter.port_rate, model.wire.cable,
            model.wire.switch_latency};
}

std::span<const MachineModel> machines();
// Null if no model has that name.
const MachineModel* machine(std::string_view name);

} // namespace adaptib::sim
