// SPDX-License-Identifier: BSD-3-Clause
// A fabric with faults: a decorator of any fabric, for tests and studies.
//
// Purpose: what goes wrong on a real wire, on purpose, at a given point, at a given time or at random. The
// faults are those of the node whose fabric is wrapped: of what it posts, asks for and is told. What a
// peer does to it, a store into its memory included, passes unharmed; the peer's own fabric may be
// wrapped as well. The same plan over a fabric that behaves alike gives the same faults.
// Every request is signaled below, so that it is known how far a queue pair is; above nothing shows of it.
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

// What can go wrong, grouped by the opportunity for it.
enum class Fault : std::uint8_t {
    // A datagram is posted (UD).
    datagram_lost,      // "success", and it goes nowhere
    datagram_doubled,   // it goes twice
    datagram_delayed,   // "success", and it goes after `delay`, behind those posted meanwhile
    datagram_corrupted, // 1 to `bytes` bytes of it are others (of a copy)
    datagram_fails,     // as request_fails
    // A request is posted on a connected queue pair (RC, DC). While such a fault is planned execute()
    // says "again", so that all requests pass here. Stores through map() do not: see FaultPlan::lacks.
    request_fails,      // never executed; completes with `status` once those before it are done
    request_fails_done, // executed, and completes with `status` all the same
    // A completion is about to be given to the node.
    completion_delayed, // kept back for `delay`, and what comes after it in the same queue with it
    // post_send, post_receive: again(queue_full). The second breaks a promise of fabric/README.md when
    // the queue has room.
    send_refused,
    receive_refused,
    // A call fails with `reason` and does nothing. modify: on the way from RESET to RTS only.
    create_cq_fails,
    create_srq_fails,
    create_qp_fails,
    create_ah_fails,
    register_fails,
    allocate_fails,
    commit_fails, // of sparse memory, by who writes into it
    modify_fails,
    // A queue pair goes to meet another one (FaultPlan::meets): it does not, which is told after `delay`.
    meeting_fails,
    // Anything is posted; at a given time these come by themselves.
    rail_down, // port_error; what is posted waits for the rail's return, and then for its timeout
    rail_up,   // port_active
    // As rail_down, but told as device_fatal, and whatever is asked of the rail's device is no_device.
    device_fails,
    // Nobody is told, and nothing that is on its queue pairs or posted there has an effect or completes, not even
    // as an error, until they are reset or destroyed; what comes in is lost as well. After rail_up, which is not
    // told either, other queue pairs work.
    rail_silent,
    death, // the process stops: nothing it posts has an effect, nothing it polls returns anything
};
constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::death) + 1;

// Both are waited for.
struct Delay {
    std::uint64_t polls = 0; // calls of poll, of any completion queue of the node
    Nanoseconds time{0};
};

constexpr std::uint32_t kAnyRail = ~0u;

// One row of a plan. Of its opportunities, those on `rail` and from `from` until before `until`, it takes
//   the nth, counted from 1                if nth is given,
//   each with the probability `rate`       if rate is given,
//   the first                              otherwise.
// Where several rows would take one opportunity, the first of them does.
struct PlannedFault {
    Fault fault = Fault::datagram_lost;
    std::uint64_t nth = 0;
    double rate = 0;
    Nanoseconds from = Nanoseconds::min();
    Nanoseconds until = Nanoseconds::max();
    std::uint32_t rail = kAnyRail; // index; rail_down, rail_up and device_fails: any is all
    WorkStatus status = WorkStatus::retry_exceeded;
    Reason reason = Reason::no_memory;
    Delay delay{};
    std::uint32_t bytes = 1;
};

// May be changed while the fabric runs: rows may be appended (and count from then on), not removed.
struct FaultPlan {
    std::uint64_t seed = 1; // of all that is random; read at the beginning
    std::vector<PlannedFault> faults;
    // Capabilities that the rails do not show; read at the beginning. Without Capability::direct nothing
    // is stored behind the decorator's back.
    std::uint32_t lacks = 0;
    // The rails have Capability::meets, whatever is below: who is asked is ready at once, who asks when it is
    // told. To be the same for all nodes; read at the beginning.
    bool meets = false;
    // What is known below of a peer's process (Rail::reach) is told; else nothing.
    bool knows_processes = false;
    // Where a rail is reached, if not where it is; changes what the node says, not what it is told.
    std::function<void(std::uint32_t rail, RailAddress& address)> readdress;
    // Called by each QueuePair::execute, before it looks at anything: what a test does at that moment.
    std::function<void()> at_execute;
    // Of memory that is registered at any time, as under "ulimit -l"; beyond, register_memory says
    // no_memory (and Fault::register_fails is logged). What a rail allocates does not count.
    Bytes locked_limit = ~Bytes{0};
};

// What was injected, in order.
struct FaultLog {
    struct Entry {
        Fault fault = Fault::datagram_lost;
        std::uint32_t rail = 0;
        Nanoseconds when{0};

        friend bool operator==(const Entry&, const Entry&) = default;
    };
    std::vector<Entry> entries;
    Bytes locked = 0; // registered now

    std::size_t count(Fault fault) const {
        return static_cast<std::size_t>(
            std::count_if(entries.begin(), entries.end(),
                          [fault](const Entry& entry) { return entry.fault == fault; }));
    }
};

// Called when the node should look again (poll) at that time, which may be over: something comes that the
// fabric below knows nothing of. For drivers that let a node rest, in a simulated world.
using Wake = std::function<void(Nanoseconds when)>;

std::unique_ptr<Fabric> with_faults(std::unique_ptr<Fabric> below, const FaultPlan& plan,
                                    const Clock& clock, FaultLog& log, Wake wake = {});

} // namespace adaptib::fault
