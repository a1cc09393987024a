// SPDX-License-Identifier: BSD-3-Clause
// Routings, policies and runs of the studies over many paths (multipath.h).
#include "simulator/studies/multipath.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "simulator/network/opensm_routes.h"
#include "simulator/torture/stored_routes.h"

namespace adaptib::study {

namespace {

constexpr std::uint32_t kLeaves = 12;
constexpr std::uint32_t kSpines = 12;
constexpr std::uint32_t kHosts = 12; // of a leaf

std::uint32_t lmc_for(std::uint32_t paths) {
    return paths <= 1 ? 0 : paths <= 4 ? 2 : paths <= 8 ? 3 : 4;
}

template <typename T> void shuffle(std::vector<T>& all, Random& random) {
    for (std::size_t i = all.size(); i > 1; --i) {
        std::swap(all[i - 1], all[random.below(i)]);
    }
}

// Name of the file with OpenSM's routes.
std::string stored_name(Routing::Kind kind, std::uint32_t lmc) {
    const std::string base = "fat_tree_12x12x12_lmc" + std::to_string(lmc);
    switch (kind) {
    case Routing::Kind::opensm_random: return base + "_random.lfts";
    case Routing::Kind::opensm_dfsssp: return base + "_compact_dfsssp.lfts";
    case Routing::Kind::opensm_ftree: return base + "_compact_ftree.lfts";
    default: return base + "_compact.lfts";
    }
}

Spread spread_of(std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    const double median =
        values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
    return {median, values.front(), values.back()};
}

const sim::MachineModel& machine() { return *sim::machine("infinihost-iii"); }

} // namespace

std::string Routing::name() const {
    switch (kind) {
    case Kind::random: return "random routes " + std::to_string(seed);
    case Kind::opensm_random: return "OpenSM, random order";
    case Kind::opensm_compact: return "OpenSM, leaf by leaf";
    case Kind::opensm_dfsssp: return "OpenSM, dfsssp";
    case Kind::opensm_ftree: return "OpenSM, ftree";
    case Kind::regular: break;
    }
    return "regular routes";
}

std::vector<Routing> routings_with_hot_spots(const Study& study) {
    std::vector<Routing> all;
    for (std::uint64_t i = 0; i < 4; ++i) {
        all.push_back({Routing::Kind::random, study.seed() + i});
    }
    all.push_back({Routing::Kind::opensm_random, 0});
    return all;
}

std::vector<Routing> routings_without(const Study&) {
    return {{Routing::Kind::regular, 0}, {Routing::Kind::opensm_compact, 0}};
}

sim::Routes random_routes(const sim::Topology& topology, std::uint64_t seed) {
    Random random(seed);
    sim::Routes routes;
    const auto is_switch = [&](sim::NodeIndex node) {
        return topology.nodes[node].kind == sim::Node::Kind::within_switch;
    };
    for (sim::NodeIndex node = 0; node < topology.nodes.size(); ++node) {
        if (!is_switch(node)) {
            continue;
        }
        const std::vector<sim::LinkIndex>& out = topology.nodes[node].out;
        for (const sim::Port& port : topology.ports) {
            const sim::NodeIndex leaf = topology.links[port.link].to;
            std::vector<std::uint16_t> hops;
            bool leads_up = false;
            for (std::size_t i = 0; i < out.size(); ++i) {
                const sim::NodeIndex next =
                    out[i] == sim::kNoIndex ? sim::kNoIndex : topology.links[out[i]].to;
                const auto number = static_cast<std::uint16_t>(i + 1);
                if (next == sim::kNoIndex) {
                    continue;
                }
                if (out[i] == topology.links[port.link].reverse || next == leaf) {
                    hops.assign(1, number);
                    leads_up = false;
                    break;
                }
                if (is_switch(next)) {
                    hops.push_back(number);
                    leads_up = true;
                }
            }
            if (leads_up) {
                shuffle(hops, random);
            }
            for (std::uint32_t k = 0; k < 1u << topology.lmc; ++k) {
                routes.set(node, port.lid + k, hops[k % hops.size()]);
            }
        }
    }
    return routes;
}

Tree switch144(const Study& study, const Routing& routing, std::uint32_t paths) {
    Tree tree;
    const bool random = routing.kind == Routing::Kind::random;
    const std::uint32_t lmc = routing.kind == Routing::Kind::opensm_ftree ? 0 : lmc_for(paths);
    tree.topology =
        sim::fat_tree(kLeaves, kSpines, kHosts, {}, sim::links_of(machine()), random ? 4 : lmc);
    std::string text;
    if (random) {
        tree.routes = random_routes(tree.topology, routing.seed);
        return tree;
    }
    bool good = false;
    if (routing.kind == Routing::Kind::regular) {
        good = sim::Routes::compute(tree.topology, tree.routes, text);
    } else {
        const std::string name = stored_name(routing.kind, lmc);
        good = sim::parse_opensm_routes(sim::stored_routes_file(name), name, tree.topology,
                                        tree.routes, text);
    }
    if (!good) {
        study.fail(text);
    }
    return tree;
}

std::unique_ptr<FlowRanks> flow_ranks(const Study& study, const Routing& routing,
                                      const PathPolicy& policy, std::vector<std::uint32_t> hosts) {
    Tree tree = switch144(study, routing, std::max(policy.paths, policy.lids));
    if (policy.ideal) {
        for (sim::Link& link : tree.topology.links) {
            const auto within = sim::Node::Kind::within_switch;
            if (tree.topology.nodes[link.from].kind == within &&
                tree.topology.nodes[link.to].kind == within) {
                link.rate.value *= kHosts;
            }
        }
    }
    FlowOptions options;
    options.ranks = hosts.size();
    options.hosts = std::move(hosts);
    options.machine = machine();
    options.topology = std::move(tree.topology);
    options.routes = std::move(tree.routes);
    options.paths = std::min(policy.paths, 1u << options.topology.lmc);
    options.scheduler.striping = policy.striping;
    options.scheduler.striping_threshold = 16 * kKiB;
    options.scheduler.bss_paths = policy.bss_paths;
    options.scheduler.bss_batch = policy.bss_batch;
    return std::make_unique<FlowRanks>(std::move(options));
}

Outcome run(const Study& study, FlowRanks& ranks, const Pattern& pattern, int learning,
            int measured) {
    Outcome outcome;
    Timing timing;
    std::string text;
    std::uint64_t transfers = 0;
    std::uint64_t stripes = 0;
    for (int i = 0; i < learning + measured; ++i) {
        if (i == learning) {
            transfers = ranks.transfers();
            stripes = ranks.stripes();
        }
        if (!replay(pattern, ranks, timing, text)) {
            study.fail(text);
        }
        if (i < learning) {
            continue;
        }
        outcome.seconds += 1e-9 * static_cast<double>(timing.total.count()) / measured;
        for (std::size_t step = 0; step < pattern.steps(); ++step) {
            Bytes bytes = 0;
            for (const auto& rank : pattern.ranks) {
                for (const Message& send : rank[step].sends) {
                    bytes += send.bytes;
                }
            }
            const double seconds = 1e-9 * static_cast<double>(timing.mean_step[step].count());
            outcome.bandwidth += static_cast<double>(bytes) / static_cast<double>(pattern.size()) /
                                 seconds / static_cast<double>(pattern.steps()) / measured;
        }
    }
    outcome.stripes = static_cast<double>(ranks.stripes() - stripes) /
                      static_cast<double>(ranks.transfers() - transfers);
    return outcome;
}

Comparison compare(Study& study, const std::string& what, const Pattern& pattern,
                   const std::function<std::vector<std::uint32_t>(std::size_t)>& hosts,
                   const std::vector<Routing>& routings, const std::vector<PathPolicy>& policies,
                   int learning, int measured) {
    std::map<std::string, std::vector<double>> time;
    std::map<std::string, std::vector<double>> bandwidth;
    std::map<std::string, std::vector<double>> gained;
    Panel panel;
    panel.title = what;
    panel.unit = "of one path's time";
    panel.log = false;
    for (std::size_t i = 0; i < routings.size(); ++i) {
        panel.labels.push_back(routings[i].name());
        const auto outcome_of = [&](const PathPolicy& policy) {
            // One path and the ideal balancer have nothing to learn.
            const int first = policy.striping == "none" ? std::min(learning, 1) : learning;
            const auto ranks = flow_ranks(study, routings[i], policy, hosts(i));
            return run(study, *ranks, pattern, first, measured);
        };
        const Outcome one = outcome_of(kOnePath);
        const Outcome ideal = outcome_of(kIdeal);
        const auto note = [&](const std::string& name, const Outcome& outcome) {
            time[name].push_back(outcome.seconds / one.seconds);
            bandwidth[name].push_back(outcome.bandwidth / one.bandwidth);
            if (one.seconds > 1.001 * ideal.seconds) {
                gained[name].push_back((one.seconds - outcome.seconds) /
                                       (one.seconds - ideal.seconds));
            }
            panel[name].points.emplace_back(static_cast<double>(i), time[name].back());
        };
        note(kOnePath.name, one);
        for (const PathPolicy& policy : policies) {
            note(policy.name, outcome_of(policy));
        }
        note(kIdeal.name, ideal);
    }
    study.panel(panel);
    Comparison comparison;
    for (auto& [name, values] : time) {
        comparison.time[name] = spread_of(values);
        comparison.bandwidth[name] = spread_of(bandwidth[name]);
        if (!gained[name].empty()) {
            comparison.gained[name] = spread_of(gained[name]);
        }
    }
    return comparison;
}

std::vector<std::uint32_t> in_order(std::uint32_t count) {
    std::vector<std::uint32_t> hosts(count);
    std::iota(hosts.begin(), hosts.end(), 0u);
    return hosts;
}

std::vector<std::uint32_t> at_random(std::uint32_t count, std::uint64_t seed) {
    std::vector<std::uint32_t> hosts = in_order(kLeaves * kHosts);
    Random random(seed);
    shuffle(hosts, random);
    hosts.resize(count);
    return hosts;
}

} // namespace adaptib::study
