// SPDX-License-Identifier: BSD-3-Clause
// Speed of the simulator, and memory of a simulated rank.
//
// Measures, over complete cores on the machine model `connect-ib`:
//   pair      2 ranks, 8-byte messages over rings, 64 in flight in both directions
//   ring      64 ranks, the same in a ring: each rank sends to the next one
//   datagram  64 ranks, an 8-byte alltoall over and over without connections
//   displaced 1,024 ranks on a fat tree, the displaced ring with all its 1,023 steps, 8 bytes
//   flows     1,024 ranks, 8 steps (2 with --quick) of the displaced ring with 1 MiB
//   memory    of 16,384 ranks (1,024 with --quick) once they are made, and after each has exchanged
//             8-byte messages with 16 others; and the additional memory of a connection
// Times and rates are in this process's processor time, which includes cores, network, and the
// replay that drives them. Rates are the best of several runs.
// Bounds (--check): pair, ring and datagram at least 1 million messages/s; displaced and flows
// within 10 s; memory at most 1 MiB a rank, which is 16,384 ranks in 16 GiB.
//
//     simulator [--quick] [--check]
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>

#include "benchmarks/options.h"
#include "simulator/studies/patterns.h"
#include "simulator/studies/replay.h"
#include "simulator/studies/simulated_ranks.h"

namespace {

using namespace adaptib;
using namespace adaptib::study;

constexpr double kRateBound = 1e6;
constexpr double kSecondsBound = 10;
constexpr double kMemoryBound = static_cast<double>(kMiB);

double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double resident_bytes() {
    std::ifstream file("/proc/self/statm");
    double total = 0;
    double resident = 0;
    file >> total >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void fail(const std::string& text) {
    std::fprintf(stderr, "simulator: %s\n", text.c_str());
    std::exit(2);
}

// Makes ranks on up to 32 leaves of 32 hosts each; more ranks than hosts share hosts.
std::unique_ptr<SimulatedRanks> ranks_of(std::uint32_t count, int connect_threshold) {
    const std::uint32_t leaves = std::clamp((count + 31) / 32, 1u, 32u);
    sim::RanksOptions options;
    options.ranks = count;
    options.world.machine = *sim::machine("connect-ib");
    options.world.topology =
        sim::fat_tree(leaves, leaves, 32, {}, sim::links_of(options.world.machine));
    options.parameters.connect_threshold = connect_threshold;
    std::string text;
    auto ranks = routed_ranks(std::move(options), text);
    if (ranks == nullptr) {
        fail(text);
    }
    return ranks;
}

// Processor seconds of one replay.
double seconds_of(SimulatedRanks& ranks, const Pattern& pattern) {
    Timing timing;
    std::string text;
    const double start = processor_seconds();
    if (!replay(pattern, ranks, timing, text)) {
        fail(text + "\n" + ranks.complaints());
    }
    return processor_seconds() - start;
}

// In each of `steps` steps every rank sends `window` messages to the next rank.
Pattern neighbours(std::uint32_t count, std::uint32_t window, std::uint32_t steps) {
    Pattern pattern;
    pattern.name = "neighbours";
    pattern.ranks.assign(count, std::vector<Step>(steps));
    for (std::uint32_t rank = 0; rank < count; ++rank) {
        for (Step& step : pattern.ranks[rank]) {
            step.sends.assign(window, {(rank + 1) % count, 8});
            step.receives.assign(window, {(rank + count - 1) % count, 8});
        }
    }
    return pattern;
}

double rate_of(SimulatedRanks& ranks, const Pattern& pattern, bool rings, int runs) {
    seconds_of(ranks, pattern); // warm-up: makes connections, allocates memory
    if ((ranks.below().counters(0).ring_sent > 0) != rings) {
        fail("messages did not take the channel that is to be measured");
    }
    double best = 0;
    for (int i = 0; i < runs; ++i) {
        best = std::max(best, static_cast<double>(pattern.messages()) / seconds_of(ranks, pattern));
    }
    return best;
}

class Report {
public:
    void rate(const char* what, double value) {
        line(what, value * 1e-6, "million messages/s", kRateBound * 1e-6, value >= kRateBound);
        slowest_ = std::min(slowest_, value);
    }
    void seconds(const char* what, double value) {
        line(what, value, "s", kSecondsBound, value <= kSecondsBound);
    }
    void memory(const char* what, double value) {
        line(what, value / 1024, "KiB a rank", kMemoryBound / 1024, value <= kMemoryBound);
        most_ = std::max(most_, value);
    }
    bool good() const { return good_; }
    void key_figure() const {
        std::printf("%.2f million simulated messages/s, %.0f KiB a rank\n", slowest_ * 1e-6,
                    most_ / 1024);
    }

private:
    void line(const char* what, double value, const char* unit, double bound, bool within) {
        std::printf("%-46s %10.2f %-20s bound %8.2f%s\n", what, value, unit, bound,
                    within ? "" : "  BROKEN");
        std::fflush(stdout);
        good_ = good_ && within;
    }

    double slowest_ = 1e30;
    double most_ = 0;
    bool good_ = true;
};

void report_rates(Report& report, bool quick) {
    const int runs = quick ? 3 : 9;
    report.rate("pair", rate_of(*ranks_of(2, 0), neighbours(2, 64, 500), true, runs));
    report.rate("ring", rate_of(*ranks_of(64, 0), neighbours(64, 64, 30), true, runs));
    report.rate("datagram",
                rate_of(*ranks_of(64, 1'000'000), alltoall_pairwise(64, 8), false, 4 * runs));
}

void report_displaced(Report& report, bool quick) {
    const int usual = default_parameters().connect_threshold;
    report.seconds("displaced, 1,024 ranks",
                   seconds_of(*ranks_of(1024, usual), displaced_ring(1024, 8)));
    report.seconds(quick ? "flows, 1,024 ranks, 2 steps of 1 MiB"
                         : "flows, 1,024 ranks, 8 steps of 1 MiB",
                   seconds_of(*ranks_of(1024, usual), displaced_ring(1024, kMiB, quick ? 2 : 8)));
}

void report_memory(Report& report, bool quick) {
    const std::uint32_t count = quick ? 1024 : 16384;
    const double before = resident_bytes();
    const auto ranks = ranks_of(count, default_parameters().connect_threshold);
    const double made = resident_bytes() - before;
    report.memory("memory, made", made / count);
    const Pattern pattern = displaced_ring(count, 8, 16);
    const double start = resident_bytes();
    seconds_of(*ranks, pattern);
    report.memory("memory, 16 peers each", (made + resident_bytes() - start) / count);
}

// Reports the additional memory of a connection on each side. It has no bound, since it depends on
// ring_bytes.
void report_connection() {
    constexpr std::uint32_t kCount = 256;
    constexpr std::uint32_t kPeers = 16; // connections in each direction
    const Pattern pattern = displaced_ring(kCount, 8, kPeers);
    const auto ranks = ranks_of(kCount, 0);
    const double start = resident_bytes();
    seconds_of(*ranks, pattern);
    std::printf("%-46s %10.2f %s\n", "a connection",
                (resident_bytes() - start) / kCount / (2 * kPeers) / 1024, "KiB on each side");
}

} // namespace

int main(int argc, char** argv) {
    bench::Options options;
    if (!bench::read_options(argc, argv, options)) {
        return 2;
    }
    Report report;
    // Comes first: later, the process would reuse freed memory, and its size would not show it.
    report_memory(report, options.quick);
    report_connection();
    report_rates(report, options.quick);
    report_displaced(report, options.quick);
    report.key_figure();
    return options.check && !report.good() ? 1 : 0;
}
