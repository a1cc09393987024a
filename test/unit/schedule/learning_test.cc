// SPDX-License-Identifier: BSD-3-Clause
// Weights that policies learn from times of stripes.

#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"
#include "schedule/policies.h"
#include "unit/schedule/plans.h"

namespace adaptib {
namespace {

// Paths with speeds unknown to the policy, and times with noise.
class Learning {
public:
    Learning(const char* striping, std::vector<double> speeds, std::uint32_t batch = 0)
        : speeds_(std::move(speeds)),
          up_(subchannel_stats(static_cast<std::uint32_t>(speeds_.size()), kGiB)) {
        SchedulerOptions some = options("binding", striping, 0, 64);
        some.min_stripe = 64;
        some.bss_batch = batch;
        scheduler_ = make_scheduler(some);
    }
    // Returns the seconds that a transfer takes which is planned in rounds, one after the other.
    double in_rounds(Bytes length) {
        double sum = 0;
        const Bytes round = scheduler_->round({length, OpKind::blocking, Direction::read}, up_);
        for (Bytes left = length; left > 0;) {
            const Bytes part = left < 2 * round ? left : round;
            sum += transfer(part);
            left -= part;
        }
        return sum;
    }
    // Returns the seconds that a transfer takes, and lets the policy learn from it.
    double transfer(Bytes length) {
        std::vector<StripeTime> times;
        double longest = 0;
        for (const Stripe& stripe : plan(length)) {
            const double noise = 0.9 + 0.2 * static_cast<double>(random_.below(1000)) / 1000;
            const double seconds =
                static_cast<double>(stripe.length) / speeds_[stripe.subchannel] * noise;
            times.push_back({stripe.subchannel, stripe.length, seconds});
            longest = std::max(longest, seconds);
        }
        scheduler_->learn(Mix::reads, times);
        return longest;
    }
    double after(int transfers, Bytes length) {
        double sum = 0;
        for (int i = 0; i < transfers; ++i) {
            transfer(length);
        }
        for (int i = 0; i < 32; ++i) {
            sum += transfer(length) / 32;
        }
        return sum;
    }
    void speed(std::size_t path, double value) { speeds_[path] = value; }
    Plan plan(Bytes length) {
        std::vector<SubchannelStats> up;
        for (const SubchannelStats& stats : up_) {
            if ((down_ >> stats.index & 1) == 0) {
                up.push_back(stats);
            }
        }
        return plan_of(*scheduler_, length, up);
    }
    // Returns the bytes of one transfer that the path gets; the policy learns nothing from it.
    Bytes part_of(std::size_t path, Bytes length) {
        Bytes part = 0;
        for (const Stripe& stripe : plan(length)) {
            part += stripe.subchannel == path ? stripe.length : 0;
        }
        return part;
    }
    void set_up(std::size_t path, bool up) {
        down_ = up ? down_ & ~(std::uint64_t{1} << path) : down_ | std::uint64_t{1} << path;
    }
    void set_port(std::size_t path, std::uint32_t port) { up_[path].port = port; }
    Scheduler& scheduler() { return *scheduler_; }

private:
    std::vector<double> speeds_;
    std::vector<SubchannelStats> up_;
    std::uint64_t down_ = 0;
    std::unique_ptr<Scheduler> scheduler_;
    Random random_{7};
};

// A ping-pong over paths that claim the same rate, save up credit while they are idle, and take a
// fixed time for each part besides, as rails behind a shaper do.
class Shaped {
public:
    struct Wire {
        double rate = 0; // bytes per second
        double credit = 0;
        double saved = 0;
        double at = 0; // time at which `saved` was right
    };
    explicit Shaped(const std::vector<double>& rates)
        : up_(subchannel_stats(static_cast<std::uint32_t>(rates.size()), kGiB)),
          scheduler_(make_scheduler(options("binding", "auto", 0, 1024))) {
        for (const double rate : rates) {
            wires_.push_back({rate, kCredit, kCredit, 0});
        }
        up_.resize(rates.size());
    }
    // Returns the mean of the seconds that a message takes one way.
    double messages(int count, Bytes length) {
        double sum = 0;
        for (int i = 0; i < count; ++i) {
            const double taken = message(length);
            sum += taken;
            now_ += 2 * taken; // there and back
        }
        return sum / count;
    }

private:
    static constexpr double kCredit = 8192;
    static constexpr double kFixed = 150e-6;

    double message(Bytes length) {
        std::vector<StripeTime> times;
        double longest = 0;
        for (const Stripe& stripe : plan_of(*scheduler_, length, up_)) {
            Wire& wire = wires_[stripe.subchannel];
            const auto bytes = static_cast<double>(stripe.length);
            const double saved = std::min(wire.credit, wire.saved + (now_ - wire.at) * wire.rate);
            const double sent = std::max(0.0, bytes - saved) / wire.rate;
            wire.saved = std::max(0.0, saved - bytes);
            wire.at = now_ + sent;
            times.push_back({stripe.subchannel, stripe.length, kFixed + sent});
            longest = std::max(longest, kFixed + sent);
        }
        if (times.size() > 1) {
            scheduler_->learn(Mix::reads, times);
        }
        return longest;
    }

    std::vector<Wire> wires_;
    std::vector<SubchannelStats> up_;
    std::unique_ptr<Scheduler> scheduler_;
    double now_ = 0;
};

constexpr double kFast = 12.5e6;
constexpr double kSlow = kFast / 4;

// Short transfers cost nothing while credit lasts, and take long once it is used up.
TEST(Adaptive, SharesDoNotSwingWhereRailsSaveSomethingUp) {
    for (const Bytes length : {16 * kKiB, 32 * kKiB, 64 * kKiB, 256 * kKiB}) {
        Shaped both({kFast, kSlow});
        Shaped one({kFast});
        both.messages(100, length);
        const double alone = one.messages(100, length);
        EXPECT_LT(both.messages(200, length), 0.87 * alone) << length;
    }
}

// Each length has shares of its own.
TEST(Adaptive, LengthsThatTakeTurnsDoNotSpoilEachOther) {
    Shaped mixed({kFast, kSlow});
    Shaped only({kFast, kSlow});
    only.messages(50, 256 * kKiB);
    const double best = only.messages(50, 256 * kKiB);
    double sum = 0;
    for (int turn = 0; turn < 20; ++turn) {
        mixed.messages(35, 16 * kKiB);
        mixed.messages(8, 64 * kKiB);
        const double taken = mixed.messages(1, 256 * kKiB);
        sum += turn >= 10 ? taken / 10 : 0;
    }
    EXPECT_LT(sum, 1.03 * best);
}

// A new length begins with the shares learned last.
TEST(Adaptive, WhatIsKnownOfOneLengthIsAtFirstTakenForTheOthersToo) {
    Learning paths("adaptive", {4e9, 1e9});
    paths.after(60, kLong);
    for (const Bytes length : {20 * kKiB, 100 * kKiB}) {
        EXPECT_NEAR(static_cast<double>(paths.part_of(1, length)) / static_cast<double>(length),
                    0.2, 0.03)
            << length;
    }
}

TEST(Adaptive, FindsTheRatesThatNobodySaid) {
    for (const char* policy : {"adaptive", "epc"}) {
        Learning paths(policy, {4e9, 1e9});
        const double best = static_cast<double>(kLong) / 5e9;
        EXPECT_LT(paths.after(30, kLong), 1.12 * best) << policy; // times are off by up to a tenth
        EXPECT_NEAR(paths.scheduler().weight(Mix::reads, 0), 0.8, 0.03) << policy;
        EXPECT_NEAR(paths.scheduler().weight(Mix::reads, 1), 0.2, 0.03) << policy;
    }
    Learning equal("adaptive", {1e9, 1e9, 1e9});
    EXPECT_LT(equal.after(30, kLong), 1.12 * static_cast<double>(kLong) / 3e9);
}

TEST(Adaptive, FollowsAHotSpotThatMoves) {
    for (const char* policy : {"adaptive", "bss"}) {
        Learning paths(policy, {1e9, 1e9, 1e8, 1e9}, 3);
        const double before = paths.after(50, kLong);
        EXPECT_LT(before, 1.25 * static_cast<double>(kLong) / 3.1e9) << policy;
        paths.speed(2, 1e9);
        paths.speed(0, 1e8);
        EXPECT_LT(paths.after(50, kLong), 1.25 * static_cast<double>(kLong) / 3.1e9) << policy;
    }
}

TEST(Returned, APathBeginsWithLittleAndEarnsItsShare) {
    for (const char* policy : {"adaptive", "epc", "auto", "bss"}) {
        SCOPED_TRACE(policy);
        Learning paths(policy, {1e9, 1e9}, 2);
        paths.after(20, kLong);
        const Bytes before = paths.part_of(1, kLong);
        EXPECT_GT(before, kLong * 4 / 10);
        paths.set_up(1, false);
        paths.after(10, kLong);
        EXPECT_EQ(paths.part_of(1, kLong), 0u);
        paths.set_up(1, true);
        const Bytes first = paths.part_of(1, kLong);
        EXPECT_GT(first, kLong / 20);
        EXPECT_LT(first, kLong / 6);
        for (int i = 0; i < 8; ++i) {
            paths.transfer(kLong);
        }
        EXPECT_GT(paths.part_of(1, kLong), kLong * 4 / 10);
    }
}

// Links that flap in turn: each return takes from what the other one has.
TEST(Returned, InTurnLeavesTheSumOfTheWeights) {
    PathWeights weights(0.5, 0.0);
    weights.of(0, 1);
    weights.of(1, 3);
    for (std::uint64_t i = 0; i < 10'000; ++i) {
        const std::uint64_t path = i % 2;
        weights.come_back(std::uint64_t{1} << path, std::uint64_t{2} >> path);
        ASSERT_NEAR(weights.sum(), 4.0, 1e-3) << i;
        ASSERT_GT(weights.known(0), 1e-6) << i;
        ASSERT_GT(weights.known(1), 1e-6) << i;
    }
}

// The scheduler learns in small steps while times are noisy, and may be far off then.
TEST(Returned, TheNextLessonCountsInFull) {
    PathWeights weights(0.5, 0.0);
    weights.of(0, 1);
    weights.of(1, 1);
    const auto lesson = [](PathWeights& of, double first, double second) {
        const StripeTime times[] = {{.subchannel = 0, .length = 1000, .seconds = first},
                                    {.subchannel = 1, .length = 1000, .seconds = second}};
        EXPECT_TRUE(of.learn(times, true));
    };
    for (int i = 0; i < 10; ++i) {
        lesson(weights, 1, 2);
        lesson(weights, 2, 1);
    }
    PathWeights returned = weights;
    returned.come_back(0, 3);
    lesson(weights, 2, 1);
    lesson(returned, 2, 1);
    EXPECT_LT(returned.known(0), weights.known(0));
}

// A path that is slow after its return costs no more than a small part of a transfer.
TEST(Returned, ASlowPathEarnsNothing) {
    for (const char* policy : {"adaptive", "auto"}) {
        SCOPED_TRACE(policy);
        Learning paths(policy, {1e9, 1e9});
        paths.after(20, kLong);
        paths.set_up(1, false);
        paths.after(10, kLong);
        paths.set_up(1, true);
        paths.speed(1, 1e8);
        const double alone = static_cast<double>(kLong) / 1e9;
        EXPECT_LT(paths.transfer(kLong), 1.5 * alone); // with its old share: 5 times
        EXPECT_LT(paths.after(20, kLong), 1.1 * alone);
    }
}

// The path's share is worth less than a stripe: it grows until the path gets a part, whose time
// then shows how fast the path is.
TEST(Returned, APathWithoutAPartGetsOneInTheEnd) {
    for (const char* policy : {"adaptive", "auto", "bss"}) {
        SCOPED_TRACE(policy);
        SchedulerOptions some = options("binding", policy, 0, 64);
        some.min_stripe = 64 * kKiB;
        some.bss_batch = 2;
        const auto scheduler = make_scheduler(some);
        const auto both = subchannel_stats(2, kGiB);
        EXPECT_EQ(plan_of(*scheduler, 200 * kKiB, both).size(), 2u);
        EXPECT_EQ(plan_of(*scheduler, 200 * kKiB, {both[0]}).size(), 1u);
        EXPECT_EQ(plan_of(*scheduler, 200 * kKiB, both).size(), 1u);
        int plans = 1;
        while (plans < 100 && plan_of(*scheduler, 200 * kKiB, both).size() == 1) {
            ++plans;
        }
        EXPECT_LT(plans, 12);
        for (int i = 0; i < 12; ++i) {
            static_cast<void>(plan_of(*scheduler, 200 * kKiB, both));
        }
        EXPECT_EQ(plan_of(*scheduler, 200 * kKiB, both).back().length, 100 * kKiB);
    }
}

// A port whose paths all return starts with a small share; a path that returns to a port whose
// other paths have stayed gets its part of that port's share.
TEST(Returned, PortsWithSeveralPaths) {
    Learning paths("auto", {1e9, 1e9, 1e9, 1e9});
    for (std::size_t path = 0; path < 4; ++path) {
        paths.set_port(path, path / 2 == 0 ? 0 : 1);
    }
    const auto second = [&] { return paths.part_of(2, kLong) + paths.part_of(3, kLong); };
    paths.after(20, kLong);
    EXPECT_GT(second(), kLong * 4 / 10);
    paths.set_up(2, false);
    paths.after(10, kLong);
    paths.set_up(2, true);
    EXPECT_GT(second(), kLong * 4 / 10) << "the port has never been away";
    paths.set_up(2, false);
    paths.set_up(3, false);
    paths.after(10, kLong);
    paths.set_up(2, true);
    paths.set_up(3, true);
    EXPECT_LT(second(), kLong / 6);
    for (int i = 0; i < 8; ++i) {
        paths.transfer(kLong);
    }
    EXPECT_GT(second(), kLong * 4 / 10);
}

// A path that is slow for reads need not be slow for writes.
TEST(Directions, AreLearntApart) {
    const std::vector<SubchannelStats> up = subchannel_stats(2, kGiB);
    for (const char* policy : {"adaptive", "epc", "auto", "bss"}) {
        SchedulerOptions some = options("binding", policy, 0, 64);
        some.bss_batch = 2;
        const auto scheduler = make_scheduler(some);
        for (int i = 0; i < 60; ++i) {
            const Direction direction = i % 2 == 0 ? Direction::read : Direction::write;
            std::vector<StripeTime> times;
            for (const Stripe& stripe :
                 plan_of(*scheduler, kLong, up, OpKind::blocking, direction)) {
                const bool fast = (stripe.subchannel == 0) == (direction == Direction::read);
                times.push_back({stripe.subchannel, stripe.length,
                                 static_cast<double>(stripe.length) / (fast ? 4e9 : 1e9)});
            }
            scheduler->learn(scheduler->mix(), times);
        }
        EXPECT_NEAR(scheduler->weight(Mix::reads, 0), 0.8, 0.01) << policy;
        EXPECT_NEAR(scheduler->weight(Mix::writes, 0), 0.2, 0.01) << policy;
        EXPECT_EQ(scheduler->weight(Mix::both, 0), 0) << policy;
    }
}

TEST(Directions, AtOnceAreLearntOnTheirOwn) {
    std::vector<SubchannelStats> up = subchannel_stats(2, kGiB);
    const auto scheduler = make_scheduler(options("binding", "adaptive", 0, 64));
    const auto learn = [&](Direction direction, Mix expected, double first) {
        const Plan plan = plan_of(*scheduler, kLong, up, OpKind::blocking, direction);
        EXPECT_EQ(scheduler->mix(), expected);
        const std::vector<StripeTime> times{{0, kLong, 1 / first}, {1, kLong, 1 / (1 - first)}};
        scheduler->learn(scheduler->mix(), times);
    };
    for (int i = 0; i < 20; ++i) {
        up[1].outstanding = {0, 0};
        learn(Direction::read, Mix::reads, 0.75);
        up[1].outstanding = {1000, 0}; // reads
        learn(Direction::read, Mix::reads, 0.75);
        learn(Direction::write, Mix::both, 0.25);
        up[1].outstanding = {0, 1000}; // writes
        learn(Direction::read, Mix::both, 0.25);
    }
    EXPECT_NEAR(scheduler->weight(Mix::reads, 0), 0.75, 0.01);
    EXPECT_NEAR(scheduler->weight(Mix::both, 0), 0.25, 0.01);
    EXPECT_EQ(scheduler->weight(Mix::writes, 0), 0);
}

// The share that the path without a part regains is taken from the others; otherwise the sum would
// grow without bound.
TEST(Adaptive, WeightsKeepTheirSum) {
    const std::vector<SubchannelStats> up = subchannel_stats(4, kGiB);
    SchedulerOptions some = options("binding", "adaptive", 0, 64);
    some.min_stripe = 16 * kKiB;
    const auto policy = make_adaptive(some);
    const auto plan = [&] {
        Plan plan;
        policy->plan({200 * kKiB, OpKind::blocking, Direction::read}, up, plan);
        return plan;
    };
    const auto sum = [&] {
        double sum = 0;
        for (std::uint32_t path = 0; path < 4; ++path) {
            sum += policy->learnt(path);
        }
        return sum;
    };
    plan();
    const double before = sum();
    for (int i = 0; i < 300'000; ++i) {
        std::vector<StripeTime> times;
        for (const Stripe& stripe : plan()) {
            const double speed = stripe.subchannel == 3 ? 1e9 / 6 : 1e9;
            times.push_back(
                {stripe.subchannel, stripe.length, static_cast<double>(stripe.length) / speed});
        }
        policy->learn(times);
    }
    EXPECT_NEAR(sum(), before, 1e-6 * before);
}

// A single path that carries everything teaches nothing, so the path that it left
// out would stay out.
TEST(LeftOut, ARailThatWasSlowIsUsedAgain) {
    struct Scene {
        const char* policy;
        std::uint32_t paths; // both rails together
    };
    for (const Scene scene : {Scene{"adaptive", 2}, {"auto", 2}, {"auto", 4}, {"epc", 2}}) {
        SCOPED_TRACE(std::string(scene.policy) + " " + std::to_string(scene.paths));
        SchedulerOptions some = options("binding", scene.policy, 0, 64);
        some.min_stripe = 64 * kKiB;
        const auto scheduler = make_scheduler(some);
        std::vector<SubchannelStats> up = subchannel_stats(scene.paths, kGiB);
        for (SubchannelStats& stats : up) {
            stats.port = stats.index % 2;
        }
        // Returns how many transfers it takes until the second rail has a part, or none.
        const auto transfers_until = [&](bool has_part, double speed) {
            for (int i = 1; i <= 200; ++i) {
                std::vector<StripeTime> times;
                bool second = false;
                for (const Stripe& stripe : plan_of(*scheduler, 200 * kKiB, up)) {
                    const bool of_second = up[stripe.subchannel].port == 1;
                    second = second || of_second;
                    times.push_back(
                        {stripe.subchannel, stripe.length,
                         static_cast<double>(stripe.length) / (of_second ? speed : 1e9)});
                }
                if (scheduler->wants_times(times.size())) {
                    scheduler->learn(Mix::reads, times);
                }
                if (second == has_part) {
                    return i;
                }
            }
            return 201;
        };
        EXPECT_LE(transfers_until(false, 1e9 / 6), 8);
        EXPECT_LE(transfers_until(true, 1e9), 64);
        EXPECT_EQ(transfers_until(false, 1e9), 201) << "it is as fast now";
    }
}

// Transfers that are too short for two paths do not make a policy forget shares either.
TEST(LeftOut, WhatIsWorthNoStripeAnywayDoesNotAge) {
    SchedulerOptions some = options("binding", "adaptive", 0, 64);
    some.min_stripe = 8 * kKiB;
    const auto scheduler = make_scheduler(some);
    const auto up = subchannel_stats(2, kGiB);
    for (int i = 0; i < 20; ++i) {
        std::vector<StripeTime> times;
        for (const Stripe& stripe : plan_of(*scheduler, 60 * kKiB, up)) {
            times.push_back(
                {stripe.subchannel, stripe.length,
                 static_cast<double>(stripe.length) / (stripe.subchannel == 1 ? 1e9 : 4e9)});
        }
        scheduler->learn(Mix::reads, times);
    }
    const double before = scheduler->weight(Mix::reads, 1);
    EXPECT_NEAR(before, 0.2, 0.01);
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(plan_of(*scheduler, 12 * kKiB, up).size(), 1u);
    }
    EXPECT_EQ(scheduler->weight(Mix::reads, 1), before);
}

// Times that say nothing about how paths compare are no reason to measure less.
TEST(LeftOut, OneTimeIsNoLesson) {
    for (const char* policy : {"adaptive", "auto", "epc", "bss"}) {
        const auto scheduler = make_scheduler(options("binding", policy, 0, 64));
        plan_of(*scheduler, kLong, subchannel_stats(2, kGiB));
        const std::vector<StripeTime> one{{0, 1000, 5.0}};
        scheduler->learn(Mix::reads, one);
        EXPECT_EQ(scheduler->lessons(), 0u) << policy;
        const std::vector<StripeTime> two{{0, 1000, 5.0}, {1, 1000, 5.0}};
        scheduler->learn(Mix::reads, two);
        EXPECT_EQ(scheduler->lessons(), 1u) << policy;
    }
}

TEST(Adaptive, OneTimeAloneTeachesNothing) {
    Learning paths("adaptive", {1e9, 1e9});
    paths.transfer(kLong);
    const double weight = paths.scheduler().weight(Mix::reads, 0);
    const std::vector<StripeTime> one{{0, 1000, 5.0}};
    paths.scheduler().learn(Mix::reads, one);
    paths.scheduler().learn(Mix::reads, {});
    EXPECT_EQ(paths.scheduler().weight(Mix::reads, 0), weight);
    const std::vector<StripeTime> unknown{{0, 1000, 0.0}, {99, 5, 1.0}};
    paths.scheduler().learn(Mix::reads, unknown);
    EXPECT_EQ(paths.scheduler().weight(Mix::reads, 0), weight);
}

// Equation 7.4, from weights 0.5 and 0.5, where the second path took three times as long.
TEST(Adaptive, LearnsAsTheEquationSays) {
    SchedulerOptions half = options("binding", "adaptive", 0, 64);
    half.alpha = 0.5;
    const auto scheduler = make_scheduler(half);
    EXPECT_EQ(plan_of(*scheduler, 2048, subchannel_stats(2, kMiB)),
              (Plan{{0, 0, 1024}, {1, 1024, 1024}}));
    const std::vector<StripeTime> times{{0, 1024, 1e-6}, {1, 1024, 3e-6}};
    scheduler->learn(Mix::reads, times);
    EXPECT_DOUBLE_EQ(scheduler->weight(Mix::reads, 0), 0.5 * 0.5 + 0.5 * 0.75);
    EXPECT_DOUBLE_EQ(scheduler->weight(Mix::reads, 1), 0.5 * 0.5 + 0.5 * 0.25);
}

// Transfers that are planned before the first of them ends have the same weights: together they
// teach as much as one.
TEST(Adaptive, WhatWasPostedBehindOthersCountsLess) {
    const auto up = subchannel_stats(2, kGiB);
    const auto scheduler = make_scheduler(options("binding", "adaptive", 0, 64));
    plan_of(*scheduler, 2048, up);
    const std::vector<StripeTime> times{{0, 1024, 1e-6, 3 * 1024}, {1, 1024, 3e-6, 3 * 1024}};
    scheduler->learn(Mix::reads, times);
    EXPECT_DOUBLE_EQ(scheduler->weight(Mix::reads, 0), 0.875 * 0.5 + 0.125 * 0.75);
    EXPECT_DOUBLE_EQ(scheduler->weight(Mix::reads, 1), 0.875 * 0.5 + 0.125 * 0.25);
}

TEST(Adaptive, FindsTheRatesWithinOneLongTransfer) {
    Learning rounds("adaptive", {4e9, 1e9});
    const double best = 16.0 * kMiB / 5e9;
    EXPECT_LT(rounds.in_rounds(16 * kMiB), 1.25 * best);
    Learning once("adaptive", {4e9, 1e9});
    EXPECT_GT(once.transfer(16 * kMiB), 2.2 * best);
}

TEST(Bss, UsesABatchAndProbesTheOthers) {
    Learning paths("bss", {1e8, 1e9, 1e9, 1e8, 1e8, 1e8}, 2);
    const double best = static_cast<double>(kLong) / 2e9;
    EXPECT_LT(paths.after(100, kLong), 2.0 * best) << "with one transfer in eight for a probe";
    EXPECT_GT(paths.scheduler().weight(Mix::reads, 1) + paths.scheduler().weight(Mix::reads, 2),
              0.4);
    SchedulerOptions two = options("binding", "bss", 0, 64);
    two.min_stripe = 64;
    two.bss_paths = 4;
    two.bss_batch = 2;
    const auto scheduler = make_scheduler(two);
    std::vector<Bytes> all(6);
    for (int i = 0; i < 100; ++i) {
        const std::vector<Bytes> each =
            loads(plan_of(*scheduler, 4096, subchannel_stats(6, kMiB)), 6);
        EXPECT_EQ(std::count(each.begin(), each.end(), 0u), 4) << "two carry it";
        for (std::size_t path = 0; path < 6; ++path) {
            all[path] += each[path];
        }
    }
    for (std::size_t path = 0; path < 6; ++path) {
        EXPECT_EQ(all[path] > 0, path < 4) << path;
    }
}

TEST(Auto, PortsAreUsedInProportionToWhatTheyCarry) {
    Learning rails("auto", {4e9, 1e9});
    std::vector<SubchannelStats> up = subchannel_stats(2, kGiB);
    const double best = static_cast<double>(kLong) / 5e9;
    EXPECT_LT(rails.after(30, kLong), 1.12 * best);
    EXPECT_NEAR(rails.scheduler().weight(Mix::reads, 0), 0.8, 0.03);
    EXPECT_NEAR(rails.scheduler().weight(Mix::reads, 1), 0.2, 0.03);
}

} // namespace
} // namespace adaptib
