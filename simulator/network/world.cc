// SPDX-License-Identifier: BSD-3-Clause
// The world's parts and its faults (simulator/network/world.h).
#include "simulator/network/world.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "simulator/network/qp.h"
#include "simulator/network/rail.h"
#include "simulator/network/sim_fabric.h"

namespace adaptib::sim {

namespace {

// Makes each engine with a rate of its own a link, which its flows share.
void add_engines(Topology& topology, const MachineModel& machine, std::uint32_t per_port,
                 std::vector<Engine>& engines) {
    for (std::size_t i = 0; machine.adapter.engine_rate.value != 0 && i < engines.size(); ++i) {
        engines[i].link = add_inner_link(topology, topology.ports[i / per_port].adapter,
                                         machine.adapter.engine_rate);
    }
}

} // namespace

World::World(WorldOptions options)
    : options_(std::move(options)), random_(options_.seed),
      engines_per_port_(std::max(options_.machine.adapter.engines, 1u)),
      engines_(options_.topology.ports.size() * engines_per_port_),
      wires_out_(options_.topology.ports.size()), wires_in_(options_.topology.ports.size()),
      next_engine_(options_.topology.ports.size(), 0) {
    add_engines(options_.topology, options_.machine, engines_per_port_, engines_);
    network_ = std::make_unique<Network>(simulator_, options_.machine,
                                         std::exchange(options_.topology, {}),
                                         std::exchange(options_.routes, {}));
    for (const Node& node : topology().nodes) {
        adapters_.push_back(node.kind == Node::Kind::adapter
                                ? std::make_unique<Adapter>(options_.machine)
                                : nullptr);
    }
}

World::~World() = default;

void World::tell(const char* format, ...) {
    char text[256];
    int length =
        std::snprintf(text, sizeof text, "%lld ", static_cast<long long>(simulator_.now().count()));
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text + length, sizeof text - static_cast<std::size_t>(length), format,
                   arguments);
    va_end(arguments);
    trace(text);
}

World::Attached World::attach(std::uint32_t host) {
    Process& process = *processes_.emplace_back(std::make_unique<Process>(simulator_, host));
    return {attach(process), &process};
}

std::unique_ptr<Fabric> World::attach(Process& process) {
    auto fabric = std::make_unique<SimFabric>(*this, process);
    fabrics_.push_back(fabric.get());
    return fabric;
}

void World::leave(SimFabric* fabric) { std::erase(fabrics_, fabric); }

// Makes queue pairs notice that their message stands still on a link that is down.
void World::paths_changed() {
    for (const std::unique_ptr<Adapter>& adapter : adapters_) {
        if (adapter != nullptr) {
            for (SimQueuePair* qp : adapter->queue_pairs()) {
                qp->path_changed();
            }
        }
    }
}

void World::set_port(PortIndex port, bool up) {
    if (network_->port_up(port) == up) {
        return;
    }
    note_fault();
    if (trace) {
        tell("port %u %s", port, up ? "up" : "down");
    }
    network_->set_port(port, up);
    paths_changed();
    for (SimFabric* fabric : fabrics_) {
        fabric->port_changed(port, up);
    }
}

// Drivers report the change of an active port (IBV_EVENT_LID_CHANGE), and some of them also that of
// a port that the subnet manager has not made active yet (Linux, hfi1/mad.c,
// __subn_set_opa_portinfo).
void World::set_lid(PortIndex port, Lid lid, bool at_once) {
    note_fault();
    if (trace) {
        tell("port %u has LID %u", port, lid);
    }
    network_->set_lid(port, lid);
    paths_changed();
    if (network_->port_up(port) || at_once) {
        for (SimFabric* fabric : fabrics_) {
            fabric->address_changed(port);
        }
    }
}

void World::set_link(LinkIndex link, bool up) {
    note_fault();
    if (trace) {
        tell("link %u %s", link, up ? "up" : "down");
    }
    network_->set_link(link, up);
    paths_changed();
}

void World::set_direction(LinkIndex link, bool up) {
    if (trace) {
        tell("one direction of link %u %s", link, up ? "up" : "down");
    }
    network_->set_direction(link, up);
    paths_changed();
}

void World::set_group(std::uint32_t host, std::uint32_t group) {
    if (trace) {
        tell("host %u in group %u", host, group);
    }
    network_->set_group(host, group);
    paths_changed();
}

void World::kill(Process& process) {
    if (trace) {
        tell("a process of host %u dies", process.host());
    }
    process.die();
    for (const std::unique_ptr<Adapter>& adapter : adapters_) {
        if (adapter != nullptr) {
            for (SimQueuePair* qp : adapter->queue_pairs()) {
                if (&qp->process() == &process) {
                    qp->process_died();
                }
            }
        }
    }
}

} // namespace adaptib::sim
