// SPDX-License-Identifier: BSD-3-Clause
// Two rails, one four times as fast as the other, over one and over eight paths each: no paper's
// figure.
//
// Two hosts with two ports each, on networks of their own; messages of 16 KiB to 4 MiB one after
// another, and streams of 64 messages of 1 MiB. "Told": both ends know the rates. "Not told": the
// slow link is the sender's, whose rate FlowRanks does not know, so that the ports seem alike and
// only times differ. The production scheduler over flows (flow_ranks.h), machine model
// infinihost-iii, links slower than the adapters.
// "Small messages", from 8 B to 96 KiB and so below and above eager_limit and striping_threshold:
// complete cores, all parameters at their defaults, rails of 1:1, 2:1, 4:1 and 10:1, of which the
// first is the slow one; half a ping-pong, and the time of a stream of 64 messages, over both
// against the fast one alone.
// "Two processes a host" measures the second processes in the same way: the slow rail has their
// control lane, since nothing tells that it is slow. Measured before and after all have sent 1 MiB
// there and back 40 times; and after short messages alone, 1 KiB there and back for more than 1 s,
// which makes the core measure their ports (connect/path_measurement.h).
// Bounds (--check), of the sum of both rails:
//   auto, the default: streams 0.99 to 1.00, told or not, over 2 and over 16 paths
//   even: streams 0.40 within 1 %, which is why it is not the default
// And of the time over the fast rail alone, at the size that gains least:
//   auto, told, from 16 KiB on: 0.856 within 1 %
//   small messages, at every ratio, alone and in a stream: 0.995 to 1.015
//   of two processes a host, not told: the same after large messages, or after short ones alone for
//   long enough; before anything was sent 3.24 alone and 3.98 in a stream, within 5 %
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "simulator/studies/flow_ranks.h"
#include "simulator/studies/patterns.h"
#include "simulator/studies/simulated_ranks.h"
#include "simulator/studies/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr std::uint64_t kFast = 600'000'000; // bytes/s; the adapter carries more
constexpr std::uint64_t kSlow = kFast / 4;
constexpr Bound kAsFast{0.995, 1.015}; // of the time over the fast rail alone
constexpr double kSum = 1e-6 * static_cast<double>(kFast + kSlow);

struct Setting {
    const char* striping;
    std::uint32_t paths; // of each rail
    bool told;
    bool fast_alone = false;
};

std::unique_ptr<FlowRanks> ranks_of(const Study& study, const Setting& setting) {
    FlowOptions options;
    options.machine = *sim::machine("infinihost-iii");
    options.topology = sim::crossbar(2, {.adapters = setting.fast_alone ? 1u : 2u},
                                     sim::links_of(options.machine), 3);
    for (std::uint32_t host = 0; host < 2; ++host) {
        const auto& ports = options.topology.hosts[host].ports;
        for (std::size_t i = 0; i < ports.size(); ++i) {
            sim::Link& link = options.topology.links[options.topology.ports[ports[i]].link];
            const bool slow = i == 1 && (setting.told || host == 0);
            link.rate.value = slow ? kSlow : kFast;
            options.topology.links[link.reverse].rate.value = link.rate.value;
        }
    }
    std::string text;
    if (!sim::Routes::compute(options.topology, options.routes, text)) {
        study.fail(text);
    }
    options.paths = setting.paths;
    options.scheduler.striping = setting.striping;
    options.scheduler.striping_threshold = 16 * kKiB;
    options.op_kind = OpKind::blocking;
    return std::make_unique<FlowRanks>(std::move(options));
}

// Runs the pattern often enough for policies to learn, then once more; returns the seconds of the
// last run.
double seconds(const Study& study, FlowRanks& ranks, const Pattern& pattern, int learning) {
    Timing timing;
    std::string text;
    for (int i = 0; i <= learning; ++i) {
        if (!replay(pattern, ranks, timing, text)) {
            study.fail(text);
        }
    }
    return 1e-9 * static_cast<double>(timing.total.count());
}

// MB/s.
double stream_rate(const Study& study, const Setting& setting) {
    const auto ranks = ranks_of(study, setting);
    const Pattern pattern = stream(kMiB, 64, 2, false);
    return 1e-6 * static_cast<double>(pattern.bytes()) / seconds(study, *ranks, pattern, 6);
}

using Curve = std::map<Bytes, double>;

Curve latencies(const Study& study, const Setting& setting) {
    const auto ranks = ranks_of(study, setting);
    Curve curve;
    for (Bytes bytes = 16 * kKiB; bytes <= 4 * kMiB; bytes *= 2) {
        curve[bytes] = 1e6 * seconds(study, *ranks, ping_pong(bytes, 10), 3) / 20;
    }
    return curve;
}

// Sets the rate of all links of one port of every host.
void set_rate(sim::Topology& topology, std::size_t port, std::uint64_t rate) {
    for (const sim::Host& host : topology.hosts) {
        sim::Link& link = topology.links[topology.ports[host.ports[port]].link];
        link.rate.value = topology.links[link.reverse].rate.value = rate;
    }
}

struct Small {
    Curve alone;  // us, one way
    Curve stream; // us, a message
};

// The same pattern between `processes` processes of the first host and their partners on the
// second; processes before `first` do nothing.
Pattern of_processes(const Pattern& pattern, std::uint32_t processes, std::uint32_t first) {
    Pattern all;
    all.name = pattern.name;
    for (const std::uint32_t host : {0u, 1u}) {
        for (std::uint32_t i = 0; i < processes; ++i) {
            std::vector<Step> steps = pattern.ranks[host];
            if (i < first) {
                steps.assign(steps.size(), {});
            }
            for (Step& step : steps) {
                for (std::vector<Message>* transfers : {&step.sends, &step.receives}) {
                    for (Message& transfer : *transfers) {
                        transfer.peer = transfer.peer * processes + i;
                    }
                }
            }
            all.ranks.push_back(std::move(steps));
        }
    }
    return all;
}

struct Hosts {
    std::uint64_t ratio = 0; // of the rates; 0: the fast rail alone
    bool told = true;        // the first rail is the slow one; otherwise the second
    std::uint32_t processes = 1;
    int learning = 0; // number of messages there and back, of all processes, ...
    Bytes of = kMiB;  // ... and their size
};

// Measures with complete cores.
Small small_messages(const Study& study, const Hosts& hosts) {
    const std::uint64_t ratio = hosts.ratio;
    const bool slow_first = ratio > 0 && hosts.told;
    sim::RanksOptions options;
    options.ranks = std::size_t{2} * hosts.processes;
    options.counts_by_host = hosts.processes > 1;
    for (std::size_t i = 0; i < options.ranks; ++i) {
        options.hosts.push_back(i < hosts.processes ? 0 : 1);
    }
    options.seed = options.world.seed = study.seed();
    options.world.machine = *sim::machine("infinihost-iii");
    options.world.machine.processor.registration =
        options.world.machine.processor.registration_page = Nanoseconds{0};
    options.world.topology =
        sim::crossbar(2, {.adapters = ratio == 0 ? 1u : 2u}, sim::links_of(options.world.machine));
    for (std::size_t port = 0; port < (ratio == 0 ? 1u : 2u); ++port) {
        set_rate(options.world.topology, port, slow_first && port == 0 ? kFast / ratio : kFast);
    }
    const auto ranks = routed_ranks(study, std::move(options));
    if (ratio > 0 && !hosts.told) {
        sim::World& world = ranks->below().world();
        for (const sim::Host& host : world.topology().hosts) {
            world.slow_port(host.ports[1], static_cast<std::uint32_t>(ratio));
        }
    }
    std::string text;
    std::uint32_t first = 0;
    const auto microseconds = [&](const Pattern& pattern) {
        Timing timing;
        if (!replay(of_processes(pattern, hosts.processes, first), *ranks, timing, text)) {
            study.fail(text + "\n" + ranks->complaints());
        }
        return 1e-3 * static_cast<double>(timing.total.count());
    };
    microseconds(ping_pong(64 * kKiB, 10)); // connects all
    if (hosts.learning > 0) {
        microseconds(ping_pong(hosts.of, static_cast<std::uint32_t>(hosts.learning)));
    }
    first = hosts.processes - 1; // the others are silent
    Small small;
    for (Bytes bytes = 8; bytes <= 64 * kKiB; bytes *= 2) {
        for (const Bytes exact : {bytes, bytes + bytes / 2}) {
            microseconds(ping_pong(exact, 4));
            small.alone[exact] = microseconds(ping_pong(exact, 20)) / 40;
            small.stream[exact] = microseconds(stream(exact, 64, 3, false)) / (3 * 64);
        }
    }
    return small;
}

struct Panels {
    Panel alone;
    Panel streams;

    void draw(const std::string& name, const Small& small) {
        for (const auto& [panel, curve] :
             {std::pair{&alone, &small.alone}, std::pair{&streams, &small.stream}}) {
            for (const auto& [bytes, value] : *curve) {
                (*panel)[name].points.emplace_back(static_cast<double>(bytes), value);
            }
        }
    }
};

Panels panels_of(const std::string& who) {
    Panels panels;
    panels.alone.title = "Small messages" + who + ", one way";
    panels.streams.title = "Small messages" + who + " in a stream";
    panels.alone.unit = panels.streams.unit = "us";
    return panels;
}

// Adds the worst size of each curve, relative to the fast rail alone.
void compare(Study& study, const std::string& name, const Small& ours, const Small& base,
             Bound alone, Bound in_a_stream) {
    const auto add = [&](const char* what, const Curve& both, const Curve& one, Bound bound) {
        double worst = 0;
        Bytes at = 0;
        for (const auto& [bytes, value] : one) {
            if (both.at(bytes) / value > worst) {
                worst = both.at(bytes) / value;
                at = bytes;
            }
        }
        study.row("small messages, " + name + ", " + what + ", worst size (" + std::to_string(at) +
                      " B)",
                  "of the fast rail's", worst, {}, bound);
    };
    add("alone", ours.alone, base.alone, alone);
    add("in a stream", ours.stream, base.stream, in_a_stream);
}

void add_small_messages(Study& study) {
    Panels panels = panels_of("");
    const Small one = small_messages(study, {});
    panels.draw("the fast rail alone", one);
    for (const std::uint64_t ratio : {1u, 2u, 4u, 10u}) {
        const Small both = small_messages(study, {.ratio = ratio});
        const std::string name = std::to_string(ratio) + ":1";
        panels.draw(name, both);
        compare(study, name, both, one, kAsFast, kAsFast);
    }
    study.panel(panels.alone);
    study.panel(panels.streams);
}

void add_processes(Study& study) {
    Panels panels = panels_of(" of the second of two processes");
    const Small one = small_messages(study, {.processes = 2});
    panels.draw("the fast rail alone", one);
    struct Row {
        const char* name;
        int learning;
        Bytes of;
    };
    for (const Row& row :
         {Row{"nothing sent yet", 0, 0}, Row{"after short ones alone", 150000, kKiB},
          Row{"after large ones", 40, kMiB}}) {
        const Small both = small_messages(
            study,
            {.ratio = 4, .told = false, .processes = 2, .learning = row.learning, .of = row.of});
        const std::string name = std::string("4:1 not told, ") + row.name;
        panels.draw(name, both);
        const bool learnt = row.learning > 0;
        compare(study, "two processes a host, " + name, both, one,
                learnt ? kAsFast : around(3.24, 0.05), learnt ? kAsFast : around(3.98, 0.05));
    }
    study.panel(panels.alone);
    study.panel(panels.streams);
}

} // namespace

int main(int argc, char** argv) {
    Study study("unequal_rails", "Two rails, one four times as fast as the other",
                "machine model infinihost-iii, flows");
    study.parse(argc, argv);
    Panel streams;
    streams.title = "Stream of 1 MiB, of the sum of both rails";
    streams.unit = "of the sum";
    streams.log = false;
    double least = 1;
    double even = 0;
    for (const std::uint32_t paths : {1u, 8u}) {
        for (const bool told : {true, false}) {
            const std::string where =
                std::to_string(2 * paths) + " paths, rates " + (told ? "told" : "not told");
            const auto at = static_cast<double>(streams.labels.size());
            streams.labels.push_back(where);
            for (const char* policy :
                 {"even", "weighted", "load_balanced", "adaptive", "bss", "auto"}) {
                const double part = stream_rate(study, {policy, paths, told}) / kSum;
                std::optional<Bound> bound;
                if (policy == std::string("auto")) {
                    bound = Bound{0.99, 1};
                    least = std::min(least, part);
                } else if (policy == std::string("even")) {
                    bound = around(0.4, 0.01);
                    even = std::max(even, part);
                }
                study.row("stream, " + where + ": " + policy, "of the sum", part, {}, bound);
                streams[policy].points.emplace_back(at, part);
            }
        }
    }
    study.panel(streams);
    Panel times;
    times.title = "Latency, rates told";
    times.unit = "us";
    const Curve alone = latencies(study, {"none", 1, true, true});
    const Curve automatic = latencies(study, {"auto", 1, true});
    const Curve equal = latencies(study, {"even", 1, true});
    double worst = 0;
    for (const auto& [bytes, value] : alone) {
        worst = std::max(worst, automatic.at(bytes) / value);
        times["the fast rail alone"].points.emplace_back(static_cast<double>(bytes), value);
        times["auto"].points.emplace_back(static_cast<double>(bytes), automatic.at(bytes));
        times["even"].points.emplace_back(static_cast<double>(bytes), equal.at(bytes));
    }
    study.panel(times);
    study.row("latency, worst size: auto", "of the fast rail's", worst, {}, around(0.856, 0.01));
    study.row("latency of 4 MiB: auto", "of the fast rail's",
              automatic.at(4 * kMiB) / alone.at(4 * kMiB));
    study.row("latency of 4 MiB: even", "of the fast rail's",
              equal.at(4 * kMiB) / alone.at(4 * kMiB));
    add_small_messages(study);
    add_processes(study);
    return study.finish("rails of 4:1: auto carries " + number_text(least) +
                        " of their sum at least, even " + number_text(even) + " at most");
}
