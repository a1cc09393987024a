// SPDX-License-Identifier: BSD-3-Clause
// Distance of a device from this process, by hwloc's distances between NUMA nodes.
// Ownership: value types.  Threads: one.
// May touch: hwloc.
#pragma once

#include <cstdint>
#include <memory>

struct hwloc_topology;

namespace adaptib::verbs {

class Locality {
public:
    // Reads the machine's topology and the binding of this process. If that fails, everything is
    // equally far.
    Locality();
    // For tests: as if this process ran on the processors with these numbers; takes over the
    // topology.
    Locality(hwloc_topology* topology, unsigned first_processor, unsigned last_processor);
    ~Locality();

    // Smallest latency from the process's nodes to that node as the firmware gives it (10 is
    // local), or, if it gives none, 10 for the process's own nodes and 20 for others. An unknown
    // node (-1) is local.
    std::uint64_t distance(int numa_node) const;

private:
    struct Free {
        void operator()(hwloc_topology* topology) const;
    };
    std::unique_ptr<hwloc_topology, Free> topology_;
    struct Place;
    std::unique_ptr<Place> place_;
};

} // namespace adaptib::verbs
