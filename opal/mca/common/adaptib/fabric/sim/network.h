// SPDX-License-Identifier: BSD-3-Clause
// Network: paths between ports, and whether they carry anything now.
//
// Purpose: topology, routes and flows as the adapters see them: a path for a port and a destination LID,
// with its latency and the links that a long message takes its share of; links and ports that are down;
// hosts that are cut off from each other.
// A path begins and ends with the adapters' host buses, if the machine has such a limit.
// Ownership: paths belong to the network and stay where they are.
// Threads: one.
// May touch: base/, fabric/sim/{simulator,machine,topology,routes,flows}.h.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fabric/sim/flows.h"
#include "fabric/sim/machine.h"
#include "fabric/sim/routes.h"
#include "fabric/sim/simulator.h"
#include "fabric/sim/topology.h"

namespace adaptib::sim {

struct Path {
    PortIndex from = kNoIndex;
    PortIndex to = kNoIndex;
    std::vector<LinkIndex> links;
    Nanoseconds latency{0}; // cables and switches
    std::uint64_t looked = 0;
    BytesPerSecond rate{}; // of the slowest link, as of `looked`
    bool up = true;        // the same
};

class Network {
public:
    Network(Simulator& simulator, const MachineModel& machine, Topology topology, Routes routes);

    const Topology& topology() const { return topology_; }
    Flows& flows() { return *flows_; }

    // Null: there is no such LID, or no route to it.
    Path* path(PortIndex from, Lid to);
    bool leads(PortIndex from, Lid to) const;
    bool up(Path& path) {
        if (path.looked != changes_) {
            look(path);
        }
        return path.up;
    }
    bool port_up(PortIndex port) const { return port_up_[port] != 0; }

    bool port_slowed(PortIndex port) const { return slowed_[topology_.ports[port].link] > 1; }

    // Both directions of a cable. What is under way on it stands still.
    void set_link(LinkIndex link, bool up);
    void set_port(PortIndex port, bool up);
    // Nominal rate / factor.
    void slow_port(PortIndex port, std::uint32_t factor);
    // Hosts of different groups do not reach each other. All are of group 0 at first.
    void set_group(std::uint32_t host, std::uint32_t group);

private:
    void look(Path& path);
    void set_rate(LinkIndex link);

    Topology topology_; // and the host buses, as further links
    Routes routes_;
    std::unique_ptr<Flows> flows_;
    std::vector<LinkIndex> bus_out_; // by node; kNoIndex: no limit
    std::vector<LinkIndex> bus_in_;
    std::vector<char> link_up_;
    std::vector<char> port_up_;
    std::vector<std::uint32_t> slowed_; // by link: factor
    std::vector<std::uint32_t> group_;  // by host
    std::uint64_t changes_ = 0;
    std::unordered_map<std::uint64_t, std::unique_ptr<Path>> paths_; // by port and LID
};

} // namespace adaptib::sim
