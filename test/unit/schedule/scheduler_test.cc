// SPDX-License-Identifier: BSD-3-Clause
// Schedulers: plans cover their transfer exactly, and are the ones that the policy says.
#include "schedule/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "base/random.h"

namespace adaptib {

static bool operator==(const Stripe& a, const Stripe& b) {
    return a.subchannel == b.subchannel && a.offset == b.offset && a.length == b.length;
}

static std::ostream& operator<<(std::ostream& out, const Stripe& s) {
    return out << s.subchannel << ": " << s.offset << "+" << s.length;
}

namespace {

using Plan = std::vector<Stripe>;

constexpr Bytes kMaxLength = Bytes{1} << 56;

std::vector<SubchannelView> views(std::uint32_t count, Bytes max_stripe) {
    std::vector<SubchannelView> up;
    for (std::uint32_t i = 0; i < count; ++i) {
        SubchannelView view;
        view.index = view.port = i;
        view.rate.value = 1000;
        view.max_stripe = max_stripe;
        up.push_back(view);
    }
    return up;
}

Plan plan_of(Scheduler& scheduler, Bytes length, const std::vector<SubchannelView>& up,
             Marker marker = Marker::blocking, Direction direction = Direction::read) {
    Plan plan;
    scheduler.plan({length, marker, direction}, up, plan);
    return plan;
}

SchedulerOptions options(const char* multiplexing, const char* striping = "none",
                         std::uint32_t position = 0, Bytes threshold = 0) {
    SchedulerOptions options;
    options.multiplexing = multiplexing;
    options.striping = striping;
    options.position = position;
    options.striping_threshold = threshold;
    return options;
}

std::unique_ptr<Scheduler> binding(std::uint32_t position = 0) {
    return make_scheduler(options("binding", "none", position));
}

constexpr const char* kMultiplexing[] = {"binding", "round_robin", "weighted_round_robin",
                                         "window_round_robin"};
constexpr const char* kStriping[] = {"auto",          "even", "weighted", "adaptive",
                                     "load_balanced", "bss",  "epc"};

// Bytes of the plan that each subchannel carries.
std::vector<Bytes> loads(const Plan& plan, std::size_t count) {
    std::vector<Bytes> loads(count);
    for (const Stripe& stripe : plan) {
        loads.at(stripe.subchannel) += stripe.length;
    }
    return loads;
}

// Covers [0, length) in order, without empty or too long stripes, over subchannels that are up.
void expect_cover(const Plan& plan, Bytes length, const std::vector<SubchannelView>& up) {
    Bytes covered = 0;
    for (const Stripe& stripe : plan) {
        const auto view = std::find_if(up.begin(), up.end(), [&](const SubchannelView& each) {
            return each.index == stripe.subchannel;
        });
        ASSERT_NE(view, up.end());
        ASSERT_EQ(stripe.offset, covered);
        ASSERT_GT(stripe.length, 0u);
        ASSERT_LE(stripe.length, view->max_stripe);
        covered += stripe.length;
    }
    ASSERT_EQ(covered, length);
}

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
    EXPECT_EQ(plan_of(*scheduler, 1, views(1, 100)), (Plan{{0, 0, 1}}));
    EXPECT_EQ(plan_of(*scheduler, 100, views(3, 100)), (Plan{{0, 0, 100}}));
    EXPECT_EQ(plan_of(*scheduler, kMaxLength, views(1, UINT64_MAX)), (Plan{{0, 0, kMaxLength}}));
}

TEST(Binding, CutsAtTheLongestWorkRequest) {
    const auto scheduler = binding();
    const auto up = views(1, 100);
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{0, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 101, up), (Plan{{0, 0, 100}, {0, 100, 1}}));
    EXPECT_EQ(plan_of(*scheduler, 200, up), (Plan{{0, 0, 100}, {0, 100, 100}}));
    EXPECT_EQ(plan_of(*scheduler, 250, up), (Plan{{0, 0, 100}, {0, 100, 100}, {0, 200, 50}}));
    EXPECT_EQ(plan_of(*scheduler, 3, views(1, 1)), (Plan{{0, 0, 1}, {0, 1, 1}, {0, 2, 1}}));
    const Bytes half = Bytes{1} << 31;
    EXPECT_EQ(plan_of(*scheduler, 2 * half + 7, views(1, half)),
              (Plan{{0, 0, half}, {0, half, half}, {0, 2 * half, 7}}));
}

TEST(Binding, PositionsAreSpreadOverTheSubchannels) {
    for (std::uint32_t position = 0; position < 9; ++position) {
        const auto scheduler = binding(position);
        EXPECT_EQ(plan_of(*scheduler, 10, views(3, 100)), (Plan{{position % 3, 0, 10}}));
        EXPECT_EQ(plan_of(*scheduler, 10, views(1, 100)), (Plan{{0, 0, 10}}));
    }
    const auto last = binding(UINT32_MAX);
    EXPECT_EQ(plan_of(*last, 10, views(2, 100)), (Plan{{1, 0, 10}}));
}

TEST(Binding, NamesTheSubchannelNotItsPlaceAmongThoseThatAreUp) {
    auto up = views(2, 100);
    up[0].index = 5;
    up[1].index = 7;
    up[1].max_stripe = 6;
    EXPECT_EQ(plan_of(*binding(), 10, up), (Plan{{5, 0, 10}}));
    EXPECT_EQ(plan_of(*binding(1), 10, up), (Plan{{7, 0, 6}, {7, 6, 4}}));
}

TEST(Binding, IsTheSamePlanForEveryMarkerAndEachTime) {
    const auto scheduler = binding(1);
    const Plan expected{{1, 0, 100}, {1, 100, 20}};
    for (int round = 0; round < 3; ++round) {
        for (const Marker marker : {Marker::blocking, Marker::non_blocking, Marker::collective}) {
            EXPECT_EQ(plan_of(*scheduler, 120, views(2, 100), marker), expected);
        }
    }
}

TEST(Binding, AppendsToThePlan) {
    const auto scheduler = binding();
    Plan plan{{9, 1, 2}};
    scheduler->plan({5, Marker::blocking, Direction::write}, views(1, 100), plan);
    EXPECT_EQ(plan, (Plan{{9, 1, 2}, {0, 0, 5}}));
}

TEST(Binding, CoversEveryLengthExactly) {
    const auto scheduler = binding(2);
    for (Bytes length = 1; length < 300; ++length) {
        for (const Bytes most : {Bytes{1}, Bytes{2}, Bytes{63}, Bytes{64}, Bytes{65}, Bytes{299}}) {
            Bytes covered = 0;
            for (const Stripe& stripe : plan_of(*scheduler, length, views(4, most))) {
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
    auto up = views(4, 100);
    up[0].distance = 21;
    up[2].distance = 21;
    for (std::uint32_t position = 0; position < 5; ++position) {
        EXPECT_EQ(plan_of(*binding(position), 64, up),
                  (Plan{{position % 2 == 0 ? 1u : 3u, 0, 64}}));
    }
    up[3].distance = 31;
    EXPECT_EQ(plan_of(*binding(7), 64, up), (Plan{{1, 0, 64}}));
}

// The first transfer, of 2100 bytes: what each of two rails carries.
std::vector<Bytes> first_loads(const char* policy, const std::vector<SubchannelView>& up,
                               Bytes length) {
    SchedulerOptions some = options("binding", policy, 0, 64);
    some.min_stripe = 64;
    some.bss_batch = 2;
    return loads(plan_of(*make_scheduler(some), length, up), 2);
}

TEST(FirstWeights, AreTheRatesWhereTheseDiffer) {
    auto up = views(2, kMiB);
    up[0].rate.value = 4000;
    up[0].distance = 31; // says nothing beside a rate
    for (const char* policy : {"auto", "weighted", "adaptive", "load_balanced", "bss", "epc"}) {
        EXPECT_EQ(first_loads(policy, up, 6400), (std::vector<Bytes>{5120, 1280})) << policy;
    }
    EXPECT_EQ(first_loads("even", up, 6400), (std::vector<Bytes>{3200, 3200}));
}

TEST(FirstWeights, AreSmallerForPortsThatAreFurtherAway) {
    auto up = views(2, kMiB);
    up[1].distance = 30;
    for (const char* policy : {"auto", "adaptive", "bss", "epc"}) {
        EXPECT_EQ(first_loads(policy, up, 6400), (std::vector<Bytes>{4800, 1600})) << policy;
    }
    for (const char* policy : {"weighted", "load_balanced", "even"}) { // which go by rates alone
        EXPECT_EQ(first_loads(policy, up, 6400), (std::vector<Bytes>{3200, 3200})) << policy;
    }
    // Of one port all paths are equally far.
    for (SubchannelView& view : up) {
        view.distance = 30;
    }
    EXPECT_EQ(first_loads("adaptive", up, 6400), (std::vector<Bytes>{3200, 3200}));
}

TEST(FirstWeights, ARateThatIsNotKnownIsTheSlowestOfTheOthers) {
    auto up = views(2, kMiB);
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
    const auto up = views(3, 100);
    EXPECT_EQ(plan_of(*scheduler, 64, up), (Plan{{1, 0, 64}}));
    EXPECT_EQ(plan_of(*scheduler, 130, up), (Plan{{2, 0, 100}, {2, 100, 30}}));
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{0, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 99, up), (Plan{{1, 0, 99}}));
    EXPECT_EQ(plan_of(*scheduler, 99, views(1, 100)), (Plan{{0, 0, 99}}));
}

TEST(WindowRoundRobin, StaysForAWindow) {
    SchedulerOptions three = options("window_round_robin", "none", 1);
    three.window = 3;
    const auto scheduler = make_scheduler(three);
    for (const std::uint32_t expected : {1u, 1u, 1u, 0u, 0u, 0u, 1u, 1u}) {
        EXPECT_EQ(plan_of(*scheduler, 64, views(2, 100)), (Plan{{expected, 0, 64}}));
    }
}

TEST(WeightedRoundRobin, TakesTurnsByRate) {
    const auto scheduler = make_scheduler(options("weighted_round_robin"));
    auto up = views(2, 100);
    up[0].rate.value = 4000;
    std::vector<std::uint32_t> turns;
    for (int i = 0; i < 10; ++i) {
        turns.push_back(plan_of(*scheduler, 64, up).front().subchannel);
    }
    EXPECT_EQ(turns, (std::vector<std::uint32_t>{0, 0, 1, 0, 0, 0, 0, 1, 0, 0}));
}

// Atomics, among others.
TEST(Spreading, NeverConcernsTheShortest) {
    for (const char* whole : kMultiplexing) {
        for (const char* striped : kStriping) {
            const auto scheduler = make_scheduler(options(whole, striped, 4, 1));
            for (const Bytes length : {1, 8, 63, 8, 8}) {
                EXPECT_EQ(plan_of(*scheduler, length, views(3, 100)), (Plan{{1, 0, length}}));
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
        EXPECT_EQ(plan_of(*scheduler, 1023, views(2, kMiB)), (Plan{{0, 0, 1023}})) << striped;
        EXPECT_EQ(plan_of(*scheduler, 1024, views(2, kMiB)), (Plan{{0, 0, 512}, {1, 512, 512}}))
            << striped;
        EXPECT_EQ(plan_of(*scheduler, 100, views(2, kMiB)), (Plan{{1, 0, 100}})) << striped;
        EXPECT_EQ(plan_of(*scheduler, 100, views(2, kMiB)), (Plan{{0, 0, 100}})) << striped;
        EXPECT_EQ(plan_of(*scheduler, 5000, views(1, kMiB)), (Plan{{0, 0, 5000}})) << striped;
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
                    auto up = views(5, most);
                    up[3].rate.value = 1;
                    up[1].outstanding = {3000, 100};
                    expect_cover(plan_of(*scheduler, length, up), length, up);
                }
            }
            const auto up = views(16, Bytes{1} << 31);
            expect_cover(plan_of(*scheduler, Bytes{1} << 40, up), Bytes{1} << 40, up);
        }
    }
}

// Whichever paths go and come.
TEST(Spreading, NamesNoSubchannelThatIsNotUp) {
    Random random(1);
    for (const char* striped : kStriping) {
        SchedulerOptions some = options("round_robin", striped, 0, 64);
        some.min_stripe = 64;
        const auto scheduler = make_scheduler(some);
        for (int i = 0; i < 300; ++i) {
            std::vector<SubchannelView> up;
            for (const SubchannelView& view : views(6, 500)) {
                if (random.below(2) == 0) {
                    up.push_back(view);
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
    EXPECT_EQ(plan_of(*scheduler, 2048, views(2, kMiB)), (Plan{{0, 0, 1024}, {1, 1024, 1024}}));
    EXPECT_EQ(plan_of(*scheduler, 1024, views(4, kMiB)),
              (Plan{{0, 0, 256}, {1, 256, 256}, {2, 512, 256}, {3, 768, 256}}));
    // Rounded to cache lines: the last part is what is left.
    EXPECT_EQ(plan_of(*scheduler, 1025, views(2, kMiB)), (Plan{{0, 0, 576}, {1, 576, 449}}));
    EXPECT_EQ(plan_of(*scheduler, 2048, views(2, 1000)),
              (Plan{{0, 0, 1000}, {0, 1000, 24}, {1, 1024, 1000}, {1, 2024, 24}}));
    EXPECT_EQ(plan_of(*make_scheduler(options("binding", "even", 3, 1024)), 2048, views(2, kMiB)),
              (Plan{{1, 0, 1024}, {0, 1024, 1024}}));
}

TEST(Weighted, CutsInProportionToTheRates) {
    const auto scheduler = make_scheduler(options("binding", "weighted", 0, 1024));
    auto up = views(3, kMiB);
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
        auto up = views(4, kMiB);
        for (SubchannelView& view : up) {
            view.rate.value = 1'000'000'000;
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

// Paths whose speed nobody has announced, with times that are not exact.
class Learning {
public:
    Learning(const char* striping, std::vector<double> speeds, std::uint32_t batch = 0)
        : speeds_(std::move(speeds)), up_(views(static_cast<std::uint32_t>(speeds_.size()), kGiB)) {
        SchedulerOptions some = options("binding", striping, 0, 64);
        some.min_stripe = 64;
        some.bss_batch = batch;
        scheduler_ = make_scheduler(some);
    }
    // The same of one that is planned in rounds, one after the other.
    double in_rounds(Bytes length) {
        double sum = 0;
        const Bytes round = scheduler_->round({length, Marker::blocking, Direction::read}, up_);
        for (Bytes left = length; left > 0;) {
            const Bytes part = left < 2 * round ? left : round;
            sum += transfer(part);
            left -= part;
        }
        return sum;
    }
    // Seconds that a transfer takes.
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
        std::vector<SubchannelView> up;
        for (const SubchannelView& view : up_) {
            if ((down_ >> view.index & 1) == 0) {
                up.push_back(view);
            }
        }
        return plan_of(*scheduler_, length, up);
    }
    // Bytes that the path gets of one transfer, of which nothing is learnt.
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
    std::vector<SubchannelView> up_;
    std::uint64_t down_ = 0;
    std::unique_ptr<Scheduler> scheduler_;
    Random random_{7};
};

constexpr Bytes kLong = 1'000'000;

// Messages one by one to and fro over paths that claim the same rate, save up credit while they are idle, and take a fixed
// time for each part besides: as rails behind a shaper do.
class Shaped {
public:
    struct Wire {
        double rate = 0; // bytes per second
        double credit = 0;
        double saved = 0;
        double at = 0; // when it had so much
    };
    explicit Shaped(const std::vector<double>& rates)
        : up_(views(static_cast<std::uint32_t>(rates.size()), kGiB)),
          scheduler_(make_scheduler(options("binding", "auto", 0, 1024))) {
        for (const double rate : rates) {
            wires_.push_back({rate, kCredit, kCredit, 0});
        }
        up_.resize(rates.size());
    }
    // Seconds that it takes one way, in the mean.
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
    std::vector<SubchannelView> up_;
    std::unique_ptr<Scheduler> scheduler_;
    double now_ = 0;
};

constexpr double kFast = 12.5e6;
constexpr double kSlow = kFast / 4;

// What is short goes for nothing while credit lasts, and takes long once it is used up.
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

// What was learnt last is where another length begins.
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

// What is slow after its return costs no more than a small part of a transfer does.
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

// Less than a stripe is worth: its share grows until it gets a part, whose time then says how fast it is.
TEST(Returned, APathWithoutAPartGetsOneInTheEnd) {
    for (const char* policy : {"adaptive", "auto", "bss"}) {
        SCOPED_TRACE(policy);
        SchedulerOptions some = options("binding", policy, 0, 64);
        some.min_stripe = 64 * kKiB;
        some.bss_batch = 2;
        const auto scheduler = make_scheduler(some);
        const auto both = views(2, kGiB);
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

// A port whose paths are all back is one of several; a path of a port whose others have stayed, one of these.
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

// A slow way back is no slow way there.
TEST(Directions, AreLearntApart) {
    const std::vector<SubchannelView> up = views(2, kGiB);
    for (const char* policy : {"adaptive", "epc", "auto", "bss"}) {
        SchedulerOptions some = options("binding", policy, 0, 64);
        some.bss_batch = 2;
        const auto scheduler = make_scheduler(some);
        for (int i = 0; i < 60; ++i) {
            const Direction direction = i % 2 == 0 ? Direction::read : Direction::write;
            std::vector<StripeTime> times;
            for (const Stripe& stripe :
                 plan_of(*scheduler, kLong, up, Marker::blocking, direction)) {
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
    std::vector<SubchannelView> up = views(2, kGiB);
    const auto scheduler = make_scheduler(options("binding", "adaptive", 0, 64));
    const auto learn = [&](Direction direction, Mix expected, double first) {
        const Plan plan = plan_of(*scheduler, kLong, up, Marker::blocking, direction);
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

// Equation 7.4: 0.5 and 0.5, of which the second took three times as long.
TEST(Adaptive, LearnsAsTheEquationSays) {
    SchedulerOptions half = options("binding", "adaptive", 0, 64);
    half.alpha = 0.5;
    const auto scheduler = make_scheduler(half);
    EXPECT_EQ(plan_of(*scheduler, 2048, views(2, kMiB)), (Plan{{0, 0, 1024}, {1, 1024, 1024}}));
    const std::vector<StripeTime> times{{0, 1024, 1e-6}, {1, 1024, 3e-6}};
    scheduler->learn(Mix::reads, times);
    EXPECT_DOUBLE_EQ(scheduler->weight(Mix::reads, 0), 0.5 * 0.5 + 0.5 * 0.75);
    EXPECT_DOUBLE_EQ(scheduler->weight(Mix::reads, 1), 0.5 * 0.5 + 0.5 * 0.25);
}

// All that is planned before anything of it is over is planned with the same weights: it teaches as much as one transfer.
TEST(Adaptive, WhatWasPostedBehindOthersCountsLess) {
    const auto up = views(2, kGiB);
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

TEST(Adaptive, CountsInWhatIsUnderWay) {
    SchedulerOptions some = options("binding", "adaptive", 0, 64);
    some.min_stripe = 64;
    const auto adaptive = make_scheduler(some);
    some.striping = "weighted";
    const auto weighted = make_scheduler(some);
    auto up = views(2, kMiB);
    up[0].outstanding = {6400, 0};
    EXPECT_EQ(loads(plan_of(*adaptive, 6400, up), 2), (std::vector<Bytes>{0, 6400}));
    EXPECT_EQ(loads(plan_of(*adaptive, 12800, up), 2), (std::vector<Bytes>{3200, 9600}));
    EXPECT_EQ(loads(plan_of(*weighted, 12800, up), 2), (std::vector<Bytes>{6400, 6400}));
    const std::vector<StripeTime> times{{0, 1000, 1e-6}, {1, 1000, 3e-6}};
    for (int i = 0; i < 40; ++i) {
        adaptive->learn(Mix::reads, times); // 3 : 1
    }
    EXPECT_EQ(loads(plan_of(*adaptive, 19200, up), 2), (std::vector<Bytes>{12800, 6400}));
}

TEST(Scheduler, PlansLongTransfersInRoundsWhereItLearns) {
    const auto round = [](const char* striping, Bytes length, Marker marker = Marker::blocking,
                          std::uint32_t up = 2, Bytes threshold = 64) {
        const auto scheduler = make_scheduler(options("binding", striping, 0, threshold));
        return scheduler->round({length, marker, Direction::read}, views(up, kMiB));
    };
    for (const char* policy : {"none", "even", "weighted", "load_balanced", "bss"}) {
        EXPECT_EQ(round(policy, kGiB), kGiB) << policy;
    }
    EXPECT_EQ(round("adaptive", kGiB), 512 * kKiB);
    EXPECT_EQ(round("adaptive", 512 * kKiB - 1), 512 * kKiB - 1);
    EXPECT_EQ(round("adaptive", kGiB, Marker::blocking, 1), kGiB);
    EXPECT_EQ(round("epc", kGiB), 512 * kKiB);
    EXPECT_EQ(round("epc", kGiB, Marker::non_blocking), kGiB);
    // No round is below the threshold, where transfers are not striped.
    EXPECT_EQ(round("adaptive", kGiB, Marker::blocking, 2, kMiB), kMiB);
    EXPECT_EQ(round("adaptive", kMiB - 1, Marker::blocking, 2, kMiB), kMiB - 1);
}

TEST(LoadBalanced, FillsTheLeastLoadedFirst) {
    SchedulerOptions some = options("binding", "load_balanced", 0, 64);
    some.min_stripe = 64;
    const auto scheduler = make_scheduler(some);
    auto up = views(3, kMiB);
    up[0].outstanding = {6400, 0};
    up[1].outstanding = {64000, 0};
    const auto read = [&](Bytes length) { return loads(plan_of(*scheduler, length, up), 3); };
    EXPECT_EQ(read(6400), (std::vector<Bytes>{0, 0, 6400}));
    EXPECT_EQ(read(7680), (std::vector<Bytes>{640, 0, 7040}));
    EXPECT_EQ(read(121600), (std::vector<Bytes>{57600, 0, 64000}));
    // Writes are in nobody's way.
    EXPECT_EQ(loads(plan_of(*scheduler, 19200, up, Marker::blocking, Direction::write), 3),
              (std::vector<Bytes>{6400, 6400, 6400}));
    up[2].rate.value = 3000;
    EXPECT_EQ(loads(plan_of(*scheduler, 19200, up, Marker::blocking, Direction::write), 3),
              (std::vector<Bytes>{3840, 3840, 11520}));
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
        const std::vector<Bytes> each = loads(plan_of(*scheduler, 4096, views(6, kMiB)), 6);
        EXPECT_EQ(std::count(each.begin(), each.end(), 0u), 4) << "two carry it";
        for (std::size_t path = 0; path < 6; ++path) {
            all[path] += each[path];
        }
    }
    for (std::size_t path = 0; path < 6; ++path) {
        EXPECT_EQ(all[path] > 0, path < 4) << path;
    }
}

TEST(Epc, StripesForWhoWaits) {
    SchedulerOptions some = options("binding", "epc", 0, 64);
    some.min_stripe = 64;
    const auto scheduler = make_scheduler(some);
    const auto up = views(2, kMiB);
    EXPECT_EQ(plan_of(*scheduler, 2048, up, Marker::blocking).size(), 2u);
    EXPECT_EQ(plan_of(*scheduler, 2048, up, Marker::collective).size(), 2u);
    EXPECT_EQ(plan_of(*scheduler, 2048, up, Marker::non_blocking), (Plan{{0, 0, 2048}}));
    EXPECT_EQ(plan_of(*scheduler, 2048, up, Marker::non_blocking), (Plan{{1, 0, 2048}}));
}

// Paths of one port, as slow as a scene says; times of transfers that come one after another.
class OnePort {
public:
    // `speeds`: of the paths, bytes/s, of which the port carries kPort.
    explicit OnePort(std::vector<double> speeds)
        : speeds_(std::move(speeds)), up_(views(static_cast<std::uint32_t>(speeds_.size()), kGiB)),
          scheduler_(make_scheduler(options("binding", "auto", 0, 1024))) {
        for (SubchannelView& view : up_) {
            view.port = 0;
            view.rate.value = kPort;
        }
    }
    static constexpr std::uint64_t kPort = 1'000'000'000;

    // Seconds; how many paths carried it is in `paths`.
    double transfer(Bytes length) {
        const Plan plan = plan_of(*scheduler_, length, up_);
        expect_cover(plan, length, up_);
        paths = plan.size();
        std::vector<StripeTime> times;
        const double all = static_cast<double>(length) / kPort;
        double longest = all;
        for (const Stripe& stripe : plan) {
            longest =
                std::max(longest, static_cast<double>(stripe.length) / speeds_[stripe.subchannel]);
        }
        for (const Stripe& stripe : plan) {
            const double own = static_cast<double>(stripe.length) / speeds_[stripe.subchannel];
            const double noise = 0.98 + 0.04 * random_.unit();
            // Together they are no faster than the port.
            times.push_back({stripe.subchannel, stripe.length,
                             noise * (shared ? longest : std::max(own, 0.95 * all))});
        }
        if (scheduler_->wants_times(plan.size())) {
            scheduler_->learn(Mix::reads, times);
        }
        return longest;
    }
    double after(int transfers, Bytes length) {
        for (int i = 0; i < transfers; ++i) {
            transfer(length);
        }
        return transfer(length);
    }
    void speed(std::size_t path, double value) { speeds_[path] = value; }
    Scheduler& scheduler() { return *scheduler_; }

    std::size_t paths = 0;
    bool shared = false; // all stripes end together, at the port's rate or the slowest's

private:
    std::vector<double> speeds_;
    std::vector<SubchannelView> up_;
    std::unique_ptr<Scheduler> scheduler_;
    Random random_{11};
};

TEST(Auto, OnePathIsEnoughWhileItIsAsFastAsThePort) {
    OnePort port({1e9, 1e9, 1e9, 1e9});
    for (int i = 0; i < 1000; ++i) {
        port.transfer(kLong);
        ASSERT_EQ(port.paths, 1u) << i;
    }
    EXPECT_EQ(port.scheduler().spreading(Mix::reads).trials, 0u);
    EXPECT_EQ(port.scheduler().weight(Mix::reads, 0), 1.0);
    EXPECT_EQ(port.scheduler().weight(Mix::reads, 1), 0.0);
}

TEST(Auto, SpreadsWhereTheFirstPathIsSlow) {
    OnePort port({2e8, 1e9, 1e9, 1e9});
    const double spread = port.after(20, kLong);
    EXPECT_GT(port.paths, 1u);
    EXPECT_LT(spread, 1.05 * static_cast<double>(kLong) / OnePort::kPort);
    EXPECT_EQ(port.scheduler().spreading(Mix::reads).spreads, 1u);
    double sum = 0;
    for (std::uint32_t path = 0; path < 4; ++path) {
        sum += port.scheduler().weight(Mix::reads, path);
    }
    EXPECT_NEAR(sum, 1.0, 1e-9);
    EXPECT_LT(port.scheduler().weight(Mix::reads, 0), 0.2);
}

TEST(Auto, GoesBackWhenTheHotSpotIsGone) {
    OnePort port({2e8, 1e9, 1e9, 1e9});
    port.after(20, kLong);
    port.speed(0, 1e9);
    port.after(100, kLong); // it looks once in 64
    EXPECT_EQ(port.paths, 1u);
    EXPECT_GE(port.scheduler().spreading(Mix::reads).fallbacks, 1u);
}

// All are as slow as the first: somebody else has the port, or it never was as fast as it says.
TEST(Auto, TrialsThatDoNotHelpBecomeRare) {
    OnePort port({4e8, 1e9, 1e9, 1e9});
    port.shared = true;
    for (std::size_t path = 0; path < 4; ++path) {
        port.speed(path, 1e8); // four times a quarter: together no faster than one with 4e8
    }
    int spread = 0;
    for (int i = 0; i < 10'000; ++i) {
        // One path alone has all that there is.
        port.speed(0, port.paths > 1 ? 1e8 : 4e8);
        port.transfer(kLong);
        spread += port.paths > 1 ? 1 : 0;
    }
    EXPECT_GT(spread, 0);
    EXPECT_LT(spread, 10'000 / 100);
    EXPECT_GT(port.scheduler().spreading(Mix::reads).fallbacks, 2u);
    EXPECT_EQ(port.scheduler().spreading(Mix::reads).spreads, 0u);
}

// Of stripes that share a bottleneck the longest seems the fastest, having it alone at its end.
TEST(Auto, ATrialKnowsNothingOfTheOneBefore) {
    const auto scheduler = make_scheduler(options("binding", "auto", 0, 1024));
    std::vector<SubchannelView> up = views(4, kGiB);
    for (SubchannelView& view : up) {
        view.port = 0;
        view.rate.value = 1'000'000'000;
    }
    std::uint64_t trials = 0;
    double uneven = 0;
    for (int i = 0; i < 2000; ++i) {
        const Plan plan = plan_of(*scheduler, kLong, up);
        if (plan.size() > 1 &&
            scheduler->spreading(Mix::reads).trials > trials) { // the first of a trial
            trials = scheduler->spreading(Mix::reads).trials;
            Bytes longest = 0;
            Bytes shortest = kLong;
            for (const Stripe& stripe : plan) {
                longest = std::max(longest, stripe.length);
                shortest = std::min(shortest, stripe.length);
            }
            EXPECT_LE(longest, shortest + 2 * kCacheLine) << "trial " << trials;
        }
        std::vector<StripeTime> times;
        for (const Stripe& stripe :
             plan) { // four times slower than the port; the lower, the faster
            const double favour = plan.size() == 1 ? 1 : 1 + 0.1 * stripe.subchannel;
            times.push_back(
                {stripe.subchannel, stripe.length, 4e-9 * static_cast<double>(kLong) * favour});
        }
        scheduler->learn(Mix::reads, times);
        uneven =
            std::max(uneven, scheduler->weight(Mix::reads, 0) - scheduler->weight(Mix::reads, 3));
    }
    EXPECT_GE(trials, 3u);
    EXPECT_GT(uneven, 0.01); // within a trial it learns
}

// A request takes some microseconds whatever its length: that is no slow path.
TEST(Auto, ShortTransfersAreNotJudged) {
    OnePort port({1e8, 1e9});
    port.after(200, 24'000); // the port carries them in 24 us
    EXPECT_EQ(port.paths, 1u);
    EXPECT_EQ(port.scheduler().spreading(Mix::reads).trials, 0u);
    port.after(20, kLong);
    EXPECT_EQ(port.paths, 2u);
    // Those that are short take the fastest path known.
    std::vector<SubchannelView> up = views(2, kGiB);
    up[0].rate.value = up[1].rate.value = OnePort::kPort;
    up[1].port = 0;
    EXPECT_EQ(plan_of(port.scheduler(), 24'000, up), (Plan{{1, 0, 24'000}}));
}

// Ports add up: a transfer is cut over them, whether their paths are spread or not.
TEST(Auto, PortsAreUsedInProportionToWhatTheyCarry) {
    Learning rails("auto", {4e9, 1e9});
    std::vector<SubchannelView> up = views(2, kGiB);
    const double best = static_cast<double>(kLong) / 5e9;
    EXPECT_LT(rails.after(30, kLong), 1.12 * best);
    EXPECT_NEAR(rails.scheduler().weight(Mix::reads, 0), 0.8, 0.03);
    EXPECT_NEAR(rails.scheduler().weight(Mix::reads, 1), 0.2, 0.03);
}

// With what they have under way, in rounds, and learning the same.
TEST(Auto, WhereEachPortHasOnePathItIsAdaptive) {
    const auto automatic = make_scheduler(options("binding", "auto", 0, 1024));
    const auto adaptive = make_scheduler(options("binding", "adaptive", 0, 1024));
    Random random(3);
    std::vector<SubchannelView> up = views(4, kGiB);
    for (SubchannelView& view : up) {
        view.rate.value = 1'000'000'000 * (1 + random.below(4));
        view.port += 2; // rails of another fabric come first
    }
    for (int i = 0; i < 500; ++i) {
        for (SubchannelView& view : up) {
            view.outstanding = {random.below(2) * random.below(kMiB), random.below(kMiB)};
        }
        const Bytes length = 1024 + random.below(2 * kMiB);
        const auto direction = static_cast<Direction>(random.below(2));
        const TransferView transfer{length, Marker::blocking, direction};
        EXPECT_EQ(automatic->round(transfer, up), adaptive->round(transfer, up));
        const Plan plan = plan_of(*automatic, length, up, Marker::blocking, direction);
        ASSERT_EQ(plan, plan_of(*adaptive, length, up, Marker::blocking, direction)) << i;
        EXPECT_EQ(automatic->wants_times(plan.size()), adaptive->wants_times(plan.size()));
        std::vector<StripeTime> times;
        for (const Stripe& stripe : plan) {
            times.push_back({stripe.subchannel, stripe.length, 1e-6 * (1 + random.unit())});
        }
        automatic->learn(automatic->mix(), times);
        adaptive->learn(automatic->mix(), times);
        ASSERT_NEAR(automatic->weight(Mix::reads, 1), adaptive->weight(Mix::reads, 1), 1e-9);
    }
}

// One port is planned in rounds only while its paths are spread.
TEST(Auto, OnePathOfOnePortCarriesAllAtOnce) {
    OnePort port({1e9, 1e9, 1e9, 1e9});
    const TransferView transfer{8 * kMiB, Marker::blocking, Direction::read};
    port.transfer(kLong);
    ASSERT_EQ(port.paths, 1u);
    EXPECT_EQ(port.scheduler().round(transfer, views(4, kGiB)), 8 * kMiB);
    port.speed(0, 2e8);
    port.after(20, kLong);
    ASSERT_GT(port.paths, 1u);
    EXPECT_EQ(port.scheduler().round(transfer, views(4, kGiB)), 512 * kKiB);
}

// What other paths of the same port have under way keeps it busy, too.
TEST(Auto, CountsInWhatAllPathsOfAPortHaveUnderWay) {
    const auto scheduler = make_scheduler(options("binding", "auto", 0, 64));
    std::vector<SubchannelView> up =
        views(4, kGiB); // 0 and 2 of the first port, 1 and 3 of another
    for (SubchannelView& view : up) {
        view.port = view.index % 2;
        view.rate.value = 1'000'000'000;
    }
    up[2].outstanding = {400'000, 0};
    EXPECT_EQ(loads(plan_of(*scheduler, 400'000, up), 4), (std::vector<Bytes>{0, 400'000, 0, 0}));
    EXPECT_EQ(loads(plan_of(*scheduler, 800'000, up), 4),
              (std::vector<Bytes>{200'000, 600'000, 0, 0}));
}

} // namespace
} // namespace adaptib
