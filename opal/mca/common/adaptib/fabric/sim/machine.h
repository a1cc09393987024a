// SPDX-License-Identifier: BSD-3-Clause
// Machine models: what everything costs on the simulated hosts and adapters.
//
// Purpose: plain data. A model is a set of costs with a name, each with its source beside it
// (machine.cc): a table or a figure of a paper, what follows from one, a measurement, or a stated
// assumption. A study names the model that it used.
// Ownership: the models are constants.  Threads: any.
// May touch: base/, fabric/sim/topology.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/units.h"
#include "fabric/sim/topology.h"

namespace adaptib::sim {

struct MachineModel {
    std::string_view name;

    // The process's own time (its processor).
    Nanoseconds post{0};            // per work request posted
    Nanoseconds post_receive{0};    // per receive posted
    Nanoseconds poll_empty{0};      // per poll that finds nothing
    Nanoseconds poll_completion{0}; // per completion taken
    Nanoseconds signal{0};       // more for a work request that is signaled: its completion entry
    Nanoseconds copy_start{0};   // per copy of user data
    BytesPerSecond copy_rate{};  // of its bytes
    Nanoseconds registration{0}; // per memory region
    Nanoseconds registration_page{0}; // per page of 4 KiB of it
    // Per queue pair made. In no model, since nothing else of connecting could be seen beside it; studies set it.
    Nanoseconds queue_pair{0};

    // The adapter. Times of `doorbell` and `ack` pass beside each other for several work requests;
    // those of `work_request` and `receive_work` follow one another.
    Nanoseconds doorbell{0};     // from the post until a send engine may take it
    Nanoseconds work_request{0}; // per work request, on the engine that sends it
    Nanoseconds receive_work{0}; // per message, at the target
    Nanoseconds ack{0}; // the target's, until its acknowledgement leaves; beside the way back
    std::uint32_t engines = 1;    // send engines of a port; a queue pair is served by one at a time
    BytesPerSecond engine_rate{}; // of one engine; 0: the port's
    BytesPerSecond port_rate{};   // of a port, each direction
    BytesPerSecond
        bus_rate{}; // host bus, shared by all ports of an adapter, one direction; 0: none
    bool bus_half_duplex = false; // bus_rate is for both directions together (PCI-X)
    std::uint32_t qp_cache = 0;   // queue pairs whose context the adapter keeps; 0: all
    Nanoseconds qp_miss{0};       // to fetch one that it does not keep, to send or to receive

    // The wire.
    Nanoseconds cable{0};          // per cable
    Nanoseconds switch_latency{0}; // per switch

    // Limits of an adapter (RailInfo).
    Bytes mtu = 0; // payload of one datagram
    Bytes inline_bytes = 0;
    std::uint32_t max_gather = 1;
    std::uint32_t max_reads = 0;
    std::uint32_t max_send_depth = 0;

    // Dynamically connected transport (fabric/README.md).
    Nanoseconds dc_message{0};      // more per message than RC: half at each end, one after another
    Nanoseconds dc_connect{0};      // before the first message to another target, at both ends
    Nanoseconds dc_disconnect{0};   // after the last acknowledgement of the target before, the same
    Nanoseconds dc_nack_backoff{0}; // a refused initiator tries again after this time
    std::uint32_t dc_responders = 0; // initiators that one target serves at the same time

    // Automatic path migration.
    Nanoseconds migrate{0};        // the alternate path takes over: ARMED to MIGRATED
    Nanoseconds load_alternate{0}; // an alternate path is loaded: MIGRATED to ARMED

    // What the adapter has (Capability).
    bool rc = true;
    bool ud = true;
    bool dc = false; // with srq only
    bool srq = true;
    bool read = true;
    bool atomics = true;
    bool migration = false;
    // Datagrams wait for a receive instead of being dropped. No adapter does that; but the
    // simulated network loses nothing unless it is told to (fabric/fault), and the core asks for
    // it.
    bool reliable_ud = true;
};

// The links that go with a model: cables and switches of its port's rate.
inline LinkModel links_of(const MachineModel& model) {
    return {model.port_rate, model.port_rate, model.cable, model.switch_latency};
}

std::span<const MachineModel> machines();
// Null if there is none of that name.
const MachineModel* machine(std::string_view name);

} // namespace adaptib::sim
