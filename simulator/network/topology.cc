// SPDX-License-Identifier: BSD-3-Clause
// The generated topologies, and the owners of LIDs (simulator/network/topology.h).
#include "simulator/network/topology.h"

#include <algorithm>
#include <cstdio>

namespace adaptib::sim {

namespace {

// GUIDs as ibsim numbers them: in separate ranges, with room behind each adapter for its ports'
// own.
constexpr std::uint64_t kAdapterGuid = 0x100000;
constexpr std::uint64_t kSwitchGuid = 0x40000000;
constexpr std::uint64_t kGuidsPerAdapter = 16;

std::string numbered(const char* text, std::uint32_t number, int digits) {
    char name[40];
    std::snprintf(name, sizeof name, "%s%0*u", text, digits, number);
    return name;
}

NodeIndex add_switch(Topology& topology, const std::string& name, std::uint32_t ports,
                     Nanoseconds latency) {
    Node node;
    node.kind = Node::Kind::within_switch;
    node.name = name;
    node.guid = kSwitchGuid + topology.nodes.size();
    node.latency = latency;
    node.out.assign(ports, kNoIndex);
    topology.nodes.push_back(std::move(node));
    return static_cast<NodeIndex>(topology.nodes.size() - 1);
}

// Adds hosts without cables; the ports of host h begin at h * adapters * ports.
void add_hosts(Topology& topology, std::uint32_t hosts, const HostModel& model) {
    const std::size_t adapters = std::size_t{hosts} * model.adapters;
    topology.hosts.reserve(hosts);
    topology.nodes.reserve(adapters);
    topology.ports.reserve(adapters * model.ports);
    for (std::uint32_t h = 0; h < hosts; ++h) {
        Host host;
        host.name = numbered("H", h, 3);
        for (std::uint32_t a = 0; a < model.adapters; ++a) {
            Node node;
            node.name = model.adapters == 1 ? host.name : host.name + numbered(" HCA-", a + 1, 1);
            node.guid = kAdapterGuid + topology.nodes.size() * kGuidsPerAdapter;
            node.host = h;
            node.out.assign(model.ports, kNoIndex);
            const auto adapter = static_cast<NodeIndex>(topology.nodes.size());
            topology.nodes.push_back(std::move(node));
            host.adapters.push_back(adapter);
            for (std::uint32_t p = 1; p <= model.ports; ++p) {
                host.ports.push_back(static_cast<PortIndex>(topology.ports.size()));
                topology.ports.push_back({.adapter = adapter, .number = p});
            }
        }
        topology.hosts.push_back(std::move(host));
    }
}

// Number of networks, and the ports of a host in each of them: `per_host` ports from port `network`
// on.
struct Networks {
    explicit Networks(const HostModel& model)
        : all(model.adapters * model.ports), count(model.one_network ? 1 : all),
          per_host(model.one_network ? all : 1) {}

    // The name of a switch; with several networks, the number of its network comes first.
    std::string name(const char* text, std::uint32_t network, std::uint32_t number) const {
        const std::string own = numbered(text, number, 1);
        return count == 1 ? own : numbered("net", network, 1) + own;
    }

    std::uint32_t all;
    std::uint32_t count;
    std::uint32_t per_host;
};

} // namespace

void Topology::connect(NodeIndex a, std::uint32_t a_port, NodeIndex b, std::uint32_t b_port,
                       BytesPerSecond rate, Nanoseconds latency) {
    const auto there = static_cast<LinkIndex>(links.size());
    const LinkIndex back = there + 1;
    links.push_back({a, b, a_port, b_port, rate, latency, back});
    links.push_back({b, a, b_port, a_port, rate, latency, there});
    nodes[a].out[a_port - 1] = there;
    nodes[b].out[b_port - 1] = back;
}

void Topology::plug_ports() {
    for (Port& port : ports) {
        port.link = nodes[port.adapter].out[port.number - 1];
    }
}

LinkIndex add_inner_link(Topology& topology, NodeIndex adapter, BytesPerSecond rate) {
    Link link;
    link.from = link.to = adapter;
    link.rate = rate;
    topology.links.push_back(link);
    return static_cast<LinkIndex>(topology.links.size() - 1);
}

PortIndex Topology::port_of(Lid lid) const { return lid < by_lid.size() ? by_lid[lid] : kNoIndex; }

void Topology::assign_lids(std::uint32_t new_lmc) {
    lmc = new_lmc;
    const Lid step = Lid{1} << lmc;
    Lid next = step; // a base LID is a multiple of 2^lmc, and 0 is none
    for (Port& port : ports) {
        port.lid = next;
        next += step;
    }
    for (Node& node : nodes) {
        if (node.kind == Node::Kind::within_switch) {
            node.lid = next++;
        }
    }
    index_lids();
}

void Topology::index_lids() {
    const Lid step = Lid{1} << lmc;
    Lid end = 1;
    for (const Port& port : ports) {
        end = std::max(end, port.lid + step);
    }
    by_lid.assign(end, kNoIndex);
    for (PortIndex p = 0; p < ports.size(); ++p) {
        if (ports[p].lid != 0) {
            std::fill_n(by_lid.begin() + ports[p].lid, step, p);
        }
    }
}

Lid Topology::unused_lid() const {
    auto end = static_cast<Lid>(by_lid.size());
    for (const Node& node : nodes) {
        end = std::max(end, node.lid + 1);
    }
    return static_cast<Lid>(round_up(end, Lid{1} << lmc));
}

void Topology::move_lids(PortIndex port, Lid lid) {
    const Lid step = Lid{1} << lmc;
    if (by_lid.size() < lid + step) {
        by_lid.resize(lid + step, kNoIndex);
    }
    std::fill_n(by_lid.begin() + lid, step, port);
    ports[port].lid = lid;
}

Topology crossbar(std::uint32_t hosts, const HostModel& host, const LinkModel& links,
                  std::uint32_t lmc) {
    Topology topology;
    add_hosts(topology, hosts, host);
    const Networks networks(host);
    for (std::uint32_t n = 0; n < networks.count; ++n) {
        const NodeIndex within = add_switch(topology, networks.name("switch", n, 0),
                                            hosts * networks.per_host, links.switch_latency);
        std::uint32_t plug = 1;
        for (const Host& one : topology.hosts) {
            for (std::uint32_t p = 0; p < networks.per_host; ++p) {
                const Port& port = topology.ports[one.ports[n + p]];
                topology.connect(port.adapter, port.number, within, plug++, links.host_rate,
                                 links.cable);
            }
        }
    }
    topology.plug_ports();
    topology.assign_lids(lmc);
    return topology;
}

Topology fat_tree(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_per_leaf,
                  const HostModel& host, const LinkModel& links, std::uint32_t lmc) {
    Topology topology;
    add_hosts(topology, leaves * hosts_per_leaf, host);
    const Networks networks(host);
    const std::uint32_t down = hosts_per_leaf * networks.per_host; // ports of a leaf to hosts
    for (std::uint32_t n = 0; n < networks.count; ++n) {
        const auto first_leaf = static_cast<NodeIndex>(topology.nodes.size());
        for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
            add_switch(topology, networks.name("leaf", n, leaf), down + spines,
                       links.switch_latency);
        }
        for (std::uint32_t spine = 0; spine < spines; ++spine) {
            add_switch(topology, networks.name("spine", n, spine), leaves, links.switch_latency);
        }
        const NodeIndex first_spine = first_leaf + leaves;
        for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
            for (std::uint32_t i = 0; i < down; ++i) {
                const Host& one = topology.hosts[leaf * hosts_per_leaf + i / networks.per_host];
                const Port& port = topology.ports[one.ports[n + i % networks.per_host]];
                topology.connect(port.adapter, port.number, first_leaf + leaf, i + 1,
                                 links.host_rate, links.cable);
            }
            for (std::uint32_t spine = 0; spine < spines; ++spine) {
                topology.connect(first_leaf + leaf, down + spine + 1, first_spine + spine, leaf + 1,
                                 links.switch_rate, links.cable);
            }
        }
    }
    topology.plug_ports();
    topology.assign_lids(lmc);
    return topology;
}

} // namespace adaptib::sim
