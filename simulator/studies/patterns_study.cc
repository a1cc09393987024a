// SPDX-License-Identifier: BSD-3-Clause
// Replays a communication pattern on a fat tree, and shows the time of each step.
//
//     simulator/studies/run patterns --pattern alltoall --ranks 48 --bytes 1000000 --spines 6
//
// One rank per host, hosts filled leaf by leaf; --placement random draws the hosts, anew in each
// repetition.
// Default: the displaced ring of Vishnu 3 (figures 3.3 to 3.5) on its switch of 144 ports (12
// leaves with 12 hosts, 12 spines): 24 ranks on two leaves. In the paper the links between the
// leaves carry up to four flows in step 12, on routes as OpenSM computed them then; routes as
// computed today give each destination a spine of its own, and no link is shared (Routes::compute).
// "wire" is the time in which the busiest rank's port could carry all that the rank sends or
// receives.
// Bounds (--check): the default, where no link is shared, takes 1.028 times as long as the wire,
// within 0.3 %.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "simulator/studies/patterns.h"
#include "simulator/studies/replay.h"
#include "simulator/studies/simulated_ranks.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr std::size_t kShown = 32; // most steps of which the table shows each

struct Setting {
    std::string pattern = "displaced_ring";
    std::string machine = "connect-ib";
    std::string placement = "order";
    std::string multiplexing = "binding";
    std::string striping = "none";
    std::uint64_t ranks = 24;
    std::uint64_t bytes = 1'000'000;
    std::uint64_t rounds = 100;
    std::uint64_t leaves = 12;
    std::uint64_t spines = 12;
    std::uint64_t hosts = 12; // per leaf
    std::uint64_t lmc = 0;

    bool operator==(const Setting&) const = default;
};

void check(const Study& study, const Setting& setting) {
    const std::uint64_t places = setting.leaves * setting.hosts;
    if (sim::machine(setting.machine) == nullptr) {
        study.fail("no machine model \"" + setting.machine + "\"");
    }
    if (setting.placement != "order" && setting.placement != "random") {
        study.fail("--placement is order or random");
    }
    if (setting.ranks < 2 || setting.ranks > places || places > 16384 || setting.spines == 0 ||
        setting.lmc > 7) {
        study.fail("at least 2 ranks, a host for each, at most 16384 hosts, and LMC 0 to 7");
    }
    const auto ranks = static_cast<std::uint32_t>(setting.ranks);
    if (make_pattern(setting.pattern, ranks, 1, 1).size() == 0) {
        std::string names;
        for (const std::string_view name : pattern_names()) {
            names += " " + std::string(name);
        }
        study.fail("no pattern \"" + setting.pattern + "\"; there are" + names);
    }
}

std::vector<std::uint32_t> placed(const Setting& setting, std::uint64_t seed) {
    std::vector<std::uint32_t> hosts(setting.leaves * setting.hosts);
    std::iota(hosts.begin(), hosts.end(), 0u);
    if (setting.placement == "random") {
        Random random(seed);
        for (std::size_t i = hosts.size(); i > 1; --i) {
            std::swap(hosts[i - 1], hosts[random.below(i)]);
        }
    }
    hosts.resize(setting.ranks);
    return hosts;
}

Timing run(const Study& study, const Setting& setting, const Pattern& pattern, std::uint64_t seed) {
    sim::RanksOptions options;
    options.ranks = setting.ranks;
    options.hosts = placed(setting, seed);
    options.seed = options.world.seed = seed;
    options.world.machine = *sim::machine(setting.machine);
    // Programs reuse their buffers, so registrations come from the cache and cost nothing.
    options.world.machine.processor.registration =
        options.world.machine.processor.registration_page = {};
    options.world.topology = sim::fat_tree(
        static_cast<std::uint32_t>(setting.leaves), static_cast<std::uint32_t>(setting.spines),
        static_cast<std::uint32_t>(setting.hosts), {}, sim::links_of(options.world.machine),
        static_cast<std::uint32_t>(setting.lmc));
    std::string multiplexing = setting.multiplexing;
    std::string striping = setting.striping;
    options.parameters.multiplexing_policy = multiplexing.data();
    options.parameters.striping_policy = striping.data();
    options.parameters.connect_threshold = 0;
    std::string text;
    const auto ranks = routed_ranks(std::move(options), text);
    Timing timing;
    // Connections are made in the first replay.
    if (ranks == nullptr || !replay(pattern, *ranks, timing, text) ||
        !replay(pattern, *ranks, timing, text)) {
        study.fail(text + (ranks != nullptr ? "\n" + ranks->complaints() : ""));
    }
    return timing;
}

// Rate of one port, limited by engines and bus.
BytesPerSecond port_rate(const sim::MachineModel& machine) {
    BytesPerSecond rate = machine.adapter.port_rate;
    if (machine.adapter.engine_rate.value != 0) {
        rate = std::min(rate, {machine.adapter.engine_rate.value * machine.adapter.engines});
    }
    return machine.adapter.bus_rate.value != 0 ? std::min(rate, machine.adapter.bus_rate) : rate;
}

// The least time of the steps [first, last).
Nanoseconds wire_time(const Pattern& pattern, std::size_t first, std::size_t last,
                      const sim::MachineModel& machine) {
    Bytes most = 0;
    Bytes most_both = 0; // over a half-duplex bus
    for (const auto& rank : pattern.ranks) {
        Bytes sent = 0;
        Bytes received = 0;
        for (std::size_t step = first; step < last; ++step) {
            for (const Message& send : rank[step].sends) {
                sent += send.bytes;
            }
            for (const Message& receive : rank[step].receives) {
                received += receive.bytes;
            }
        }
        const Bytes both = machine.adapter.bus_half_duplex ? sent + received : 0;
        most = std::max({most, sent, received});
        most_both = std::max(most_both, both);
    }
    return std::max(time_for(most, port_rate(machine)),
                    time_for(most_both, machine.adapter.bus_rate));
}

double microseconds(Nanoseconds time) { return 1e-3 * static_cast<double>(time.count()); }

} // namespace

int main(int argc, char** argv) {
    Study study("patterns", "A communication pattern on a fat tree", "");
    Setting setting;
    study.option("--pattern", setting.pattern, "displaced_ring, alltoall, allgather ...");
    study.option("--machine", setting.machine, "machine model");
    study.option("--placement", setting.placement, "of the ranks: order, or random");
    study.option("--multiplexing", setting.multiplexing, "the core's multiplexing_policy");
    study.option("--striping", setting.striping, "the core's striping_policy");
    study.option("--ranks", setting.ranks, "one on a host");
    study.option("--bytes", setting.bytes, "of a message");
    study.option("--rounds", setting.rounds, "of onetoall, alltoone and repeat");
    study.option("--leaves", setting.leaves, "leaf switches");
    study.option("--spines", setting.spines, "spine switches");
    study.option("--hosts", setting.hosts, "hosts of a leaf");
    study.option("--lmc", setting.lmc, "2^LMC LIDs, and paths, of a port");
    study.parse(argc, argv);
    check(study, setting);
    study.set_machine("machine model " + setting.machine + ", " + std::to_string(setting.ranks) +
                      " ranks, messages of " + std::to_string(setting.bytes) + " bytes");

    const sim::MachineModel& machine = *sim::machine(setting.machine);
    const Pattern pattern = make_pattern(setting.pattern, static_cast<std::uint32_t>(setting.ranks),
                                         setting.bytes, static_cast<std::uint32_t>(setting.rounds));
    Timing first;
    const int times = setting.placement == "random" ? (study.quick() ? 3 : 9) : 1;
    const Spread total = study.repeat(times, [&](std::uint64_t seed) {
        Timing timing = run(study, setting, pattern, seed);
        if (seed == study.seed()) {
            first = timing;
        }
        return microseconds(timing.total);
    });
    const double wire = microseconds(wire_time(pattern, 0, pattern.steps(), machine));
    study.row(setting.pattern + ", " + std::to_string(pattern.steps()) + " steps", "us", total);
    study.row("  wire", "us", wire);
    study.row("  ratio to the wire", "", total.median / std::max(wire, 1e-3), {},
              setting == Setting{} ? std::optional(around(1.028, 0.003)) : std::nullopt);
    study.row("  bandwidth of a rank, mean", "MB/s",
              static_cast<double>(pattern.bytes()) / total.median /
                  static_cast<double>(pattern.size()));
    Panel panel;
    panel.title = "Steps of " + setting.pattern;
    panel.unit = "us, mean of the ranks";
    panel.bytes = panel.log = false;
    for (std::size_t step = 0; step < pattern.steps(); ++step) {
        const double mean = microseconds(first.mean_step[step]);
        const double least = microseconds(wire_time(pattern, step, step + 1, machine));
        const auto number = static_cast<double>(step + 1);
        panel["step"].points.emplace_back(number, mean);
        panel["wire"].points.emplace_back(number, least);
        if (pattern.steps() <= kShown) {
            study.row("step " + std::to_string(step + 1), "us", mean);
        }
    }
    study.panel(panel);
    return study.finish(setting.pattern + " of " + std::to_string(setting.ranks) +
                        " ranks: " + number_text(total.median) + " us, " +
                        number_text(total.median / std::max(wire, 1e-3)) + " times the wire");
}
