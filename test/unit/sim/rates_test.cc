// SPDX-License-Identifier: BSD-3-Clause
// The rate of a stream after a fault, of complete cores over a simulated network: once a fault has
// been over for a stated time, 100 ms carry at least 95 % of what 100 ms carried before it, and
// every message ends.
//
// Rank 0 sends messages of 1 MiB to rank 1, kUnderWay at a time. Both look at their cores all the
// time, as processes do that wait in MPI. The faults are those that users of other libraries met: a
// port that goes down and comes back, a cable that carries one direction only, work requests that
// never complete (Mooncake's issue 3523), events of an adapter's other port (3644).
#include <algorithm>
#include <array>
#include <string>

#include "simulator/faults/fault.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;
using fault::Fault;

constexpr std::size_t kBytes = 1 << 20;
constexpr std::size_t kUnderWay = 8;
constexpr Nanoseconds kMeasured = 100ms;
constexpr Nanoseconds kPass = 10us; // from one look at a core to the next
constexpr BytesPerSecond kPortRate{500'000'000};

struct Ports {
    std::uint32_t adapters = 2; // of a host
    std::uint32_t ports = 1;    // of an adapter
};

class Stream final : private Clock {
public:
    explicit Stream(const Ports& ports) {
        RanksOptions options;
        options.world.machine = *machine("connect-ib");
        options.world.machine.offers.reliable_ud = false;
        options.world.machine.adapter.port_rate = kPortRate;
        options.world.machine.processor.registration =
            options.world.machine.processor.registration_page = Nanoseconds{0};
        options.world.topology = crossbar(2, {.adapters = ports.adapters, .ports = ports.ports},
                                          links_of(options.world.machine));
        std::string text;
        EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
        options.wrap = [this](std::size_t rank, std::unique_ptr<Fabric> below) {
            return fault::with_faults(std::move(below), plans_[rank], *this, logs_[rank],
                                      [this, rank](Nanoseconds when) { wake(rank, when); });
        };
        options.program = [this](std::size_t rank) {
            if (started_) {
                go_on();
                wake(rank, ranks_->now(rank) + kPass);
            }
        };
        ranks_ = make(std::move(options));
        for (std::size_t i = 0; i < kUnderWay; ++i) {
            messages_.push_back(std::make_unique<Message>(0, 1, kBytes, i));
            messages_.back()->start(*ranks_);
        }
        started_ = true;
        rest(500ms); // connects, and the scheduler learns the rates of its paths
    }

    Ranks& ranks() { return *ranks_; }
    void rest(Nanoseconds time) { sim::rest(*ranks_, time); }
    // Bytes that arrive within kMeasured.
    double measure() {
        const std::uint64_t before = arrived_;
        rest(kMeasured);
        return static_cast<double>((arrived_ - before) * kBytes);
    }
    void set_silent(std::size_t rail, bool silent) {
        plans_[1].faults.push_back({.fault = silent ? Fault::rail_silent : Fault::rail_up,
                                    .rail = static_cast<std::uint32_t>(rail)});
        wake(1, Nanoseconds{0});
    }
    // Starts no more messages, and checks that those under way end well.
    void expect_end() {
        stopped_ = true;
        ranks_->run_until([this] { return all_done(messages_); }, 1s);
        expect_arrived(messages_);
        for (const std::size_t rank : {0, 1}) {
            expect_unbroken(*ranks_, rank);
        }
    }

private:
    Nanoseconds now() const override {
        return ranks_ == nullptr ? Nanoseconds{0} : ranks_->world().simulator().now();
    }
    void wake(std::size_t rank, Nanoseconds when) {
        if (ranks_ != nullptr) {
            ranks_->wake(rank, when);
        }
    }
    void go_on() {
        for (const auto& message : messages_) {
            if (message->done() && !stopped_) {
                ++arrived_;
                message->start(*ranks_);
            }
        }
    }

    std::array<fault::FaultPlan, 2> plans_;
    std::array<fault::FaultLog, 2> logs_;
    Messages messages_; // outlive the cores
    bool started_ = false;
    bool stopped_ = false;
    std::uint64_t arrived_ = 0;
    std::unique_ptr<Ranks> ranks_;
};

// The cable between a port of rank 1's host and the switch, or one of its directions.
LinkIndex out_of(Stream& stream, std::size_t port) {
    const Topology& topology = stream.ranks().world().topology();
    return topology.ports[topology.hosts[1].ports[port]].link;
}

using Set = void (*)(Stream& stream, std::size_t port, bool works);

void set_first_hosts_port(Stream& stream, std::size_t port, bool works) {
    set_port(stream.ranks(), 0, port, works);
}
void set_second_hosts_port(Stream& stream, std::size_t port, bool works) {
    set_port(stream.ranks(), 1, port, works);
}
// No end is told. Requests of rank 1, which gets the messages' data, do not leave.
void set_way_out(Stream& stream, std::size_t port, bool works) {
    stream.ranks().world().set_direction(out_of(stream, port), works);
}
// The same, but requests leave, and their answers do not come back.
void set_way_in(Stream& stream, std::size_t port, bool works) {
    const LinkIndex out = out_of(stream, port);
    stream.ranks().world().set_direction(stream.ranks().world().topology().links[out].reverse,
                                         works);
}
// Nothing completes that rank 1 posts, not even with an error. What was posted before the device
// works again never does.
void set_completions(Stream& stream, std::size_t port, bool works) {
    stream.set_silent(port, !works);
}

struct Case {
    const char* name;
    Set set;
    Ports ports;
    std::size_t port; // that fails
    Nanoseconds lasts;
    // How long the fault has been over when the rate is measured again. Events take 64 passes or 10
    // ms; a failed path without an event is asked every 2 s and an eighth of that (PathProbes).
    Nanoseconds after;
    double during; // of the rate before, in the fault's last 100 ms
    double then = 1;
};

constexpr Nanoseconds kHeard = 100ms;
// The adapter sends again what was not answered within answer_timeout, rounded up to 1.07 s.
constexpr Nanoseconds kSentAgain = 1100ms;
constexpr Nanoseconds kAsked = 2350ms;
constexpr Ports kTwoRails{2, 1};
constexpr Ports kOneRail{1, 1};
constexpr Ports kOneAdapter{1, 2}; // whose queue pairs migrate to the other port by themselves

class Faults : public testing::TestWithParam<Case> {};

TEST_P(Faults, TheRateIsBackInTime) {
    const Case& fault = GetParam();
    Stream stream(fault.ports);
    const double before = stream.measure();
    fault.set(stream, fault.port, false);
    stream.rest(fault.lasts - kMeasured);
    EXPECT_NEAR(stream.measure() / before, fault.during, 0.05);
    fault.set(stream, fault.port, true);
    stream.rest(fault.after);
    EXPECT_NEAR(stream.measure() / before, fault.then, 0.05);
    stream.expect_end();
}

INSTANTIATE_TEST_SUITE_P(
    Named, Faults,
    testing::Values(
        Case{"first_port", set_first_hosts_port, kTwoRails, 0, 500ms, kHeard, 0.5},
        Case{"second_port", set_first_hosts_port, kTwoRails, 1, 500ms, kHeard, 0.5},
        Case{"first_port_of_the_peer", set_second_hosts_port, kTwoRails, 0, 500ms, kHeard, 0.5},
        Case{"second_port_of_the_peer", set_second_hosts_port, kTwoRails, 1, 500ms, kHeard, 0.5},
        Case{"only_port", set_first_hosts_port, kOneRail, 0, 500ms, kHeard, 0},
        Case{"requests_lost_shortly", set_way_out, kTwoRails, 1, 150ms, kSentAgain, 0},
        Case{"requests_lost", set_way_out, kTwoRails, 1, 3s, kAsked, 0.5},
        Case{"requests_lost_of_the_first_rail", set_way_out, kTwoRails, 0, 3s, kAsked, 0.5},
        Case{"requests_lost_of_the_only_rail", set_way_out, kOneRail, 0, 3s, kAsked, 0},
        Case{"answers_lost_shortly", set_way_in, kTwoRails, 1, 150ms, kSentAgain, 0},
        Case{"answers_lost", set_way_in, kTwoRails, 1, 3s, kAsked, 0.5},
        Case{"answers_lost_of_the_first_rail", set_way_in, kTwoRails, 0, 3s, kAsked, 0.5},
        Case{"answers_lost_of_the_only_rail", set_way_in, kOneRail, 0, 3s, kAsked, 0},
        Case{"no_completions_shortly", set_completions, kTwoRails, 1, 150ms, 3s, 0},
        Case{"no_completions", set_completions, kTwoRails, 1, 3s, kAsked, 0.5},
        Case{"no_completions_of_the_first_rail", set_completions, kTwoRails, 0, 3s, kAsked, 0.5},
        Case{"no_completions_of_the_only_rail", set_completions, kOneRail, 0, 3s, 3s, 0},
        Case{"no_completions_of_a_port_shortly", set_completions, kOneAdapter, 1, 150ms, 3s, 0},
        Case{"no_completions_of_a_port", set_completions, kOneAdapter, 1, 3s, kAsked, 0.5},
        Case{"no_completions_of_the_first_port", set_completions, kOneAdapter, 0, 3s, kAsked, 0.5},
        Case{"other_port", set_first_hosts_port, kOneAdapter, 1, 500ms, kHeard, 0.5},
        Case{"other_port_of_the_peer", set_second_hosts_port, kOneAdapter, 0, 500ms, kHeard, 0.5},
        // Nothing tells that the port could be used again (docs/known-issues.md).
        Case{"other_port_untold", set_way_out, kOneAdapter, 1, 3s, kAsked, 0.5, 0.5}),
    [](const auto& test) { return std::string(test.param.name); });

// Events of one port say nothing of the adapter's other one, however many come.
TEST(Faults, EventsOfAPortLeaveTheOtherPortAlone) {
    for (const std::size_t port : {0, 1}) {
        for (const bool peers : {false, true}) {
            SCOPED_TRACE(std::to_string(port) + (peers ? ", the peer's" : ""));
            Stream stream(kOneAdapter);
            const Set set = peers ? set_second_hosts_port : set_first_hosts_port;
            const double before = stream.measure();
            for (int i = 0; i < 5; ++i) {
                set(stream, port, false);
                EXPECT_NEAR(stream.measure() / before, 0.5, 0.05);
                set(stream, port, true);
                stream.rest(20ms);
            }
            stream.rest(kHeard);
            EXPECT_NEAR(stream.measure() / before, 1, 0.05);
            stream.expect_end();
        }
    }
}

} // namespace
} // namespace adaptib::sim
