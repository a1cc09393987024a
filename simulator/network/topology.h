// SPDX-License-Identifier: BSD-3-Clause
// Topology: the hosts, switches and links of a simulated network, and the places of its ports.
//
// Purpose: plain data. A generator or a file makes it; routes, flows and adapters read it.
// A cable is two links, one each way. A host has adapters with one or several ports; a port has
// 2^LMC LIDs, base LID first; all ports of a network share one LMC.
// Ownership: values.  Threads: constant after it is made.
// Source: InfiniBand Architecture, vol. 1, ch. 4 (LIDs and LMC); Vishnu, figures 3.3 and 8.4 (the
// switch of 144 ports is fat_tree(12, 12, 12)).
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace adaptib::sim {

using NodeIndex = std::uint32_t; // adapters of hosts, and switches; InfiniBand's nodes
using PortIndex = std::uint32_t; // into Topology::ports
using LinkIndex = std::uint32_t; // into Topology::links; one direction
using Lid = std::uint32_t;       // 1..0xbfff on InfiniBand; larger values are allowed here

constexpr std::uint32_t kNoIndex = ~0u;

struct Link {
    NodeIndex from = kNoIndex;
    NodeIndex to = kNoIndex;
    std::uint32_t from_port = 0; // number of the port on its node, from 1
    std::uint32_t to_port = 0;
    BytesPerSecond rate{};
    Nanoseconds latency{0}; // of the cable
    LinkIndex reverse = kNoIndex;
};

struct Node {
    enum class Kind : std::uint8_t { adapter, within_switch };
    Kind kind = Kind::adapter;
    std::string name; // "H003", "leaf2"
    std::uint64_t guid = 0;
    Nanoseconds latency{0};        // of a switch, from port to port
    std::uint32_t host = kNoIndex; // adapters: index of the host, into Topology::hosts
    std::vector<LinkIndex> out;    // by port number - 1; kNoIndex: no cable
    Lid lid = 0;                   // switches: of port 0
};

// A port of an adapter.
struct Port {
    NodeIndex adapter = kNoIndex;
    std::uint32_t number = 1;  // on the adapter
    Lid lid = 0;               // the base LID; the port answers to lid .. lid + 2^lmc - 1
    LinkIndex link = kNoIndex; // the outbound one
};

struct Host {
    std::string name;
    std::vector<NodeIndex> adapters;
    std::vector<PortIndex> ports; // of all adapters, in order
};

struct Topology {
    std::vector<Node> nodes;
    std::vector<Link> links;
    std::vector<Port> ports;
    std::vector<Host> hosts;
    std::uint32_t lmc = 0;

    // The port that has a LID, or had it; kNoIndex if none does.
    PortIndex port_of(Lid lid) const;
    // Assigns LIDs to the ports, in their order, then to the switches. A port's base LID is a
    // multiple of 2^lmc; a switch has one LID.
    void assign_lids(std::uint32_t lmc);

    // For builders of topologies: connect() adds a cable between two free ports. When all cables
    // are in, plug_ports() sets the links of the adapters' ports. index_lids() is for LIDs and an
    // lmc that do not come from assign_lids().
    void connect(NodeIndex a, std::uint32_t a_port, NodeIndex b, std::uint32_t b_port,
                 BytesPerSecond rate, Nanoseconds latency);
    void plug_ports();
    void index_lids();

    // Gives a port another base LID. Its former LIDs stay its own, though it answers to them no
    // more. REQUIRES: the LIDs from `lid` on have been no other port's, and no switch's.
    void move_lids(PortIndex port, Lid lid);
    // The lowest base LID above all that ports and switches have had.
    Lid unused_lid() const;
    // True if the port answers to a LID now.
    bool answers(PortIndex port, Lid lid) const {
        return lid >= ports[port].lid && lid - ports[port].lid < Lid{1} << lmc;
    }

    std::vector<PortIndex> by_lid; // filled by assign_lids and index_lids
};

// Adds a link inside an adapter (its bus, an engine): it has no reverse direction.
LinkIndex add_inner_link(Topology& topology, NodeIndex adapter, BytesPerSecond rate);

struct LinkModel {
    BytesPerSecond host_rate{2'000'000'000}; // between an adapter and its switch
    BytesPerSecond switch_rate{2'000'000'000};
    Nanoseconds cable{5};
    Nanoseconds switch_latency{100};
};

// `hosts` hosts with `adapters` adapters of `ports` ports. Each (adapter a, port p) has a crossbar
// of its own: separate networks, as with two rails. With `one_network` all ports share one
// crossbar.
struct HostModel {
    std::uint32_t adapters = 1;
    std::uint32_t ports = 1;
    bool one_network = false;
};
Topology crossbar(std::uint32_t hosts, const HostModel& host, const LinkModel& links,
                  std::uint32_t lmc = 0);
// Two levels: `leaves` switches with `hosts_per_leaf` hosts each; every leaf has one link to each
// of `spines` switches. With several ports per host and without one_network there is one such tree
// for each port.
Topology fat_tree(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_per_leaf,
                  const HostModel& host, const LinkModel& links, std::uint32_t lmc = 0);

} // namespace adaptib::sim
