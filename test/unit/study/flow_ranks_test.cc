// SPDX-License-Identifier: BSD-3-Clause
// Ranks over flows: patterns end with the data that was sent, in the same way every time, and take
// about as long as complete cores do.
#include "simulator/studies/flow_ranks.h"

#include <gtest/gtest.h>

#include "simulator/studies/simulated_ranks.h"

namespace adaptib::study {
namespace {

constexpr std::uint32_t kRanks = 12;

sim::MachineModel model() {
    sim::MachineModel machine = *sim::machine("infinihost-iii");
    machine.processor.registration = machine.processor.registration_page = Nanoseconds{0};
    return machine;
}

std::unique_ptr<FlowRanks> flows(std::uint32_t paths, const char* striping, std::uint32_t ports) {
    FlowOptions options;
    options.ranks = kRanks;
    options.machine = model();
    options.topology = sim::fat_tree(3, 2, 4, {.adapters = ports}, sim::links_of(options.machine),
                                     paths > 1 ? 1 : 0);
    std::string text;
    EXPECT_TRUE(sim::Routes::compute(options.topology, options.routes, text)) << text;
    options.paths = paths;
    options.scheduler.striping = striping;
    options.scheduler.striping_threshold = 16 * kKiB;
    return std::make_unique<FlowRanks>(std::move(options));
}

Timing timing_of(Ranks& ranks, const Pattern& pattern, int rounds = 1) {
    Timing timing;
    std::string text;
    for (int i = 0; i < rounds; ++i) {
        EXPECT_TRUE(replay(pattern, ranks, timing, text)) << text;
    }
    return timing;
}

TEST(FlowRanks, AllPatternsEnd) {
    for (const std::string_view name : pattern_names()) {
        for (const Bytes bytes : {Bytes{1}, Bytes{4096}, Bytes{4097}, Bytes{300'000}}) {
            for (const char* striping : {"none", "auto", "even", "bss"}) {
                const auto ranks = flows(2, striping, 1);
                const Timing timing = timing_of(*ranks, make_pattern(name, kRanks, bytes, 3), 2);
                EXPECT_GT(timing.total.count(), 0) << name << " " << striping;
            }
        }
    }
}

TEST(FlowRanks, TheSameGivesTheSameTimes) {
    const Pattern pattern = alltoall_pairwise(kRanks, 300'000);
    const Timing first = timing_of(*flows(2, "auto", 1), pattern, 3);
    const Timing again = timing_of(*flows(2, "auto", 1), pattern, 3);
    EXPECT_EQ(first.total, again.total);
    EXPECT_EQ(first.mean_step, again.mean_step);
}

// Over one path of one port, and over the ports of two adapters.
TEST(FlowRanks, TakesAsLongAsCompleteCores) {
    for (const std::uint32_t ports : {1u, 2u}) {
        for (const char* name : {"displaced_ring", "alltoall", "allgather", "allreduce"}) {
            for (const Bytes bytes : {Bytes{65536}, Bytes{1'000'000}}) {
                const char* const striping = ports > 1 ? "even" : "none";
                const Pattern pattern = make_pattern(name, kRanks, bytes, 1);
                const auto ranks = flows(1, striping, ports);
                const Timing ours = timing_of(*ranks, pattern, 2);
                sim::RanksOptions options;
                options.ranks = kRanks;
                options.world.machine = model();
                options.world.topology = sim::fat_tree(3, 2, 4, {.adapters = ports},
                                                       sim::links_of(options.world.machine));
                options.parameters.connect_threshold = 0;
                options.parameters.striping_policy = const_cast<char*>(striping);
                std::string text;
                const auto cores = routed_ranks(std::move(options), text);
                ASSERT_NE(cores, nullptr) << text;
                const Timing theirs = timing_of(*cores, pattern, 2);
                const double ratio = static_cast<double>(ours.total.count()) /
                                     static_cast<double>(theirs.total.count());
                // Flows leave out packets that block each other, and the cores' own passes.
                EXPECT_NEAR(ratio, 1.0, 0.12) << name << " " << bytes << ", ports " << ports;
            }
        }
    }
}

} // namespace
} // namespace adaptib::study
