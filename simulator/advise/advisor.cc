// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/advise/advisor.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/wire.h"
#include "simulator/advise/placement.h"
#include "simulator/studies/flow_ranks.h"
#include "simulator/studies/replay.h"

namespace adaptib::advise {

namespace {

constexpr std::uint32_t kUsualPaths = 8; // that paths_per_port = 0 uses at most
constexpr std::uint32_t kBatch = 3;      // of bss: Vishnu, 8.3
constexpr int kLearning = 12;            // rounds
// Rounds that are measured: as many as make this many steps and messages, within bounds. Some
// policies try another path now and then, which costs one message and counts in proportion.
constexpr std::size_t kMeasuredSteps = 128;
constexpr std::uint64_t kMeasuredMessages = 4000;
constexpr std::uint64_t kFewestMeasured = 2;
constexpr std::uint64_t kMostMeasured = 64;
constexpr double kNoDifference = 0.01; // a simpler choice that loses no more is preferred
constexpr double kWorthMoving = 0.03;  // gain of a placement that is advised

bool learns(const Choice& choice) { return choice.striping != "none" && choice.striping != "even"; }

int measured_rounds(const study::Pattern& pattern) {
    const std::uint64_t rounds = std::min<std::uint64_t>(kMeasuredSteps / pattern.steps(),
                                                         kMeasuredMessages / pattern.messages());
    return static_cast<int>(std::clamp(rounds, kFewestMeasured, kMostMeasured));
}

void make_ideal(sim::Topology& topology) {
    const auto within = sim::Node::Kind::within_switch;
    const auto hosts = static_cast<std::uint64_t>(topology.hosts.size());
    for (sim::Link& link : topology.links) {
        if (topology.nodes[link.from].kind == within && topology.nodes[link.to].kind == within) {
            link.rate.value *= hosts;
        }
    }
}

std::unique_ptr<study::FlowRanks> make_ranks(const JobNetwork& network, const Choice& choice) {
    study::FlowOptions options;
    options.ranks = network.hosts.size();
    options.hosts = network.hosts;
    options.machine = network.machine;
    options.topology = network.topology;
    options.routes = network.routes;
    if (choice.ideal) {
        make_ideal(options.topology);
    }
    options.paths = std::min(choice.paths, 1u << options.topology.lmc);
    options.scheduler.striping = choice.striping;
    options.scheduler.striping_threshold = 16 * kKiB;
    options.scheduler.bss_batch = choice.bss_batch;
    return std::make_unique<study::FlowRanks>(std::move(options));
}

// Sets each choice's regret.
void compare(std::vector<Timed>& choices) {
    for (Timed& each : choices) {
        for (std::size_t order = 0; order < each.seconds.size(); ++order) {
            const double best = std::min_element(choices.begin(), choices.end(),
                                                 [order](const auto& a, const auto& b) {
                                                     return a.seconds[order] < b.seconds[order];
                                                 })
                                    ->seconds[order];
            each.regret = std::max(each.regret, each.seconds[order] / best - 1);
        }
    }
}

// The simplest choice that loses little more than the best one; the defaults, if they do.
std::size_t best_of(const std::vector<Timed>& choices) {
    double least = choices.front().regret;
    for (const Timed& each : choices) {
        least = std::min(least, each.regret);
    }
    if (choices.back().regret <= least + kNoDifference) {
        return choices.size() - 1;
    }
    const auto found = std::find_if(choices.begin(), choices.end(), [least](const Timed& each) {
        return each.regret <= least + kNoDifference;
    });
    return static_cast<std::size_t>(found - choices.begin());
}

std::string percent(double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
    return text;
}

} // namespace

std::string Choice::text() const {
    return (striping == "none" ? "no striping" : striping) + ", " + std::to_string(paths) +
           (paths == 1 ? " path" : " paths");
}

std::string Choice::arguments() const {
    std::string text = "--mca opal_common_adaptib_striping_policy " + striping +
                       " --mca opal_common_adaptib_paths_per_port " + std::to_string(paths);
    return bss_batch == 0
               ? text
               : text + " --mca opal_common_adaptib_bss_batch " + std::to_string(bss_batch);
}

std::vector<Choice> choices_for(const sim::Topology& topology, std::uint32_t ports) {
    const std::uint32_t lids = 1u << topology.lmc;
    const std::uint32_t most = std::min(lids, std::max(1u, kMaxSubchannels / std::max(1u, ports)));
    std::vector<Choice> choices;
    if (ports == 1) {
        choices.push_back({"none", 1});
    }
    for (std::uint32_t paths = ports > 1 ? 1 : 2; paths <= most; paths *= 2) {
        choices.push_back({"even", paths});
        choices.push_back({"adaptive", paths});
        if (paths * ports > kBatch) {
            choices.push_back({"bss", paths, kBatch});
        }
        if (paths != std::min(most, kUsualPaths)) {
            choices.push_back({"auto", paths});
        }
    }
    choices.push_back({"auto", std::min(most, kUsualPaths)});
    return choices;
}

bool time_of(const JobNetwork& network, const study::Pattern& pattern, const Choice& choice,
             double& seconds, std::string& error) {
    const auto ranks = make_ranks(network, choice);
    const int learning = learns(choice) ? kLearning : 1;
    const int measured = learns(choice) ? measured_rounds(pattern) : 1;
    double sum = 0;
    for (int round = 0; round < learning + measured; ++round) {
        study::Timing timing;
        if (!study::replay(pattern, *ranks, timing, error)) {
            return false;
        }
        if (round >= learning) {
            sum += 1e-9 * static_cast<double>(timing.total.count());
        }
    }
    seconds = sum / measured;
    return true;
}

double Advice::relative(const std::vector<double>& seconds) const {
    double sum = 0;
    for (std::size_t order = 0; order < seconds.size(); ++order) {
        sum += seconds[order] / usual().seconds[order];
    }
    return sum / static_cast<double>(seconds.size());
}

bool Advisor::time_all(const JobNetwork& network, const OrderedTraffic& ordered, Timed& timed,
                       std::string& error) const {
    timed.seconds.clear();
    for (const study::Pattern& pattern : ordered.orders) {
        double seconds = 0;
        if (!time_of(network, pattern, timed.choice, seconds, error)) {
            return false;
        }
        timed.seconds.push_back(seconds);
    }
    return true;
}

bool Advisor::try_placement(Advice& advice, std::string& error) const {
    JobNetwork moved = network_;
    moved.hosts = gather_partners(traffic_, network_.topology, network_.hosts);
    const OrderedTraffic ordered = order_traffic(traffic_, moved.hosts);
    Timed timed{advice.chosen().choice, {}, 0};
    if (moved.hosts == network_.hosts || !time_all(moved, ordered, timed, error)) {
        return moved.hosts == network_.hosts;
    }
    // Without traffic between hosts there is nothing left to time.
    timed.seconds.resize(advice.orders.size());
    if (advice.relative(timed.seconds) <
        (1 - kWorthMoving) * advice.relative(advice.chosen().seconds)) {
        advice.hosts = moved.hosts;
        advice.placed = timed.seconds;
        for (const std::uint32_t host : moved.hosts) {
            advice.host_names.push_back(network_.topology.hosts[host].name);
        }
    }
    return true;
}

bool Advisor::advise(Advice& out, std::string& error) const {
    const OrderedTraffic ordered = order_traffic(traffic_, network_.hosts);
    if (ordered.orders.empty()) {
        error = "all traffic is within hosts, so no policy matters";
        return false;
    }
    Advice advice;
    advice.share = ordered.share;
    for (const study::Pattern& pattern : ordered.orders) {
        advice.orders.push_back(pattern.name);
    }
    const auto ports =
        static_cast<std::uint32_t>(network_.topology.hosts[network_.hosts.front()].ports.size());
    for (const Choice& choice : choices_for(network_.topology, ports)) {
        advice.choices.push_back({choice, {}, 0});
        if (!time_all(network_, ordered, advice.choices.back(), error)) {
            return false;
        }
    }
    compare(advice.choices);
    advice.best = best_of(advice.choices);
    advice.ideal.choice = {ports == 1 ? "none" : "even", 1, 0, true};
    if (!time_all(network_, ordered, advice.ideal, error) || !try_placement(advice, error)) {
        return false;
    }
    out = std::move(advice);
    return true;
}

std::vector<std::string> assumptions(const Advice& advice, const sim::MachineModel& machine) {
    std::vector<std::string> all{
        "Adapters and processors cost what the machine model \"" + std::string(machine.name) +
            "\" says; cables have the rates that the topology names.",
        "The order of the messages is not known; each policy was simulated in " +
            std::to_string(advice.orders.size()) +
            " orders, and the advice is the one that loses least in any of them.",
        "All ranks start together, and do nothing but send these messages; messages up to the "
        "eager limit, and those within a host, are left out.",
        "No other job uses the network.",
        "Messages above 1 MiB are simulated as several of 1 MiB, at most 8 of a pair in a round.",
    };
    if (advice.share < 0.9995) {
        all.push_back("Only the heaviest pairs were simulated: " + percent(advice.share) +
                      " of the bytes between hosts.");
    }
    return all;
}

} // namespace adaptib::advise
