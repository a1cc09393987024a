// SPDX-License-Identifier: BSD-3-Clause
// Several paths over the routes of OpenSM's engines: no paper's figure.
//
// A switch of 144 ports as OpenSM routes it (simulator/torture/routes): by minhop, dfsssp, and
// ftree, whose tables are made for shift patterns such as these. ftree gives a port one LID, so
// there is one path; several paths need another engine, minhop or dfsssp. Displaced ring of 48
// ranks (the alltoall of 48 ranks has the same steps) and alltoall of 64 in pairs, on hosts in
// order, for which routes can be free of contention, and on hosts drawn at random, for which they
// are not: one path, the policies, and the ideal balancer, whose links between the switches are
// never a bottleneck. The production scheduler over flows (flow_ranks.h), machine model
// infinihost-iii, 256 KiB to each rank. A routing of eight LIDs per port differs from that of one
// LID, for the first of them, too. So "one path" is given for both; the gain of several paths is
// relative to that of eight. Bounds (--check), for auto over 8 paths, of one path's time over the
// same tables:
//   0.99 to 1.01, from the first message on, where the ideal balancer saves less than 1 %
//   otherwise, after 12 rounds of learning, of the time that the ideal balancer saves what the list
//   of the runs says, within 3 %
// And for the ring with ftree and hosts in order the ideal balancer saves less than 1 %; otherwise
// the tables are wrong.
#include <algorithm>
#include <string>

#include "simulator/studies/multipath.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr Bytes kBytes = 256 * kKiB;
const PathPolicy kOneOfEight{"one path of eight", "none", 1, 0, 0, false, 8};
const PathPolicy kAuto{"auto, 8 paths", "auto", 8};

struct Run {
    const char* pattern;
    std::uint32_t ranks;
    bool at_random;
    // The part that auto takes of what the ideal balancer saves; 0: it saves nothing.
    double minhop;
    double dfsssp;
};

} // namespace

int main(int argc, char** argv) {
    Study study("subnet_routing", "Several paths over the routes of OpenSM's engines",
                "machine model infinihost-iii, messages of 256 KiB, flows");
    study.parse(argc, argv);
    std::vector<PathPolicy> policies{kAuto};
    std::vector<Run> runs{{"displaced_ring", 24, false, 0, 0.98},
                          {"displaced_ring", 24, true, 0.86, 0.933}};
    if (!study.quick()) {
        policies = {{"even, 4 paths", "even", 4},
                    {"adaptive, 4 paths", "adaptive", 4},
                    {"bss (12, 3)", "bss", 12, 12, 3},
                    kAuto};
        runs = {{"displaced_ring", 48, false, 0, 0.984},
                {"displaced_ring", 48, true, 0.85, 0.97},
                {"alltoall", 64, false, 0.828, 0.979},
                {"alltoall", 64, true, 0.952, 0.985}};
    }
    double most = 0;  // of one path's time, without hot spots
    double least = 1; // of what the ideal balancer saves, with hot spots
    for (const Run& each : runs) {
        const Pattern pattern = make_pattern(each.pattern, each.ranks, kBytes, 1);
        const std::vector<std::uint32_t> hosts =
            each.at_random ? at_random(each.ranks, study.seed()) : in_order(each.ranks);
        Panel panel;
        panel.title = std::string(each.pattern) + ", " + std::to_string(each.ranks) +
                      (each.at_random ? " hosts at random" : " hosts in order");
        panel.unit = "ms";
        panel.log = false;
        for (const Routing::Kind kind : {Routing::Kind::opensm_ftree, Routing::Kind::opensm_compact,
                                         Routing::Kind::opensm_dfsssp}) {
            const bool only_one = kind == Routing::Kind::opensm_ftree;
            const std::string engine = only_one                                ? "ftree"
                                       : kind == Routing::Kind::opensm_compact ? "minhop"
                                                                               : "dfsssp";
            const std::string what = panel.title + ", " + engine;
            const auto at = static_cast<double>(panel.labels.size());
            panel.labels.push_back(engine);
            const auto seconds = [&](const PathPolicy& policy, int learning, int measured) {
                const auto all = flow_ranks(study, {kind, 0}, policy, hosts);
                const double time = run(study, *all, pattern, learning, measured).seconds;
                panel[policy.name].points.emplace_back(at, 1e3 * time);
                return time;
            };
            const double one = seconds(kOnePath, 0, 1);
            const double ideal = seconds(kIdeal, 0, 1);
            study.row(what + ": one path", "ms", 1e3 * one);
            study.row("  ideal balancer", "of its time", ideal / one, {},
                      only_one && each.pattern == std::string("displaced_ring") && !each.at_random
                          ? std::optional<Bound>(Bound{0.99, 1})
                          : std::nullopt);
            if (only_one) {
                continue;
            }
            const double base = seconds(kOneOfEight, 0, 1);
            const bool free = base < ideal / 0.99;
            study.row("  one path, eight LIDs a port", "ms", 1e3 * base);
            for (const PathPolicy& policy : policies) {
                const double time = seconds(policy, free ? 0 : 12, free ? 4 : 2);
                const bool automatic = policy.name == kAuto.name;
                const auto bound = [automatic](Bound of_auto) {
                    return automatic ? std::optional<Bound>(of_auto) : std::nullopt;
                };
                if (free) {
                    study.row("    " + policy.name, "of its time", time / base, {},
                              bound(around(1, 0.01)));
                    most = automatic ? std::max(most, time / base) : most;
                } else {
                    const double saved = (base - time) / (base - ideal);
                    study.row("    " + policy.name, "of its time", time / base);
                    const double usual =
                        kind == Routing::Kind::opensm_compact ? each.minhop : each.dfsssp;
                    study.row("      saved", "of the ideal's", saved, {},
                              bound(around(usual, 0.03)));
                    least = automatic ? std::min(least, saved) : least;
                }
            }
        }
        study.panel(panel);
    }
    return study.finish("over OpenSM's routes auto takes " + number_text(most) +
                        " of one path's time at most where there are no hot spots, and " +
                        number_text(least) +
                        " of what an ideal balancer saves at least where there are");
}
