// SPDX-License-Identifier: BSD-3-Clause
// Cost of recording how much each peer sends, and of selecting connections by it.
//
// A core records nothing per message, since messages are numbered; the cost arises once a period.
// Measures a complete core that receives from 256 peers and has room for 26 connections: the timers
// of a pass that ends a period, less those of a pass that does not. This is the cost of counting,
// the statistics, the search, and the work that the search starts. Measures the same with the map
// of sources (source_map), which is also due for an update then. Shows medians.
// Cost per message: assumes the default period and a million messages per second.
// Bound (--check): 2 ns per message.
//
//     recording [--quick] [--check]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "benchmarks/median.h"
#include "benchmarks/options.h"
#include "simulator/studies/patterns.h"
#include "simulator/studies/replay.h"
#include "simulator/studies/simulated_ranks.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr std::uint32_t kRanks = 257;
constexpr int kConnections = 26;
constexpr std::uint32_t kRounds = 20; // more than connect_threshold
constexpr double kMessages = 1e6;     // per second
constexpr double kMostNanoseconds = 2;

[[noreturn]] void fail(const std::string& text) {
    std::fprintf(stderr, "recording: %s\n", text.c_str());
    std::exit(2);
}

void carry(SimulatedRanks& ranks, std::uint32_t rounds) {
    Timing timing;
    std::string text;
    if (!replay(alltoone(kRanks, 8, rounds), ranks, timing, text)) {
        fail(text + "\n" + ranks.complaints());
    }
}

// Lets rank 0 sleep for `time` of virtual time.
void pass(SimulatedRanks& ranks, Nanoseconds time) {
    sim::Ranks& below = ranks.below();
    const Nanoseconds until = below.now(0) + time;
    const auto over = [&] {
        below.wake(0, until); // repeated, since something else may have woken the rank
        return below.now(0) >= until;
    };
    if (!ranks.run_until(over)) {
        fail("virtual time does not pass");
    }
}

// Nanoseconds that the end of one period costs.
double measure(bool maps_sources, int samples) {
    sim::RanksOptions options;
    options.ranks = kRanks;
    options.world.machine = *sim::machine("connect-ib");
    options.world.topology = sim::fat_tree(8, 8, 36, {}, sim::links_of(options.world.machine));
    options.parameters.connect_max = kConnections;
    options.maps_sources = maps_sources;
    const auto period = std::chrono::milliseconds(options.parameters.channel_period);
    std::string text;
    const auto ranks = routed_ranks(std::move(options), text);
    if (ranks == nullptr) {
        fail(text);
    }
    carry(*ranks, kRounds);
    const MonotonicClock clock;
    Core& core = ranks->below().core(0);
    const Counters& counters = ranks->below().counters(0);
    std::vector<double> each;
    for (int tries = 0; each.size() < static_cast<std::size_t>(samples); ++tries) {
        if (tries > 10 * samples) {
            fail("no period is over when it should be");
        }
        carry(*ranks, 1);
        pass(*ranks, period);
        const std::uint64_t before = counters.selections;
        const Nanoseconds start = clock.now();
        core.run_timers();
        const Nanoseconds middle = clock.now();
        core.run_timers();
        const Nanoseconds end = clock.now();
        if (counters.selections == before + 1) { // else the core's own pass ended the period
            each.push_back(static_cast<double>((middle - start - (end - middle)).count()));
        }
    }
    if (counters.connections_open != kConnections) {
        fail(std::to_string(counters.connections_open) + " connections are open");
    }
    return bench::median(std::move(each));
}

} // namespace

int main(int argc, char** argv) {
    bench::Options options;
    if (!bench::read_options(argc, argv, options)) {
        return 2;
    }
    const int samples = options.quick ? 31 : 301;
    const double seconds = default_parameters().channel_period / 1000.0;
    double most = 0;
    for (const bool map : {false, true}) {
        const double period = measure(map, samples);
        const double message = period / (kMessages * seconds);
        std::printf("a period, 256 active sources%-16s %8.1f us, %.3f ns per message\n",
                    map ? ", source_map:" : ":", period / 1000, message);
        most = std::max(most, message);
    }
    std::printf("key figure: %.3f ns per message of %.0f allowed\n", most, kMostNanoseconds);
    return options.check && most > kMostNanoseconds ? 1 : 0;
}
