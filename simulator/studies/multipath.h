// SPDX-License-Identifier: BSD-3-Clause
// Multipath: shared by the studies of scheduling over the paths of one port.
//
// Purpose: the switch of 144 ports of Vishnu's chapters 3, 7 and 8 under several routings, where a
// port has 2^LMC LIDs and as many paths to it; runs of a pattern over flow_ranks.h under a policy;
// and the runs that every policy is compared with: one path, and an ideal balancer.
// Routings:
//   random_routes   for each switch and port, its LIDs take the spines in a random order: "a
//                   randomized relationship is currently observed among paths between different set
//                   of ports" (Vishnu 8.3.4). The first LID's routes are the same for every LMC.
//   OpenSM's        as stored in simulator/torture/routes, with hosts routed in a random order or
//                   leaf by leaf. The tables differ with the LMC.
// The ideal balancer has links between switches that are never a bottleneck.
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulator/network/routes.h"
#include "simulator/network/topology.h"
#include "simulator/studies/flow_ranks.h"
#include "simulator/studies/patterns.h"
#include "simulator/studies/study.h"

namespace adaptib::study {

struct Routing {
    // OpenSM's engine minhop with the hosts in a random order and leaf by leaf; its dfsssp and
    // ftree, leaf by leaf.
    enum class Kind { random, opensm_random, opensm_compact, opensm_dfsssp, opensm_ftree, regular };
    Kind kind = Kind::random;
    std::uint64_t seed = 1; // of random routes
    std::string name() const;
};

// Four random routings, from the study's seed on, and OpenSM's of a random order.
std::vector<Routing> routings_with_hot_spots(const Study& study);
// Routings for which one path is as good as many, if ranks are placed in order.
std::vector<Routing> routings_without(const Study& study);

struct Tree {
    sim::Topology topology;
    sim::Routes routes;
};

// Shortest paths on a tree of two levels. For each leaf and port, LIDs take the spines in a random
// order.
sim::Routes random_routes(const sim::Topology& topology, std::uint64_t seed);
// A tree with at least `paths` LIDs per port; OpenSM's ftree has one.
Tree switch144(const Study& study, const Routing& routing, std::uint32_t paths);

struct PathPolicy {
    std::string name; // in tables
    std::string striping = "none";
    std::uint32_t paths = 1;
    std::uint32_t bss_paths = 0;
    std::uint32_t bss_batch = 0;
    bool ideal = false;
    std::uint32_t lids = 1; // of a port, at least; LIDs beyond `paths` are routed, but not used
};

inline const PathPolicy kOnePath{"one path"};
inline const PathPolicy kIdeal{"ideal", "none", 1, 0, 0, true};

std::unique_ptr<FlowRanks> flow_ranks(const Study& study, const Routing& routing,
                                      const PathPolicy& policy, std::vector<std::uint32_t> hosts);

struct Outcome {
    double seconds = 0;   // time of the pattern
    double bandwidth = 0; // bytes/s of a rank, mean of the steps
    double stripes = 0;   // stripes per message
};

// Runs the pattern `learning` times, then `measured` times; returns the mean of the latter.
Outcome run(const Study& study, FlowRanks& ranks, const Pattern& pattern, int learning,
            int measured);

// Results of policies relative to one path, over all routings: median, lowest and highest.
struct Comparison {
    std::map<std::string, Spread> time;      // of one path's time
    std::map<std::string, Spread> bandwidth; // mean of the steps, of one path's bandwidth
    std::map<std::string, Spread> gained;    // share of the ideal balancer's gain
};

// Runs the pattern under one path, the ideal balancer and `policies` for each routing, and adds a
// panel. `hosts`: the hosts of the ranks, for the n-th routing.
Comparison compare(Study& study, const std::string& what, const Pattern& pattern,
                   const std::function<std::vector<std::uint32_t>(std::size_t)>& hosts,
                   const std::vector<Routing>& routings, const std::vector<PathPolicy>& policies,
                   int learning, int measured);

// `count` of the hosts 0..143: in order, or drawn at random.
std::vector<std::uint32_t> in_order(std::uint32_t count);
std::vector<std::uint32_t> at_random(std::uint32_t count, std::uint64_t seed);

} // namespace adaptib::study
