// SPDX-License-Identifier: BSD-3-Clause
// Advisor: which striping policy, how many paths and which placement make a job's long messages
// fastest, as simulation tells.
//
// Purpose: simulates the job's traffic with adaptib's schedulers over the network's own routes,
// once for each policy that can be chosen (choices_for()), and compares them with the defaults. The
// matrix does not tell the order of messages, so the advice is the choice that loses least to the
// best one in any of several orders (traffic_pattern.h).
// Errors: an exception-free false with a text.
// Ownership: the advisor owns copies of what it is given.
// Threads: one.
// Source: Vishnu, chapters 7 and 8 (policies over several paths).
// May touch: base/, schedule/, simulator/network, simulator/studies/flow_ranks.h,
//   simulator/advise/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/advise/traffic_matrix.h"
#include "simulator/advise/traffic_pattern.h"
#include "simulator/network/machine.h"
#include "simulator/network/routes.h"
#include "simulator/network/topology.h"
#include "simulator/studies/patterns.h"

namespace adaptib::advise {

// Values of the parameters striping_policy, paths_per_port, bss_paths and bss_batch.
struct Choice {
    std::string striping;
    std::uint32_t paths = 1;
    std::uint32_t bss_batch = 0;
    bool ideal = false; // links between switches are never a bottleneck: no choice, but a bound

    std::string text() const;      // "adaptive, 4 paths"
    std::string arguments() const; // for mpirun
    bool operator==(const Choice&) const = default;
};

struct JobNetwork {
    sim::MachineModel machine;
    sim::Topology topology;
    sim::Routes routes;
    std::vector<std::uint32_t> hosts; // of each rank
};

// The choices over 2^LMC paths a port, from the simplest on; the last is the default. Over one port
// the first is one path. Over several, no choice uses one of them alone: the ranks of a host are
// spread over its ports then, which is not simulated.
std::vector<Choice> choices_for(const sim::Topology& topology, std::uint32_t ports);

// Simulates the pattern, after as many rounds as the policy needs to learn. Returns false with
// `error` if it does not end.
bool time_of(const JobNetwork& network, const study::Pattern& pattern, const Choice& choice,
             double& seconds, std::string& error);

struct Timed {
    Choice choice;
    std::vector<double> seconds; // of each order
    // By how much the choice is slower than the best one in the order where it loses most.
    double regret = 0;
};

struct Advice {
    std::vector<std::string> orders;
    std::vector<Timed> choices; // as choices_for()
    std::size_t best = 0;       // among these
    Timed ideal;
    double share = 1;                    // of the bytes between hosts that were simulated
    std::vector<std::uint32_t> hosts;    // of each rank: another placement; empty: none is better
    std::vector<double> placed;          // times of the best choice with it
    std::vector<std::string> host_names; // of `hosts`

    const Timed& chosen() const { return choices[best]; }
    const Timed& usual() const { return choices.back(); } // the defaults
    // Returns the time, relative to the defaults', mean of the orders.
    double relative(const std::vector<double>& seconds) const;
};

class Advisor {
public:
    Advisor(JobNetwork network, TrafficMatrix traffic)
        : network_(std::move(network)), traffic_(std::move(traffic)) {}

    bool advise(Advice& out, std::string& error) const;

private:
    bool time_all(const JobNetwork& network, const OrderedTraffic& ordered, Timed& timed,
                  std::string& error) const;
    bool try_placement(Advice& advice, std::string& error) const;

    JobNetwork network_;
    TrafficMatrix traffic_;
};

// Returns the conditions under which the figures hold, a sentence each.
std::vector<std::string> assumptions(const Advice& advice, const sim::MachineModel& machine);

} // namespace adaptib::advise
