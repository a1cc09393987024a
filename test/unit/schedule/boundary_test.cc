// SPDX-License-Identifier: BSD-3-Clause
// Plans of every policy at the lengths where something changes, in one table; and properties of all
// plans, whatever rates, loads and times are.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "schedule/scheduler.h"

namespace adaptib {
namespace {

constexpr Bytes kThreshold = 1024;
constexpr Bytes kMinStripe = 512; // three of them are 1536
constexpr Bytes kHuge = Bytes{1} << 40;
constexpr std::array<Bytes, 12> kLengths{0,    1,    63,   64,   1023, 1024,
                                         1025, 1535, 1536, 1537, 1600, kHuge};

// For each length: the stripes, as subchannel:length.
using Plans = std::array<const char*, kLengths.size()>;

struct Row {
    const char* multiplexing;
    const char* striping;
    Plans plans;
};

constexpr Plans kWhole = {"",       "1:1",    "1:63",   "1:64",   "1:1023", "1:1024",
                          "1:1025", "1:1535", "1:1536", "1:1537", "1:1600", "1:1099511627776"};

// Three subchannels of equal rates; the process's position is 1, the sender blocks, and it is
// the first transfer.
constexpr Row kRows[] = {
    {"binding", "none", kWhole},
    {"round_robin", "none", kWhole},
    {"weighted_round_robin", "none", kWhole},
    {"window_round_robin", "none", kWhole},
    // Equal parts in whole cache lines, from the process's position on; min_stripe does not matter.
    {"binding",
     "even",
     {"", "1:1", "1:63", "1:64", "1:1023", "1:384 2:384 0:256", "1:384 2:384 0:257",
      "1:512 2:512 0:511", "1:512 2:512 0:512", "1:576 2:576 0:385", "1:576 2:576 0:448",
      "1:366503875968 2:366503875968 0:366503875840"}},
    {"binding",
     "weighted",
     {"", "1:1", "1:63", "1:64", "1:1023", "0:512 1:512", "0:512 1:513", "0:768 1:767",
      "0:512 1:512 2:512", "0:512 1:512 2:513", "0:576 1:512 2:512",
      "0:366503875968 1:366503875904 2:366503875904"}},
    {"binding",
     "adaptive",
     {"", "1:1", "1:63", "1:64", "1:1023", "0:512 1:512", "0:512 1:513", "0:768 1:767",
      "0:512 1:512 2:512", "0:512 1:512 2:513", "0:576 1:512 2:512",
      "0:366503875968 1:366503875904 2:366503875904"}},
    {"binding",
     "load_balanced",
     {"", "1:1", "1:63", "1:64", "1:1023", "1:512 2:512", "1:512 2:513", "1:768 2:767",
      "1:512 2:512 0:512", "1:512 2:512 0:513", "1:576 2:512 0:512",
      "1:366503875968 2:366503875904 0:366503875904"}},
    // Uses half of the paths, rounded up.
    {"binding",
     "bss",
     {"", "1:1", "1:63", "1:64", "1:1023", "0:512 1:512", "0:512 1:513", "0:768 1:767",
      "0:768 1:768", "0:768 1:769", "0:832 1:768", "0:549755813888 1:549755813888"}},
    {"binding",
     "epc",
     {"", "1:1", "1:63", "1:64", "1:1023", "0:512 1:512", "0:512 1:513", "0:768 1:767",
      "0:512 1:512 2:512", "0:512 1:512 2:513", "0:576 1:512 2:512",
      "0:366503875968 1:366503875904 2:366503875904"}},
    // Each subchannel is a port of its own.
    {"binding",
     "auto",
     {"", "1:1", "1:63", "1:64", "1:1023", "0:512 1:512", "0:512 1:513", "0:768 1:767",
      "0:512 1:512 2:512", "0:512 1:512 2:513", "0:576 1:512 2:512",
      "0:366503875968 1:366503875904 2:366503875904"}},
};

std::vector<SubchannelStats> three() {
    std::vector<SubchannelStats> up(3);
    for (std::uint32_t i = 0; i < up.size(); ++i) {
        up[i].index = up[i].port = i;
        up[i].rate.value = 1'000'000'000;
        up[i].max_stripe = 2 * kHuge;
    }
    return up;
}

std::string text_of(const StripePlan& plan) {
    std::string text;
    Bytes covered = 0;
    for (const Stripe& stripe : plan) {
        EXPECT_EQ(stripe.offset, covered);
        covered += stripe.length;
        text += (text.empty() ? "" : " ") + std::to_string(stripe.subchannel) + ":" +
                std::to_string(stripe.length);
    }
    return text;
}

TEST(Boundaries, EveryPolicyAtEveryLength) {
    for (const Row& row : kRows) {
        for (std::size_t i = 0; i < kLengths.size(); ++i) {
            SchedulerOptions options;
            options.multiplexing = row.multiplexing;
            options.striping = row.striping;
            options.position = 1;
            options.striping_threshold = kThreshold;
            options.min_stripe = kMinStripe;
            const auto scheduler = make_scheduler(options);
            ASSERT_NE(scheduler, nullptr);
            StripePlan plan;
            scheduler->plan({kLengths[i], OpKind::blocking, Direction::write}, three(), plan);
            EXPECT_EQ(text_of(plan), row.plans[i])
                << row.multiplexing << ", " << row.striping << ", " << kLengths[i] << " bytes";
        }
    }
}

TEST(Boundaries, TheTableHasEveryPolicy) {
    for (const auto& policies : {multiplexing_policies(), striping_policies()}) {
        for (const std::string_view policy : policies) {
            EXPECT_TRUE(std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) {
                return policy == row.multiplexing || policy == row.striping;
            })) << policy;
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Properties

struct Drawn {
    std::string multiplexing;
    std::string striping;
};

// Every pair of policies that makes a difference.
std::vector<Drawn> all_policies() {
    std::vector<Drawn> all;
    for (const std::string_view policy : multiplexing_policies()) {
        all.push_back({std::string(policy), "none"});
    }
    for (const std::string_view policy : striping_policies()) {
        all.push_back({"round_robin", std::string(policy)});
    }
    return all;
}

// Draws plausible seconds, or extreme ones.
double draw_seconds(Random& random) {
    constexpr double kTimes[] = {0.0, 1e-300, 1e-9, 1e-6, 1e-3, 1e3, 1e300};
    return random.below(2) == 0 ? 1e-6 * static_cast<double>(1 + random.below(100))
                                : kTimes[random.below(std::size(kTimes))];
}

// Draws paths of which some are down, with rates of zero and extreme loads among them.
std::vector<SubchannelStats> draw_paths(Random& random) {
    constexpr std::uint64_t kRates[] = {0, 1, 1'000'000, 1'000'000'000, 50'000'000'000};
    constexpr Bytes kLoads[] = {0, 1, 100'000, Bytes{1} << 50};
    constexpr Bytes kMost[] = {64, 1000, kMiB, Bytes{1} << 31};
    std::vector<SubchannelStats> up;
    for (std::uint32_t i = 0; i < 16; ++i) {
        if (random.below(3) == 0) {
            continue; // this subchannel is down
        }
        SubchannelStats stats;
        stats.index = i;
        stats.port = i % 3;
        stats.distance = static_cast<std::uint32_t>(random.below(4) * 7);
        stats.rate.value = kRates[random.below(std::size(kRates))];
        stats.max_stripe = kMost[random.below(std::size(kMost))];
        stats.outstanding = {kLoads[random.below(std::size(kLoads))],
                             kLoads[random.below(std::size(kLoads))]};
        up.push_back(stats);
    }
    return up;
}

// Checks that a plan covers each byte once, over paths that are up, without empty stripes.
void expect_good(const StripePlan& plan, Bytes length, const std::vector<SubchannelStats>& up) {
    Bytes covered = 0;
    for (const Stripe& stripe : plan) {
        const auto path = std::find_if(up.begin(), up.end(), [&](const SubchannelStats& stats) {
            return stats.index == stripe.subchannel;
        });
        ASSERT_NE(path, up.end()) << "a dead subchannel";
        ASSERT_EQ(stripe.offset, covered) << "a gap or an overlap";
        ASSERT_GT(stripe.length, 0u);
        ASSERT_LE(stripe.length, path->max_stripe);
        covered += stripe.length;
    }
    ASSERT_EQ(covered, length);
}

TEST(Properties, OfEveryPlanWhateverTheWorldIs) {
    for (const Drawn& policy : all_policies()) {
        SCOPED_TRACE(policy.multiplexing + " " + policy.striping);
        Random random(17);
        for (int world = 0; world < 16; ++world) {
            SchedulerOptions options;
            options.multiplexing = policy.multiplexing;
            options.striping = policy.striping;
            options.position = static_cast<std::uint32_t>(random.next());
            options.striping_threshold = 64 << random.below(8);
            options.min_stripe = random.below(2) * 64;
            options.alpha = static_cast<double>(random.below(3)) / 2;
            options.bss_paths = static_cast<std::uint32_t>(random.below(20));
            options.bss_batch = static_cast<std::uint32_t>(random.below(20));
            const auto scheduler = make_scheduler(options);
            for (int i = 0; i < 50; ++i) {
                const std::vector<SubchannelStats> up = draw_paths(random);
                if (up.empty()) {
                    continue;
                }
                const TransferShape transfer{1 + random.below(1 + random.below(300'000)),
                                             static_cast<OpKind>(random.below(3)),
                                             static_cast<Direction>(random.below(2))};
                const Bytes round = scheduler->round(transfer, up);
                ASSERT_GT(round, 0u);
                ASSERT_LE(round, transfer.length);
                StripePlan plan;
                scheduler->plan(transfer, up, plan);
                ASSERT_NO_FATAL_FAILURE(expect_good(plan, transfer.length, up));
                std::vector<StripeTime> times;
                for (const Stripe& stripe : plan) {
                    if (random.below(4) > 0) {
                        times.push_back({stripe.subchannel, stripe.length, draw_seconds(random)});
                    }
                }
                scheduler->learn(Mix::reads, times);
                double sum = 0;
                for (const SubchannelStats& path : up) {
                    const double weight = scheduler->weight(Mix::reads, path.index);
                    ASSERT_TRUE(std::isfinite(weight) && weight >= 0)
                        << path.index << ": " << weight;
                    sum += weight;
                }
                // Policy even gives the weights of the last transfer that it cut.
                if (policy.striping != "even") {
                    ASSERT_LE(sum, 1.000001);
                }
            }
        }
    }
}

// A weight never becomes zero, however slow its path is: so a path that is fast again is found.
TEST(Properties, NoWeightBecomesZero) {
    for (const char* policy : {"adaptive", "bss", "epc"}) {
        SchedulerOptions options;
        options.striping = policy;
        options.striping_threshold = 64;
        options.alpha = 1;
        options.bss_batch = 3;
        const auto scheduler = make_scheduler(options);
        const std::vector<SubchannelStats> up = three();
        StripePlan plan;
        for (int i = 0; i < 100; ++i) {
            scheduler->plan({kMiB, OpKind::blocking, Direction::read}, up, plan);
            const std::vector<StripeTime> times{{0, 1000, 1e-6}, {1, 1000, 1e30}, {2, 0, 1e-6}};
            scheduler->learn(Mix::reads, times);
        }
        for (std::uint32_t path = 0; path < 3; ++path) {
            EXPECT_GT(scheduler->weight(Mix::reads, path), 1e-4) << policy << path;
        }
    }
}

// Four paths with speeds 8 : 4 : 2 : 1; each stripe takes up to a half less or more than it should.
TEST(Properties, LearningFindsTheTrueRatioUnderNoise) {
    constexpr std::array<double, 4> kSpeeds{8e9, 4e9, 2e9, 1e9};
    for (const char* policy : {"adaptive", "bss", "epc", "auto"}) {
        SchedulerOptions options;
        options.striping = policy;
        options.striping_threshold = 64;
        options.min_stripe = 64;
        options.alpha = 0.25;
        options.bss_batch = 4;
        const auto scheduler = make_scheduler(options);
        std::vector<SubchannelStats> up(4);
        for (std::uint32_t i = 0; i < up.size(); ++i) {
            up[i].index = up[i].port = i;
            up[i].rate.value = 4'000'000'000;
            up[i].max_stripe = kGiB;
        }
        Random random(5);
        std::array<double, 4> mean{};
        constexpr int kFirst = 100;
        constexpr int kCounted = 400;
        for (int i = 0; i < kFirst + kCounted; ++i) {
            StripePlan plan;
            scheduler->plan({4 * kMiB, OpKind::blocking, Direction::read}, up, plan);
            std::vector<StripeTime> times;
            for (const Stripe& stripe : plan) {
                const double exact =
                    static_cast<double>(stripe.length) / kSpeeds[stripe.subchannel];
                times.push_back({stripe.subchannel, stripe.length, exact * (0.5 + random.unit())});
            }
            scheduler->learn(Mix::reads, times);
            for (std::uint32_t path = 0; path < 4 && i >= kFirst; ++path) {
                mean[path] += scheduler->weight(Mix::reads, path) / kCounted;
            }
        }
        for (std::size_t path = 0; path < 4; ++path) {
            const double truth = kSpeeds[path] / 15e9;
            EXPECT_NEAR(mean[path], truth, 0.12 * truth) << policy << " " << path;
        }
    }
}

} // namespace
} // namespace adaptib
