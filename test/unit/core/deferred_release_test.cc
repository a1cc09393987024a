// SPDX-License-Identifier: BSD-3-Clause
// Deferred release (RingPoller::release_or_defer): in a ping-pong, a process releases the slot of a
// long message after its own reply, with the habits of processors where that pays.
#include <gtest/gtest.h>

#include "channel/ring_habits.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

constexpr RingHabits kDirties{
    .most_claimed = 0, .lap_messages = 4, .lap_longest = 264, .dirties = true};

class DeferredRelease : public testing::Test {
protected:
    DeferredRelease() { assume_ring_habits(&kDirties); }
    ~DeferredRelease() override { assume_ring_habits(nullptr); }

    static bool defers(Cores& world, std::size_t at, std::size_t from) {
        return world.peer(at, from)->in.ring->has_deferred();
    }
    // Sends a message from 0 to 1 and back; each end's passes stop when its message has come.
    static void exchange_once(Cores& world, std::size_t bytes, std::uint64_t seed) {
        for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
            const std::size_t to = 1 - from;
            std::vector<std::byte> sent = pattern(bytes, seed);
            std::vector<std::byte> got(bytes);
            TestRequest receive;
            ASSERT_TRUE(
                world.receive(to, static_cast<std::int32_t>(from), 1, contiguous(got), receive)
                    .ok());
            ASSERT_TRUE(world.try_send(from, to, 1, contiguous(sent)));
            for (int pass = 0; pass < 1000 && !receive.done; ++pass) {
                world.progress(to);
            }
            ASSERT_TRUE(receive.done);
            ASSERT_EQ(got, sent);
        }
    }
};

TEST_F(DeferredRelease, UntilAPassFindsNothing) {
    Cores world(2);
    exchange(world, 1000, 40);
    int deferred = 0;
    for (int i = 0; i < 100; ++i) {
        ASSERT_NO_FATAL_FAILURE(exchange_once(world, 1000, 1));
        deferred += defers(world, 0, 1) ? 1 : 0;
        if (i % 2 == 0) {
            world.progress(0);
            ASSERT_FALSE(defers(world, 0, 1));
        }
    }
    EXPECT_GT(deferred, 50);
    ASSERT_NO_FATAL_FAILURE(exchange_once(world, 100, 1)); // short ones are not worth it
    EXPECT_FALSE(defers(world, 0, 1));
}

// A stream in one direction, without replies.
TEST_F(DeferredRelease, NotWhereNobodyAnswers) {
    Cores world(2);
    exchange(world, 1000, 40);
    for (int i = 0; i < 50; ++i) {
        std::vector<std::byte> data = pattern(1000, 1);
        TestRequest receive;
        ASSERT_TRUE(world.receive(1, 0, 1, contiguous(data), receive).ok());
        ASSERT_TRUE(world.try_send(0, 1, 1, contiguous(data)));
        ASSERT_TRUE(world.run([&] {
            world.progress(1);
            return receive.done;
        }));
        EXPECT_FALSE(i > 1 && defers(world, 1, 0));
    }
}

// A reply need not go first if one word releases a slot, whatever its length.
TEST_F(DeferredRelease, NotWhereOneStoreReleasesASlot) {
    RingHabits habits = kDirties;
    habits.dirties = false;
    assume_ring_habits(&habits);
    {
        Cores world(2);
        exchange(world, 1000, 40);
        for (int i = 0; i < 20; ++i) {
            ASSERT_NO_FATAL_FAILURE(exchange_once(world, 1000, 1));
            EXPECT_FALSE(defers(world, 0, 1));
            EXPECT_FALSE(defers(world, 1, 0));
        }
    }
    assume_ring_habits(&kDirties);
}

// A long message finds room however long the other end computes after the last message that it has
// taken, and wherever a lap ends.
TEST_F(DeferredRelease, LeavesRoomForALongMessage) {
    for (int rounds = 40; rounds < 80; ++rounds) {
        Cores world(2);
        exchange(world, 1000, 17);
        for (int i = 0; i < rounds; ++i) {
            ASSERT_NO_FATAL_FAILURE(exchange_once(world, 1000, static_cast<std::uint64_t>(i)));
        }
        world.progress(1); // node 1 is done with the last exchange
        ASSERT_NO_FATAL_FAILURE(exchange_once(world, 4000, 1));
        const Bytes half = world.peer(0, 1)->out.ring_capacity;
        std::vector<std::byte> sent = pattern(std::min<Bytes>(half, 4000), 7);
        for (Bytes left = half; left >= sent.size(); left -= sent.size()) {
            TestRequest send;
            ASSERT_TRUE(world.send(0, 1, 2, contiguous(sent), send).ok());
            ASSERT_TRUE(send.done) << "with " << left << " left of " << half;
        }
        EXPECT_EQ(world.counters(0).send_stalls, 0u);
    }
}

// A connection that is kept has an empty ring, also if no pass has been idle meanwhile.
TEST_F(DeferredRelease, NothingIsWhenAConnectionCloses) {
    for (int rounds = 1; rounds < 12; ++rounds) {
        Options options;
        options.parameters.connect_pool = 4;
        Cores world(3, options);
        exchange(world, 1000, 17);
        std::vector<std::byte> small(8);
        std::vector<std::byte> into(8);
        const auto busy_pass = [&] { // of node 1, with a message from node 2
            TestRequest receive;
            TestRequest send;
            ASSERT_TRUE(world.receive(1, 2, 7, contiguous(into), receive).ok());
            ASSERT_TRUE(world.send(2, 1, 7, contiguous(small), send).ok());
            for (int pass = 0; pass < 1000 && !receive.done; ++pass) {
                world.progress(2);
                world.progress(1);
            }
            ASSERT_TRUE(receive.done);
        };
        while (world.peer(2, 1)->session.state != ConnectState::open) {
            ASSERT_NO_FATAL_FAILURE(busy_pass());
        }
        for (int times = 0; times < 3; ++times) {
            for (int i = 0; i < rounds; ++i) {
                ASSERT_NO_FATAL_FAILURE(exchange_once(world, 1000, static_cast<std::uint64_t>(i)));
            }
            EXPECT_TRUE(defers(world, 1, 0) || rounds == 1) << rounds;
            const auto closed = [&] {
                return world.peer(0, 1)->session.state == ConnectState::idle &&
                       world.peer(1, 0)->session.state == ConnectState::idle;
            };
            world.core(0).selection().demote(*world.peer(0, 1));
            for (int pass = 0; pass < 10'000 && !closed(); ++pass) {
                world.progress(0);
                ASSERT_NO_FATAL_FAILURE(busy_pass());
            }
            ASSERT_TRUE(closed());
            world.core(0).selection().promote(*world.peer(0, 1));
            ASSERT_TRUE(world.run([&] {
                return world.peer(0, 1)->session.state == ConnectState::open &&
                       world.peer(1, 0)->session.state == ConnectState::open;
            }));
        }
        ASSERT_NO_FATAL_FAILURE(exchange_once(world, 1000, 5));
        EXPECT_GT(world.counters(0).connections_reused, 0u);
        EXPECT_EQ(world.counters(1).bad_packets, 0u);
    }
}

} // namespace
} // namespace adaptib::test
