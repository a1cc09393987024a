// SPDX-License-Identifier: BSD-3-Clause
// Topology: the hosts, switches and links of a simulated network, and where its ports are.
//
// Purpose: plain data that a generator or a file makes and that routes, flows and adapters are told by.
// A cable is two links, one each way. A host has adapters with one or several ports; a port has 2^LMC
// LIDs, base LID first; all ports of a network share one LMC.
// Ownership: values.  Threads: constant after it is made.
// Source: InfiniBand Architecture, vol. 1, ch. 4 (LIDs and LMC); Vishnu, figures 3.3 and 8.4 (the switch
// of 144 ports is fat_tree(12, 12, 12)).
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace adaptib::sim {

using NodeIndex = std::uint32_t; // hosts' adapters and switches; InfiniBand's nodes
using PortIndex = std::uint32_t; // into Topology::ports
using LinkIndex = std::uint32_t; // into Topology::links; one direction
using Lid = std::uint32_t;       // 1..0xbfff on InfiniBand; larger networks are allowed here

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
    Nanoseconds latency{0};        // a switch's, from port to port
    std::uint32_t host = kNoIndex; // adapters: index of the host, into Topology::hosts
    std::vector<LinkIndex> out;    // by port number - 1; kNoIndex: nothing is plugged in
    Lid lid = 0;                   // switches: of port 0
};

// A port of an adapter.
struct Port {
    NodeIndex adapter = kNoIndex;
    std::uint32_t number = 1;  // on the adapter
    Lid lid = 0;               // the base; the port answers to lid .. lid + 2^lmc - 1
    LinkIndex link = kNoIndex; // outwards
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

    // The port that answers to a LID; kNoIndex if none does.
    PortIndex port_of(Lid lid) const;
    // LIDs of ports and switches, in order of the ports, then of the switches.
    // A port's base is a multiple of 2^lmc; a switch has one LID.
    void assign_lids(std::uint32_t lmc);

    // For those who build one: a cable between two ports that are free; then, when all are in,
    // plug_ports() sets the links of the adapters' ports; and index_lids() where LIDs and lmc came from
    // elsewhere than assign_lids().
    void connect(NodeIndex a, std::uint32_t a_port, NodeIndex b, std::uint32_t b_port,
                 BytesPerSecond rate, Nanoseconds latency);
    void plug_ports();
    void index_lids();

    std::vector<PortIndex> by_lid; // filled by assign_lids and index_lids
};

// A link inside an adapter (its bus, an engine): it has no other direction.
LinkIndex add_inner_link(Topology& topology, NodeIndex adapter, BytesPerSecond rate);

struct LinkModel {
    BytesPerSecond host_rate{2'000'000'000}; // between an adapter and its switch
    BytesPerSecond switch_rate{2'000'000'000};
    Nanoseconds cable{5};
    Nanoseconds switch_latency{100};
};

// `hosts` hosts with `adapters` adapters of `ports` ports. Port p of adapter a is plugged into a crossbar
// of its own for each (a, p): separate networks, as with two rails. One network: `one_network`.
struct HostModel {
    std::uint32_t adapters = 1;
    std::uint32_t ports = 1;
    bool one_network = false;
};
Topology crossbar(std::uint32_t hosts, const HostModel& host, const LinkModel& links,
                  std::uint32_t lmc = 0);
// Two levels: `leaves` switches with `hosts_per_leaf` hosts each, every leaf with one link to each of
// `spines` switches. With several ports a host and not one_network, one such tree for each port.
Topology fat_tree(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_per_leaf,
                  const HostModel& host, const LinkModel& links, std::uint32_t lmc = 0);

} // namespace adaptib::sim
