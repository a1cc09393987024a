// SPDX-License-Identifier: BSD-3-Clause
// Cost of planning a transfer, and of learning from its times.
//
// Measures one plan() of each policy for a transfer of 1 MiB over 2, 4 and 16 subchannels, which
// belong to one port each or all to the same port, followed by a learn() of the times of its
// stripes. Shows the median of samples of 1,000 transfers each.
// Bound (--check): 100 ns with 2 subchannels, 1 us with 16.
//
//     scheduling [--quick] [--check]
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "benchmarks/median.h"
#include "benchmarks/options.h"
#include "schedule/scheduler.h"

namespace {

using namespace adaptib;

constexpr std::uint32_t kPaths[] = {2, 4, 16};
constexpr const char* kWhole[] = {"binding", "round_robin", "weighted_round_robin",
                                  "window_round_robin"};
constexpr const char* kStriped[] = {"auto",          "even", "weighted", "adaptive",
                                    "load_balanced", "bss",  "epc"};
constexpr int kTransfers = 1000;
constexpr Bytes kLength = kMiB;

double bound_of(std::uint32_t paths) { return paths == 2 ? 100 : 1000; }

// Nanoseconds per transfer.
double measure(const std::string& whole, const std::string& striped, std::uint32_t paths,
               bool one_port, int samples) {
    SchedulerOptions options;
    options.multiplexing = whole;
    options.striping = striped;
    options.striping_threshold = striped == "none" ? 2 * kLength : 1024;
    options.min_stripe = 4096;
    const auto scheduler = make_scheduler(options);
    std::vector<SubchannelStats> up(paths);
    for (std::uint32_t i = 0; i < paths; ++i) {
        up[i].index = i;
        up[i].port = one_port ? 0 : i;
        up[i].rate.value = 1'000'000'000 + 1'000'000 * i;
        up[i].max_stripe = kGiB;
    }
    const MonotonicClock clock;
    StripePlan plan;
    std::vector<StripeTime> times;
    std::vector<double> each;
    for (int sample = 0; sample < samples; ++sample) {
        const Nanoseconds start = clock.now();
        for (int n = 0; n < kTransfers; ++n) {
            plan.clear();
            scheduler->plan({kLength, OpKind::blocking, Direction::read}, up, plan);
            times.clear();
            for (const Stripe& stripe : plan) {
                times.push_back({stripe.subchannel, stripe.length,
                                 1e-9 * static_cast<double>(stripe.length + (n & 63) * 1000)});
            }
            scheduler->learn(Mix::reads, times);
        }
        each.push_back(static_cast<double>((clock.now() - start).count()) / kTransfers);
    }
    return bench::median(std::move(each));
}

} // namespace

int main(int argc, char** argv) {
    bench::Options options;
    if (!bench::read_options(argc, argv, options)) {
        return 2;
    }
    const int samples = options.quick ? 51 : 501;
    std::string worst_name;
    double worst = 0;
    std::printf("%-22s %10s %10s %10s   ns per transfer\n", "policy", "2 paths", "4 paths",
                "16 paths");
    const auto row = [&](const char* name, const char* whole, const char* striped,
                         bool one_port = false) {
        std::printf("%-22s", name);
        for (const std::uint32_t paths : kPaths) {
            const double cost = measure(whole, striped, paths, one_port, samples);
            std::printf(" %10.0f", cost);
            if (cost / bound_of(paths) > worst) {
                worst = cost / bound_of(paths);
                worst_name = std::string(name) + " over " + std::to_string(paths) + " paths";
            }
        }
        std::printf("\n");
    };
    for (const char* policy : kWhole) {
        row(policy, policy, "none");
    }
    for (const char* policy : kStriped) {
        row(policy, "binding", policy);
    }
    row("auto, paths of a port", "binding", "auto", true); // other policies ignore ports
    std::printf("worst: %.2f of its bound (%s)\n", worst, worst_name.c_str());
    return options.check && worst > 1 ? 1 : 0;
}
