// SPDX-License-Identifier: BSD-3-Clause
// The control lane of each process of a host (schedule/control_lane.h), and when a scheduler
// changes it.
#include "schedule/control_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schedule/scheduler.h"

namespace adaptib {
namespace {

struct Rail {
    std::uint64_t rate;
    std::uint32_t distance = 10;
    double learnt = 0;
    std::uint32_t paths = 1;
};

struct Scene {
    std::vector<SubchannelStats> up;
    std::vector<double> learnt; // of each port
};

// Lists the first paths of all rails, then the second ones, and so on, as PeerRoute does.
Scene scene_of(const std::vector<Rail>& rails) {
    Scene scene;
    for (std::uint32_t path = 0; path < 4; ++path) {
        for (std::uint32_t port = 0; port < rails.size(); ++port) {
            if (path < rails[port].paths) {
                SubchannelStats stats;
                stats.index = static_cast<std::uint32_t>(scene.up.size());
                stats.port = port;
                stats.rate.value = rails[port].rate;
                stats.max_stripe = kGiB;
                stats.distance = rails[port].distance;
                scene.up.push_back(stats);
            }
        }
    }
    for (const Rail& rail : rails) {
        scene.learnt.push_back(rail.learnt);
    }
    return scene;
}

std::size_t control_lane_in(const Scene& scene, std::uint32_t position) {
    return control_lane_of(scene.up, position,
                           [&](const SubchannelStats& path) { return scene.learnt[path.port]; });
}

// Returns the control lanes of the first processes of a host, one digit each.
std::string control_lanes(const std::vector<Rail>& rails, std::uint32_t processes = 12) {
    const Scene scene = scene_of(rails);
    std::string text;
    for (std::uint32_t position = 0; position < processes; ++position) {
        text += std::to_string(control_lane_in(scene, position));
    }
    return text;
}

struct Row {
    const char* what;
    std::vector<Rail> rails;
    const char* control_lanes;
};

TEST(ControlLane, EveryProcessTakesTheRailOnWhichItFaresBest) {
    const Row rows[] = {
        {"one rail", {{100}}, "000000000000"},
        {"two equal", {{100}, {100}}, "010101010101"},
        {"three equal", {{100}, {100}, {100}}, "012012012012"},
        {"2:1", {{200}, {100}}, "001001001001"},
        {"1:2", {{100}, {200}}, "110110110110"},
        {"4:1", {{400}, {100}}, "000010000100"},
        {"10:1", {{1000}, {100}}, "000000000010"},
        {"3:2", {{300}, {200}}, "010010100101"},
        {"4:4:1", {{400}, {400}, {100}}, "010101012010"},
        {"no rate known", {{0}, {0}}, "010101010101"},
        {"one rate not known: as the slowest", {{0}, {100}, {400}}, "222201222201"},
        {"the further of equal ones", {{100, 21}, {100, 10}, {100, 10}}, "121212121212"},
        {"the nearer one is slower", {{400, 21}, {100, 10}}, "000010000100"},
        {"the further one is slower", {{400, 10}, {100, 21}}, "000000000000"},
        {"paths in turns", {{100, 10, 0, 2}, {100, 10, 0, 2}}, "012301230123"},
        {"paths of the fast one", {{200, 10, 0, 2}, {100, 10, 0, 2}}, "021023021023"},
        {"learnt: one is slow", {{100, 10, 40}, {100, 10, 10}}, "000010000100"},
        {"learnt: one is slow, of rates that are not known",
         {{0, 10, 10}, {0, 10, 40}},
         "111101111011"},
        {"learnt: noise", {{100, 10, 55}, {100, 10, 45}}, "010101010101"},
        {"learnt: as they are said to be", {{400, 10, 80}, {100, 10, 20}}, "000010000100"},
        {"learnt: alike, in spite of what they say", {{400, 10, 5}, {100, 10, 5}}, "010101010101"},
        {"learnt of one only", {{100, 10, 40}, {100, 10, 0}}, "010101010101"},
        {"learnt: the near one is slow", {{100, 21, 50}, {100, 10, 10}}, "000001000001"},
    };
    for (const Row& row : rows) {
        EXPECT_EQ(control_lanes(row.rails), row.control_lanes) << row.what;
    }
}

// With any number of processes at a time, each has at least what it would have over
// the fast rail alone.
TEST(ControlLane, NobodyFaresWorseThanWithoutTheSlowRail) {
    for (const std::uint64_t ratio : {1u, 2u, 3u, 4u, 10u, 100u}) {
        const Scene scene = scene_of({{100 * ratio}, {100}});
        std::uint64_t taken[2] = {};
        for (std::uint32_t position = 0; position < 300; ++position) {
            ++taken[control_lane_in(scene, position)];
            const double alone = static_cast<double>(ratio) / (position + 1);
            for (const auto& [rate, processes] :
                 {std::pair{ratio, taken[0]}, std::pair{std::uint64_t{1}, taken[1]}}) {
                if (processes > 0) {
                    ASSERT_GE(static_cast<double>(rate) / static_cast<double>(processes) * 1.000001,
                              alone)
                        << ratio << ":1, " << position + 1 << " processes";
                }
            }
        }
    }
}

TEST(ControlLane, PositionsOutOfAnyHostsRangeHaveOneToo) {
    const Scene scene = scene_of({{400}, {100}});
    EXPECT_LT(control_lane_in(scene, UINT32_MAX), 2u);
    EXPECT_EQ(control_lane_in(scene, 4096), control_lane_in(scene, 0));
}

class Migrating : public testing::Test {
protected:
    Migrating() : scene_(scene_of({{100}, {100}})) {
        SchedulerOptions options;
        options.striping = "auto";
        options.striping_threshold = 16 * kKiB;
        scheduler_ = make_scheduler(options);
    }
    std::uint32_t control_lane() {
        StripePlan plan;
        scheduler_->plan({1000, OpKind::blocking, Direction::read}, scene_.up, plan);
        return plan.front().subchannel;
    }
    // Learns from a long transfer, of which rail 0 carried a byte a second, and rail 1 `ratio`.
    void learn(double ratio) {
        StripePlan plan;
        scheduler_->plan({kMiB, OpKind::blocking, Direction::read}, scene_.up, plan);
        std::vector<StripeTime> times;
        for (const Stripe& stripe : plan) {
            const auto bytes = static_cast<double>(stripe.length);
            times.push_back(
                {stripe.subchannel, stripe.length, stripe.subchannel == 0 ? bytes : bytes / ratio});
        }
        scheduler_->learn(Mix::reads, times);
    }

    Scene scene_;
    std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(Migrating, OnceARailWasSlowForSomeDozenTransfers) {
    EXPECT_EQ(control_lane(), 0u);
    int transfers = 0;
    while (control_lane() == 0 && transfers < 100) {
        learn(4);
        ++transfers;
    }
    EXPECT_EQ(control_lane(), 1u);
    EXPECT_GE(transfers, 24);
    EXPECT_LE(transfers, 48);
    EXPECT_EQ(scheduler_->control_lane(), 1u);
}

TEST_F(Migrating, AtOnceForAConnectionThatBegins) {
    EXPECT_EQ(scheduler_->choose_control_lane(scene_.up), 0u);
    for (int i = 0; i < 8; ++i) {
        learn(4);
    }
    EXPECT_EQ(control_lane(), 0u);
    EXPECT_EQ(scheduler_->control_lane(), 0u);
    EXPECT_EQ(scheduler_->choose_control_lane(scene_.up), 1u);
    EXPECT_EQ(control_lane(), 1u);
    EXPECT_EQ(scheduler_->control_lane(), 1u);
}

TEST_F(Migrating, AShortTransferTakesTheControlLaneUnlessPlanHasSomethingNewToLookAt) {
    constexpr std::uint64_t kBoth = 3;
    EXPECT_FALSE(scheduler_->takes_control_lane(8, kBoth)); // it has looked at no subchannels yet
    control_lane();
    EXPECT_TRUE(scheduler_->takes_control_lane(8, kBoth));
    EXPECT_TRUE(scheduler_->takes_control_lane(kLeastSpread - 1, kBoth));
    EXPECT_FALSE(scheduler_->takes_control_lane(kLeastSpread, kBoth));
    EXPECT_FALSE(scheduler_->takes_control_lane(8, 1));
    while (scheduler_->lessons() < Scheduler::kNews) {
        learn(4);
    }
    EXPECT_FALSE(scheduler_->takes_control_lane(8, kBoth));
    control_lane();
    EXPECT_TRUE(scheduler_->takes_control_lane(8, kBoth));
}

// The lane was chosen while a connection was made, whose other side then could not connect it.
TEST_F(Migrating, AControlLaneThatIsDownTakesNoTransfer) {
    const auto both = scene_.up;
    scene_.up.erase(scene_.up.begin());
    EXPECT_EQ(control_lane(), 1u);
    EXPECT_EQ(scheduler_->choose_control_lane(both), 0u);
    EXPECT_FALSE(scheduler_->takes_control_lane(8, 2));
    EXPECT_EQ(control_lane(), 1u);
    EXPECT_TRUE(scheduler_->takes_control_lane(8, 2));
}

// A control lane is named by its number in the route, not by its place among the paths that are up.
TEST_F(Migrating, TheControlLaneIsToldByItsNumber) {
    scene_.up.erase(scene_.up.begin());
    EXPECT_EQ(control_lane(), 1u);
    EXPECT_EQ(scheduler_->control_lane(), 1u);
    EXPECT_EQ(scheduler_->choose_control_lane(scene_.up), 1u);
}

TEST_F(Migrating, NotBackAndForthForEver) {
    std::uint32_t last = control_lane();
    int moves = 0;
    for (int i = 0; i < 4000; ++i) {
        learn(i / 100 % 2 == 0 ? 4 : 0.25);
        moves += std::exchange(last, control_lane()) != last ? 1 : 0;
    }
    EXPECT_GE(moves, 1);
    EXPECT_LE(moves, 4) << "of 40";
    for (int i = 0; i < 4000; ++i) {
        learn(last == 0 ? 4 : 0.25);
    }
    EXPECT_NE(control_lane(), last) << "but where one is slow for good";
}

TEST_F(Migrating, NotForNoiseOrAShortSlowness) {
    for (int i = 0; i < 200; ++i) {
        learn(i % 3 == 0 ? 1.4 : 0.9);
        ASSERT_EQ(control_lane(), 0u);
    }
    for (int i = 0; i < 200; ++i) {
        learn(i % 32 < 12 ? 4 : 1);
        ASSERT_EQ(control_lane(), 0u) << i;
    }
}

TEST_F(Migrating, OnceItWasMeasuredAFewTimes) {
    using Verdict = Scheduler::Verdict;
    const PortRate slow[] = {{0, 9, 11}, {1, 35, 45}};
    const PortRate equal[] = {{0, 40, 40}, {1, 41, 41}};
    EXPECT_EQ(control_lane(), 0u);
    EXPECT_EQ(scheduler_->judge_control_lane(scene_.up, equal), Verdict::stays);
    EXPECT_EQ(scheduler_->measured(1), 41.0);
    EXPECT_EQ(scheduler_->measured(2), 0.0);
    for (const int times : {3, 4}) {
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(scheduler_->judge_control_lane(scene_.up, slow), Verdict::doubted) << i;
        }
        EXPECT_EQ(control_lane(), 0u);
        EXPECT_EQ(scheduler_->judge_control_lane(scene_.up, times == 3 ? equal : slow),
                  times == 3 ? Verdict::stays : Verdict::changed);
    }
    EXPECT_EQ(control_lane(), 1u);
    EXPECT_EQ(scheduler_->control_lane(), 1u);
    EXPECT_EQ(scheduler_->judge_control_lane(scene_.up, slow), Verdict::stays);
    EXPECT_EQ(scheduler_->choose_control_lane(scene_.up), 1u);
}

TEST_F(Migrating, StripesTellMoreThanMeasurementsBeforeThem) {
    const PortRate slow[] = {{0, 10, 10}, {1, 40, 40}};
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(control_lane(), 0u);
        scheduler_->judge_control_lane(scene_.up, slow);
    }
    EXPECT_EQ(control_lane(), 1u);
    int transfers = 0;
    while (control_lane() == 1 && transfers < 100) {
        learn(0.25);
        ++transfers;
    }
    EXPECT_EQ(control_lane(), 0u);
    EXPECT_GE(transfers, 24);
    EXPECT_EQ(scheduler_->measured(0), 0.0);
    EXPECT_EQ(scheduler_->lessons(), static_cast<std::uint64_t>(transfers));
}

TEST_F(Migrating, WhatIsNotKnownWellOfAllPortsMovesNothing) {
    const PortRate one[] = {{1, 40, 40}};
    const PortRate unsure[] = {{0, 10, 36}, {1, 35, 70}};
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(scheduler_->judge_control_lane(scene_.up, one), Scheduler::Verdict::stays);
        EXPECT_EQ(scheduler_->judge_control_lane(scene_.up, unsure), Scheduler::Verdict::stays);
    }
    EXPECT_EQ(control_lane(), 0u);
}

TEST_F(Migrating, WhenTheRailIsGone) {
    const std::vector<SubchannelStats> both = scene_.up;
    EXPECT_EQ(control_lane(), 0u);
    scene_.up.erase(scene_.up.begin());
    EXPECT_EQ(control_lane(), 1u);
    scene_.up = both;
    EXPECT_EQ(control_lane(), 0u);
}

} // namespace
} // namespace adaptib
