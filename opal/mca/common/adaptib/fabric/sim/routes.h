// SPDX-License-Identifier: BSD-3-Clause
// Routes: which links lead from a port to a LID.
//
// Purpose: the forwarding tables of all switches: computed (shortest paths, spread over equal ones by
// destination LID, so that the LIDs of one port take different spines), or as OpenSM wrote them.
// Every table is checked when it is made: each route ends at its port, without a loop.
// Ownership: keeps no reference to the topology. Threads: constant after it is made.
// Source: InfiniBand Architecture, vol. 1, 14.2.5.6 (linear forwarding tables); OpenSM's minhop.
// May touch: base/, fabric/sim/topology.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabric/sim/topology.h"

namespace adaptib::sim {

class Routes {
public:
    // Shortest paths (as OpenSM's minhop on a fat tree: the k-th LID of a port takes the k-th next
    // spine). False with `text` set if some port does not reach another one that is connected with it.
    static bool compute(const Topology& topology, Routes& out, std::string& text);

    // The links from `from` to `to`, in order, the adapter's own first; false if there is no route.
    // A port reaches itself over no link at all.
    bool path(const Topology& topology, PortIndex from, Lid to, std::vector<LinkIndex>& out) const;

    // Forwarding table of a switch: out port by LID, 0 = none.
    std::span<const std::uint16_t> table(NodeIndex node) const {
        return node < tables_.size() ? std::span<const std::uint16_t>(tables_[node])
                                     : std::span<const std::uint16_t>();
    }
    void set(NodeIndex node, Lid lid, std::uint16_t port);
    // Follows every route from every port to each LID of every port that it is connected with over
    // switches; false with the first that loops, ends nowhere or misses,
    // and where given, the switch at which it does.
    bool check(const Topology& topology, std::string& text, NodeIndex* where = nullptr) const;

private:
    std::vector<std::vector<std::uint16_t>> tables_; // by node; adapters' are empty
};

} // namespace adaptib::sim
