// SPDX-License-Identifier: BSD-3-Clause
// A striping policy of one's own (examples/policy.cc) beside those that adaptib has.
//
// Measured: what two hosts with two rails, alike or of 4:1, send: one message at a time, and many
// in one direction and in both; and alltoall of eight hosts. MB are 10^6 bytes, of all ranks.
// Here: complete cores, machine model `infinihost-iii`; each policy learns from the same traffic
// first. The own policy has the name `own`; it is known to this program alone.
// Bounds (--check): `auto`, the default, reaches 0.99 to 1.00 of the best policy's rate with each
// of the workloads. The own policy's rate is that of `none`, which uses one rail, times what the
// rails can add to messages that are sent whole: 1.00 where they wait for each other, and in
// alltoall, where each rank sends one at a time; 2.00 (1.98 with 64 KiB) for many at a time over
// rails that are alike, 1.23 over rails of 4:1, all within 1 %.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "schedule/scheduler.h"
#include "simulator/studies/patterns.h"
#include "simulator/studies/replay.h"
#include "simulator/studies/simulated_ranks.h"
#include "simulator/studies/study.h"

namespace adaptib {
std::unique_ptr<Policy> make_own_policy(const SchedulerOptions& options); // examples/policy.cc
} // namespace adaptib

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr const char* kOwn = "own";
constexpr std::uint32_t kLearning = 12; // runs of a pattern before the one that counts

struct Workload {
    const char* name;
    std::uint32_t hosts;
    std::uint32_t slower; // rate of the first rail by that of the second
    Pattern pattern;
    double own; // the own policy's rate, of that of `none`
};

std::vector<Workload> workloads() {
    return {{"alike, 256 KiB there and back", 2, 1, ping_pong(256 * kKiB, 10), 1.0},
            {"alike, 64 KiB one way", 2, 1, stream(64 * kKiB, 32, 2, false), 1.98},
            {"alike, 1 MiB one way", 2, 1, stream(kMiB, 16, 1, false), 2.0},
            {"alike, 1 MiB both ways", 2, 1, stream(kMiB, 16, 1, true), 2.0},
            {"alike, alltoall of 8, 256 KiB", 8, 1, alltoall_pairwise(8, 256 * kKiB), 1.0},
            {"4:1, 256 KiB there and back", 2, 4, ping_pong(256 * kKiB, 10), 1.0},
            {"4:1, 1 MiB one way", 2, 4, stream(kMiB, 16, 1, false), 1.23},
            {"4:1, 1 MiB both ways", 2, 4, stream(kMiB, 16, 1, true), 1.23}};
}

std::unique_ptr<SimulatedRanks> ranks_of(const Study& study, const Workload& workload,
                                         std::string policy) {
    sim::RanksOptions options;
    options.ranks = workload.hosts;
    options.keeps_registrations = true;
    options.seed = options.world.seed = study.seed();
    options.world.machine = *sim::machine("infinihost-iii");
    options.world.topology =
        sim::crossbar(workload.hosts, {.adapters = 2}, sim::links_of(options.world.machine));
    sim::Topology& topology = options.world.topology;
    for (const sim::Host& host : topology.hosts) {
        sim::Link& slow = topology.links[topology.ports[host.ports[1]].link];
        slow.rate.value /= workload.slower;
        topology.links[slow.reverse].rate.value = slow.rate.value;
    }
    options.parameters.striping_policy = policy.data();
    return routed_ranks(study, std::move(options));
}

// MB/s of all ranks.
double rate(const Study& study, const Workload& workload, const std::string& policy) {
    const auto ranks = ranks_of(study, workload, policy);
    Timing timing;
    std::string text;
    for (std::uint32_t run = 0; run <= kLearning; ++run) {
        if (!replay(workload.pattern, *ranks, timing, text)) {
            study.fail(policy + ", " + workload.name + ": " + text + "\n" + ranks->complaints());
        }
    }
    return 1e3 * static_cast<double>(workload.pattern.bytes()) /
           static_cast<double>(timing.total.count());
}

} // namespace

int main(int argc, char** argv) {
    Study study("own_policy", "A striping policy of one's own beside adaptib's", "infinihost-iii");
    study.parse(argc, argv);
    add_striping_policy(kOwn, make_own_policy);
    std::vector<std::string_view> policies = striping_policies();
    double least = 1e9;
    for (const Workload& workload : workloads()) {
        Panel panel;
        panel.title = workload.name;
        panel.unit = "MB/s";
        panel.labels = {""};
        std::map<std::string, double> rates;
        double best = 0;
        for (const std::string_view policy : policies) {
            const std::string name(policy);
            rates[name] = rate(study, workload, name);
            best = std::max(best, rates[name]);
            panel[name].points.emplace_back(0, rates[name]);
        }
        study.panel(panel);
        for (const auto& [name, value] : rates) {
            study.row(std::string(workload.name) + ", " + name, "MB/s", value);
        }
        study.row("  auto, of the best", "", rates["auto"] / best, {}, Bound{0.99, 1});
        study.row("  own, of none", "", rates[kOwn] / rates["none"], {},
                  around(workload.own, 0.01));
        least = std::min(least, rates[kOwn] / best);
    }
    return study.finish("own_policy: at least " + number_text(least) +
                        " of the best policy's rate with each workload");
}
