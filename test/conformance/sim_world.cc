// SPDX-License-Identifier: BSD-3-Clause
// The conformance suite over the simulated fabric: a crossbar, several rails, a fat tree with
// several paths per port, and a lossy network (datagrams lost, doubled or late).
// May touch: fabric/, simulator/network/.
#include <algorithm>
#include <utility>

#include "conformance/world.h"
#include "simulator/network/world.h"

namespace adaptib::conformance {
namespace {

class SimWorld final : public World {
public:
    SimWorld(sim::WorldOptions options, std::size_t nodes) : world_(std::move(options)) {
        for (std::size_t node = 0; node < nodes; ++node) {
            attached_.push_back(world_.attach(static_cast<std::uint32_t>(node)));
        }
    }

    std::size_t nodes() const override { return attached_.size(); }
    Fabric& fabric(std::size_t node) override { return *attached_[node].fabric; }

    bool run_until(const std::function<bool()>& predicate, Nanoseconds limit) override {
        sim::Simulator& simulator = world_.simulator();
        const Nanoseconds end = simulator.now() + limit;
        const Nanoseconds step = limit / 1000 + Nanoseconds{1}; // of time without events
        while (!predicate()) {
            if (simulator.now() >= end) {
                return false;
            }
            const Nanoseconds until = std::min(end, simulator.now() + step);
            if (simulator.idle() || simulator.next() > until) {
                simulator.advance(until);
            } else {
                simulator.step();
            }
        }
        return true;
    }

    bool can_switch_rails() const override { return true; }
    bool switch_rail(std::size_t node, std::size_t rail, bool up) override {
        world_.set_port(port(node, rail), up);
        return true;
    }
    bool can_slow_rails() const override { return true; }
    bool slow_rail(std::size_t node, std::size_t rail, std::uint32_t factor) override {
        world_.slow_port(port(node, rail), factor);
        return true;
    }
    bool can_end_nodes() const override { return true; }
    bool end_node(std::size_t node) override {
        attached_[node].fabric.reset();
        return true;
    }

private:
    sim::PortIndex port(std::size_t node, std::size_t rail) {
        return world_.topology().hosts[node].ports[rail];
    }

    sim::World world_;
    std::vector<sim::World::Attached> attached_;
};

sim::MachineModel everything(const char* name) {
    sim::MachineModel model = *sim::machine(name);
    model.offers.migration = true;
    model.offers.dc = true;
    return model;
}

using Options = sim::WorldOptions;

WorldFactory factory(const char* name, std::size_t nodes, std::function<Options()> options) {
    return {name, [nodes, options](std::string& error, std::string&) -> std::unique_ptr<World> {
                Options made = options();
                if (!sim::Routes::compute(made.topology, made.routes, error)) {
                    return nullptr;
                }
                return std::make_unique<SimWorld>(std::move(made), nodes);
            }};
}

Options crossbar(std::uint32_t hosts, std::uint32_t ports) {
    Options options;
    options.machine = everything("connect-ib");
    sim::HostModel host;
    host.ports = ports;
    options.topology = sim::crossbar(hosts, host, sim::links_of(options.machine), 1);
    return options;
}

Options fat_tree() {
    Options options;
    options.machine = everything("infinihost");
    options.topology = sim::fat_tree(2, 4, 2, {}, sim::links_of(options.machine), 2);
    return options;
}

Options lossy() {
    Options options = crossbar(3, 1);
    options.machine = everything("ibm-12x");
    options.machine.offers.reliable_ud = false;
    options.datagram_loss = 0.1;
    options.datagram_twice = 0.1;
    options.datagram_late = 0.1;
    return options;
}

[[maybe_unused]] const bool kAdded =
    add_world(factory("sim_crossbar", 3, [] { return crossbar(3, 1); })) &&
    add_world(factory("sim_rails", 2, [] { return crossbar(2, 3); })) &&
    add_world(factory("sim_fat_tree", 4, fat_tree)) && add_world(factory("sim_lossy", 3, lossy));

} // namespace
} // namespace adaptib::conformance
