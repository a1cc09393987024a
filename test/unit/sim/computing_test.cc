// SPDX-License-Identifier: BSD-3-Clause
// Ranks that compute for long, without a call of MPI, while others wait for them: however
// long that is beside partition_timeout, no rank is given up whose responder answers, and
// all messages arrive.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "simulator/network/sim_fabric.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPorts = 2;
constexpr Nanoseconds kPatience = 20s;
constexpr Nanoseconds kLong = 3 * kPatience + 10s;

RanksOptions network(bool lossy, int connect_threshold, bool responders = true) {
    RanksOptions options;
    options.ranks = 3;
    options.world.machine = *machine("connect-ib");
    options.world.machine.offers.reliable_ud = false;
    options.world.datagram_loss = lossy ? 0.1 : 0;
    options.world.responders = responders;
    options.world.topology = crossbar(3, {.ports = kPorts}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.connect_threshold = connect_threshold;
    options.parameters.partition_timeout = static_cast<int>(kPatience / 1s);
    options.parameters.apm = const_cast<char*>("off");
    return options;
}

// Debt of rank 1 when it begins to compute, and whether rank 0 gives it up for that debt where rank
// 1 has no responder.
struct Debt {
    const char* what;
    int connect_threshold;
    std::size_t before; // messages of 8 bytes that have come and gone
    std::size_t count;  // then so many ...
    std::size_t bytes;  // ... of so many bytes
    bool port_fails;    // before that, one of its ports fails
    bool lost;
};

class Computing : public testing::TestWithParam<Debt> {
protected:
    // Runs all but the end: rank 1 computes, and rank 0 waits for its messages.
    void begin(bool lossy, bool responders) {
        const Debt& debt = GetParam();
        ranks_ = make(network(lossy, debt.connect_threshold, responders));
        for (std::size_t i = 0; i < debt.before; ++i) {
            carry(*ranks_, 0, 1, 8);
        }
        rest(*ranks_, 1ms);
        if (debt.port_fails) {
            set_port(*ranks_, 1, 0, false); // the port of the ring and the datagrams
        }
        ranks_->compute(1, kLong);
        for (std::size_t i = 0; i < debt.count; ++i) {
            messages_.push_back(std::make_unique<Message>(0, 1, debt.bytes, i));
            messages_.back()->start(*ranks_);
        }
    }
    std::size_t failed() { return ranks_->counters(0).connections_failed; }

    Messages messages_;
    std::unique_ptr<Ranks> ranks_;
};
INSTANTIATE_TEST_SUITE_P(
    All, Computing,
    testing::Values(
        Debt{"the acknowledgement of an eager message", 1'000'000, 0, 1, 8, false, true},
        Debt{"the same, after others", 1'000'000, 5, 3, 1000, false, true},
        Debt{"the data of a rendezvous", 1, 4, 1, 1'000'000, false, false},
        Debt{"a connection, asked for by the 16th message", 16, 15, 3, 8, false, true},
        Debt{"a connection, asked for by a first long message", 16, 0, 1, 20'000, false, true},
        Debt{"the repair of a connection", 1, 4, 2, 10'000'000, true, true}),
    [](const auto& info) { return "Case" + std::to_string(info.index); });

TEST_P(Computing, IsWaitedForAsLongAsItsResponderAnswers) {
    for (const bool lossy : {false, true}) {
        SCOPED_TRACE(std::string(GetParam().what) + (lossy ? ", lossy" : ""));
        messages_.clear();
        begin(lossy, true);
        ASSERT_TRUE(ranks_->run_until([&] { return all_done(messages_); }, kLong + 20s));
        expect_arrived(messages_);
        for (const std::size_t rank : {0, 1}) {
            expect_unbroken(*ranks_, rank);
        }
        EXPECT_LT(ranks_->counters(0).datagram_repeated, 400u) << "they are sent again rarely";
        carry(*ranks_, 1, 0, 100'000);
        messages_.clear();
        ranks_.reset();
    }
}

// Without a responder's evidence the time limit applies.
TEST_P(Computing, IsGivenUpWithoutAResponder) {
    SCOPED_TRACE(GetParam().what);
    begin(false, false);
    ranks_->run_until([&] { return failed() > 0; }, kLong);
    EXPECT_EQ(failed() > 0, GetParam().lost);
    ranks_->run_until([&] { return false; }, 1us);
    ranks_.reset(); // before the buffers
}

// A peer that dies while it computes is given up once nothing has answered for that long.
TEST_P(Computing, AndThatDiesIsGivenUp) {
    if (!GetParam().lost) {
        return;
    }
    SCOPED_TRACE(GetParam().what);
    begin(false, true);
    rest(*ranks_, kLong / 2);
    EXPECT_EQ(failed(), 0u);
    ranks_->kill(1);
    const Nanoseconds began = ranks_->world().simulator().now();
    ASSERT_TRUE(ranks_->run_until([&] { return failed() > 0; }, 3 * kPatience));
    const Nanoseconds took = ranks_->world().simulator().now() - began;
    EXPECT_GT(took, kPatience - 3s);
    EXPECT_LT(took, kPatience + 10s);
    ranks_.reset();
}

// A rank that takes a first message acknowledges it before it computes.
TEST(Computing, WhatWasTakenIsAcknowledgedBefore) {
    for (const std::size_t count : {1, 3}) {
        SCOPED_TRACE(count);
        const auto ranks = make(network(false, 1'000'000));
        Messages messages;
        for (std::size_t i = 0; i < count; ++i) {
            messages.push_back(std::make_unique<Message>(0, 1, 100, i));
            messages.back()->start(*ranks);
        }
        ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 1s));
        ranks->compute(1, kLong);
        rest(*ranks, kLong - 1s);
        EXPECT_EQ(ranks->counters(0).datagram_repeated, 0u);
        EXPECT_FALSE(ranks->peer(0, 1)->contact.datagram.link->unacknowledged());
    }
}

// The address of a rail changes: ranks that knew the old one learn the new one, and messages
// in flight arrive.
class MovedRail : public testing::TestWithParam<bool> {}; // the parameter: while its port is down
INSTANTIATE_TEST_SUITE_P(Computing, MovedRail, testing::Bool());

TEST_P(MovedRail, IsFoundAgain) {
    RanksOptions options = network(false, 1);
    std::string text;
    options.world.topology =
        crossbar(3, {.ports = kPorts}, links_of(options.world.machine), 1); // two LIDs a port
    ASSERT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.paths_per_port = 1;
    FirstRanksFaults faults(options);
    bool moved = false;
    faults.plan.readdress = [&](std::uint32_t rail, RailAddress& address) {
        if (moved && rail == 0) { // uses the second LID of the port
            std::uint32_t lid = 0;
            std::memcpy(&lid, address.bytes.data() + sizeof lid, sizeof lid);
            ++lid;
            std::memcpy(address.bytes.data() + sizeof lid, &lid, sizeof lid);
            address.changes = 1;
        }
    };
    SimFabric* fabric = nullptr;
    const auto wrap = options.wrap;
    options.wrap = [&](std::size_t rank, std::unique_ptr<Fabric> below) {
        fabric = rank == 0 ? static_cast<SimFabric*>(below.get()) : fabric;
        return wrap(rank, std::move(below));
    };
    const auto ranks = make(std::move(options));
    carry(*ranks, 0, 1, 100'000);
    carry(*ranks, 2, 0, 100);
    const auto known = [&](std::size_t rank) {
        return ranks->peer(rank, 0)->contact.address.rails[0].bytes;
    };
    const auto old = known(1);
    Messages messages;
    for (std::size_t i = 0; i < 6; ++i) {
        messages.push_back(std::make_unique<Message>(i % 2, 1 - i % 2, 2'000'000, i));
        messages.back()->start(*ranks);
    }
    rest(*ranks, 20us);
    fabric->raise({EventKind::address_changed, 0, 0, nullptr}); // no real change
    rest(*ranks, 100ms);
    EXPECT_EQ(ranks->counters(0).repairs, 0u);
    EXPECT_EQ(known(1), old);
    if (GetParam()) {
        set_port(*ranks, 0, 0, false);
        rest(*ranks, 100ms);
        moved = true;
        set_port(*ranks, 0, 0, true);
    } else {
        moved = true;
        fabric->raise({EventKind::address_changed, 0, 0, nullptr});
    }
    ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, 10s));
    expect_arrived(messages);
    rest(*ranks, 3s);
    carry(*ranks, 0, 1, 100'000);
    carry(*ranks, 2, 0, 100'000);
    EXPECT_NE(known(1), old);
    EXPECT_NE(known(2), old);
    EXPECT_EQ(known(1), known(2));
    // While rank 0 computes, its responder says where it is.
    ranks->compute(0, 3s);
    set_port(*ranks, 1, 0, false);
    rest(*ranks, 10ms);
    const std::uint64_t asked = ranks->counters(1).life_questions;
    set_port(*ranks, 1, 0, true);
    rest(*ranks, 2s);
    EXPECT_GT(ranks->counters(1).life_questions, asked);
    EXPECT_EQ(known(1), known(2));
    rest(*ranks, 3s);
    for (const std::size_t rank : {0, 1, 2}) {
        expect_unbroken(*ranks, rank);
        EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), kPorts);
    }
}

// Paths to a computing rank are tested: one that fails without an event is found, and
// so is its return.
TEST(Computing, PathsToARankThatComputesAreTested) {
    const auto ranks = make(network(false, 1));
    carry(*ranks, 0, 1, 100'000);
    ranks->compute(1, kLong);
    const Topology& topology = ranks->world().topology();
    const LinkIndex cable = topology.ports[topology.hosts[1].ports[0]].link;
    rest(*ranks, 1ms);
    ranks->world().set_link(cable, false);
    Messages messages;
    for (std::size_t i = 0; i < 4; ++i) {
        messages.push_back(std::make_unique<Message>(0, 1, 300'000, i));
        messages.back()->start(*ranks);
    }
    Peer& peer = *ranks->peer(0, 1);
    const auto state = [&](std::size_t pair) {
        return peer.health.paths == nullptr ? PathState::up
                                            : peer.health.paths->records[pair].state;
    };
    ASSERT_TRUE(ranks->run_until([&] { return state(0) == PathState::failed; }, 12s));
    rest(*ranks, 5s);
    EXPECT_EQ(state(1), PathState::up);
    ranks->world().set_link(cable, true);
    ASSERT_TRUE(ranks->run_until([&] { return state(0) == PathState::up; }, 5s));
    EXPECT_LT(ranks->world().simulator().now(), kLong) << "it computes still";
    ASSERT_TRUE(ranks->run_until([&] { return all_done(messages); }, kLong + 20s));
    expect_arrived(messages);
    for (const std::size_t rank : {0, 1}) {
        expect_unbroken(*ranks, rank);
    }
}

// An initiator waits for an atomic that the target has to execute.
TEST(Computing, ATargetOfAtomicsIsWaitedFor) {
    for (const int connect_threshold : {1, 1'000'000}) {
        SCOPED_TRACE(connect_threshold);
        RanksOptions options = network(false, connect_threshold);
        options.parameters.atomics = const_cast<char*>("target");
        const auto ranks = make(std::move(options));
        std::uint64_t word = 100;
        std::uint64_t old = 0;
        {
            OpenWindow window;
            Protocol& target = ranks->core(1).protocol();
            ASSERT_TRUE(target.memory()
                            .open_window(window, &word, sizeof word, kLocalWrite | kRemoteAtomic)
                            .ok());
            opal_common_adaptib_remote_t remote{};
            remote.base = reinterpret_cast<std::uintptr_t>(&word);
            remote.bytes = sizeof word;
            remote.access = target.one_sided().advertised_access(OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC);
            remote.key_count = window.memory().key_count();
            window.memory().copy_remote_keys(remote.keys);
            ranks->compute(1, kLong);
            const opal_common_adaptib_one_sided_t what{OPAL_COMMON_ADAPTIB_FETCH_ADD,
                                                       &old,
                                                       nullptr,
                                                       remote.base,
                                                       &remote,
                                                       sizeof word,
                                                       1,
                                                       0};
            test::TestRequest request;
            bool complete = false;
            ASSERT_TRUE(ranks->core(0)
                            .protocol()
                            .one_sided()
                            .start(*ranks->peer(0, 1), what, nullptr, request.user, complete)
                            .ok());
            ranks->wake(0);
            ASSERT_TRUE(ranks->run_until([&] { return request.done; }, kLong + 20s));
            EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_EQ(old, 100u);
            EXPECT_EQ(word, 101u);
            for (const std::size_t rank : {0, 1}) {
                expect_unbroken(*ranks, rank);
            }
        }
    }
}

// A user of active messages waits for them without the core's knowledge. Nothing is under way.
class ActiveUser : public testing::TestWithParam<int> { // the parameter: connect_threshold
protected:
    ActiveUser() {
        for (const std::size_t rank : {0, 1}) {
            ranks_->core(rank).protocol().active().listen(
                [](void*, Peer&, std::uint8_t, const std::byte*, Bytes) {}, nullptr);
            ranks_->core(rank).lost().listen(
                [](void* count, Peer&) { ++*static_cast<int*>(count); }, &broken_[rank]);
            carry(*ranks_, rank, 1 - rank, 8);
        }
        carry(*ranks_, 0, 1, 8);
        rest(*ranks_, 1s);
    }
    // Lets rank 0 poll for `time`. Returns how long it took to give rank 1 up; max: it did not.
    Nanoseconds poll(Nanoseconds time) {
        constexpr Nanoseconds kTurn = 100ms; // of a longer one not all counts (base/clock.h)
        const Nanoseconds began = ranks_->world().simulator().now();
        Nanoseconds passed{0};
        while (passed < time && broken_[0] == 0) {
            ranks_->wake(0, ranks_->world().simulator().now() + kTurn);
            rest(*ranks_, kTurn);
            ranks_->core(0).run_timers();
            passed = ranks_->world().simulator().now() - began;
        }
        return broken_[0] == 0 ? Nanoseconds::max() : passed;
    }
    void end_rank_1() {
        ranks_->core(1).leave(10ms); // of the time of rank 1, which goes ahead
        rest(*ranks_, 100ms);        // its last messages arrive
        ranks_->kill(1);
    }
    void expect_given_up() {
        const Nanoseconds took = poll(2 * kPatience);
        EXPECT_GE(took, kPatience - 1s);
        EXPECT_LT(took, kPatience + kPatience / 2);
        EXPECT_EQ(broken_[0], 1);
        ASSERT_FALSE(ranks_->messages(0).empty());
        EXPECT_NE(ranks_->messages(0).back().find("its host has been silent"), std::string::npos)
            << ranks_->messages(0).back();
    }

    std::unique_ptr<Ranks> ranks_ = make(network(false, GetParam()));
    std::array<int, 2> broken_{};
};
INSTANTIATE_TEST_SUITE_P(Computing, ActiveUser, testing::Values(1, 1'000'000));

TEST_P(ActiveUser, WaitsForARankThatComputes) {
    ranks_->compute(1, kLong);
    const std::uint64_t asked = ranks_->counters(0).life_questions;
    EXPECT_EQ(poll(kLong), Nanoseconds::max());
    expect_unbroken(*ranks_, 0);
    EXPECT_GE(ranks_->counters(0).life_questions, asked + 4);
    EXPECT_LE(ranks_->counters(0).life_questions, asked + 9 * kLong / kPatience) << "seldom";
}

TEST_P(ActiveUser, NoticesThatTheHostOfARankIsGone) {
    ranks_->kill(1);
    expect_given_up();
}

TEST_P(ActiveUser, NoticesThatAllItsCablesAreOut) {
    for (std::uint32_t port = 0; port < kPorts; ++port) {
        set_port(*ranks_, 0, port, false);
    }
    expect_given_up();
}

TEST_P(ActiveUser, GoesOnIfTheCablesAreInAgain) {
    for (std::uint32_t port = 0; port < kPorts; ++port) {
        set_port(*ranks_, 0, port, false);
    }
    EXPECT_EQ(poll(kPatience / 2), Nanoseconds::max());
    for (std::uint32_t port = 0; port < kPorts; ++port) {
        set_port(*ranks_, 0, port, true);
    }
    EXPECT_EQ(poll(kPatience + kPatience / 2), Nanoseconds::max());
    carry(*ranks_, 0, 1, 100'000);
}

TEST_P(ActiveUser, IsNotToldOfARankThatHasLeft) {
    ranks_->core(1).protocol().disconnects().release(*ranks_->peer(1, 0));
    rest(*ranks_, 1s);
    ranks_->kill(1);
    EXPECT_EQ(poll(kPatience + kPatience / 2), Nanoseconds::max());
}

// No user releases it, as none does a process of another job, which was spawned.
TEST_P(ActiveUser, IsNotToldOfARankThatHasEnded) {
    Peer& peer = *ranks_->peer(0, 1);
    end_rank_1();
    EXPECT_EQ(poll(2 * kPatience), Nanoseconds::max());
    expect_unbroken(*ranks_, 0);
    EXPECT_EQ(peer.session.state, ConnectState::idle);
    EXPECT_TRUE(peer.lanes.subchannels.empty()) << "its queue pairs are released";
    EXPECT_EQ(ranks_->counters(0).rings_open, 0u);
    EXPECT_EQ(ranks_->counters(0).paths_failed, 0u);
}

// The other rank receives what it sent last, although it computes meanwhile.
TEST_P(ActiveUser, GetsTheLastMessagesOfARankThatHasEnded) {
    ranks_->compute(0, 2s);
    Message last(1, 0, 500);
    last.start_send(*ranks_, 3);
    end_rank_1();
    last.start_receive(*ranks_, last.envelope(3));
    ASSERT_TRUE(ranks_->run_until([&] { return last.receive.done; }, 10s));
    EXPECT_EQ(last.got, last.sent);
    EXPECT_EQ(last.receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(poll(2 * kPatience), Nanoseconds::max());
    expect_unbroken(*ranks_, 0);
}

TEST_P(ActiveUser, IsRefusedWhatItWantsOfARankThatHasEnded) {
    Peer* const peer = ranks_->peer(0, 1);
    end_rank_1();
    rest(*ranks_, 1s);
    Peer* again = nullptr;
    EXPECT_FALSE(ranks_->core(0).peers().get(peer->contact.name, again).ok());
    Message late(0, 1, 1'000'000);
    bool complete = false;
    const Status status = ranks_->core(0).protocol().sends().send(
        peer, late.envelope(3), {late.sent.data(), late.sent.size(), nullptr, nullptr, nullptr},
        false, OpKind::non_blocking, late.send.user, complete);
    ASSERT_TRUE(status.ok());
    EXPECT_LT(poll(5s), Nanoseconds{2s});
    EXPECT_TRUE(complete || late.send.done);
    EXPECT_EQ(late.send.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_NE(peer->ending.failure.find("has finalized MPI"), std::string::npos)
        << peer->ending.failure;
}

} // namespace
} // namespace adaptib::sim
