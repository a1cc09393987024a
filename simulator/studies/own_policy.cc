// SPDX-License-Identifier: BSD-3-Clause
// A striping policy of one's own, beside some of adaptib's, on a network that is not there. The
// beginning for those who have an idea; docs/simulator.md shows it.
//
//     adaptib_study_own_policy      prints the time of a 16-rank all-to-all with each policy
#include <algorithm>
#include <cstdio>

#include "schedule/policies.h"
#include "simulator/studies/flow_ranks.h"
#include "simulator/studies/patterns.h"

using namespace adaptib;

// The policy: the two paths that have least to carry take a half each.
class TwoIdlest final : public Policy {
public:
    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        std::vector<SubchannelStats> paths(up.begin(), up.end());
        const auto way = static_cast<std::size_t>(transfer.direction);
        std::stable_sort(paths.begin(), paths.end(), [way](const auto& a, const auto& b) {
            return a.outstanding[way] < b.outstanding[way];
        });
        const Bytes half = transfer.length / 2;
        append_stripes(paths[0], 0, half, out);
        append_stripes(paths[1], half, transfer.length - half, out);
    }
};

static std::unique_ptr<Scheduler> make_own(const SchedulerOptions& options) {
    return std::make_unique<Scheduler>(
        options, nullptr,
        std::array<std::unique_ptr<Policy>, 3>{std::make_unique<TwoIdlest>(),
                                               std::make_unique<TwoIdlest>(),
                                               std::make_unique<TwoIdlest>()});
}
// The end of the policy.

// Returns the stripes of each transfer, or 0 if the simulation does not end.
static double simulate(const char* name, const study::FlowOptions& options) {
    study::FlowRanks ranks(options);
    study::Timing timing;
    std::string error;
    const study::Pattern pattern = study::make_pattern("alltoall", 16, 256 * kKiB, 1);
    if (!study::replay(pattern, ranks, timing, error)) {
        std::fprintf(stderr, "own_policy: %s\n", error.c_str());
        return 0;
    }
    const double stripes =
        static_cast<double>(ranks.stripes()) / static_cast<double>(ranks.transfers());
    std::printf("%-12s %8.3f ms, %.1f stripes a transfer\n", name,
                1e-6 * static_cast<double>(timing.total.count()), stripes);
    return stripes;
}

int main() {
    study::FlowOptions options;
    std::string error;
    options.ranks = 16;
    options.paths = 4;
    options.machine = *sim::machine("connect-ib");
    options.topology = sim::fat_tree(4, 4, 4, {}, sim::links_of(options.machine), 2);
    if (!sim::Routes::compute(options.topology, options.routes, error)) {
        std::fprintf(stderr, "own_policy: %s\n", error.c_str());
        return 1;
    }
    for (const char* name : {"none", "even", "adaptive"}) {
        options.scheduler.striping = name;
        if (simulate(name, options) == 0) {
            return 1;
        }
    }
    options.make = make_own;
    return simulate("own", options) == 2 ? 0 : 1;
}
