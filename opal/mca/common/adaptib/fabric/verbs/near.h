// SPDX-License-Identifier: BSD-3-Clause
// How far a device is from this process: by hwloc's distances between NUMA nodes.
// Ownership: value types.  Threads: one.
// May touch: hwloc.
#pragma once

#include <cstdint>
#include <memory>

struct hwloc_topology;

namespace adaptib::verbs {

class Nearness {
public:
    // Reads the machine's topology and where this process is bound. If that cannot be, all is equally far.
    Nearness();
    // Of processors like those with these numbers on that machine, for tests; takes the topology over.
    Nearness(hwloc_topology* topology, unsigned first_processor, unsigned last_processor);
    ~Nearness();

    // The smallest latency from the process's nodes to that node, as the firmware tells it (10 is local),
    // or, where it tells nothing, 10 for the process's own and 20 for others. Unknown nodes (-1) are local.
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
