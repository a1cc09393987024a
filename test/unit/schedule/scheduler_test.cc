// SPDX-License-Identifier: BSD-3-Clause
// Plans of each policy, without what it learns (learning_test.cc, auto_test.cc).

#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"
#include "unit/schedule/plans.h"

namespace adaptib {
namespace {

std::unique_ptr<Scheduler> binding(std::uint32_t position = 0) {
    return make_scheduler(options("binding", "none", position));
}

constexpr const char* kMultiplexing[] = {"binding", "round_robin", "weighted_round_robin",
                                         "window_round_robin"};
constexpr const char* kStriping[] = {"auto",          "even", "weighted", "adaptive",
                                     "load_balanced", "bss",  "epc"};

TEST(Schedule, AnUnknownPolicyIsNone) {
    for (const char* policy : kMultiplexing) {
        EXPECT_NE(make_scheduler(options(policy)), nullptr) << policy;
        EXPECT_EQ(make_scheduler(options("binding", policy)), nullptr) << policy;
    }
    for (const char* policy : kStriping) {
        EXPECT_NE(make_scheduler(options("binding", policy)), nullptr) << policy;
        EXPECT_EQ(make_scheduler(options(policy)), nullptr) << policy;
    }
    for (const char* unknown : {"", "Binding", "bindin", "binding ", "evenly", "round"}) {
        EXPECT_EQ(make_scheduler(options(unknown)), nullptr) << unknown;
        EXPECT_EQ(make_scheduler(options("binding", unknown)), nullptr) << unknown;
    }
}

TEST(Binding, TakesOneSubchannelForEverything) {
    const auto scheduler = binding();
    EXPECT_EQ(plan_of(*scheduler, 1, subchannel_stats(1, 100)), (Plan{{0, 0, 1}}));
    EXPECT_EQ(plan_of(*scheduler, 100, subchannel_stats(3, 100)), (Plan{{0, 0, 100}}));
    EXPECT_EQ(plan_of(*scheduler, kMaxLength, subchannel_stats(1, UINT64_MAX)),
              (Plan{{0, 0, kMaxLength}}));
}

TEST(Binding, CutsAtTheLongestWorkRequest) {
    const auto scheduler = binding();
    const auto up = subchannel_stats(1, 100);
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{0, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 101, up), (Plan{{0, 0, 100}, {0, 100, 1}}));
    EXPECT_EQ(plan_of(*scheduler, 200, up), (Plan{{0, 0, 100}, {0, 100, 100}}));
    EXPECT_EQ(plan_of(*scheduler, 250, up), (Plan{{0, 0, 100}, {0, 100, 100}, {0, 200, 50}}));
    EXPECT_EQ(plan_of(*scheduler, 3, subchannel_stats(1, 1)),
              (Plan{{0, 0, 1}, {0, 1, 1}, {0, 2, 1}}));
    const Bytes half = Bytes{1} << 31;
    EXPECT_EQ(plan_of(*scheduler, 2 * half + 7, subchannel_stats(1, half)),
              (Plan{{0, 0, half}, {0, half, half}, {0, 2 * half, 7}}));
}

TEST(Binding, PositionsAreSpreadOverTheSubchannels) {
    for (std::uint32_t position = 0; position < 9; ++position) {
        const auto scheduler = binding(position);
        EXPECT_EQ(plan_of(*scheduler, 10, subchannel_stats(3, 100)), (Plan{{position % 3, 0, 10}}));
        EXPECT_EQ(plan_of(*scheduler, 10, subchannel_stats(1, 100)), (Plan{{0, 0, 10}}));
    }
    const auto last = binding(UINT32_MAX);
    EXPECT_EQ(plan_of(*last, 10, subchannel_stats(2, 100)), (Plan{{1, 0, 10}}));
}

TEST(Binding, NamesTheSubchannelNotItsPlaceAmongThoseThatAreUp) {
    auto up = subchannel_stats(2, 100);
    up[0].index = 5;
    up[1].index = 7;
    up[1].max_stripe = 6;
    EXPECT_EQ(plan_of(*binding(), 10, up), (Plan{{5, 0, 10}}));
    EXPECT_EQ(plan_of(*binding(1), 10, up), (Plan{{7, 0, 6}, {7, 6, 4}}));
}

TEST(Binding, IsTheSamePlanForEveryOpKindAndEachTime) {
    const auto scheduler = binding(1);
    const Plan expected{{1, 0, 100}, {1, 100, 20}};
    for (int round = 0; round < 3; ++round) {
        for (const OpKind op_kind : {OpKind::blocking, OpKind::non_blocking, OpKind::collective}) {
            EXPECT_EQ(plan_of(*scheduler, 120, subchannel_stats(2, 100), op_kind), expected);
        }
    }
}

TEST(Binding, AppendsToThePlan) {
    const auto scheduler = binding();
    Plan plan{{9, 1, 2}};
    scheduler->plan({5, OpKind::blocking, Direction::write}, subchannel_stats(1, 100), plan);
    EXPECT_EQ(plan, (Plan{{9, 1, 2}, {0, 0, 5}}));
}

TEST(Binding, CoversEveryLengthExactly) {
    const auto scheduler = binding(2);
    for (Bytes length = 1; length < 300; ++length) {
        for (const Bytes most : {Bytes{1}, Bytes{2}, Bytes{63}, Bytes{64}, Bytes{65}, Bytes{299}}) {
            Bytes covered = 0;
            for (const Stripe& stripe : plan_of(*scheduler, length, subchannel_stats(4, most))) {
                ASSERT_EQ(stripe.subchannel, 2u);
                ASSERT_EQ(stripe.offset, covered);
                ASSERT_GT(stripe.length, 0u);
                ASSERT_LE(stripe.length, most);
                covered += stripe.length;
            }
            ASSERT_EQ(covered, length);
        }
    }
}

TEST(Binding, ProcessesAreSpreadOverTheNearestRails) {
    auto up = subchannel_stats(4, 100);
    up[0].distance = 21;
    up[2].distance = 21;
    for (std::uint32_t position = 0; position < 5; ++position) {
        EXPECT_EQ(plan_of(*binding(position), 64, up),
                  (Plan{{position % 2 == 0 ? 1u : 3u, 0, 64}}));
    }
    up[3].distance = 31;
    EXPECT_EQ(plan_of(*binding(7), 64, up), (Plan{{1, 0, 64}}));
}

// Returns what each of two rails carries of a first transfer of `length` bytes.
std::vector<Bytes> first_loads(const char* policy, const std::vector<SubchannelStats>& up,
                               Bytes length) {
    SchedulerOptions some = options("binding", policy, 0, 64);
    some.min_stripe = 64;
    some.bss_batch = 2;
    return loads(plan_of(*make_scheduler(some), length, up), 2);
}

TEST(FirstWeights, AreTheRatesWhereTheseDiffer) {
    auto up = subchannel_stats(2, kMiB);
    up[0].rate.value = 4000;
    up[0].distance = 31; // does not count beside a rate
    for (const char* policy : {"auto", "weighted", "adaptive", "load_balanced", "bss", "epc"}) {
        EXPECT_EQ(first_loads(policy, up, 6400), (std::vector<Bytes>{5120, 1280})) << policy;
    }
    EXPECT_EQ(first_loads("even", up, 6400), (std::vector<Bytes>{3200, 3200}));
}

TEST(FirstWeights, AreSmallerForPortsThatAreFurtherAway) {
    auto up = subchannel_stats(2, kMiB);
    up[1].distance = 30;
    for (const char* policy : {"auto", "adaptive", "bss", "epc"}) {
        EXPECT_EQ(first_loads(policy, up, 6400), (std::vector<Bytes>{4800, 1600})) << policy;
    }
    // Policies that go by rates alone.
    for (const char* policy : {"weighted", "load_balanced", "even"}) {
        EXPECT_EQ(first_loads(policy, up, 6400), (std::vector<Bytes>{3200, 3200})) << policy;
    }
    // If all ports are equally far, distance does not count.
    for (SubchannelStats& stats : up) {
        stats.distance = 30;
    }
    EXPECT_EQ(first_loads("adaptive", up, 6400), (std::vector<Bytes>{3200, 3200}));
}

TEST(FirstWeights, ARateThatIsNotKnownIsTheSlowestOfTheOthers) {
    auto up = subchannel_stats(2, kMiB);
    up[0].rate.value = 0;
    for (const char* policy : {"auto", "weighted", "adaptive", "load_balanced", "bss", "epc"}) {
        EXPECT_EQ(first_loads(policy, up, 6400), (std::vector<Bytes>{3200, 3200})) << policy;
        auto none = up;
        none[1].rate.value = 0;
        EXPECT_EQ(first_loads(policy, none, 6400), (std::vector<Bytes>{3200, 3200})) << policy;
    }
}

TEST(RoundRobin, TakesTheNextSubchannelEachTime) {
    const auto scheduler = make_scheduler(options("round_robin", "none", 1));
    const auto up = subchannel_stats(3, 100);
    EXPECT_EQ(plan_of(*scheduler, 64, up), (Plan{{1, 0, 64}}));
    EXPECT_EQ(plan_of(*scheduler, 130, up), (Plan{{2, 0, 100}, {2, 100, 30}}));
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{0, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{1, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 99, subchannel_stats(1, 100)), (Plan{{0, 0, 99}}));
}

TEST(WindowRoundRobin, StaysForAWindow) {
    SchedulerOptions three = options("window_round_robin", "none", 1);
    three.window = 3;
    const auto scheduler = make_scheduler(three);
    for (const std::uint32_t expected : {1u, 1u, 1u, 0u, 0u, 0u, 1u, 1u}) {
        EXPECT_EQ(plan_of(*scheduler, 64, subchannel_stats(2, 100)), (Plan{{expected, 0, 64}}));
    }
}

TEST(WeightedRoundRobin, TakesTurnsByRate) {
    const auto scheduler = make_scheduler(options("weighted_round_robin"));
    auto up = subchannel_stats(2, 100);
    up[0].rate.value = 4000;
    std::vector<std::uint32_t> turns;
    for (int i = 0; i < 10; ++i) {
        turns.push_back(plan_of(*scheduler, 64, up).front().subchannel);
    }
    EXPECT_EQ(turns, (std::vector<std::uint32_t>{0, 0, 1, 0, 0, 0, 0, 1, 0, 0}));
}

// Atomics are among these lengths.
TEST(Spreading, NeverConcernsTheShortest) {
    for (const char* whole : kMultiplexing) {
        for (const char* striped : kStriping) {
            const auto scheduler = make_scheduler(options(whole, striped, 4, 1));
            for (const Bytes length : {1, 8, 63, 8, 8}) {
                EXPECT_EQ(plan_of(*scheduler, length, subchannel_stats(3, 100)),
                          (Plan{{1, 0, length}}));
            }
        }
    }
}

TEST(Spreading, ShorterThanTheThresholdIsMultiplexed) {
    for (const char* striped : kStriping) {
        SchedulerOptions two = options("round_robin", striped, 0, 1024);
        two.min_stripe = 64;
        two.bss_batch = 2;
        const auto scheduler = make_scheduler(two);
        EXPECT_EQ(plan_of(*scheduler, 1023, subchannel_stats(2, kMiB)), (Plan{{0, 0, 1023}}))
            << striped;
        EXPECT_EQ(plan_of(*scheduler, 1024, subchannel_stats(2, kMiB)),
                  (Plan{{0, 0, 512}, {1, 512, 512}}))
            << striped;
        EXPECT_EQ(plan_of(*scheduler, 100, subchannel_stats(2, kMiB)), (Plan{{1, 0, 100}}))
            << striped;
        EXPECT_EQ(plan_of(*scheduler, 100, subchannel_stats(2, kMiB)), (Plan{{0, 0, 100}}))
            << striped;
        EXPECT_EQ(plan_of(*scheduler, 5000, subchannel_stats(1, kMiB)), (Plan{{0, 0, 5000}}))
            << striped;
    }
}

TEST(Spreading, CoversEveryLengthExactly) {
    for (const char* whole : kMultiplexing) {
        for (const char* striped : kStriping) {
            SchedulerOptions some = options(whole, striped, 2, 100);
            some.min_stripe = 64;
            const auto scheduler = make_scheduler(some);
            for (Bytes length = 1; length < 1500; ++length) {
                for (const Bytes most : {Bytes{1}, Bytes{63}, Bytes{64}, Bytes{4096}}) {
                    auto up = subchannel_stats(5, most);
                    up[3].rate.value = 1;
                    up[1].outstanding = {3000, 100};
                    expect_cover(plan_of(*scheduler, length, up), length, up);
                }
            }
            const auto up = subchannel_stats(16, Bytes{1} << 31);
            expect_cover(plan_of(*scheduler, Bytes{1} << 40, up), Bytes{1} << 40, up);
        }
    }
}

// Plans name live subchannels only, whichever paths go and come.
TEST(Spreading, NamesNoSubchannelThatIsNotUp) {
    Random random(1);
    for (const char* striped : kStriping) {
        SchedulerOptions some = options("round_robin", striped, 0, 64);
        some.min_stripe = 64;
        const auto scheduler = make_scheduler(some);
        for (int i = 0; i < 300; ++i) {
            std::vector<SubchannelStats> up;
            for (const SubchannelStats& stats : subchannel_stats(6, 500)) {
                if (random.below(2) == 0) {
                    up.push_back(stats);
                }
            }
            if (up.empty()) {
                continue;
            }
            const Bytes length = 64 + random.below(5000);
            const Plan plan = plan_of(*scheduler, length, up);
            expect_cover(plan, length, up);
            std::vector<StripeTime> times;
            for (const Stripe& stripe : plan) {
                times.push_back({stripe.subchannel, stripe.length,
                                 1e-6 * static_cast<double>(1 + random.below(100))});
            }
            scheduler->learn(Mix::reads, times);
        }
    }
}

TEST(Even, CutsIntoEqualParts) {
    const auto scheduler = make_scheduler(options("binding", "even", 0, 1024));
    EXPECT_EQ(plan_of(*scheduler, 2048, subchannel_stats(2, kMiB)),
              (Plan{{0, 0, 1024}, {1, 1024, 1024}}));
    EXPECT_EQ(plan_of(*scheduler, 1024, subchannel_stats(4, kMiB)),
              (Plan{{0, 0, 256}, {1, 256, 256}, {2, 512, 256}, {3, 768, 256}}));
    // Lengths are rounded to cache lines: the last part is the rest.
    EXPECT_EQ(plan_of(*scheduler, 1025, subchannel_stats(2, kMiB)),
              (Plan{{0, 0, 576}, {1, 576, 449}}));
    EXPECT_EQ(plan_of(*scheduler, 2048, subchannel_stats(2, 1000)),
              (Plan{{0, 0, 1000}, {0, 1000, 24}, {1, 1024, 1000}, {1, 2024, 24}}));
    EXPECT_EQ(plan_of(*make_scheduler(options("binding", "even", 3, 1024)), 2048,
                      subchannel_stats(2, kMiB)),
              (Plan{{1, 0, 1024}, {0, 1024, 1024}}));
}

TEST(Weighted, CutsInProportionToTheRates) {
    const auto scheduler = make_scheduler(options("binding", "weighted", 0, 1024));
    auto up = subchannel_stats(3, kMiB);
    up[1].rate.value = 2000;
    EXPECT_EQ(plan_of(*scheduler, 4096, up),
              (Plan{{1, 0, 2048}, {0, 2048, 1024}, {2, 3072, 1024}}));
    const std::vector<StripeTime> slow{{1, 2048, 1.0}, {0, 1024, 1e-6}};
    scheduler->learn(Mix::reads, slow);
    EXPECT_EQ(plan_of(*scheduler, 4096, up).front(), (Stripe{1, 0, 2048})) << "whatever is learnt";
}

// A path of 1 GB/s carries 1000 bytes in a microsecond.
TEST(Weighted, NoPartIsShorterThanItCosts) {
    const auto up = [] {
        auto up = subchannel_stats(4, kMiB);
        for (SubchannelStats& stats : up) {
            stats.rate.value = 1'000'000'000;
        }
        return up;
    }();
    const auto scheduler = make_scheduler(options("binding", "weighted", 0, 64));
    EXPECT_EQ(plan_of(*scheduler, 1999, up).size(), 1u);
    EXPECT_EQ(plan_of(*scheduler, 2000, up).size(), 2u);
    EXPECT_EQ(plan_of(*scheduler, 2999, up).size(), 2u);
    EXPECT_EQ(plan_of(*scheduler, 3000, up).size(), 3u);
    EXPECT_EQ(plan_of(*scheduler, 4000, up).size(), 4u);
    SchedulerOptions least = options("binding", "weighted", 0, 64);
    least.min_stripe = 500;
    EXPECT_EQ(plan_of(*make_scheduler(least), 999, up).size(), 1u);
    EXPECT_EQ(plan_of(*make_scheduler(least), 1000, up).size(), 2u);
    EXPECT_EQ(plan_of(*make_scheduler(least), 2000, up).size(), 4u);
}

TEST(Adaptive, CountsInWhatIsUnderWay) {
    SchedulerOptions some = options("binding", "adaptive", 0, 64);
    some.min_stripe = 64;
    const auto adaptive = make_scheduler(some);
    some.striping = "weighted";
    const auto weighted = make_scheduler(some);
    auto up = subchannel_stats(2, kMiB);
    up[0].outstanding = {6400, 0};
    EXPECT_EQ(loads(plan_of(*adaptive, 6400, up), 2), (std::vector<Bytes>{0, 6400}));
    EXPECT_EQ(loads(plan_of(*adaptive, 12800, up), 2), (std::vector<Bytes>{3200, 9600}));
    EXPECT_EQ(loads(plan_of(*weighted, 12800, up), 2), (std::vector<Bytes>{6400, 6400}));
    const std::vector<StripeTime> times{{0, 1000, 1e-6}, {1, 1000, 3e-6}};
    for (int i = 0; i < 40; ++i) {
        adaptive->learn(Mix::reads, times); // speeds 3 : 1
    }
    EXPECT_EQ(loads(plan_of(*adaptive, 19200, up), 2), (std::vector<Bytes>{12800, 6400}));
}

TEST(Scheduler, PlansLongTransfersInRoundsWhereItLearns) {
    const auto round = [](const char* striping, Bytes length, OpKind op_kind = OpKind::blocking,
                          std::uint32_t up = 2, Bytes threshold = 64) {
        const auto scheduler = make_scheduler(options("binding", striping, 0, threshold));
        return scheduler->round({length, op_kind, Direction::read}, subchannel_stats(up, kMiB));
    };
    for (const char* policy : {"none", "even", "weighted", "load_balanced", "bss"}) {
        EXPECT_EQ(round(policy, kGiB), kGiB) << policy;
    }
    EXPECT_EQ(round("adaptive", kGiB), 512 * kKiB);
    EXPECT_EQ(round("adaptive", 512 * kKiB - 1), 512 * kKiB - 1);
    EXPECT_EQ(round("adaptive", kGiB, OpKind::blocking, 1), kGiB);
    EXPECT_EQ(round("epc", kGiB), 512 * kKiB);
    EXPECT_EQ(round("epc", kGiB, OpKind::non_blocking), kGiB);
    // A round is never below the threshold, where transfers are not striped.
    EXPECT_EQ(round("adaptive", kGiB, OpKind::blocking, 2, kMiB), kMiB);
    EXPECT_EQ(round("adaptive", kMiB - 1, OpKind::blocking, 2, kMiB), kMiB - 1);
}

TEST(LoadBalanced, FillsTheLeastLoadedFirst) {
    SchedulerOptions some = options("binding", "load_balanced", 0, 64);
    some.min_stripe = 64;
    const auto scheduler = make_scheduler(some);
    auto up = subchannel_stats(3, kMiB);
    up[0].outstanding = {6400, 0};
    up[1].outstanding = {64000, 0};
    const auto read = [&](Bytes length) { return loads(plan_of(*scheduler, length, up), 3); };
    EXPECT_EQ(read(6400), (std::vector<Bytes>{0, 0, 6400}));
    EXPECT_EQ(read(7680), (std::vector<Bytes>{640, 0, 7040}));
    EXPECT_EQ(read(121600), (std::vector<Bytes>{57600, 0, 64000}));
    // Writes do not compete with reads.
    EXPECT_EQ(loads(plan_of(*scheduler, 19200, up, OpKind::blocking, Direction::write), 3),
              (std::vector<Bytes>{6400, 6400, 6400}));
    up[2].rate.value = 3000;
    EXPECT_EQ(loads(plan_of(*scheduler, 19200, up, OpKind::blocking, Direction::write), 3),
              (std::vector<Bytes>{3840, 3840, 11520}));
}

TEST(Epc, StripesForWhoWaits) {
    SchedulerOptions some = options("binding", "epc", 0, 64);
    some.min_stripe = 64;
    const auto scheduler = make_scheduler(some);
    const auto up = subchannel_stats(2, kMiB);
    EXPECT_EQ(plan_of(*scheduler, 2048, up, OpKind::blocking).size(), 2u);
    EXPECT_EQ(plan_of(*scheduler, 2048, up, OpKind::collective).size(), 2u);
    EXPECT_EQ(plan_of(*scheduler, 2048, up, OpKind::non_blocking), (Plan{{0, 0, 2048}}));
    EXPECT_EQ(plan_of(*scheduler, 2048, up, OpKind::non_blocking), (Plan{{1, 0, 2048}}));
}

} // namespace
} // namespace adaptib
