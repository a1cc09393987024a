// SPDX-License-Identifier: BSD-3-Clause
// The eager limit that follows from copies that are timed: which way messages go, and that it is left alone
// where it was set or nothing was measured. The cores' clock stands: copies into the ring take no time.
#include <gtest/gtest.h>

#include "unit/core/cores.h"

namespace adaptib::test {

namespace {

constexpr std::size_t kLong = 16384;
constexpr int kLap = 100; // messages of that size, of which one in 8 fills an eighth of the ring

CopyCosts system_calls_of(Nanoseconds time) {
    CopyCosts costs;
    costs.single.fill(time);
    return costs;
}

// As the C interface does.
void start_send(Cores& world, std::size_t from, std::vector<std::byte>& data, TestRequest& send) {
    const Envelope envelope{0, static_cast<std::int32_t>(from), 1};
    Protocol& protocol = world.core(from).protocol();
    Peer& to = *world.peer(from, 1 - from);
    if (protocol.send_at_once(to, envelope, contiguous(data)) ||
        protocol.send_timed(to, envelope, contiguous(data))) {
        send.done = true;
    } else {
        ASSERT_TRUE(world.send(from, 1 - from, 1, contiguous(data), send).ok());
    }
}

enum class Answers { none, each };

// One after another.
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

TEST(CopyChoiceOfCores, CheapCopiesRaiseTheLimit) {
    Options options;
    options.copy_costs = system_calls_of(std::chrono::microseconds{1});
    Cores world(2, options);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 4096u);
    send_short(world, 0, kLong, 2 * kLap);
    EXPECT_GE(world.counters(0).copies_timed, 7u);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 32768u);
    EXPECT_EQ(world.core(0).protocol().active_eager(), 32768u);
    EXPECT_EQ(eager_of(world, kLong, 20), 20u);
    EXPECT_EQ(eager_of(world, 32768, 20), 20u);
    EXPECT_EQ(eager_of(world, 32769, 20), 0u);
    EXPECT_EQ(world.counters(1).eager_limit_bytes, 4096u)
        << "it has sent nothing, and knows nothing";
}

TEST(CopyChoiceOfCores, DearCopiesLeaveItWhereItIs) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    send_short(world, 0, kLong, 2 * kLap);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 4096u);
    EXPECT_EQ(eager_of(world, 4096, 20), 20u);
    EXPECT_LE(eager_of(world, kLong, 512), 4u) << "two that try, and what announces the others";
}

TEST(CopyChoiceOfCores, SmallRingsBoundIt) {
    Options options;
    options.copy_costs = system_calls_of(std::chrono::microseconds{1});
    options.parameters.ring_bytes = 40000 / 64 * 64;
    Cores world(2, options);
    send_short(world, 0, 6144, 2 * kLap);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 8192u);
}

TEST(CopyChoiceOfCores, ALimitThatIsSetStays) {
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

TEST(CopyChoiceOfCores, NothingIsTimedWhereNothingWasMeasured) {
    Cores world(2);
    send_short(world, 0, 4096, kLap);
    send_short(world, 0, kLong, kLap);
    EXPECT_EQ(world.counters(0).copies_timed, 0u);
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 4096u);
}

// Active messages teach the same, and what went another way asks for them again now and then.
TEST(CopyChoiceOfCores, ActiveMessagesCount) {
    Options options;
    options.copy_costs = system_calls_of(std::chrono::microseconds{1});
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    std::size_t heard = 0;
    world.core(1).protocol().listen([](void* count, Peer&, std::uint8_t, const std::byte*,
                                       Bytes) { ++*static_cast<std::size_t*>(count); },
                                    &heard);
    Protocol& protocol = world.core(0).protocol();
    Peer& peer = *world.peer(0, 1);
    const std::vector<std::byte> data = pattern(4000, 1);
    for (std::size_t i = 0; i < 120; ++i) {
        EXPECT_FALSE(protocol.send_active_at_once(peer, 1, data.data(), 4000, nullptr, 0));
        ASSERT_TRUE(protocol.send_active_timed(peer, 1, data.data(), 100, data.data(), 3900));
        ASSERT_TRUE(world.run([&] { return heard == i + 1; }));
    }
    EXPECT_EQ(protocol.active_eager(), 32768u);
    EXPECT_GE(world.counters(0).copies_timed, 7u);

    Options dear;
    dear.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores other(2, dear);
    exchange(other, 100, 40);
    Protocol& slow = other.core(0).protocol();
    EXPECT_EQ(slow.active_eager(), 4096u);
    for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(slow.active_eager(), 4096u);
        slow.on_not_active(*other.peer(0, 1), kLong);
        exchange(other, 8, 1);
    }
    EXPECT_EQ(slow.active_eager(), 32768u) << "to be tried";
}

TEST(CopyChoiceOfCores, StreamsAreCopiedByBothSides) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    EXPECT_EQ(eager_of(world, kLong, 5), 0u);
    EXPECT_EQ(eager_of(world, kLong, 20, Answers::none), 18u) << "a third one is a stream";
    EXPECT_EQ(eager_of(world, 32769, 20, Answers::none), 0u);
    send_short(world, 1, 8, 1, Answers::none);
    EXPECT_EQ(eager_of(world, kLong, 5), 0u) << "it is over";
    EXPECT_EQ(world.counters(0).eager_limit_bytes, 4096u);
}

TEST(CopyChoiceOfCores, AStreamWaitsForRoom) {
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

TEST(CopyChoiceOfCores, ActiveStreamsMoveTheirLimit) {
    Options options;
    options.copy_costs = system_calls_of(Nanoseconds{-1});
    Cores world(2, options);
    exchange(world, 100, 40); // connects
    world.core(1).protocol().listen([](void*, Peer&, std::uint8_t, const std::byte*, Bytes) {},
                                    nullptr);
    Protocol& protocol = world.core(0).protocol();
    Peer& peer = *world.peer(0, 1);
    const std::vector<std::byte> data = pattern(kLong, 1);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(protocol.active_eager(), 4096u);
        protocol.on_not_active(peer, kLong);
    }
    EXPECT_EQ(protocol.active_eager(), 32768u);
    for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(protocol.send_active_timed(peer, 1, data.data(), kLong, nullptr, 0));
        EXPECT_EQ(protocol.active_eager(), 32768u);
    }
    EXPECT_EQ(world.counters(0).copies_timed, 0u);
    exchange(world, 8, 1);
    EXPECT_TRUE(protocol.send_active_timed(peer, 1, data.data(), kLong, nullptr, 0));
    EXPECT_EQ(protocol.active_eager(), 4096u) << "the stream is over";
}

} // namespace

} // namespace adaptib::test
