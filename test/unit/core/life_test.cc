// SPDX-License-Identifier: BSD-3-Clause
// Peers come and go: probes and cancels, simultaneous connects, disconnects, another wire version.
#include "cores.h"

namespace adaptib::test {
namespace {

TEST(Life, ProbeSeesAMessageAndMatchedProbeTakesIt) {
    Cores world(2);
    std::vector<std::byte> sent = pattern(100, 1);
    TestRequest send;
    ASSERT_TRUE(world.send(0, 1, 4, contiguous(sent), send).ok());
    const Envelope any{0, Envelope::kAnySource, Envelope::kAnyTag};
    ASSERT_TRUE(
        world.run([&] { return world.core(1).protocol().receives().find(any) != nullptr; }));
    EXPECT_EQ(world.core(1).protocol().receives().find({1, 0, 4}), nullptr);
    InboundMessage* message = world.core(1).protocol().receives().take(any);
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->length, 100u);
    EXPECT_EQ(world.core(1).protocol().receives().find(any), nullptr);
    std::vector<std::byte> got(100);
    TestRequest receive;
    bool complete = false;
    ASSERT_TRUE(world.core(1)
                    .protocol()
                    .receives()
                    .receive_taken(*message, contiguous(got), receive.user, complete)
                    .ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(got, sent);
}

// The receive gets the message without being posted: the state that an earlier receive, which could
// have been cancelled, has left in its memory does not count.
TEST(Life, AReceiveOfWhatIsThereIsOverAtOnce) {
    Cores world(2);
    std::vector<std::byte> got(8);
    TestRequest receive;
    ASSERT_TRUE(world.receive(1, 0, 4, contiguous(got), receive).ok());
    const UserRequest posted = receive.user;
    ASSERT_TRUE(world.core(1).protocol().receives().cancel(receive.user));
    std::vector<std::byte> sent = pattern(8, 1);
    TestRequest send;
    ASSERT_TRUE(world.send(0, 1, 4, contiguous(sent), send).ok());
    ASSERT_TRUE(world.run([&] {
        return world.core(1).protocol().receives().find({0, 0, 4}) != nullptr;
    }));
    receive.user = posted;
    bool complete = false;
    ASSERT_TRUE(world.core(1)
                    .protocol()
                    .receives()
                    .receive({0, 0, 4}, contiguous(got), receive.user, complete)
                    .ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(got, sent);
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(receive.user.bytes, 8u);
    EXPECT_EQ(receive.user.source, 0);
    EXPECT_EQ(receive.user.tag, 4);
    EXPECT_FALSE(world.core(1).protocol().receives().cancel(receive.user));
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
}

TEST(Life, OnlyAnUnmatchedReceiveCanBeCancelled) {
    Cores world(2);
    std::vector<std::byte> got(8);
    TestRequest receive;
    ASSERT_TRUE(world.receive(1, 0, 4, contiguous(got), receive).ok());
    EXPECT_TRUE(world.core(1).protocol().receives().cancel(receive.user));
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_CANCELLED);
    EXPECT_FALSE(world.core(1).protocol().receives().cancel(receive.user));
    std::vector<std::byte> sent = pattern(8, 1);
    TestRequest send;
    TestRequest second;
    ASSERT_TRUE(world.send(0, 1, 4, contiguous(sent), send).ok());
    EXPECT_FALSE(world.core(0).protocol().receives().cancel(send.user));
    ASSERT_TRUE(world.receive(1, 0, 4, contiguous(got), second).ok());
    ASSERT_TRUE(world.run({&second}));
    EXPECT_FALSE(receive.done);
    EXPECT_EQ(got, sent);
}

// One component of two ends its messages, and the other goes on with the core: nothing may point to
// requests of the first one any more (the address sanitizer sees it).
TEST(Life, MessagesEndBeforeTheCore) {
    static char none[] = "none";
    Options options;
    options.parameters.shm_single_copy = none; // the sender takes part in each block
    Cores world(2, options);
    constexpr std::size_t kLong = 1 << 20;
    std::vector<std::byte> sent = pattern(kLong, 1);
    auto unmatched = std::make_unique<TestRequest>();
    auto matched = std::make_unique<TestRequest>();
    auto posted = std::make_unique<TestRequest>();
    auto own = std::make_unique<TestRequest>();
    auto from_nobody = std::make_unique<TestRequest>();
    std::vector<std::byte> got(kLong);
    ASSERT_TRUE(world.send(0, 1, 4, contiguous(sent), *unmatched).ok());
    ASSERT_TRUE(world.send(1, 1, 6, contiguous(sent), *own).ok());
    ASSERT_TRUE(world.run([&] {
        return world.core(1).protocol().receives().find({0, 0, 4}) != nullptr;
    }));
    ASSERT_TRUE(world.receive(1, 0, 4, contiguous(got), *matched).ok());
    ASSERT_TRUE(world.receive(1, 0, 5, contiguous(got), *posted).ok());
    ASSERT_TRUE(world.receive(1, Envelope::kAnySource, 9, contiguous(got), *from_nobody).ok());
    world.progress(1);
    ASSERT_FALSE(matched->done);
    world.core(1).quiesce_messages(Nanoseconds{0});
    world.progress(1);
    EXPECT_TRUE(matched->done);
    EXPECT_EQ(matched->user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_FALSE(posted->done || from_nobody->done || own->done);
    matched.reset();
    posted.reset();
    from_nobody.reset();
    own.reset();
    world.progress(1);
    world.core(0).quiesce_messages(Nanoseconds{0});
    world.progress(0);
    EXPECT_TRUE(unmatched->done);
    unmatched.reset();
    for (int pass = 0; pass < 1000; ++pass) {
        world.progress();
    }
}

TEST(Life, AMessageThatHasArrivedIsReceivedBeforeMessagesEnd) {
    Cores world(2);
    std::vector<std::byte> sent = pattern(8, 1);
    std::vector<std::byte> got(8);
    TestRequest send;
    TestRequest receive;
    ASSERT_TRUE(world.receive(1, 0, 4, contiguous(got), receive).ok());
    ASSERT_TRUE(world.send(0, 1, 4, contiguous(sent), send).ok());
    world.core(1).quiesce_messages(std::chrono::seconds{10});
    world.progress(1);
    EXPECT_TRUE(receive.done);
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(got, sent);
}

TEST(Life, MessagesThatCanEndAreNotCutOff) {
    Cores world(2);
    std::vector<std::byte> sent = pattern(100, 1);
    std::vector<std::byte> got(100);
    TestRequest send;
    TestRequest receive;
    ASSERT_TRUE(world.send(0, 1, 4, contiguous(sent), send).ok());
    world.core(0).quiesce_messages(std::chrono::seconds{10});
    ASSERT_TRUE(world.receive(1, 0, 4, contiguous(got), receive).ok());
    ASSERT_TRUE(world.run({&send, &receive}));
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(got, sent);
    EXPECT_TRUE(world.messages(0).empty() && world.messages(1).empty());
}

// A host with more processes than processors may be silent for a tenth of a second, and more.
TEST(Life, AConnectionWaitsForSecondsBeforeItIsBroken) {
    Options options;
    options.parameters.connect_threshold = 0;
    Cores world(2, options);
    exchange(world, 8, 1);
    for (std::size_t node = 0; node < 2; ++node) {
        ASSERT_EQ(world.peer(node, 1 - node)->session.state, ConnectState::open);
        const QpAttributes a = world.peer(node, 1 - node)->lanes.subchannels[0].qp->query();
        ASSERT_GT(a.timeout, 0);     // 0: forever
        ASSERT_LT(a.retry_count, 7); // 7: forever on soft-RoCE
        const Nanoseconds patience{(std::int64_t{4096} << a.timeout) * (a.retry_count + 1)};
        EXPECT_GT(patience, std::chrono::seconds(5));
        EXPECT_LT(patience, std::chrono::seconds(30));
    }
}

// A process that waits for a peer tells it now and then what it has consumed, which shows whether
// the peer lives. It looks at each request to find the peers: rarely, if there are many requests.
TEST(Life, ManyRequestsThatWaitAreLookedAtRarely) {
    constexpr std::size_t kRequests = 20'000;
    constexpr int kPasses = 4 * 65'536;
    std::vector<std::byte> data;
    std::vector<TestRequest> receives(kRequests);
    Cores world(2);
    exchange(world, 8, 100);
    ASSERT_EQ(world.peer(1, 0)->session.state, ConnectState::open);
    for (TestRequest& receive : receives) {
        ASSERT_TRUE(
            world.core(1)
                .protocol()
                .receives()
                .receive({0, 0, 77}, contiguous(data), receive.user, receive.done, world.peer(1, 0))
                .ok());
    }
    const std::uint64_t before = world.counters(1).credit_returns;
    for (int pass = 0; pass < kPasses; ++pass) {
        world.progress(1);
    }
    EXPECT_GE(world.counters(1).credit_returns, before + 1);
    EXPECT_LE(world.counters(1).credit_returns, before + 2);
}

TEST(Life, CrossingConnectionRequestsBecomeOneConnection) {
    Options options;
    options.parameters.connect_threshold = 0;
    Cores world(2, options);
    std::vector<std::byte> sent = pattern(8, 1);
    TestRequest requests[2];
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), requests[0]).ok());
    ASSERT_TRUE(world.send(1, 0, 1, contiguous(sent), requests[1]).ok());
    ASSERT_TRUE(world.run([&] {
        return world.peer(0, 1)->session.state == ConnectState::open &&
               world.peer(1, 0)->session.state == ConnectState::open;
    }));
    EXPECT_EQ(world.counters(0).connections_open, 1u);
    EXPECT_EQ(world.counters(1).connections_open, 1u);
    EXPECT_EQ(world.counters(0).connections_crossed + world.counters(1).connections_crossed, 2u);
    EXPECT_NE(world.peer(0, 1)->out.ring, nullptr);
    EXPECT_NE(world.peer(1, 0)->out.ring, nullptr);
}

TEST(Life, ManyPeersOfWhichFewAreHot) {
    Options options;
    options.parameters.connect_threshold = 1;
    Cores world(10, options);
    std::vector<std::byte> sent = pattern(64, 1);
    for (int round = 0; round < 3; ++round) {
        for (std::size_t from = 1; from < 10; ++from) {
            std::vector<std::byte> got(64);
            TestRequest send;
            TestRequest receive;
            ASSERT_TRUE(world.send(from, 0, 1, contiguous(sent), send).ok());
            ASSERT_TRUE(
                world.receive(0, static_cast<std::int32_t>(from), 1, contiguous(got), receive)
                    .ok());
            ASSERT_TRUE(world.run({&send, &receive}));
            EXPECT_EQ(got, sent);
        }
        for (int i = 0; i < 25000; ++i) {
            // The rings go cold; the next round finds their messages all the same.
            world.progress(0);
        }
    }
    EXPECT_EQ(world.counters(0).rings_open, 9u);
}

TEST(Life, PeersDisconnectAndConnectAgain) {
    Cores world(2);
    for (int life = 0; life < 5; ++life) {
        SCOPED_TRACE(life);
        exchange(world, 100, 20);
        exchange(world, 100000, 2);
        EXPECT_EQ(world.counters(0).connections_open, 1u);
        world.core(0).protocol().disconnects().release(*world.peer(0, 1));
        if (life % 2 == 0) {
            world.progress();
        }
        world.core(1).protocol().disconnects().release(*world.peer(1, 0));
        ASSERT_TRUE(world.run([&] {
            return world.counters(0).connections_open == 0 &&
                   world.counters(1).connections_open == 0;
        }));
        EXPECT_EQ(world.counters(0).rings_open, 0u);
        EXPECT_EQ(world.counters(1).rings_open, 0u);
    }
    EXPECT_EQ(world.counters(0).bad_packets + world.counters(1).bad_packets, 0u);
}

TEST(Life, ADisconnectThatTheOtherSideDoesNotShareIsRevoked) {
    Cores world(2);
    exchange(world, 100, 20);
    for (int life = 0; life < 3; ++life) {
        SCOPED_TRACE(life);
        world.core(0).protocol().disconnects().release(*world.peer(0, 1));
        for (int i = 0; i < life * 5; ++i) {
            world.progress();
        }
        exchange(world, 1500, 3); // node 1 has never released the peer
    }
    EXPECT_EQ(world.counters(0).connections_open, 1u);
    world.core(0).protocol().disconnects().release(*world.peer(0, 1));
    world.core(1).protocol().disconnects().release(*world.peer(1, 0));
    EXPECT_TRUE(world.run([&] {
        return world.counters(0).connections_open == 0 && world.counters(1).connections_open == 0;
    }));
}

TEST(Life, WhatIsStartedDuringADisconnectGoesOutAfterIt) {
    Cores world(2);
    exchange(world, 100, 20);
    world.core(0).protocol().disconnects().release(*world.peer(0, 1));
    world.core(1).protocol().disconnects().release(*world.peer(1, 0));
    for (int i = 0; i < 3; ++i) {
        world.progress(0); // node 0 has got the other's disconnect, but not its reply
    }
    exchange(world, 1500, 3);
}

// At the end of a job each process ends when its own disconnects are sent.
TEST(Life, APeerThatHasSentDisconnectMayBeGoneBeforeItIsAnswered) {
    for (const bool tolerant : {true, false}) {
        SCOPED_TRACE(tolerant);
        Options options;
        options.parameters.fault_tolerance = const_cast<char*>(tolerant ? "on" : "off");
        Cores world(2, options);
        exchange(world, 100, 40);
        world.core(1).protocol().disconnects().release(*world.peer(1, 0));
        world.progress(1);
        world.end(1);
        for (int i = 0; i < 5000; ++i) {
            world.clock.advance(Nanoseconds{1'000'000});
            world.progress(0);
        }
        EXPECT_TRUE(world.messages(0).empty()) << world.messages(0).front();
        std::vector<std::byte> sent = pattern(100, 1);
        TestRequest late;
        const Status status = world.send(0, 1, 1, contiguous(sent), late);
        EXPECT_TRUE(!status.ok() || world.run({&late}));
        EXPECT_EQ(world.messages(0).size(), 1u) << "now somebody wants it";
    }
}

TEST(Life, WhatWaitsIsGivenBackAtTheEnd) {
    Options options;
    options.parameters.connect_threshold = 0;
    TestRequest requests[3];
    std::vector<std::byte> sent = pattern(1500, 1);
    Cores world(2, options);
    for (TestRequest& request : requests) {
        ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), request).ok());
        world.core(0).protocol().disconnects().release(*world.peer(0, 1));
    }
    world.progress();
}

TEST(Life, APeerOfAnotherWireVersionIsRefusedByName) {
    Options options;
    options.wire_versions = {kWireVersion, kWireVersion + 1};
    Cores world(2, options);
    Peer* peer = nullptr;
    EXPECT_EQ(world.core(0).peers().get(Cores::name(1), peer), Status::error(Reason::version));
    ASSERT_EQ(world.messages(0).size(), 1u);
    const std::string& text = world.messages(0)[0];
    EXPECT_NE(text.find("wire version " + std::to_string(kWireVersion + 1)), std::string::npos);
    EXPECT_NE(text.find("this process " + std::to_string(kWireVersion)), std::string::npos);
}

TEST(Life, AnUnknownPeerIsRefused) {
    Cores world(1);
    Peer* peer = nullptr;
    EXPECT_EQ(world.core(0).peers().get(12345, peer).reason(), Reason::unreachable);
    EXPECT_EQ(world.messages(0).size(), 1u);
}

TEST(Life, UnfinishedBusinessIsFreedAtTheEnd) {
    TestRequest requests[6]; // outlives the cores
    std::vector<std::byte> small = pattern(100, 1);
    std::vector<std::byte> large = pattern(100000, 1);
    Strided strided(100000, 8, 16);
    Cores world(2);
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(small), requests[0]).ok());
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(large), requests[1]).ok());
    ASSERT_TRUE(world.send(0, 1, 1, strided.data(), requests[2]).ok());
    ASSERT_TRUE(world.send(0, 0, 1, contiguous(small), requests[3]).ok());
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(small), requests[4], true).ok());
    ASSERT_TRUE(world.receive(1, 0, 77, contiguous(large), requests[5]).ok());
    for (int i = 0; i < 50; ++i) {
        world.progress();
    }
}

} // namespace
} // namespace adaptib::test
