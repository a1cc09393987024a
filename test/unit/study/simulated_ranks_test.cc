// SPDX-License-Identifier: BSD-3-Clause
// Patterns over complete cores in the simulator: they end, in the same way every time, and no
// faster than their wires allow.
#include "simulator/studies/simulated_ranks.h"

#include <gtest/gtest.h>

#include <string>

namespace adaptib::study {
namespace {

constexpr std::uint32_t kRanks = 12;

std::unique_ptr<SimulatedRanks> ranks_of(const sim::MachineModel& machine, std::uint64_t seed) {
    sim::RanksOptions options;
    options.ranks = kRanks;
    options.seed = options.world.seed = seed;
    options.world.machine = machine;
    options.world.topology = sim::fat_tree(3, 2, 4, {}, sim::links_of(machine));
    std::string text;
    auto ranks = routed_ranks(std::move(options), text);
    EXPECT_NE(ranks, nullptr) << text;
    return ranks;
}

Timing timing_of(std::string_view name, Bytes bytes, const sim::MachineModel& machine,
                 std::uint64_t seed) {
    const auto ranks = ranks_of(machine, seed);
    Timing timing;
    std::string text;
    EXPECT_TRUE(replay(make_pattern(name, kRanks, bytes, 20), *ranks, timing, text))
        << text << "\n"
        << ranks->complaints();
    EXPECT_EQ(ranks->complaints(), "");
    return timing;
}

TEST(SimulatedRanks, AllPatternsEndOnAllMachines) {
    for (const sim::MachineModel& machine : sim::machines()) {
        for (const std::string_view name : pattern_names()) {
            for (const Bytes bytes : {Bytes{1}, Bytes{100'000}}) {
                const Timing timing = timing_of(name, bytes, machine, 1);
                EXPECT_GT(timing.total.count(), 0) << name;
            }
        }
    }
}

TEST(SimulatedRanks, TheSameSeedGivesTheSameTimes) {
    const sim::MachineModel& machine = *sim::machine("connect-ib");
    for (const std::string_view name : pattern_names()) {
        const Timing first = timing_of(name, 5000, machine, 3);
        const Timing again = timing_of(name, 5000, machine, 3);
        EXPECT_EQ(first.total, again.total);
        EXPECT_EQ(first.mean_step, again.mean_step);
    }
}

// Each rank sends and receives 11 x 1 MB over one port, so the wire sets a lower bound. The four
// ranks of a leaf send 32 of these messages to other leaves, over two links: 2.9 times as long if
// one link carries all of them.
TEST(SimulatedRanks, NoFasterThanTheWire) {
    sim::MachineModel machine = *sim::machine("connect-ib");
    machine.processor.registration = machine.processor.registration_page = Nanoseconds{0};
    const Timing timing = timing_of("alltoall", 1'000'000, machine, 1);
    const Nanoseconds wire = time_for(11 * 1'000'000, machine.adapter.port_rate);
    EXPECT_GE(timing.total, wire);
    EXPECT_LE(timing.total, 3 * wire);
}

} // namespace
} // namespace adaptib::study
