// SPDX-License-Identifier: BSD-3-Clause
// Rails of which one is four times as fast as the other, over one and over eight paths each: no paper's figure.
//
// Two hosts with two ports each, on networks of their own; messages of 16 KiB to 4 MiB one after another, and
// streams of 64 messages of 1 MiB. "Told": both ends know the rates. "Not told": the slow link is the sender's,
// whose rate FlowRanks does not know, so that the ports seem alike and only times can tell. The production
// scheduler over flows (flow_ranks.h), machine model infinihost-iii, links slower than the adapters.
// "Small messages", from 8 B to 64 KiB and so below and above eager_limit and striping_threshold: complete cores, all
// parameters as they are, rails of 1:1, 2:1, 4:1 and 10:1, of which the first is the slow one; half a ping-pong, and
// the time of a stream of 64 messages, over both against the fast one alone.
// Bounds (--check), of the sum of both rails:
//   auto, the default: streams at least 0.97, told or not, over 2 and over 16 paths
//   even: streams at most 0.45, which is why it is not the default
//   auto, told: no message takes more than 1.02 times what it takes over the fast rail alone
//   small messages, at every size and ratio, alone and in a stream: the same
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "study/flow_ranks.h"
#include "study/patterns.h"
#include "study/simulated_ranks.h"
#include "study/study.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr std::uint64_t kFast = 600'000'000; // bytes/s; the adapter carries more
constexpr std::uint64_t kSlow = kFast / 4;
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
    options.marker = Marker::blocking;
    return std::make_unique<FlowRanks>(std::move(options));
}

// The pattern often enough for policies to learn, then once more: seconds.
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

// The rate of all links of one port of every host.
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

// Complete cores; `ratio` 0: the fast rail alone.
Small small_messages(const Study& study, std::uint64_t ratio) {
    sim::RanksOptions options;
    options.seed = options.world.seed = study.seed();
    options.world.machine = *sim::machine("infinihost-iii");
    options.world.machine.registration = options.world.machine.registration_page = Nanoseconds{0};
    options.world.topology =
        sim::crossbar(2, {.adapters = ratio == 0 ? 1u : 2u}, sim::links_of(options.world.machine));
    set_rate(options.world.topology, ratio == 0 ? 0 : 1, kFast);
    if (ratio > 0) {
        set_rate(options.world.topology, 0, kFast / ratio);
    }
    const auto ranks = routed_ranks(study, std::move(options));
    const auto microseconds = [&](const Pattern& pattern) {
        Timing timing;
        if (!replay(pattern, *ranks, timing, text)) {
            study.fail(text + "\n" + ranks->complaints());
        }
        return 1e-3 * static_cast<double>(timing.total.count());
    };
    microseconds(ping_pong(64 * kKiB, 10)); // until the two are connected
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

void add_small_messages(Study& study) {
    Panel alone;
    alone.title = "Small messages, one way";
    alone.unit = "us";
    Panel streams;
    streams.title = "Small messages in a stream";
    streams.unit = "us";
    const auto draw = [](Panel& panel, const std::string& name, const Curve& curve) {
        for (const auto& [bytes, value] : curve) {
            panel[name].points.emplace_back(static_cast<double>(bytes), value);
        }
    };
    const Small one = small_messages(study, 0);
    draw(alone, "the fast rail alone", one.alone);
    draw(streams, "the fast rail alone", one.stream);
    for (const std::uint64_t ratio : {1u, 2u, 4u, 10u}) {
        const Small both = small_messages(study, ratio);
        const std::string name = std::to_string(ratio) + ":1";
        draw(alone, name, both.alone);
        draw(streams, name, both.stream);
        const auto add = [&](const char* what, const Curve& ours, const Curve& base) {
            double worst = 0;
            Bytes at = 0;
            for (const auto& [bytes, value] : base) {
                if (ours.at(bytes) / value > worst) {
                    worst = ours.at(bytes) / value;
                    at = bytes;
                }
            }
            study.row("small messages, " + name + ", " + what + ", worst size (" +
                          std::to_string(at) + " B)",
                      "of the fast rail's", worst, {}, Bound{0, 1.02});
        };
        add("alone", both.alone, one.alone);
        add("in a stream", both.stream, one.stream);
    }
    study.panel(alone);
    study.panel(streams);
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
                    bound = Bound{0.97};
                    least = std::min(least, part);
                } else if (policy == std::string("even")) {
                    bound = Bound{0, 0.45};
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
    study.row("latency, worst size: auto", "of the fast rail's", worst, {}, Bound{0, 1.02});
    study.row("latency of 4 MiB: auto", "of the fast rail's",
              automatic.at(4 * kMiB) / alone.at(4 * kMiB));
    study.row("latency of 4 MiB: even", "of the fast rail's",
              equal.at(4 * kMiB) / alone.at(4 * kMiB));
    add_small_messages(study);
    return study.finish("rails of 4:1: auto carries " + number_text(least) +
                        " of their sum at least, even " + number_text(even) + " at most");
}
