// SPDX-License-Identifier: BSD-3-Clause
// Cost of several paths where one path is as good: no paper's figure.
//
// On regular routes, and on OpenSM's own order of hosts (leaf by leaf), the flows of a displaced
// ring and of an alltoall between hosts in order share no link with one path to a port (LMC 0). The
// study repeats both with 8 and 16 paths under each policy, over flows (flow_ranks.h), machine
// model infinihost-iii, 256 KiB. It measures from the first message on, since a policy that tries
// in vain pays then.
// Bounds (--check): auto takes as long as one path, within 0.3 %, on every routing.
#include <algorithm>
#include <string>

#include "simulator/studies/multipath.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

} // namespace

int main(int argc, char** argv) {
    Study study("contention_free", "Several paths where one is as good",
                "machine model infinihost-iii, messages of 256 KiB, flows");
    study.parse(argc, argv);
    std::vector<PathPolicy> policies{{"auto, 8 paths", "auto", 8},
                                     {"adaptive, 8 paths", "adaptive", 8}};
    if (!study.quick()) {
        policies = {{"even, 4 paths", "even", 4},         {"adaptive, 4 paths", "adaptive", 4},
                    {"adaptive, 8 paths", "adaptive", 8}, {"bss (12, 3)", "bss", 12, 12, 3},
                    {"auto, 4 paths", "auto", 4},         {"auto, 8 paths", "auto", 8},
                    {"auto, 16 paths", "auto", 16}};
    }
    double worst = 0;
    const std::vector<Routing> routings = routings_without(study);
    for (const char* name : {"displaced_ring", "alltoall"}) {
        const std::uint32_t ranks = study.quick() ? 16 : 48;
        if (study.quick() && name == std::string("displaced_ring")) {
            continue;
        }
        const std::string what = std::string(name) + ", " + std::to_string(ranks) + " ranks";
        const Comparison all = compare(
            study, what, make_pattern(name, ranks, 256 * kKiB, 1),
            [&](std::size_t) { return in_order(ranks); }, routings, policies, 0, 4);
        for (const PathPolicy& policy : policies) {
            const Spread& time = all.time.at(policy.name);
            const bool automatic = policy.striping == "auto";
            study.row(what + ": " + policy.name + ", worst routing", "of one path's time",
                      {time.high, time.low, time.high}, {},
                      automatic ? std::optional<Bound>(around(1, 0.003)) : std::nullopt);
            worst = automatic ? std::max(worst, time.high) : worst;
        }
        study.row(what + ": ideal balancer", "of one path's time", all.time.at("ideal"));
    }
    return study.finish("where one path is as good, auto takes " + number_text(worst) +
                        " of its time");
}
