// SPDX-License-Identifier: BSD-3-Clause
// The eager limit that is learnt from timed copies: the way that messages take by it; and it stays
// as it is where the user has set it or nothing was measured. The cores' clock stands still, so
// copies into the ring take no time.
#include <gtest/gtest.h>

#include "protocol/ring_sends.h"
#include "unit/core/cores.h"

namespace adaptib::test {

namespace {

constexpr std::size_t kLong = 16384;
constexpr int kLap = 100; // messages of kLong bytes; those of them that are tried fill the ring

CopyCosts system_calls_of(Nanoseconds time) {
    CopyCosts costs;
    costs.single.fill(time);
    return costs;
}

// Sends as the C interface does.
void start_send(Cores& world, std::size_t from, std::vector<std::byte>& data, TestRequest& send) {
    const Envelope envelope{0, static_cast<std::int32_t>(from), 1};
    Protocol& protocol = world.core(from).protocol();
    Peer& to = *world.peer(from, 1 - from);
    if (RingSends::try_send(to, envelope, contiguous(data)) ||
        protocol.sends().send_timed(to, envelope, contiguous(data))) {
        send.done = true;
    } else {
        ASSERT_TRUE(world.send(from, 1 - from, 1, contiguous(data), send).ok());
    }
}

enum class Answers { none, each };

// Sends `times` messages, each after the one before has arrived; with Answers::each the receiver
// answers each of them.
void send_short(Cores& world, std::size_t from, std::size_t bytes, int times,
                Answers answers = Answers::each) {
    for (int i = 0; i < times; ++i) {
        std::vector<std::byte> sent = pattern(bytes, static_cast<std::uint64_t>(i));
        std::vector<std::byte> got(bytes);
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(
            world.receive(1 - from, static_cast<std::int32_t>(from), 1, contiguous(got), receive)
                .ok());
        start_send(world, from, sent, send);
        ASSERT_TRUE(world.run({&send, &receive}));
        ASSERT_EQ(got, sent);
        if (answers == Answers::each) {
            send_short(world, 1 - from, 8, 1, Answers::none);
        }
    }
}

std::uint64_t eager_of(Cores& world, std::size_t bytes, int times,
                       Answers answers = Answers::each) {
    const std::uint64_t before = world.counters(0).ring_sent_bytes;
    send_short(world, 0, bytes, times, answers);
    return (world.counters(0).ring_sent_bytes - before) / bytes;
}

TEST(EagerLimitOfCores, CheapCopiesRaiseTheLimit) {
    Options options;
    options.copy_costs = system_calls_of(std::chrono::microseconds{1});
    Cores world(2, options);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 4096u);
    send_short(world, 0, kLong, 2 * kLap);
    EXPECT_GE(world.counters(0).copies_timed, 7u);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 65536u);
    EXPECT_EQ(world.core(0).protocol().eager_tuning().active_eager(), 65536u);
    EXPECT_EQ(eager_of(world, kLong, 20), 20u);
    EXPECT_EQ(eager_of(world, 65536, 20), 20u);
    EXPECT_EQ(eager_of(world, 65537, 20), 0u);
    EXPECT_EQ(world.counters(1).eager_limit_bytes, 4096u)
        << "it has sent nothing, and knows nothing";
}

TEST(EagerLimitOfCores, DearCopiesLeaveItWhereItIs) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    send_short(world, 0, kLong, 2 * kLap);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 4096u);
    EXPECT_EQ(eager_of(world, 4096, 20), 20u);
    EXPECT_LE(eager_of(world, kLong, 512), 4u) << "two that try, and what announces the others";
}

TEST(EagerLimitOfCores, SmallRingsBoundIt) {
    Options options;
    options.copy_costs = system_calls_of(std::chrono::microseconds{1});
    options.parameters.ring_bytes = 40000 / 64 * 64;
    Cores world(2, options);
    send_short(world, 0, 6144, 2 * kLap);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 8192u);
}

TEST(EagerLimitOfCores, ALimitThatIsSetStays) {
    Options options;
    options.copy_costs = system_calls_of(std::chrono::microseconds{1});
    options.parameters.eager_limit = 5000;
    Cores world(2, options);
    send_short(world, 0, kLong, kLap);
    send_short(world, 0, 4096, kLap);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 5000u);
    EXPECT_EQ(world.counters(0).copies_timed, 0u);
    EXPECT_EQ(eager_of(world, 5000, 20), 20u);
    EXPECT_LT(eager_of(world, 5001, 20), 1u);
}

TEST(EagerLimitOfCores, NothingIsTimedWhereNothingWasMeasured) {
    Cores world(2);
    send_short(world, 0, 4096, kLap);
    send_short(world, 0, kLong, kLap);
    EXPECT_EQ(world.counters(0).copies_timed, 0u);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 4096u);
}

// Timed active messages raise the limit as others do. A message that goes another way makes the
// core ask now and then for an active one instead, as a trial.
TEST(EagerLimitOfCores, ActiveMessagesCount) {
    Options options;
    options.copy_costs = system_calls_of(std::chrono::microseconds{1});
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    std::size_t heard = 0;
    world.core(1).protocol().active().listen([](void* count, Peer&, std::uint8_t, const std::byte*,
                                                Bytes) { ++*static_cast<std::size_t*>(count); },
                                             &heard);
    Protocol& protocol = world.core(0).protocol();
    Peer& peer = *world.peer(0, 1);
    const std::vector<std::byte> data = pattern(4000, 1);
    for (std::size_t i = 0; i < 120; ++i) {
        EXPECT_FALSE(protocol.active().try_send(peer, 1, data.data(), 4000, nullptr, 0));
        ASSERT_TRUE(protocol.active().send_timed(peer, 1, data.data(), 100, data.data(), 3900));
        ASSERT_TRUE(world.run([&] { return heard == i + 1; }));
    }
    EXPECT_EQ(protocol.eager_tuning().active_eager(), 65536u);
    EXPECT_GE(world.counters(0).copies_timed, 7u);

    Options dear;
    dear.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores other(2, dear);
    exchange(other, 100, 40);
    Protocol& slow = other.core(0).protocol();
    EXPECT_EQ(slow.eager_tuning().active_eager(), 4096u);
    for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(slow.eager_tuning().active_eager(), 4096u);
        slow.eager_tuning().on_active_declined(*other.peer(0, 1), kLong);
        exchange(other, 8, 1);
    }
    EXPECT_EQ(slow.eager_tuning().active_eager(), 65536u) << "to be tried";
}

TEST(EagerLimitOfCores, StreamsAreCopiedByBothSides) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    exchange(world, 100, 40);              // connects
    send_short(world, 0, kLong, 2 * kLap); // teaches the cost of a byte
    EXPECT_EQ(eager_of(world, kLong, 5), 0u);
    EXPECT_EQ(eager_of(world, kLong, 20, Answers::none), 18u) << "a third one is a stream";
    EXPECT_EQ(eager_of(world, 65537, 20, Answers::none), 0u);
    send_short(world, 1, 8, 1, Answers::none);
    EXPECT_EQ(eager_of(world, kLong, 5), 0u) << "it is over";
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 4096u);
}

TEST(EagerLimitOfCores, AStreamWaitsForRoom) {
    constexpr std::size_t kMessages = 64; // four rings full
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> got(kMessages, std::vector<std::byte>(kLong));
    std::vector<TestRequest> sends(kMessages);
    std::vector<TestRequest> receives(kMessages);
    std::vector<TestRequest*> all;
    for (std::size_t i = 0; i < kMessages; ++i) {
        sent.push_back(pattern(kLong, i));
        start_send(world, 0, sent.back(), sends[i]);
        all.push_back(&sends[i]);
    }
    EXPECT_GT(world.counters(0).send_stalls, 0u);
    for (std::size_t i = 0; i < kMessages; ++i) {
        ASSERT_TRUE(world.receive(1, 0, 1, contiguous(got[i]), receives[i]).ok());
        all.push_back(&receives[i]);
    }
    ASSERT_TRUE(world.run(all));
    EXPECT_EQ(got, sent);
}

constexpr std::uint64_t kMessages = 12; // of a stream; the first two go as if they were alone

// Sends streams, with an answer at the end of each, while a message through the ring takes one time
// and a fetched message another. Returns how many of a stream went through the ring: the median of
// the last few streams, since one may be a trial.
std::uint64_t stream(Cores& world, std::size_t bytes, int streams, Nanoseconds through_ring,
                     Nanoseconds fetched) {
    LastFew<std::uint64_t, 5> through_ring_of;
    for (int i = 0; i < streams; ++i) {
        std::uint64_t last = 0;
        for (std::uint64_t message = 0; message < kMessages; ++message) {
            const std::uint64_t through = eager_of(world, bytes, 1, Answers::none);
            world.clock.advance(through > 0 ? through_ring : fetched);
            last += through;
        }
        send_short(world, 1, 8, 1, Answers::none);
        through_ring_of.add(last);
    }
    return through_ring_of.median();
}

constexpr std::uint64_t kStreamed = kMessages - 2;
constexpr std::uint64_t kTried = 1; // message that explores, for the limit of the latency

TEST(EagerLimitOfCores, StreamsGoTheWayThatIsFaster) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    const Nanoseconds three{3000};
    const Nanoseconds four{4000};
    for (const std::size_t bytes : {std::size_t{6000}, kLong, std::size_t{65536}}) {
        Cores world(2, options);
        exchange(world, 100, 40); // connects
        EXPECT_EQ(stream(world, bytes, 20, three, four), kStreamed);
        EXPECT_GE(world.counters(0).streams_timed, 8u);
        Cores other(2, options);
        exchange(other, 100, 40);
        EXPECT_LE(stream(other, bytes, 20, four, three), kTried);
        EXPECT_EQ(other.counters(0).eager_limit_bytes, 4096u) << "latency is another matter";
    }
}

TEST(EagerLimitOfCores, StreamsFollowAChange) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    const Nanoseconds three{3000};
    const Nanoseconds four{4000};
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    EXPECT_EQ(stream(world, 6000, 20, three, four), kStreamed);
    EXPECT_LE(stream(world, 6000, 600, four, three), kTried);
    EXPECT_EQ(stream(world, 6000, 1200, three, four), kStreamed);
}

TEST(EagerLimitOfCores, FetchingAStreamHasToPay) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    EXPECT_EQ(stream(world, kLong, 40, Nanoseconds{1100}, Nanoseconds{1000}), kStreamed)
        << "a tenth is not enough: the sender is free then";
}

TEST(EagerLimitOfCores, StreamsOfSizesAreLearntApart) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    EXPECT_LE(stream(world, 65536, 20, Nanoseconds{4000}, Nanoseconds{3000}), kTried);
    EXPECT_EQ(stream(world, 6000, 20, Nanoseconds{1000}, Nanoseconds{2000}), kStreamed);
    EXPECT_LE(stream(world, 65536, 5, Nanoseconds{4000}, Nanoseconds{3000}), kTried);
}

// A program that never sends more than a few messages in a row teaches nothing about streams; its
// messages go as before.
TEST(EagerLimitOfCores, ShortStreamsAreNotTimed) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    exchange(world, 100, 40);              // connects
    send_short(world, 0, kLong, 2 * kLap); // teaches the cost of a byte
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(eager_of(world, kLong, 8, Answers::none), 6u);
        world.clock.advance(Nanoseconds{1000});
        send_short(world, 1, 8, 1, Answers::none);
    }
    EXPECT_EQ(world.counters(0).streams_timed, 0u);
}

TEST(EagerLimitOfCores, ActiveStreamsMoveTheirLimit) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    world.core(1).protocol().active().listen(
        [](void*, Peer&, std::uint8_t, const std::byte*, Bytes) {}, nullptr);
    Protocol& protocol = world.core(0).protocol();
    Peer& peer = *world.peer(0, 1);
    const std::vector<std::byte> data = pattern(kLong, 1);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(protocol.eager_tuning().active_eager(), 4096u);
        protocol.eager_tuning().on_active_declined(peer, kLong);
    }
    EXPECT_EQ(protocol.eager_tuning().active_eager(), 65536u);
    for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(protocol.active().send_timed(peer, 1, data.data(), kLong, nullptr, 0));
        EXPECT_EQ(protocol.eager_tuning().active_eager(), 65536u);
    }
    EXPECT_EQ(world.counters(0).copies_timed, 0u);
    exchange(world, 8, 1);
    EXPECT_TRUE(protocol.active().send_timed(peer, 1, data.data(), kLong, nullptr, 0));
    EXPECT_EQ(protocol.eager_tuning().active_eager(), 4096u) << "the stream is over";
}

// Sends a stream as the BTL's user does: a message above the limit of that moment goes another way,
// which ends with an active message. Returns how many messages went through the ring.
int active_stream(Cores& world, Nanoseconds through_ring, Nanoseconds fetched) {
    Protocol& protocol = world.core(0).protocol();
    Peer& peer = *world.peer(0, 1);
    const std::vector<std::byte> data = pattern(kLong, 1);
    int through = 0;
    for (std::uint64_t message = 0; message < kMessages; ++message) {
        const bool active = kLong <= protocol.eager_tuning().active_eager();
        if (active) {
            EXPECT_TRUE(protocol.active().send_timed(peer, 1, data.data(), kLong, nullptr, 0));
        } else {
            protocol.eager_tuning().on_active_declined(peer, kLong);
        }
        world.progress();
        world.clock.advance(active ? through_ring : fetched);
        through += active ? 1 : 0;
    }
    exchange(world, 8, 1);
    return through;
}

TEST(EagerLimitOfCores, ActiveStreamsGoTheWayThatIsFaster) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    for (const bool ring : {true, false}) {
        Cores world(2, options);
        exchange(world, 100, 40); // connects
        world.core(1).protocol().active().listen(
            [](void*, Peer&, std::uint8_t, const std::byte*, Bytes) {}, nullptr);
        int last = 0;
        for (int i = 0; i < 20; ++i) {
            last = active_stream(world, Nanoseconds{ring ? 3000 : 4000},
                                 Nanoseconds{ring ? 4000 : 3000});
        }
        EXPECT_GE(last, ring ? static_cast<int>(kMessages) - 3 : 0);
        EXPECT_LE(last, ring ? static_cast<int>(kMessages) : 1);
    }
}

} // namespace

} // namespace adaptib::test
