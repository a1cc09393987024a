// SPDX-License-Identifier: BSD-3-Clause
// Network: paths between ports, and whether they carry anything now.
//
// Purpose: gives the adapters a view of topology, routes and flows: a path for a port and a
// destination LID, with its latency and the links that a long message shares; links and ports that
// are down; hosts that are cut off from each other.
// A path begins and ends with the adapters' host buses, if the machine limits those.
// Ownership: paths belong to the network and keep their addresses.
// Threads: one.
// May touch: base/, simulator/network/{simulator,machine,topology,routes,flows}.h.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "simulator/network/flows.h"
#include "simulator/network/machine.h"
#include "simulator/network/routes.h"
#include "simulator/network/simulator.h"
#include "simulator/network/topology.h"

namespace adaptib::sim {

struct Path {
    PortIndex from = kNoIndex;
    PortIndex to = kNoIndex;
    Lid lid = 0; // of the packets
    std::vector<LinkIndex> links;
    Nanoseconds latency{0}; // cables and switches
    // State of the network that `rate` and `up` reflect: Network::changes_.
    std::uint64_t looked = 0;
    BytesPerSecond rate{}; // of the slowest link
    bool up = true;
};

class Network {
public:
    Network(Simulator& simulator, const MachineModel& machine, Topology topology, Routes routes);

    const Topology& topology() const { return topology_; }
    Flows& flows() { return *flows_; }

    // Null: no port has or had that LID, or no route leads to it.
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

    // Sets both directions of a cable, or one. Flows on a cable that is down stand still.
    void set_link(LinkIndex link, bool up);
    void set_direction(LinkIndex link, bool up);
    void set_port(PortIndex port, bool up);
    // Sets the rate to nominal rate / factor.
    void slow_port(PortIndex port, std::uint32_t factor);
    // Gives a port another base LID. Routes to its former ones still lead to it, and it drops the
    // packets. REQUIRES: as Topology::move_lids.
    void set_lid(PortIndex port, Lid lid);
    // True if the port at the path's end has its LID no more.
    bool stale(const Path& path) const { return !topology_.answers(path.to, path.lid); }
    // Hosts of different groups do not reach each other. At first all hosts are in group 0.
    void set_group(std::uint32_t host, std::uint32_t group);
    // Ports of different planes do not reach each other, though routes lead there: networks that
    // look alike. At first all ports are in plane 0.
    void set_plane(PortIndex port, std::uint32_t plane);

private:
    void look(Path& path);
    void set_rate(LinkIndex link);

    Topology topology_; // includes the host buses, as further links
    Routes routes_;
    std::unique_ptr<Flows> flows_;
    std::vector<LinkIndex> bus_out_; // by node; kNoIndex: no limit
    std::vector<LinkIndex> bus_in_;
    std::vector<char> link_up_;
    std::vector<char> port_up_;
    std::vector<std::uint32_t> slowed_; // by link: factor
    std::vector<std::uint32_t> group_;  // by host
    std::vector<std::uint32_t> plane_;  // by port
    std::uint64_t changes_ = 0;
    std::unordered_map<std::uint64_t, std::unique_ptr<Path>> paths_; // by port and LID
};

} // namespace adaptib::sim
