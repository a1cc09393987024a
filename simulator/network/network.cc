// SPDX-License-Identifier: BSD-3-Clause
// Paths and their state (simulator/network/network.h).
#include "simulator/network/network.h"

#include <algorithm>
#include <utility>

namespace adaptib::sim {

Network::Network(Simulator& simulator, const MachineModel& machine, Topology topology,
                 Routes routes)
    : topology_(std::move(topology)), routes_(std::move(routes)),
      bus_out_(topology_.nodes.size(), kNoIndex), bus_in_(topology_.nodes.size(), kNoIndex),
      port_up_(topology_.ports.size(), 1), group_(topology_.hosts.size(), 0),
      plane_(topology_.ports.size(), 0) {
    if (machine.adapter.bus_rate.value != 0) {
        for (const Host& host : topology_.hosts) {
            for (const NodeIndex adapter : host.adapters) {
                bus_out_[adapter] = add_inner_link(topology_, adapter, machine.adapter.bus_rate);
                bus_in_[adapter] =
                    machine.adapter.bus_half_duplex
                        ? bus_out_[adapter]
                        : add_inner_link(topology_, adapter, machine.adapter.bus_rate);
            }
        }
    }
    link_up_.assign(topology_.links.size(), 1);
    slowed_.assign(topology_.links.size(), 1);
    flows_ = std::make_unique<Flows>(simulator, topology_);
}

Path* Network::path(PortIndex from, Lid to) {
    const std::uint64_t key = static_cast<std::uint64_t>(from) << 32 | to;
    if (const auto known = paths_.find(key); known != paths_.end()) {
        return known->second.get();
    }
    auto path = std::make_unique<Path>();
    path->from = from;
    path->to = topology_.port_of(to);
    path->lid = to;
    std::vector<LinkIndex> hops;
    if (path->to == kNoIndex || !routes_.path(topology_, from, to, hops)) {
        return nullptr;
    }
    const NodeIndex source = topology_.ports[from].adapter;
    const NodeIndex target = topology_.ports[path->to].adapter;
    if (bus_out_[source] != kNoIndex) {
        path->links.push_back(bus_out_[source]);
    }
    path->links.insert(path->links.end(), hops.begin(), hops.end());
    if (bus_in_[target] != kNoIndex &&
        (path->links.empty() || path->links.front() != bus_in_[target])) {
        path->links.push_back(bus_in_[target]);
    }
    for (const LinkIndex index : path->links) {
        const Link& link = topology_.links[index];
        path->latency += link.latency;
        if (topology_.nodes[link.from].kind == Node::Kind::within_switch) {
            path->latency += topology_.nodes[link.from].latency;
        }
    }
    look(*path);
    return paths_.emplace(key, std::move(path)).first->second.get();
}

bool Network::leads(PortIndex from, Lid to) const {
    std::vector<LinkIndex> hops;
    return topology_.port_of(to) != kNoIndex && routes_.path(topology_, from, to, hops);
}

void Network::look(Path& path) {
    path.looked = changes_;
    path.up = port_up_[path.from] != 0 && port_up_[path.to] != 0 && !stale(path) &&
              std::all_of(path.links.begin(), path.links.end(),
                          [this](LinkIndex link) { return link_up_[link] != 0; });
    const auto host = [this](PortIndex port) {
        return topology_.nodes[topology_.ports[port].adapter].host;
    };
    path.up = path.up && group_[host(path.from)] == group_[host(path.to)] &&
              plane_[path.from] == plane_[path.to];
    path.rate = BytesPerSecond{0};
    for (const LinkIndex link : path.links) {
        const BytesPerSecond rate{topology_.links[link].rate.value / slowed_[link]};
        path.rate = path.rate.value == 0 ? rate : std::min(path.rate, rate);
    }
}

void Network::set_rate(LinkIndex link) {
    const std::uint64_t rate = topology_.links[link].rate.value / slowed_[link];
    flows_->set_rate(link, {link_up_[link] != 0 ? std::max<std::uint64_t>(rate, 1) : 0});
}

void Network::set_link(LinkIndex link, bool up) {
    for (const LinkIndex direction : {link, topology_.links[link].reverse}) {
        if (direction != kNoIndex) {
            set_direction(direction, up);
        }
    }
}

void Network::set_direction(LinkIndex link, bool up) {
    link_up_[link] = up ? 1 : 0;
    set_rate(link);
    ++changes_;
}

void Network::set_port(PortIndex port, bool up) {
    port_up_[port] = up ? 1 : 0;
    ++changes_;
    if (topology_.ports[port].link != kNoIndex) {
        set_link(topology_.ports[port].link, up);
    }
}

void Network::slow_port(PortIndex port, std::uint32_t factor) {
    const LinkIndex out = topology_.ports[port].link;
    for (const LinkIndex link : {out, topology_.links[out].reverse}) {
        slowed_[link] = std::max(factor, 1u);
        set_rate(link);
    }
    ++changes_;
}

void Network::set_lid(PortIndex port, Lid lid) {
    const Lid former = topology_.ports[port].lid;
    for (Lid k = 0; k < Lid{1} << topology_.lmc; ++k) {
        routes_.copy(former + k, lid + k);
    }
    topology_.move_lids(port, lid);
    ++changes_;
}

void Network::set_plane(PortIndex port, std::uint32_t plane) {
    plane_[port] = plane;
    ++changes_;
}

void Network::set_group(std::uint32_t host, std::uint32_t group) {
    group_[host] = group;
    ++changes_;
}

} // namespace adaptib::sim
