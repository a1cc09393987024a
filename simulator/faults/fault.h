// SPDX-License-Identifier: BSD-3-Clause
// A fabric with faults: a decorator of any fabric, for tests and studies.
//
// Purpose: injects the faults of a real wire, at a given point, at a given time or at random. The
// faults are those of the node, the process whose fabric is wrapped: of its posts, its calls and
// its events. Actions of a peer, such as a store into the node's memory, pass unharmed; the peer's
// own fabric may be wrapped as well. The same plan over a fabric that behaves alike gives the same
// faults.
// Every request is signaled below (in the wrapped fabric), so that the decorator knows how far a
// queue pair is; the node does not notice that.
// Ownership: owns the fabric below. Plan, log and clock are the caller's and outlive it.
// Threads: as the fabric below.
// May touch: base/, fabric/fabric.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "fabric/fabric.h"

namespace adaptib::fault {

// Kinds of faults, grouped by the opportunity for them.
enum class Fault : std::uint8_t {
    // A datagram is posted (UD).
    datagram_lost,    // completes with success, but is not sent
    datagram_doubled, // is sent twice
    // Completes with success, and is sent after `delay`, behind those posted meanwhile.
    datagram_delayed,
    datagram_corrupted, // 1 to `bytes` of its bytes are changed (in a copy)
    datagram_fails,     // as request_fails
    // A request is posted on a connected queue pair (RC, DC). While such a fault is planned
    // rma_now() returns again, so that all requests are posted. Stores through map() are not: see
    // FaultPlan::lacks.
    request_fails,      // never executed; completes with `status` once all earlier ones are done
    request_fails_done, // executed, but completes with `status`
    // A completion is about to be delivered to the node.
    completion_delayed, // held back for `delay`, with all later ones of the same queue
    // post_send, post_receive return again(queue_full). receive_refused breaks a promise of
    // fabric/README.md when the queue has room.
    send_refused,
    receive_refused,
    // A call fails with `reason` and does nothing. modify: all but to RESET and ERR.
    create_cq_fails,
    create_srq_fails,
    create_qp_fails,
    create_ah_fails,
    create_ah_waits, // returns `again` with `reason`
    register_fails,
    allocate_fails,
    commit_fails, // of sparse memory, by its writer
    modify_fails,
    prepare_path_waits, // returns `again` with `reason`
    // Datagrams over address handles made before the time `from` are lost: such a handle leads
    // nowhere any more. Without `nth` and `rate`.
    handles_stale,
    // A queue pair starts to connect through the connection manager (FaultPlan::cm_connects). The
    // attempt fails, which is reported after `delay`.
    cm_connect_fails,
    // Anything is posted; without `nth` and `rate` these come by themselves at the time `from`.
    rail_down, // port_error; posted requests wait until the rail returns, at most for their timeout
    rail_up,   // port_active
    // As rail_down, but reported as device_fatal; calls that create or change objects of the rail
    // return no_device.
    device_fails,
    // Not reported. No request on the rail's queue pairs completes any more, not even with an
    // error, and those posted later have no effect, until the queue pairs are reset or destroyed;
    // incoming messages are lost as well. After rail_up, which is not reported either, queue pairs
    // that were created or reset since then work.
    rail_silent,
    death, // the process stops: its posts have no effect, its polls return nothing
};
constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::death) + 1;

// A delay is over when both parts have passed.
struct Delay {
    // Calls of poll, on any completion queue of the node. A millisecond counts for any number: no
    // device waits for a process that sleeps.
    std::uint64_t polls = 0;
    Nanoseconds time{0};
};

constexpr std::uint32_t kAnyRail = ~0u;

// One row of a plan. Opportunities on `rail`, from `from` until before `until`, count for it. Of
// these it takes
//   the nth, counted from 1                if nth is given,
//   each with the probability `rate`       if rate is given,
//   the first                              otherwise.
// If several rows would take one opportunity, the first row takes it.
struct PlannedFault {
    Fault fault = Fault::datagram_lost;
    std::uint64_t nth = 0;
    double rate = 0;
    Nanoseconds from = Nanoseconds::min();
    Nanoseconds until = Nanoseconds::max();
    std::uint32_t rail = kAnyRail; // index; kAnyRail: faults of rails strike all rails
    WorkStatus status = WorkStatus::retry_exceeded;
    Reason reason = Reason::no_memory;
    Delay delay{};
    std::uint32_t bytes = 1;
};

// The plan may change while the fabric runs: rows may be appended (they count from then on), not
// removed.
struct FaultPlan {
    std::uint64_t seed = 1; // of all random choices; read at the beginning
    std::vector<PlannedFault> faults;
    // Capabilities that the rails hide; read at the beginning. Without Capability::direct no store
    // bypasses the decorator.
    std::uint32_t lacks = 0;
    // Gives the rails Capability::cm_connects, whatever the fabric below has. The passive end of a
    // connection is ready at once, the active end when it gets the event. To be the same for all
    // nodes; read at the beginning.
    bool cm_connects = false;
    // Most reads and atomics of a queue pair at a time that the rails say they take; read at the
    // beginning.
    std::uint32_t max_reads = ~0u;
    // Passes on the knowledge of the fabric below about a peer's process (Rail::reach); otherwise
    // nothing is known.
    bool knows_processes = false;
    // Changes the address that the node publishes for a rail, but not the addresses that it
    // receives.
    std::function<void(std::uint32_t rail, RailAddress& address)> readdress;
    // Longest datagram that the peers' rails take; the node's rails say so (datagram_bytes_to), and
    // longer ones vanish.
    Bytes peers_datagram_bytes = ~Bytes{0};
    // Called first in each QueuePair::rma_now, so that a test can act at that moment.
    std::function<void()> at_rma_now;
    // Limit of memory that is registered at the same time, as under "ulimit -l". Beyond it
    // register_memory returns no_memory (and Fault::register_fails is logged). Memory that a rail
    // allocates does not count.
    Bytes locked_limit = ~Bytes{0};
};

// The injected faults, in order.
struct FaultLog {
    struct Entry {
        Fault fault = Fault::datagram_lost;
        std::uint32_t rail = 0;
        Nanoseconds when{0};

        friend bool operator==(const Entry&, const Entry&) = default;
    };
    std::vector<Entry> entries;
    Bytes locked = 0; // bytes registered now

    std::size_t count(Fault fault) const {
        return static_cast<std::size_t>(
            std::count_if(entries.begin(), entries.end(),
                          [fault](const Entry& entry) { return entry.fault == fault; }));
    }
};

// Called when the node should poll again at the time `when`, which may be past: something will
// happen that the fabric below knows nothing of. For drivers that let a node rest, in a simulated
// world.
using Wake = std::function<void(Nanoseconds when)>;

std::unique_ptr<Fabric> with_faults(std::unique_ptr<Fabric> below, const FaultPlan& plan,
                                    const Clock& clock, FaultLog& log, Wake wake = {});

} // namespace adaptib::fault
