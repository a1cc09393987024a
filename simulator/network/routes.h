// SPDX-License-Identifier: BSD-3-Clause
// Routes: the links that lead from a port to a LID.
//
// Purpose: the forwarding tables of all switches. They are computed (shortest paths, spread over
// equal ones by destination LID, so that the LIDs of one port take different spines), or read as
// OpenSM wrote them. Every table is checked when it is made: each route ends at its port, without a
// loop.
// Ownership: keeps no reference to the topology. Threads: constant after it is made.
// Source: InfiniBand Architecture, vol. 1, 14.2.5.6 (linear forwarding tables); OpenSM's minhop.
// May touch: base/, simulator/network/topology.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simulator/network/topology.h"

namespace adaptib::sim {

class Routes {
public:
    // Computes shortest paths (as OpenSM's minhop on a fat tree: the k-th LID of a port takes the
    // k-th next spine). Returns false with `text` set if some port does not reach another port that
    // it is connected with.
    static bool compute(const Topology& topology, Routes& out, std::string& text);

    // Sets `out` to the links from `from` to `to`, in order, the adapter's own first; returns false
    // if there is no route. A port reaches itself over no link at all.
    bool path(const Topology& topology, PortIndex from, Lid to, std::vector<LinkIndex>& out) const;

    // Forwarding table of a switch: out port by LID, 0 = none.
    std::span<const std::uint16_t> table(NodeIndex node) const {
        return node < tables_.size() ? std::span<const std::uint16_t>(tables_[node])
                                     : std::span<const std::uint16_t>();
    }
    void set(NodeIndex node, Lid lid, std::uint16_t port);
    // Gives a LID the routes of another one.
    void copy(Lid from, Lid to);
    // Follows every route from every switch with ports to each LID of every port that the switch is
    // connected with. Returns false if a route loops, ends nowhere or misses its port; `text` names
    // the first such route and `where`, if given, becomes the switch at which it fails.
    bool check(const Topology& topology, std::string& text, NodeIndex* where = nullptr) const;

private:
    std::vector<std::vector<std::uint16_t>> tables_; // by node; empty for adapters
};

} // namespace adaptib::sim
