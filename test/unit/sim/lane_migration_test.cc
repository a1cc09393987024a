// SPDX-License-Identifier: BSD-3-Clause
// Control lanes (schedule/control_lane.h) that migrate while the job runs
// (connect/lane_migrations.h), of complete cores over a simulated network: a rail that is slower
// than it announces is left once that is known. Whatever happens at the same moment, messages
// arrive once, in order and whole.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "simulator/faults/fault.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

char kOff[] = "off";
char kPut[] = "put";
char kSharedRing[] = "fixed:shared_ring";

RanksOptions two_ports(std::size_t ranks = 2) {
    RanksOptions options;
    options.ranks = ranks;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(2, {.adapters = 2}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    return options;
}

std::uint32_t control_lane(Ranks& ranks, std::size_t from, std::size_t to) {
    return ranks.peer(from, to)->control.lane;
}

void migrate(Ranks& ranks, std::size_t from, std::size_t to, std::uint32_t control_lane) {
    ranks.core(from).connections().migrate_control_lane(*ranks.peer(from, to), control_lane);
    ranks.wake(from);
}

// Sends messages between ranks 0 and 1, there and back; returns the time that they take.
Nanoseconds ping_pong(Ranks& ranks, std::size_t bytes, int rounds) {
    const Nanoseconds began = ranks.world().simulator().now();
    for (int i = 0; i < rounds; ++i) {
        carry(ranks, 0, 1, bytes);
        carry(ranks, 1, 0, bytes);
    }
    return ranks.world().simulator().now() - began;
}

// Ranks 0 and 1 have their control lanes on different rails; rank 1's rail is four times
// slower than announced.
class ASlowRail : public testing::TestWithParam<char*> {
protected:
    ASlowRail() {
        RanksOptions options = two_ports();
        if (GetParam() != nullptr) {
            options.parameters.channel_policy = GetParam();
            options.parameters.rendezvous = kPut;
        }
        options.program = [this](std::size_t rank) { // a waiting rank polls all the time
            if (ranks != nullptr) {
                ranks->wake(rank, ranks->now(rank) + 1us);
            }
        };
        ranks = make(std::move(options));
        for (const Host& host : ranks->world().topology().hosts) {
            ranks->world().slow_port(host.ports[1], 4);
        }
        ping_pong(*ranks, 100'000, 1);
    }
    void learn(int messages) {
        for (int i = 0; i < messages; ++i) {
            carry(*ranks, 0, 1, 1'000'000);
            carry(*ranks, 1, 0, 1'000'000);
        }
    }
    std::unique_ptr<Ranks> ranks;
};
INSTANTIATE_TEST_SUITE_P(QueuePairs, ASlowRail, testing::Values(nullptr, kSharedRing));

TEST_P(ASlowRail, IsLeftOnceItIsKnown) {
    ASSERT_EQ(control_lane(*ranks, 0, 1), 0u);
    ASSERT_EQ(control_lane(*ranks, 1, 0), 1u);
    const Nanoseconds before = ping_pong(*ranks, 4000, 20);
    EXPECT_EQ(ranks->counters(1).lanes_migrated, 0u) << "a few short ones teach nothing";
    learn(40);
    EXPECT_EQ(control_lane(*ranks, 0, 1), 0u);
    EXPECT_EQ(control_lane(*ranks, 1, 0), 0u);
    EXPECT_EQ(ranks->counters(0).lanes_migrated, 0u);
    EXPECT_EQ(ranks->counters(1).lanes_migrated, 1u);
    EXPECT_LT(ping_pong(*ranks, 4000, 20), before * 4 / 5);
    const std::string report = ranks->core(1).report();
    const std::size_t at = report.find("; carries the ring\n");
    ASSERT_NE(at, std::string::npos) << report;
    EXPECT_EQ(report.find("; carries the ring\n", at + 1), std::string::npos) << report;
    EXPECT_LT(at, report.rfind("of process 0: weight")) << "the first of two: " << report;
    learn(40);
    EXPECT_EQ(ranks->counters(1).lanes_migrated, 1u) << "and it stays";
    nothing_bad(*ranks);
}

TEST_P(ASlowRail, MayBeAnotherOneLater) {
    learn(40);
    ASSERT_EQ(control_lane(*ranks, 1, 0), 0u);
    for (const Host& host : ranks->world().topology().hosts) {
        ranks->world().slow_port(host.ports[1], 1);
        ranks->world().slow_port(host.ports[0], 4);
    }
    learn(80);
    EXPECT_EQ(control_lane(*ranks, 0, 1), 1u);
    EXPECT_EQ(control_lane(*ranks, 1, 0), 1u);
    EXPECT_EQ(ranks->counters(1).lanes_migrated, 2u);
    nothing_bad(*ranks);
}

// Sends messages both ways, far more than a ring holds, while both control lanes
// migrate all the time.
TEST_P(ASlowRail, MessagesAndCreditKeepTheirOrderWhileControlLanesMigrate) {
    Random random(7);
    Messages messages;
    for (int i = 0; i < 3000; ++i) {
        const std::size_t from = random.below(2);
        constexpr std::size_t kSizes[] = {0, 8, 100, 1000, 4000};
        messages.push_back(
            std::make_unique<Message>(from, 1 - from, kSizes[random.below(5)], messages.size()));
        messages.back()->start(*ranks);
        if (i % 10 == 0) { // while these are in flight
            const std::size_t rank = random.below(2);
            migrate(*ranks, rank, 1 - rank, 1 - control_lane(*ranks, rank, 1 - rank));
            rest(*ranks, Nanoseconds{static_cast<std::int64_t>(100'000 + random.below(100'000))});
        }
    }
    ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 10s));
    expect_arrived(messages);
    for (const std::size_t rank : {0, 1}) {
        EXPECT_GT(ranks->counters(rank).lanes_migrated, 50u);
        EXPECT_GT(ranks->counters(rank).ring_sent, 1000u);
        EXPECT_EQ(ranks->counters(rank).repairs, 0u);
    }
    nothing_bad(*ranks);
}

TEST_P(ASlowRail, AConnectionIsNotClosedMeanwhile) {
    for (const std::size_t closes : {0, 1}) {
        Peer& migrating = *ranks->peer(0, 1);
        ASSERT_EQ(migrating.session.state, ConnectState::open);
        const std::uint32_t from = control_lane(*ranks, 0, 1);
        migrate(*ranks, 0, 1, 1 - from);
        ASSERT_TRUE(migrating.control.migration.active);
        ranks->core(closes).selection().demote(*ranks->peer(closes, 1 - closes));
        EXPECT_EQ(migrating.session.state, ConnectState::open);
        ranks->wake(closes);
        rest(*ranks, 1ms);
        if (migrating.session.state ==
            ConnectState::open) { // else: closed once the migration was over
            EXPECT_EQ(migrating.control.lane, 1 - from);
        }
        EXPECT_FALSE(migrating.control.migration.active);
        ping_pong(*ranks, 100'000, 1); // connects again
    }
    EXPECT_GE(ranks->counters(0).lanes_migrated, 2u); // and back, once something is learned
    nothing_bad(*ranks);
}

TEST_P(ASlowRail, OnlyToASubchannelThatCanCarryIt) {
    Peer& peer = *ranks->peer(0, 1);
    migrate(*ranks, 0, 1, 0);
    EXPECT_FALSE(peer.control.migration.active) << "it is there";
    migrate(*ranks, 0, 1, 2);
    EXPECT_FALSE(peer.control.migration.active) << "there is none";
    set_port(*ranks, 0, 1, false);
    migrate(*ranks, 0, 1, 1);
    EXPECT_FALSE(peer.control.migration.active) << "its port is down";
}

// Short messages only. A waiting rank polls all the time, or computes for `computes` in between;
// intervals of measurements are short.
class ShortMessages : public testing::Test {
protected:
    explicit ShortMessages(Nanoseconds computes = 0us) {
        RanksOptions options = two_ports();
        options.measure = {.messages = 64, .every = 1ms, .again = 50us};
        options.program = [this, computes](std::size_t rank) {
            if (ranks != nullptr) {
                ranks->process(rank).charge(computes);
                ranks->wake(rank, ranks->now(rank) + 1us);
            }
        };
        ranks = make(std::move(options));
        ping_pong(*ranks, 100, 20); // connects
    }
    void slow(std::size_t port, std::uint32_t factor) {
        for (const Host& host : ranks->world().topology().hosts) {
            ranks->world().slow_port(host.ports[port], factor);
        }
    }
    // Sends until the control lane from `from` to the other rank is `to`; returns
    // whether it got there.
    bool control_lane_becomes(std::size_t from, std::uint32_t to, std::size_t bytes) {
        for (int i = 0; i < 100 && control_lane(*ranks, from, 1 - from) != to; ++i) {
            ping_pong(*ranks, bytes, 20);
        }
        return control_lane(*ranks, from, 1 - from) == to;
    }
    void stream(std::size_t from, std::size_t bytes, int messages) {
        Messages all;
        for (int i = 0; i < messages; ++i) {
            all.push_back(std::make_unique<Message>(from, 1 - from, bytes, all.size()));
        }
        carry(*ranks, all);
    }
    std::unique_ptr<Ranks> ranks;
};

TEST_F(ShortMessages, LeaveASlowRailThatClaimsToBeFast) {
    ASSERT_EQ(ranks->peer(1, 0)->session.state, ConnectState::open);
    ASSERT_EQ(control_lane(*ranks, 1, 0), 1u);
    slow(1, 4);
    const Nanoseconds before = ping_pong(*ranks, 4000, 20);
    EXPECT_TRUE(control_lane_becomes(1, 0, 4000));
    EXPECT_EQ(control_lane(*ranks, 0, 1), 0u);
    EXPECT_LT(ping_pong(*ranks, 4000, 20), before * 4 / 5);
    EXPECT_EQ(ranks->counters(1).lanes_migrated, 1u);
    EXPECT_EQ(ranks->counters(1).spread_trials, 0u);
    const std::string report = ranks->core(1).report();
    EXPECT_NE(report.find(" MB/s; carries the ring\n"), std::string::npos) << report;
    const std::string what = "of process 0: measured ";
    const std::size_t at = report.find(what);
    ASSERT_NE(at, std::string::npos) << report;
    const double measured = std::stod(report.substr(at + what.size())) * 1e6;
    const auto rate = static_cast<double>(ranks->core(1).rails()[0]->info().rate.value);
    EXPECT_GT(measured, rate / 100);
    EXPECT_LT(measured, 2 * rate);
    ping_pong(*ranks, 100, 2000);
    EXPECT_EQ(control_lane(*ranks, 1, 0), 0u) << "and it stays";
    EXPECT_EQ(ranks->counters(0).lanes_migrated, 0u);
    EXPECT_EQ(ranks->counters(1).lanes_migrated, 1u);
    nothing_bad(*ranks);
}

TEST_F(ShortMessages, LeaveItInAStream) {
    slow(1, 4);
    for (int i = 0; i < 100 && control_lane(*ranks, 1, 0) == 1; ++i) {
        stream(1, 4000, 64);
    }
    EXPECT_EQ(control_lane(*ranks, 1, 0), 0u);
    for (int i = 0; i < 50; ++i) {
        stream(1, 4000, 64);
    }
    EXPECT_EQ(ranks->counters(1).lanes_migrated, 1u);
    nothing_bad(*ranks);
}

TEST_F(ShortMessages, StayOnRailsThatAreAlike) {
    const Nanoseconds began = ranks->now(0);
    for (const std::size_t bytes : {8, 1000, 8000}) {
        ping_pong(*ranks, bytes, 500);
        for (int i = 0; i < 20; ++i) {
            stream(0, bytes, 64);
            stream(1, bytes, 64);
        }
    }
    for (const std::size_t rank : {0, 1}) {
        const Counters& counters = ranks->counters(rank);
        EXPECT_EQ(counters.lanes_migrated, 0u);
        EXPECT_GE(counters.ports_measured, 4u);
        EXPECT_LE(counters.ports_measured,
                  static_cast<std::uint64_t>(2 * (2 + (ranks->now(0) - began) / 1ms)));
        EXPECT_EQ(control_lane(*ranks, rank, 1 - rank), rank);
    }
    nothing_bad(*ranks);
}

TEST_F(ShortMessages, FollowRailsThatChange) {
    ping_pong(*ranks, 1000, 500);
    for (const std::uint32_t slow_one : {1u, 0u, 1u}) {
        slow(slow_one, 4);
        slow(1 - slow_one, 1);
        EXPECT_TRUE(control_lane_becomes(0, 1 - slow_one, 4000)) << slow_one;
        EXPECT_TRUE(control_lane_becomes(1, 1 - slow_one, 4000)) << slow_one;
    }
    nothing_bad(*ranks);
}

// The rail that is not in use always looks better.
TEST_F(ShortMessages, DoNotFollowPromisesForEver) {
    constexpr int kPhases = 400;
    std::uint64_t soon = 0;
    for (int i = 0; i < kPhases; ++i) {
        const std::uint32_t at = control_lane(*ranks, 1, 0);
        slow(at, 4);
        slow(1 - at, 1);
        ping_pong(*ranks, 1000, 50);
        soon = i == kPhases / 8 ? ranks->counters(1).lanes_migrated : soon;
    }
    const std::uint64_t moved = ranks->counters(1).lanes_migrated;
    EXPECT_GE(soon, 2u);
    EXPECT_LE(moved, soon + 8) << "of the first eighth: " << soon;
    nothing_bad(*ranks);
}

TEST_F(ShortMessages, WhoIsSilentMeasuresNothing) {
    ping_pong(*ranks, 100, 300);
    rest(*ranks, 2ms);
    const std::uint64_t measured = ranks->counters(0).ports_measured;
    EXPECT_GT(measured, 0u);
    rest(*ranks, 50ms);
    EXPECT_LE(ranks->counters(0).ports_measured, measured + 2) << "what was sent before";
    ping_pong(*ranks, 100, 300);
    EXPECT_GT(ranks->counters(0).ports_measured, measured);
}

TEST_F(ShortMessages, NothingIsMeasuredThatStripesTell) {
    const std::uint64_t measured = ranks->counters(0).ports_measured;
    for (int i = 0; i < 200; ++i) {
        carry(*ranks, 1, 0, 200'000); // read by 0
        ping_pong(*ranks, 100, 4);
    }
    EXPECT_LE(ranks->counters(0).ports_measured, measured + 2);
}

class LateLooks : public ShortMessages {
protected:
    LateLooks() : ShortMessages(500us) {}
};

// A poll finds both measurements ended at once, which says nothing.
TEST_F(LateLooks, TeachNothing) {
    slow(1, 4);
    for (int i = 0; i < 40; ++i) {
        Messages all;
        for (int k = 0; k < 40; ++k) {
            all.push_back(std::make_unique<Message>(1, 0, 100, all.size()));
            all.back()->start(*ranks);
        }
        ASSERT_TRUE(ranks->run_until([&] { return all_done(all); }, 1s));
        rest(*ranks, 5ms);
    }
    EXPECT_EQ(control_lane(*ranks, 1, 0), 1u);
    EXPECT_GE(ranks->counters(1).ports_measured, 4u);
    EXPECT_EQ(ranks->counters(1).lanes_migrated, 0u);
    nothing_bad(*ranks);
}

TEST_F(ShortMessages, AConnectionIsNotClosedMeanwhile) {
    slow(1, 1000);
    Peer& peer = *ranks->peer(1, 0);
    for (int i = 0; i < 500 && !peer.control.measuring.active; ++i) {
        ping_pong(*ranks, 100, 1);
    }
    ASSERT_TRUE(ranks->run_until(
        [&] { return peer.control.measuring.active && peer.control.measuring.path == 1; }, 10ms));
    for (const std::size_t closes : {0, 1}) {
        ranks->core(closes).selection().demote(*ranks->peer(closes, 1 - closes));
        ranks->wake(closes);
        rest(*ranks, 100us);
        EXPECT_EQ(peer.session.state, ConnectState::open);
        EXPECT_TRUE(peer.control.measuring.active);
    }
    rest(*ranks, 20ms);
    EXPECT_FALSE(peer.control.measuring.active);
    ping_pong(*ranks, 100, 100);
    nothing_bad(*ranks);
}

TEST_F(ShortMessages, APortThatFailsMeanwhileIsDoneWithout) {
    slow(1, 1000);
    Peer& peer = *ranks->peer(0, 1);
    for (int i = 0; i < 500 && !peer.control.measuring.active; ++i) {
        ping_pong(*ranks, 100, 1);
    }
    ASSERT_TRUE(ranks->run_until(
        [&] { return peer.control.measuring.active && peer.control.measuring.path == 1; }, 10ms));
    set_port(*ranks, 1, 1, false);
    ping_pong(*ranks, 100, 10);
    ASSERT_TRUE(ranks->run_until([&] { return !peer.control.measuring.active; }, 10s));
    ping_pong(*ranks, 100, 100);
    EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), 1u);
    EXPECT_GE(ranks->counters(0).repairs, 1u);
    slow(1, 1);
    set_port(*ranks, 1, 1, true);
    ASSERT_TRUE(
        ranks->run_until([&] { return ranks->peer(0, 1)->lanes.live_subchannels() == 2; }, 10s));
    const std::uint64_t measured = ranks->counters(0).ports_measured;
    ping_pong(*ranks, 100, 1000);
    EXPECT_GT(ranks->counters(0).ports_measured, measured);
    expect_unbroken(*ranks, 0);
    expect_unbroken(*ranks, 1);
}

class Trouble : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Trouble, testing::Range<std::uint64_t>(1, 9));

// Ports fail and come back, connections are closed and made anew, while control lanes migrate.
TEST_P(Trouble, AtTheSameMomentLosesNothing) {
    Random random(GetParam());
    RanksOptions options = two_ports(4);
    options.measure = {.messages = 8, .every = 50us, .again = 5us};
    options.seed = options.world.seed = GetParam();
    options.parameters.apm = kOff;
    if (GetParam() % 2 == 0) {
        options.parameters.rendezvous = kPut;
    }
    if (GetParam() % 4 == 3) {
        options.parameters.channel_policy = kSharedRing;
    }
    const auto ranks = make(std::move(options));
    for (std::size_t from = 0; from < 4; ++from) {
        carry(*ranks, from, (from + 1) % 4, 100'000);
    }
    Messages messages;
    std::uint64_t begun = 0;
    for (int i = 0; i < 400; ++i) {
        const std::size_t from = random.below(4);
        const std::size_t to = (from + 1 + random.below(3)) % 4;
        constexpr std::size_t kSizes[] = {0, 8, 100, 4000, 8000, 12'000, 1'000'000};
        for (std::uint64_t count = random.below(8); count > 0; --count) {
            messages.push_back(
                std::make_unique<Message>(from, to, kSizes[random.below(7)], messages.size()));
            messages.back()->start(*ranks);
        }
        Peer& peer = *ranks->peer(from, to);
        migrate(*ranks, from, to, static_cast<std::uint32_t>(random.below(2)));
        begun += peer.control.migration.active ? 1 : 0;
        switch (random.below(12)) {
        case 0: {
            const bool up = random.below(3) > 0;
            set_port(*ranks, from % 2, random.below(2), up);
            break;
        }
        case 1: ranks->core(from).selection().demote(peer); break;
        case 2: ranks->core(to).selection().demote(*ranks->peer(to, from)); break;
        case 3: ranks->core(from).selection().promote(peer); break;
        default: break;
        }
        rest(*ranks, Nanoseconds{static_cast<std::int64_t>(random.below(20'000))});
        if (random.below(40) == 0) { // time to notice and repair
            rest(*ranks, 100ms);
        }
    }
    for (const std::size_t host : {0, 1}) {
        set_port(*ranks, host, 0, true);
        set_port(*ranks, host, 1, true);
    }
    ranks->run_until([&] { return all_done(messages); }, 100s);
    expect_arrived(messages);
    std::uint64_t moved = 0;
    std::uint64_t repairs = 0;
    for (std::size_t rank = 0; rank < 4; ++rank) {
        moved += ranks->counters(rank).lanes_migrated;
        repairs += ranks->counters(rank).repairs;
        expect_unbroken(*ranks, rank);
    }
    EXPECT_GT(moved, 3u);
    EXPECT_LT(moved, begun) << "some are interrupted";
    EXPECT_GT(repairs, 0u);
}

// The device of the old control lane falls silent: it does not even report that earlier
// messages have arrived.
TEST(LaneMigrations, ASilentDeviceIsFoundOut) {
    RanksOptions options = two_ports();
    options.world.machine.offers.reliable_ud = false;
    options.parameters.apm = kOff;
    fault::FaultPlan plans[2];
    fault::FaultLog logs[2];
    std::unique_ptr<Ranks> ranks;
    class SimClock final : public Clock {
    public:
        explicit SimClock(std::unique_ptr<Ranks>& of) : ranks_(of) {}
        Nanoseconds now() const override {
            return ranks_ == nullptr ? Nanoseconds{0} : ranks_->world().simulator().now();
        }

    private:
        std::unique_ptr<Ranks>& ranks_;
    } clock(ranks);
    options.wrap = [&](std::size_t rank, std::unique_ptr<Fabric> below) {
        return fault::with_faults(std::move(below), plans[rank], clock, logs[rank],
                                  [&ranks, rank](Nanoseconds when) {
                                      if (ranks != nullptr) {
                                          ranks->wake(rank, when);
                                      }
                                  });
    };
    ranks = make(std::move(options));
    ping_pong(*ranks, 100'000, 1);
    rest(*ranks, 3s); // no request is watched any more
    ASSERT_EQ(control_lane(*ranks, 0, 1), 0u);
    plans[0].faults.push_back({.fault = fault::Fault::rail_silent, .rail = 0});
    ranks->wake(0);
    migrate(*ranks, 0, 1, 1);
    ASSERT_TRUE(ranks->peer(0, 1)->control.migration.active);
    ASSERT_TRUE(ranks->run_until([&] { return ranks->peer(0, 1)->control.migration.paused; }, 1s));
    Messages messages;
    for (std::size_t i = 0; i < 3; ++i) {
        messages.push_back(std::make_unique<Message>(0, 1, 100 + i));
        messages.back()->start(*ranks);
    }
    EXPECT_TRUE(ranks->run_until([&] { return all_done(messages); }, 1300ms));
    expect_arrived(messages);
    EXPECT_EQ(control_lane(*ranks, 0, 1), 1u);
    EXPECT_FALSE(ranks->peer(0, 1)->control.migration.active);
    expect_unbroken(*ranks, 0);
}

// Without fault tolerance a rail that goes down ends only connections whose
// control lane it carries.
TEST(LaneMigrations, TheOldControlLaneIsKeptIfTheNewOneGoesDown) {
    RanksOptions options = two_ports();
    options.parameters.fault_tolerance = kOff;
    const auto ranks = make(std::move(options));
    ping_pong(*ranks, 100'000, 1);
    migrate(*ranks, 0, 1, 1);
    ASSERT_TRUE(ranks->peer(0, 1)->control.migration.active);
    set_port(*ranks, 0, 1, false);
    EXPECT_TRUE(ranks->run_until([&] { return !ranks->peer(0, 1)->control.migration.active; }, 1s));
    carry(*ranks, 0, 1, 100);
    EXPECT_EQ(control_lane(*ranks, 0, 1), 0u);
    EXPECT_EQ(ranks->counters(0).lanes_migrated, 0u);
    EXPECT_EQ(ranks->counters(0).connections_failed, 0u);
}

} // namespace
} // namespace adaptib::sim
