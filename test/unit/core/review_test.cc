// SPDX-License-Identifier: BSD-3-Clause
// Connections that break or end in the middle of something, and malformed messages.
#include "cores.h"

namespace adaptib::test {
namespace {

void set(char*& field, const char* value) { field = const_cast<char*>(value); }

void exchange(Cores& world, std::size_t bytes, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        for (std::size_t from : {std::size_t{0}, std::size_t{1}}) {
            std::vector<std::byte> sent = pattern(bytes, static_cast<std::uint64_t>(i));
            std::vector<std::byte> got(bytes);
            TestRequest send;
            TestRequest receive;
            ASSERT_TRUE(world.send(from, 1 - from, 1, contiguous(sent), send).ok());
            ASSERT_TRUE(
                world
                    .receive(1 - from, static_cast<std::int32_t>(from), 1, contiguous(got), receive)
                    .ok());
            ASSERT_TRUE(world.run({&send, &receive}));
        }
    }
}

// The first block that cannot be had ends the transfer, inside the loop that starts its blocks.
TEST(Review, NoRoomToUnpackEndsTheReceive) {
    Options options;
    options.parameters.connect_threshold = 0;
    options.parameters.shm_segment_max = 16 * kMiB;
    options.parameters.block_bytes = 16 * kMiB; // no block ever fits
    std::vector<std::byte> sent = pattern(100000, 1);
    Strided got(100000, 8, 16);
    TestRequest send;
    TestRequest receive;
    Cores world(2, options);
    ASSERT_TRUE(world.receive(1, 0, 1, got.data(), receive).ok());
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    ASSERT_TRUE(world.run({&receive}));
    EXPECT_NE(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_TRUE(world.run({&send})) << "nobody told the sender";
}

// The channel breaks while the first of several blocks is announced.
TEST(Review, APeerThatBreaksWhileBlocksAreAnnouncedEndsTheSendOnce) {
    Options options;
    options.parameters.ring_max = 0;
    options.parameters.block_bytes = 1024;
    Strided sent(100000, 8, 16);
    std::vector<std::byte> got(100000);
    TestRequest send;
    TestRequest receive;
    Cores world(2, options);
    Peer* peer = world.peer(0, 1);
    ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got), receive).ok());
    ASSERT_TRUE(world.send(0, 1, 1, sent.data(), send).ok());
    ASSERT_TRUE(world.run([&] {
        return peer->state == ConnectState::answered || peer->state == ConnectState::requested;
    }));
    for (int i = 0; i < 20; ++i) {
        world.progress(1);
    }
    peer->datagram.handle.reset();
    for (int i = 0; i < 200 && !send.done; ++i) {
        world.progress(0);
    }
    EXPECT_TRUE(send.done);
    EXPECT_NE(send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
}

// The channel breaks when the writer says that it has written.
TEST(Review, APeerThatBreaksAfterAPutEndsTheSendOnce) {
    Options options;
    options.parameters.ring_max = 0;
    set(options.parameters.rendezvous, "put");
    std::vector<std::byte> sent = pattern(100000, 1);
    std::vector<std::byte> got(100000);
    TestRequest send;
    TestRequest receive;
    Cores world(2, options);
    Peer* peer = world.peer(0, 1);
    exchange(world, 10000, 1); // connects
    ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got), receive).ok());
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    for (int i = 0; i < 20; ++i) {
        world.progress(1);
    }
    peer->datagram.handle.reset();
    for (int i = 0; i < 200; ++i) {
        world.progress(0);
    }
    EXPECT_TRUE(send.done);
}

// A peer that has parted meets again before the other side has looked at the last answer.
TEST(Review, APeerThatMeetsAgainEarlyIsNotForgotten) {
    for (int offset = 0; offset < 9; ++offset) {
        SCOPED_TRACE(offset);
        std::vector<std::byte> sent = pattern(100000, 1);
        std::vector<std::byte> got(100000);
        TestRequest send;
        TestRequest receive;
        Cores world(2);
        exchange(world, 100000, 1);
        ASSERT_TRUE(world.run([&] {
            return world.counters(0).connections_open == 1 &&
                   world.counters(1).connections_open == 1;
        }));
        for (int i = 0; i < offset; ++i) {
            world.progress(1);
        }
        world.core(0).protocol().release_peer(*world.peer(0, 1));
        world.core(1).protocol().release_peer(*world.peer(1, 0));
        world.progress(1); // answers 0's goodbye
        for (int i = 0; i < 10 && world.counters(0).connections_open == 1; ++i) {
            world.progress(0); // answers 1's goodbye, and is through
        }
        ASSERT_EQ(world.counters(0).connections_open, 0u);
        ASSERT_EQ(world.counters(1).connections_open, 1u);
        ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got), receive).ok());
        ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
        EXPECT_TRUE(world.run({&send, &receive}));
        EXPECT_EQ(world.counters(1).bad_packets, 0u);
        EXPECT_EQ(got, sent);
    }
}

// The answer to a goodbye waits for room in the shared queue while the answering side is through.
TEST(Review, AnAnswerThatFindsNoRoomIsNotLost) {
    Options options;
    options.parameters.connect_threshold = 1000000000;
    options.parameters.shm_queue_bytes = 65536;
    std::vector<std::byte> small = pattern(100, 1);
    std::vector<std::byte> filler = pattern(2000, 2);
    std::vector<TestRequest> flood(200);
    std::vector<std::byte> got(100);
    TestRequest send;
    TestRequest receive;
    Cores world(3, options);
    exchange(world, 100, 1);
    Peer* at0 = world.peer(0, 1);
    Peer* at1 = world.peer(1, 0);
    world.core(0).protocol().release_peer(*at0);
    ASSERT_TRUE(world.run([&] { return at0->goodbye_answered; }));
    world.core(1).protocol().release_peer(*at1); // its goodbye lies in 0's queue
    for (TestRequest& request : flood) {
        ASSERT_TRUE(world.send(2, 1, 5, contiguous(filler), request).ok());
    }
    ASSERT_FALSE(flood.back().done);
    for (int i = 0; i < 10; ++i) {
        world.progress(0);
    }
    for (int i = 0; i < 5000; ++i) {
        world.progress();
    }
    EXPECT_FALSE(at1->said_goodbye) << "it still waits for the answer";
    EXPECT_NE(at0->state, ConnectState::failed);
    ASSERT_TRUE(world.send(1, 0, 1, contiguous(small), send).ok());
    ASSERT_TRUE(world.receive(0, 1, 1, contiguous(got), receive).ok());
    EXPECT_TRUE(world.run({&send, &receive}));
}

// Let go before there was any traffic, and wanted again before the next progress.
TEST(Review, APeerWantedAgainAtOnceKeepsItsConnection) {
    Options options;
    options.parameters.connect_threshold = 0;
    std::vector<std::byte> sent = pattern(100000, 1);
    std::vector<std::byte> got(100000);
    TestRequest send;
    TestRequest receive;
    Cores world(2, options);
    world.core(0).protocol().release_peer(*world.peer(0, 1));
    ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got), receive).ok());
    ASSERT_TRUE(world.send(0, 1, 1, contiguous(sent), send).ok());
    EXPECT_TRUE(world.run({&send, &receive}));
}

// A whole ring is taken in one pass, a goodbye last: its writer still needs room for an answer.
TEST(Review, CreditIsReturnedBeforeAGoodbyeIsHeard) {
    for (std::size_t lines = 40; lines <= 64; ++lines) {
        SCOPED_TRACE(lines);
        Options options;
        options.parameters.connect_threshold = 0;
        options.parameters.eager_limit = 1024;
        options.parameters.ring_bytes = 4096; // 64 lines
        std::vector<std::byte> got(1024);
        std::vector<TestRequest> sends(8);
        std::vector<std::vector<std::byte>> data;
        Cores world(2, options);
        exchange(world, 8, 1);
        ASSERT_TRUE(world.run([&] {
            return world.counters(0).connections_open == 1 &&
                   world.counters(1).connections_open == 1;
        }));
        Peer* at0 = world.peer(0, 1);
        Peer* at1 = world.peer(1, 0);
        ASSERT_NE(at0->ring_out, nullptr);
        std::size_t next = 0;
        for (std::size_t left = lines; left > 0;) {
            const std::size_t part = std::min<std::size_t>(left, 16);
            data.push_back(pattern(part * 64 - 32, 1));
            ASSERT_TRUE(world.send(0, 1, 1, contiguous(data.back()), sends[next++]).ok());
            left -= part;
        }
        if (at0->has_pending()) {
            continue; // more than fits
        }
        world.core(0).protocol().release_peer(*at0);
        if (at0->has_pending()) {
            continue;
        }
        for (int i = 0; i < 100; ++i) {
            world.progress(1);
        }
        world.core(1).protocol().release_peer(*at1);
        EXPECT_TRUE(world.run([&] {
            return world.counters(0).connections_open == 0 &&
                   world.counters(1).connections_open == 0;
        }));
    }
}

TEST(Review, AnEnvelopeOfWildcardsIsRefused) {
    MessageHeader header;
    header.type = MessageType::eager;
    header.source = Envelope::kAnySource;
    header.tag = 1;
    EXPECT_FALSE(check_message(header, nullptr, 0));
    header.source = 0;
    header.tag = Envelope::kAnyTag;
    EXPECT_FALSE(check_message(header, nullptr, 0));
}

TEST(Review, ARingTooSmallForAMessageIsRefused) {
    ConnectBody body{};
    body.subchannel_count = 1;
    body.ring_bytes = 64;
    EXPECT_FALSE(check_body(body)); // its capacity would be 2^64 - 32
}

} // namespace
} // namespace adaptib::test
