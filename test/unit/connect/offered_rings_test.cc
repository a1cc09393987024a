// SPDX-License-Identifier: BSD-3-Clause
// Rings that this process offers: how many, from which memory, and what happens without room.
#include "connect/offered_rings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

class Offers : public RecordedConnections {
protected:
    static constexpr Bytes kRing = 8192;

    static ConnectOptions at_most(std::uint64_t rings) {
        ConnectOptions options;
        options.ring_max = rings;
        return options;
    }
    std::unique_ptr<Peer> peer(std::uint64_t name) {
        std::unique_ptr<Peer> peer = idle_peer(name);
        peer->in.ring_bytes = kRing;
        return peer;
    }
    static std::byte* lines(const Peer& peer) { return peer.in.ring_layout().lines(); }
    static bool is_zero(const Peer& peer) {
        return std::all_of(lines(peer), lines(peer) + kRing,
                           [](std::byte byte) { return byte == std::byte{0}; });
    }

    const ConnectContext context_ = recorded_context(at_most(2));
    ConnectionPool pool_{4, world_.counters};
    OfferedRings rings_{context_, pool_};
};

TEST_F(Offers, ARingIsRegisteredWithAllRailsAndPolledFromNowOn) {
    const auto one = peer(1);
    ASSERT_TRUE(rings_.offer(*one).ok());
    ASSERT_TRUE(one->in.ring.has_value());
    EXPECT_EQ(one->in.ring_parts.lines_bytes, kRing);
    EXPECT_TRUE(one->in.ring_parts.measuring); // it has two paths
    EXPECT_NE(one->in.ring_registration.remote_key(0), 0u);
    EXPECT_NE(one->in.ring_registration.remote_key(1), 0u);
    EXPECT_EQ(events_.rings_offered, 1u);
    EXPECT_EQ(world_.counters.rings_open, 1u);
    EXPECT_EQ(world_.counters.buffers, 1u);
    EXPECT_EQ(world_.counters.buffers_bytes, one->in.ring_memory->length());
    rings_.withdraw(*one);
    rings_.withdraw(*one);
    EXPECT_FALSE(one->in.ring.has_value());
    EXPECT_EQ(events_.rings_withdrawn, 1u);
    EXPECT_EQ(world_.counters.rings_open, 0u);
    EXPECT_NE(one->in.ring_memory, nullptr); // for a next connection
}

TEST_F(Offers, BeyondTheLimitAPeerGetsOnlyMemoryForItsCredit) {
    const auto one = peer(1);
    const auto two = peer(2);
    const auto three = peer(3);
    ASSERT_TRUE(rings_.offer(*one).ok());
    ASSERT_TRUE(rings_.offer(*two).ok());
    ASSERT_TRUE(rings_.offer(*three).ok());
    EXPECT_FALSE(three->in.ring.has_value());
    EXPECT_EQ(three->in.ring_parts.lines_bytes, 0u);
    ASSERT_NE(three->in.ring_memory, nullptr);
    EXPECT_EQ(world_.counters.rings_open, 2u);
    EXPECT_EQ(events_.rings_offered, 2u);
    EXPECT_TRUE(events_.notices.empty());

    rings_.withdraw(*one);
    ASSERT_TRUE(rings_.offer(*three).ok()); // at its next connection
    EXPECT_TRUE(three->in.ring.has_value());
    EXPECT_EQ(world_.counters.buffers, 3u);
}

TEST_F(Offers, TheMemoryOfTheLastConnectionIsReused) {
    const auto one = peer(1);
    ASSERT_TRUE(rings_.offer(*one).ok());
    const void* const memory = one->in.ring_memory->address();
    const std::uint32_t key = one->in.ring_registration.remote_key(0);
    rings_.withdraw(*one);
    std::memset(lines(*one), 1, 100);
    one->in.credit_work.on_posted(1);
    OfferedRings::clean(*one, 128);
    EXPECT_TRUE(is_zero(*one));
    EXPECT_FALSE(one->in.credit_work.any());
    ASSERT_TRUE(rings_.offer(*one).ok());
    EXPECT_EQ(one->in.ring_memory->address(), memory);
    EXPECT_EQ(one->in.ring_registration.remote_key(0), key);
    EXPECT_EQ(world_.counters.buffers, 1u);
    EXPECT_EQ(world_.counters.rings_open, 1u);
}

// The queue pair may have gone before the completion of its last write of credit was seen.
TEST_F(Offers, ANewConnectionDoesNotWaitForCreditOfTheLast) {
    const auto one = peer(1);
    ASSERT_TRUE(rings_.offer(*one).ok());
    one->in.credit_work.on_posted(1);
    rings_.withdraw(*one);
    ASSERT_TRUE(rings_.offer(*one).ok());
    EXPECT_FALSE(one->in.credit_work.under_way());
}

TEST_F(Offers, ARepairBeginsWithAnEmptyRing) {
    const auto one = peer(1);
    ASSERT_TRUE(rings_.offer(*one).ok());
    std::memset(lines(*one), 1, kRing); // the last connection has filled it
    one->in.credit_work.on_posted(1);
    rings_.renew(*one);
    EXPECT_TRUE(is_zero(*one));
    EXPECT_TRUE(one->in.ring.has_value());
    EXPECT_FALSE(one->in.credit_work.any());
    EXPECT_EQ(events_.rings_withdrawn, 1u);
    EXPECT_EQ(events_.rings_offered, 2u);
    EXPECT_EQ(world_.counters.rings_open, 1u);
}

TEST_F(Offers, ARenewedConnectionWithoutARingStaysWithout) {
    const auto one = peer(1);
    const ConnectContext none = recorded_context(at_most(0));
    OfferedRings rings(none, pool_);
    ASSERT_TRUE(rings.offer(*one).ok());
    rings.renew(*one);
    EXPECT_FALSE(one->in.ring.has_value());
    EXPECT_EQ(events_.rings_offered, 0u);
    EXPECT_EQ(events_.rings_withdrawn, 0u);
}

TEST_F(Offers, ThePooledMemoryOfOthersMakesRoom) {
    const auto other = peer(2);
    ASSERT_TRUE(rings_.offer(*other).ok());
    rings_.withdraw(*other);
    pool_.keep(*other, {});
    first_.memories = 0;
    const auto one = peer(1);
    ASSERT_TRUE(rings_.offer(*one).ok());
    EXPECT_TRUE(one->in.ring.has_value());
    EXPECT_EQ(other->in.ring_memory, nullptr);
    EXPECT_FALSE(other->connection.kept.link.linked());
    EXPECT_EQ(world_.counters.buffers, 1u);
    EXPECT_TRUE(events_.notices.empty());
}

TEST_F(Offers, WithoutMemoryForARingThereIsOneNotice) {
    first_.largest = 4096;
    const auto one = peer(1);
    const auto two = peer(2);
    ASSERT_TRUE(rings_.offer(*one).ok());
    ASSERT_TRUE(rings_.offer(*two).ok());
    EXPECT_FALSE(one->in.ring.has_value());
    EXPECT_NE(one->in.ring_memory, nullptr);
    EXPECT_EQ(events_.notices.size(), 1u);
    EXPECT_EQ(world_.counters.rings_open, 0u);
    EXPECT_EQ(world_.counters.buffers, 2u);
}

TEST_F(Offers, WithoutAnyMemoryThereIsNoConnection) {
    first_.memories = 0;
    const auto one = peer(1);
    EXPECT_TRUE(rings_.offer(*one).wants_room());
    EXPECT_EQ(one->in.ring_memory, nullptr);
    EXPECT_EQ(world_.counters.buffers, 0u);
    EXPECT_EQ(world_.counters.rings_open, 0u);
    first_.memories = RecordedRail::kMany;
    second_.memory_result = Status::error(Reason::locked_memory); // it cannot be registered there
    EXPECT_TRUE(rings_.offer(*one).wants_room());
    EXPECT_EQ(one->in.ring_memory, nullptr);
    EXPECT_EQ(first_.memories, RecordedRail::kMany); // nothing stays
}

} // namespace
} // namespace adaptib::test
