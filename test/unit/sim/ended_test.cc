// SPDX-License-Identifier: BSD-3-Clause
// Processes that have ended, as reported by the runtime that started the job: of a process of
// another host nobody else can say so before partition_timeout.
#include <memory>
#include <string>
#include <utility>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kAtOnce = 1s;

// Two hosts with two rails each, where rank 1 ends: with a connection or without, with fault
// tolerance or without.
struct Kind {
    const char* name;
    bool connected;
    bool tolerant;
};

class Ended : public testing::TestWithParam<Kind> {
protected:
    Ended() {
        RanksOptions options;
        options.ranks = 2;
        options.world.machine = *machine("connect-ib");
        options.world.machine.offers.reliable_ud = !GetParam().tolerant;
        options.world.topology = crossbar(2, {.ports = 2}, links_of(options.world.machine));
        std::string text;
        EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
        options.parameters.connect_threshold = GetParam().connected ? 1 : 1'000'000;
        options.parameters.fault_tolerance = const_cast<char*>(GetParam().tolerant ? "on" : "off");
        ranks_ = make(std::move(options));
        carry(*ranks_, 0, 1, 100);
        carry(*ranks_, 1, 0, 100);
        rest(*ranks_, 10ms);
        peer_ = ranks_->peer(0, 1);
    }
    void end() {
        ranks_->kill(1);
        report();
    }
    void report() {
        ranks_->core(0).on_process_ended(peer_->contact.name);
        ranks_->wake(0);
    }
    Status send(std::vector<std::byte>& bytes, test::TestRequest& request) {
        bool complete = false;
        const Status status = ranks_->core(0).protocol().sends().send(
            peer_, {0, 0, 3}, data_of(bytes), false, OpKind::non_blocking, request.user, complete);
        request.done = complete;
        ranks_->wake(0);
        return status;
    }
    void receive(std::vector<std::byte>& bytes, test::TestRequest& request) {
        bool complete = false;
        ASSERT_TRUE(ranks_->core(0)
                        .protocol()
                        .receives()
                        .receive({0, 1, 3}, data_of(bytes), request.user, complete, peer_)
                        .ok());
        request.done = complete;
        ranks_->wake(0);
    }
    static Data data_of(std::vector<std::byte>& bytes) {
        return {bytes.data(), bytes.size(), nullptr, nullptr, nullptr};
    }
    std::size_t failed() { return ranks_->counters(0).connections_failed; }

    std::unique_ptr<Ranks> ranks_;
    Peer* peer_ = nullptr; // rank 0's record of rank 1
};
INSTANTIATE_TEST_SUITE_P(All, Ended,
                         testing::Values(Kind{"connection", true, true},
                                         Kind{"datagrams", false, true},
                                         Kind{"connection_intolerant", true, false},
                                         Kind{"datagrams_intolerant", false, false}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Ended, WhoWaitsForItsMessageIsToldAtOnceAndWhy) {
    std::vector<std::byte> bytes(8);
    test::TestRequest request;
    receive(bytes, request);
    rest(*ranks_, 20ms);
    ASSERT_FALSE(request.done);
    end();
    ASSERT_TRUE(ranks_->run_until([&] { return request.done; }, kAtOnce));
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_NE(broken(*ranks_, 0).find("its process has ended, says the runtime"), std::string::npos)
        << broken(*ranks_, 0);
}

TEST_P(Ended, WhoWaitsForItToTakeALongMessageIsToldAtOnce) {
    std::vector<std::byte> bytes(1'000'000);
    test::TestRequest request;
    ASSERT_TRUE(send(bytes, request).ok());
    rest(*ranks_, 20ms);
    ASSERT_FALSE(request.done);
    end();
    ASSERT_TRUE(ranks_->run_until([&] { return request.done; }, kAtOnce));
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
}

// The message lies in the queue or the ring of the computing rank 0 when the event comes; the next
// one will never come.
TEST_P(Ended, WhatItHadSentIsTakenFirst) {
    ranks_->compute(0, 2s);
    Message last(1, 0, 500);
    last.start(*ranks_, 3);
    std::vector<std::byte> bytes(8);
    test::TestRequest next;
    receive(bytes, next);
    rest(*ranks_, 1s);
    end();
    EXPECT_FALSE(last.receive.done);
    ASSERT_TRUE(ranks_->run_until([&] { return next.done; }, 1s + kAtOnce));
    EXPECT_TRUE(last.receive.done);
    EXPECT_EQ(last.receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(last.got, last.sent);
    EXPECT_EQ(next.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    ranks_.reset(); // before the message
}

// An operation that needs the ended rank later gets an error, and nothing fails before.
TEST_P(Ended, NothingHasFailedAsLongAsNothingIsWanted) {
    end();
    rest(*ranks_, 1s);
    EXPECT_EQ(failed(), 0u);
    EXPECT_EQ(ranks_->counters(0).paths_failed, 0u);
    EXPECT_TRUE(ranks_->messages(0).empty()) << ranks_->messages(0).front();
    EXPECT_EQ(peer_->session.state, ConnectState::idle) << "it has left";
    EXPECT_EQ(ranks_->counters(0).rings_open, 0u);
    Peer* again = nullptr;
    EXPECT_FALSE(ranks_->core(0).peers().get(peer_->contact.name, again).ok());
    std::vector<std::byte> bytes(1'000'000);
    test::TestRequest request;
    const Status status = send(bytes, request);
    ASSERT_TRUE(!status.ok() || ranks_->run_until([&] { return request.done; }, kAtOnce));
    EXPECT_TRUE(!status.ok() || request.user.status == OPAL_COMMON_ADAPTIB_UNREACHABLE);
}

// The same holds for a rank that has ended before its first contact.
TEST(EndedBefore, WhoIsMetLaterIsNotWaitedFor) {
    RanksOptions options;
    options.ranks = 2;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(2, {}, links_of(options.world.machine));
    std::string text;
    ASSERT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    const auto ranks = make(std::move(options));
    ranks->kill(1);
    ranks->core(0).on_process_ended(ranks->name(1));
    ranks->wake(0);
    rest(*ranks, 1ms);
    Message message(0, 1, 1'000'000);
    bool complete = false;
    Peer* peer = nullptr;
    Status status = ranks->core(0).peers().get(ranks->name(1), peer);
    if (status.ok()) {
        status = ranks->core(0).protocol().sends().send(
            peer, {0, 0, 3}, {message.sent.data(), message.sent.size(), nullptr, nullptr, nullptr},
            false, OpKind::non_blocking, message.send.user, complete);
    }
    ranks->wake(0);
    EXPECT_TRUE(!status.ok() || (ranks->run_until([&] { return message.send.done; }, kAtOnce) &&
                                 message.send.user.status == OPAL_COMMON_ADAPTIB_UNREACHABLE));
}

// A rank dies, and nobody reports it.
class EndedUnreported : public testing::Test {
protected:
    static RanksOptions options() {
        RanksOptions options;
        options.ranks = 2;
        options.world.machine = *machine("infinihost");
        options.world.machine.offers.reliable_ud = false;
        options.world.topology = crossbar(2, {}, links_of(options.world.machine));
        std::string text;
        EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
        options.parameters.connect_threshold = 1;
        options.parameters.partition_timeout = 5;
        return options;
    }
    // Lets rank 0 poll as a process does that waits for the operation, which ends with an error.
    void finds_out(const test::TestRequest& operation) {
        for (int i = 0; i < 200 && !operation.done; ++i) {
            for (int pass = 0; pass < 1000; ++pass) {
                ranks_->core(0).progress();
            }
            ranks_->wake(0, ranks_->world().simulator().now() + 100ms);
            rest(*ranks_, 100ms);
        }
        EXPECT_TRUE(operation.done);
        EXPECT_EQ(operation.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    }

    std::unique_ptr<Ranks> ranks_;
};

// Without a ring there is no credit either whose return would fail, so who waits for a message has
// to ask.
TEST_F(EndedUnreported, WhoWaitsForItsMessageFindsOut) {
    for (const bool ring : {true, false}) {
        SCOPED_TRACE(ring);
        RanksOptions wanted = options();
        wanted.parameters.ring_max = ring ? 1 : 0;
        ranks_ = make(std::move(wanted));
        carry(*ranks_, 0, 1, 100);
        carry(*ranks_, 1, 0, 100'000); // needs a connection
        rest(*ranks_, 10ms);
        ASSERT_EQ(ranks_->peer(0, 1)->session.state, ConnectState::open);
        ASSERT_EQ(ranks_->peer(0, 1)->in.ring.has_value(), ring);
        ranks_->kill(1);
        Message message(1, 0, 100);
        message.start_receive(*ranks_, message.envelope(3), ranks_->peer(0, 1));
        finds_out(message.receive);
    }
}

} // namespace
} // namespace adaptib::sim
