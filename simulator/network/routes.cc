// SPDX-License-Identifier: BSD-3-Clause
// Computes shortest paths, follows a route, and checks all routes (simulator/network/routes.h).
#include "simulator/network/routes.h"

#include <algorithm>
#include <limits>

namespace adaptib::sim {

namespace {

constexpr std::uint32_t kUnreached = std::numeric_limits<std::uint32_t>::max();

bool is_switch(const Topology& topology, NodeIndex node) {
    return topology.nodes[node].kind == Node::Kind::within_switch;
}

std::string named(const Topology& topology, PortIndex index) {
    const Port& port = topology.ports[index];
    return topology.nodes[port.adapter].name + " port " + std::to_string(port.number);
}

// The ports that are plugged into each switch, in the order of the ports.
std::vector<std::vector<PortIndex>> ports_by_switch(const Topology& topology) {
    std::vector<std::vector<PortIndex>> plugged(topology.nodes.size());
    for (PortIndex p = 0; p < topology.ports.size(); ++p) {
        const LinkIndex link = topology.ports[p].link;
        if (link != kNoIndex && is_switch(topology, topology.links[link].to)) {
            plugged[topology.links[link].to].push_back(p);
        }
    }
    return plugged;
}

// Distances of all switches from one of them, in links, over switches alone.
class Distances {
public:
    explicit Distances(const Topology& topology)
        : topology_(topology), distance_(topology.nodes.size(), kUnreached) {}

    void compute(NodeIndex destination) {
        std::fill(distance_.begin(), distance_.end(), kUnreached);
        reached_.assign(1, destination);
        distance_[destination] = 0;
        for (std::size_t i = 0; i < reached_.size(); ++i) {
            for (const LinkIndex out : topology_.nodes[reached_[i]].out) {
                // A cable leads both ways: the switch behind it reaches us.
                const NodeIndex next = out == kNoIndex ? kNoIndex : topology_.links[out].to;
                if (next != kNoIndex && is_switch(topology_, next) &&
                    distance_[next] == kUnreached) {
                    distance_[next] = distance_[reached_[i]] + 1;
                    reached_.push_back(next);
                }
            }
        }
    }
    // Nearest first; the first one is the destination.
    std::span<const NodeIndex> reached() const { return reached_; }

    // The ports of `node` that lead one link nearer, lowest first.
    void next_hops(NodeIndex node, std::vector<std::uint16_t>& out) const {
        out.clear();
        const std::vector<LinkIndex>& links = topology_.nodes[node].out;
        for (std::size_t i = 0; i < links.size(); ++i) {
            if (links[i] == kNoIndex) {
                continue;
            }
            const NodeIndex next = topology_.links[links[i]].to;
            if (is_switch(topology_, next) && distance_[next] == distance_[node] - 1) {
                out.push_back(static_cast<std::uint16_t>(i + 1));
            }
        }
    }

private:
    const Topology& topology_;
    std::vector<std::uint32_t> distance_;
    std::vector<NodeIndex> reached_;
};

// Follows the routes to one LID from all switches, each switch once.
class Follower {
public:
    Follower(const Topology& topology, const Routes& routes)
        : topology_(topology), routes_(routes), seen_(topology.nodes.size(), 0) {}

    // Follows the route from switch `from` to port `target`, by `lid`. Stops at a switch that an
    // earlier call for this LID has passed, since that one leads there. The first call for a LID
    // has `fresh` set.
    bool follow(NodeIndex from, Lid lid, PortIndex target, bool fresh, std::string& text) {
        good_ = fresh ? ++mark_ : good_;
        ++mark_;
        for (NodeIndex at = from;;) {
            failed_at_ = at;
            if (seen_[at] == mark_) {
                return fail("loops at " + topology_.nodes[at].name, from, lid, target, text);
            }
            if (seen_[at] >= good_) {
                return true;
            }
            seen_[at] = mark_;
            const std::span<const std::uint16_t> table = routes_.table(at);
            const std::uint32_t port = lid < table.size() ? table[lid] : 0;
            if (port == 0) {
                return fail("ends at " + topology_.nodes[at].name + ", which has no entry for it",
                            from, lid, target, text);
            }
            const std::vector<LinkIndex>& out = topology_.nodes[at].out;
            if (port > out.size() || out[port - 1] == kNoIndex) {
                return fail("leaves " + topology_.nodes[at].name + " by port " +
                                std::to_string(port) + ", where no cable is",
                            from, lid, target, text);
            }
            if (out[port - 1] == topology_.links[topology_.ports[target].link].reverse) {
                return true;
            }
            const NodeIndex next = topology_.links[out[port - 1]].to;
            if (!is_switch(topology_, next)) {
                return fail("ends at " + topology_.nodes[next].name, from, lid, target, text);
            }
            at = next;
        }
    }

    NodeIndex failed_at() const { return failed_at_; }

private:
    bool fail(const std::string& what, NodeIndex from, Lid lid, PortIndex target,
              std::string& text) const {
        text = "the route from switch " + topology_.nodes[from].name + " to LID " +
               std::to_string(lid) + " (" + named(topology_, target) + ") " + what;
        return false;
    }

    const Topology& topology_;
    const Routes& routes_;
    std::vector<std::uint64_t> seen_; // the last call that passed the switch
    std::uint64_t mark_ = 0;
    std::uint64_t good_ = 0; // the first call for the present LID
    NodeIndex failed_at_ = kNoIndex;
};

bool lids_and_sizes_fit(const Topology& topology, std::string& text) {
    for (PortIndex p = 0; p < topology.ports.size(); ++p) {
        if (topology.ports[p].lid == 0) {
            text = named(topology, p) + " has no LID";
            return false;
        }
    }
    for (const Node& node : topology.nodes) {
        if (node.out.size() > std::numeric_limits<std::uint16_t>::max()) {
            text =
                node.name + " has " + std::to_string(node.out.size()) + " ports, more than 65535";
            return false;
        }
    }
    return true;
}

} // namespace

void Routes::set(NodeIndex node, Lid lid, std::uint16_t port) {
    if (node >= tables_.size()) {
        tables_.resize(node + 1);
    }
    if (lid >= tables_[node].size()) {
        tables_[node].resize(lid + 1);
    }
    tables_[node][lid] = port;
}

void Routes::copy(Lid from, Lid to) {
    for (NodeIndex node = 0; node < tables_.size(); ++node) {
        if (const auto table = this->table(node); from < table.size() && table[from] != 0) {
            set(node, to, table[from]);
        }
    }
}

bool Routes::compute(const Topology& topology, Routes& out, std::string& text) {
    if (!lids_and_sizes_fit(topology, text)) {
        return false;
    }
    const std::vector<std::vector<PortIndex>> plugged = ports_by_switch(topology);
    const std::size_t lids = topology.by_lid.size();
    const Lid per_port = Lid{1} << topology.lmc;
    Routes made;
    made.tables_.resize(topology.nodes.size());
    // Position at which each switch goes on choosing among equal ports. It advances by one with
    // each port, so that one LID per port (lmc 0) spreads evenly, and routes to neighboring ports
    // begin with different choices.
    std::vector<std::uint32_t> turn(topology.nodes.size(), 0);
    Distances distances(topology);
    std::vector<std::uint16_t> hops;
    for (NodeIndex destination = 0; destination < plugged.size(); ++destination) {
        if (plugged[destination].empty()) {
            continue;
        }
        distances.compute(destination);
        for (const NodeIndex node : distances.reached()) {
            std::vector<std::uint16_t>& table = made.tables_[node];
            table.resize(lids);
            distances.next_hops(node, hops);
            for (const PortIndex p : plugged[destination]) {
                const Port& port = topology.ports[p];
                const std::size_t base = node == destination ? 0 : turn[node]++;
                for (Lid k = 0; k < per_port; ++k) {
                    const LinkIndex back = topology.links[port.link].reverse;
                    table[port.lid + k] =
                        node == destination
                            ? static_cast<std::uint16_t>(topology.links[back].from_port)
                            : hops[(base + k) % hops.size()];
                }
            }
        }
    }
    if (!made.check(topology, text)) {
        return false;
    }
    out = std::move(made);
    return true;
}

bool Routes::path(const Topology& topology, PortIndex from, Lid to,
                  std::vector<LinkIndex>& out) const {
    out.clear();
    const PortIndex target = topology.port_of(to);
    if (target == kNoIndex || target == from) {
        return target == from;
    }
    LinkIndex link = topology.ports[from].link;
    const LinkIndex last = topology.ports[target].link;
    while (link != kNoIndex && last != kNoIndex && out.size() < topology.nodes.size()) {
        out.push_back(link);
        if (link == topology.links[last].reverse) {
            return true;
        }
        const NodeIndex at = topology.links[link].to;
        const std::span<const std::uint16_t> entries = table(at);
        const std::size_t port = to < entries.size() ? entries[to] : 0;
        const std::vector<LinkIndex>& plugs = topology.nodes[at].out;
        link = port == 0 || port > plugs.size() ? kNoIndex : plugs[port - 1];
    }
    out.clear();
    return false;
}

bool Routes::check(const Topology& topology, std::string& text, NodeIndex* where) const {
    const std::vector<std::vector<PortIndex>> plugged = ports_by_switch(topology);
    Distances distances(topology);
    Follower follower(topology, *this);
    for (NodeIndex destination = 0; destination < plugged.size(); ++destination) {
        if (plugged[destination].empty()) {
            continue;
        }
        distances.compute(destination);
        for (const PortIndex p : plugged[destination]) {
            const Lid base = topology.ports[p].lid;
            for (Lid lid = base; lid < base + (Lid{1} << topology.lmc); ++lid) {
                bool fresh = true;
                for (const NodeIndex from : distances.reached()) {
                    if (plugged[from].empty()) {
                        continue;
                    }
                    if (!follower.follow(from, lid, p, fresh, text)) {
                        if (where != nullptr) {
                            *where = follower.failed_at();
                        }
                        return false;
                    }
                    fresh = false;
                }
            }
        }
    }
    return true;
}

} // namespace adaptib::sim
