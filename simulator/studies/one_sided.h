// SPDX-License-Identifier: BSD-3-Clause
// OneSidedPair: two complete cores of a simulated world; the first one, or both, put and get.
//
// Purpose: shared by the studies of Vishnu's chapter 5: the hosts of its measurements, and epochs,
// in which a process starts a list of operations and waits until all are complete.
// Ownership: owns its world.  Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "simulator/studies/study.h"
#include "simulator/torture/ranks.h"

namespace adaptib::study {

struct OneSidedHosts {
    const char* name;
    sim::MachineModel machine;
    sim::HostModel one;   // with one rail
    sim::HostModel two;   // with two
    std::uint32_t papers; // 0: IA32 cluster, 1: EM64T cluster, 2: none
};

// Vishnu 5.3.1: two adapters on PCI-X buses of their own (IA32), one with two ports on PCI Express
// (EM64T). Also hosts of today with two adapters.
// Registration costs nothing: the windows of an epoch exist before it.
std::vector<OneSidedHosts> one_sided_hosts();

class OneSidedPair {
public:
    // Ends the program if the world cannot start. The origin's memory is registered, unless `costs`
    // are given: then it is as Open MPI's osc/rdma passes it, and a small operation is copied until
    // its buffer is worth a registration by these costs (memory/frequent_buffers.h).
    OneSidedPair(const Study& study, const sim::MachineModel& machine, const sim::HostModel& host,
                 const std::function<void(Parameters&)>& parameters, std::uint64_t seed,
                 const std::function<GatherCosts()>& costs = {});
    ~OneSidedPair();

    struct Operation {
        bool put = true;
        Bytes bytes = 0;
    };
    // Returns the microseconds until all operations are complete. `both`: the second process does
    // the same to the first.
    double epoch(const std::vector<Operation>& operations, bool both = false);

    sim::Ranks& ranks() { return *ranks_; }

private:
    struct Side;
    void start(std::size_t rank, const std::vector<Operation>& operations);

    const Study& study_;
    const bool registered_; // the origin's memory
    std::unique_ptr<sim::Ranks> ranks_;
    std::vector<std::unique_ptr<Side>> sides_;
};

} // namespace adaptib::study
