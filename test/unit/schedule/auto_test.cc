// SPDX-License-Identifier: BSD-3-Clause
// Policy auto: how many paths of a port it uses, and which part each port carries.

#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"
#include "unit/schedule/plans.h"

namespace adaptib {
namespace {

// Paths of one port, as slow as a scene says, and times of transfers that come one after another.
class OnePort {
public:
    // `speeds`: of the paths, in bytes/s; the port as a whole carries kPort.
    explicit OnePort(std::vector<double> speeds)
        : speeds_(std::move(speeds)),
          up_(subchannel_stats(static_cast<std::uint32_t>(speeds_.size()), kGiB)),
          scheduler_(make_scheduler(options("binding", "auto", 0, 1024))) {
        for (SubchannelStats& stats : up_) {
            stats.port = 0;
            stats.rate.value = kPort;
        }
    }
    static constexpr std::uint64_t kPort = 1'000'000'000;

    // Returns the seconds that a transfer takes; sets `paths` to the number of
    // paths that carried it.
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
            // All paths together are no faster than the port.
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
    bool shared = false; // all stripes end together, at the rate of the port or of the slowest path

private:
    std::vector<double> speeds_;
    std::vector<SubchannelStats> up_;
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
    port.after(100, kLong); // the scheduler looks once in 64 transfers
    EXPECT_EQ(port.paths, 1u);
    EXPECT_GE(port.scheduler().spreading(Mix::reads).fallbacks, 1u);
}

// All paths are as slow as the first: others use the port, or it never was as fast as announced.
TEST(Auto, TrialsThatDoNotHelpBecomeRare) {
    OnePort port({4e8, 1e9, 1e9, 1e9});
    port.shared = true;
    for (std::size_t path = 0; path < 4; ++path) {
        // Each has a quarter of 4e8: four are together no faster than one alone.
        port.speed(path, 1e8);
    }
    int spread = 0;
    for (int i = 0; i < 10'000; ++i) {
        // A path that is used alone gets all of the port's rate.
        port.speed(0, port.paths > 1 ? 1e8 : 4e8);
        port.transfer(kLong);
        spread += port.paths > 1 ? 1 : 0;
    }
    EXPECT_GT(spread, 0);
    EXPECT_LT(spread, 10'000 / 100);
    EXPECT_GT(port.scheduler().spreading(Mix::reads).fallbacks, 2u);
    EXPECT_EQ(port.scheduler().spreading(Mix::reads).spreads, 0u);
}

// Among stripes that share a bottleneck the longest seems the fastest, as it has the bottleneck to
// itself at the end.
TEST(Auto, ATrialKnowsNothingOfTheOneBefore) {
    const auto scheduler = make_scheduler(options("binding", "auto", 0, 1024));
    std::vector<SubchannelStats> up = subchannel_stats(4, kGiB);
    for (SubchannelStats& stats : up) {
        stats.port = 0;
        stats.rate.value = 1'000'000'000;
    }
    std::uint64_t trials = 0;
    double uneven = 0;
    for (int i = 0; i < 2000; ++i) {
        const Plan plan = plan_of(*scheduler, kLong, up);
        if (plan.size() > 1 &&
            scheduler->spreading(Mix::reads).trials > trials) { // the first transfer of a trial
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
             plan) { // four times slower than the port; paths with low numbers are faster
            const double favour = plan.size() == 1 ? 1 : 1 + 0.1 * stripe.subchannel;
            times.push_back(
                {stripe.subchannel, stripe.length, 4e-9 * static_cast<double>(kLong) * favour});
        }
        scheduler->learn(Mix::reads, times);
        uneven =
            std::max(uneven, scheduler->weight(Mix::reads, 0) - scheduler->weight(Mix::reads, 3));
    }
    EXPECT_GE(trials, 3u);
    EXPECT_GT(uneven, 0.01); // the scheduler learns within a trial
}

// A request takes some microseconds whatever its length, which does not make a path slow.
TEST(Auto, ShortTransfersAreNotJudged) {
    OnePort port({1e8, 1e9});
    port.after(200, 24'000); // the port carries them in 24 us
    EXPECT_EQ(port.paths, 1u);
    EXPECT_EQ(port.scheduler().spreading(Mix::reads).trials, 0u);
    port.after(20, kLong);
    EXPECT_EQ(port.paths, 2u);
    // Short transfers take the fastest path known.
    std::vector<SubchannelStats> up = subchannel_stats(2, kGiB);
    up[0].rate.value = up[1].rate.value = OnePort::kPort;
    up[1].port = 0;
    EXPECT_EQ(plan_of(port.scheduler(), 24'000, up), (Plan{{1, 0, 24'000}}));
}

// Rates of ports add up: a transfer is cut over all ports, whether their paths are spread or not.
// Loads, rounds and learning are the same as adaptive's.
TEST(Auto, WhereEachPortHasOnePathItIsAdaptive) {
    const auto automatic = make_scheduler(options("binding", "auto", 0, 1024));
    const auto adaptive = make_scheduler(options("binding", "adaptive", 0, 1024));
    Random random(3);
    std::vector<SubchannelStats> up = subchannel_stats(4, kGiB);
    for (SubchannelStats& stats : up) {
        stats.rate.value = 1'000'000'000 * (1 + random.below(4));
        stats.port += 2; // rails of another fabric come first
    }
    for (int i = 0; i < 500; ++i) {
        for (SubchannelStats& stats : up) {
            stats.outstanding = {random.below(2) * random.below(kMiB), random.below(kMiB)};
        }
        const Bytes length = 1024 + random.below(2 * kMiB);
        const auto direction = static_cast<Direction>(random.below(2));
        const TransferShape transfer{length, OpKind::blocking, direction};
        EXPECT_EQ(automatic->round(transfer, up), adaptive->round(transfer, up));
        const Plan plan = plan_of(*automatic, length, up, OpKind::blocking, direction);
        ASSERT_EQ(plan, plan_of(*adaptive, length, up, OpKind::blocking, direction)) << i;
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

// A transfer over one port is planned in rounds only while the port's paths are spread.
TEST(Auto, OnePathOfOnePortCarriesAllAtOnce) {
    OnePort port({1e9, 1e9, 1e9, 1e9});
    const TransferShape transfer{8 * kMiB, OpKind::blocking, Direction::read};
    port.transfer(kLong);
    ASSERT_EQ(port.paths, 1u);
    EXPECT_EQ(port.scheduler().round(transfer, subchannel_stats(4, kGiB)), 8 * kMiB);
    port.speed(0, 2e8);
    port.after(20, kLong);
    ASSERT_GT(port.paths, 1u);
    EXPECT_EQ(port.scheduler().round(transfer, subchannel_stats(4, kGiB)), 512 * kKiB);
}

// The load of other paths of a port keeps that port busy, too.
TEST(Auto, CountsInWhatAllPathsOfAPortHaveUnderWay) {
    const auto scheduler = make_scheduler(options("binding", "auto", 0, 64));
    std::vector<SubchannelStats> up =
        subchannel_stats(4, kGiB); // 0 and 2 of the first port, 1 and 3 of another
    for (SubchannelStats& stats : up) {
        stats.port = stats.index % 2;
        stats.rate.value = 1'000'000'000;
    }
    up[2].outstanding = {400'000, 0};
    EXPECT_EQ(loads(plan_of(*scheduler, 400'000, up), 4), (std::vector<Bytes>{0, 400'000, 0, 0}));
    EXPECT_EQ(loads(plan_of(*scheduler, 800'000, up), 4),
              (std::vector<Bytes>{200'000, 600'000, 0, 0}));
}

// A path that returns begins with little, which concerns the paths of its own port.
TEST(Auto, TheReturnOfAPathLeavesTheSharesOfOtherPorts) {
    const auto scheduler = make_scheduler(options("binding", "auto", 0, 1024));
    const std::vector<double> speeds{2e8, 1e9, 2e8, 1e9};
    std::vector<SubchannelStats> up = subchannel_stats(4, kGiB); // two of each port
    for (SubchannelStats& stats : up) {
        stats.port = stats.index / 2;
        stats.rate.value = 1'000'000'000;
    }
    const auto transfers = [&](const std::vector<SubchannelStats>& over) {
        for (int i = 0; i < 20; ++i) {
            std::vector<StripeTime> times;
            for (const Stripe& stripe : plan_of(*scheduler, 2 * kLong, over)) {
                times.push_back({stripe.subchannel, stripe.length,
                                 static_cast<double>(stripe.length) / speeds[stripe.subchannel]});
            }
            scheduler->learn(Mix::reads, times);
        }
    };
    const auto part_of_slow = [&](std::uint32_t slow, std::uint32_t fast) {
        const std::vector<Bytes> parts = loads(plan_of(*scheduler, 2 * kLong, up), 4);
        return static_cast<double>(parts[slow]) / static_cast<double>(parts[slow] + parts[fast]);
    };
    transfers(up);
    ASSERT_GT(loads(plan_of(*scheduler, 2 * kLong, up), 4)[2], 0u) << "both ports spread";
    const double before = part_of_slow(2, 3);
    ASSERT_LT(before, 0.25);
    transfers({up[0], up[2], up[3]});
    EXPECT_NEAR(part_of_slow(2, 3), before, 0.02);
}

} // namespace
} // namespace adaptib
