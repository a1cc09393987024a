// SPDX-License-Identifier: BSD-3-Clause
// Cost of finding the busiest sources.
//
// Measures, as medians:
//   * one find_mapping() over the counts of 1,000 active sources among 65,536, beside the published
//     double loop over the 256 busiest of them, already sorted;
//   * the search where shared queue pairs change targets, at a cost above and below a ring's gain;
//   * one period of a Selector with 256 active sources, and the memory of its statistics after
//     4,096 periods.
// Bound (--check): 50 us for each search, 2 MiB of statistics.
//
//     selection [--quick] [--check]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "benchmarks/median.h"
#include "benchmarks/options.h"
#include "select/selector.h"

namespace {

using namespace adaptib;

constexpr std::size_t kSources = 65'536;
constexpr std::size_t kActive = 1000;
constexpr double kMostMicroseconds = 50;
constexpr std::size_t kMostBytes = 2 << 20;

std::vector<SourceCount> some_counts(Random& random, std::size_t active) {
    std::vector<SourceCount> counts;
    for (std::uint64_t i = 0; i < active; ++i) {
        const std::uint64_t messages = random.below(10) == 0 ? 100'000 : 1000;
        counts.push_back({i * (kSources / active), static_cast<double>(random.below(messages))});
    }
    return counts;
}

double published_loop(const std::vector<SourceCount>& sorted, const ChannelCosts& costs,
                      const ChannelLimits& limits) {
    double best = 0;
    for (std::size_t l = 0; l <= std::min(limits.rings, sorted.size()); ++l) {
        for (std::size_t m = 0; m <= std::min(limits.connections, l); ++m) {
            double x = 0;
            for (std::size_t i = 0; i < l; ++i) {
                x += sorted[i].count * ((i < m ? costs.connected_ring : costs.shared_ring) -
                                        costs.credit / costs.ring_messages);
            }
            x -= sorted[0].count * static_cast<double>(l) / 2 * costs.poll +
                 static_cast<double>(m) * costs.establish +
                 static_cast<double>(l - m) * costs.establish_shared;
            best = std::max(best, x);
        }
    }
    return best;
}

template <typename F> double microseconds(int samples, F&& f) {
    const MonotonicClock clock;
    std::vector<double> each;
    for (int i = 0; i < samples; ++i) {
        const Nanoseconds start = clock.now();
        f(i);
        each.push_back(static_cast<double>((clock.now() - start).count()) / 1000);
    }
    return bench::median(std::move(each));
}

} // namespace

int main(int argc, char** argv) {
    bench::Options options;
    if (!bench::read_options(argc, argv, options)) {
        return 2;
    }
    const int samples = options.quick ? 101 : 1001;
    Random random(1);
    const std::vector<SourceCount> counts = some_counts(random, kActive);
    std::vector<std::vector<SourceCount>> copies(static_cast<std::size_t>(samples), counts);
    double gain = 0;
    const auto search_with = [&](const ChannelCosts& costs, double& found) {
        std::vector<std::vector<SourceCount>> each = copies;
        return microseconds(samples, [&](int i) {
            found = find_mapping(each[static_cast<std::size_t>(i)], costs, {}).gain;
        });
    };
    const double search = search_with({}, gain);
    double most = search;
    std::vector<SourceCount> sorted = counts;
    find_mapping(sorted, {}, {}); // sorts the counts as a side effect
    double published = 0;
    const double loop = microseconds(3, [&](int) { published = published_loop(sorted, {}, {}); });
    std::printf("search, 1,000 active sources of 65,536: %10.1f us\n", search);
    std::printf("the published double loop, sorted:      %10.1f us, result %s\n", loop,
                std::abs(published - gain) <= 1e-9 * gain ? "equal" : "DIFFERENT");

    for (const double change : {254.0, 20.0}) {
        ChannelCosts costs;
        costs.change = change;
        costs.initiators = 8;
        double found = 0;
        const double time = search_with(costs, found);
        std::printf("search, a change of target costs %3.0f ns:  %9.1f us\n", change, time);
        most = std::max(most, time);
    }

    Selector selector({});
    const double period =
        microseconds(4096, [&](int) { selector.tick(some_counts(random, 256), {}); });
    std::printf("one period, 256 active sources:         %10.1f us\n", period);
    std::printf("statistics of 4,096 periods:            %10zu bytes\n", selector.memory_bytes());
    std::printf("key figure: search %.1f us of %.0f allowed, statistics %.2f MiB of 2 allowed\n",
                most, kMostMicroseconds, static_cast<double>(selector.memory_bytes()) / (1 << 20));
    const bool good = most <= kMostMicroseconds && selector.memory_bytes() <= kMostBytes &&
                      std::abs(published - gain) <= 1e-9 * gain;
    return options.check && !good ? 1 : 0;
}
