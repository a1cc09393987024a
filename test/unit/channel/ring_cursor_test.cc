// SPDX-License-Identifier: BSD-3-Clause
// The place of a writer's next message (channel/ring_cursor.h).
#include "channel/ring_cursor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace adaptib::test {
namespace {

constexpr std::uint32_t kUnits = 2 * kShortLap;

class Cursor : public testing::Test {
protected:
    Cursor() {
        FastPathGuard guard;
        guard.faults = &faults;
        guard.target = &target;
        cursor.store_to(memory.data(), guard);
    }

    std::vector<std::byte> memory{kUnits * kRingUnit};
    std::atomic<std::uint64_t> faults{0};
    std::atomic<std::uint64_t> target{0};
    RingCursor cursor{kUnits};
};

TEST_F(Cursor, AMessageHasAPlaceWithinTheLapOnly) {
    EXPECT_TRUE(cursor.has_place(kShortLap));
    EXPECT_FALSE(cursor.has_place(kShortLap + 1));
    cursor.set_lap(kShortLap + 1);
    EXPECT_TRUE(cursor.has_place(kShortLap + 1));
    EXPECT_FALSE(cursor.advance(kShortLap));
    EXPECT_EQ(cursor.here(), memory.data() + kShortLap * kRingUnit);
    EXPECT_TRUE(cursor.has_place(1));
    EXPECT_FALSE(cursor.has_place(2));
}

TEST_F(Cursor, AMessageHasAPlaceOnlyWhileTheGuardIsOpen) {
    EXPECT_TRUE(cursor.stores());
    faults = 1;
    EXPECT_TRUE(cursor.direct());
    EXPECT_FALSE(cursor.stores());
    EXPECT_FALSE(cursor.has_place(1));
    faults = 0;
    target = 1;
    EXPECT_FALSE(cursor.has_place(1));
    target = 0;
    EXPECT_TRUE(cursor.has_place(1));
    cursor.stop_storing();
    EXPECT_FALSE(cursor.direct());
    EXPECT_FALSE(cursor.has_place(1));
}

TEST_F(Cursor, ThePlaceIsFreeOnceTheReaderHasConsumedIt) {
    cursor.set_lap(kUnits);
    ASSERT_TRUE(cursor.advance(kUnits)) << "the ring's end";
    EXPECT_EQ(cursor.unit_behind(0), 0u);
    cursor.begin_lap();
    EXPECT_EQ(cursor.position(), 0u);
    EXPECT_EQ(cursor.lap(), kShortLap);
    EXPECT_FALSE(cursor.has_place(1));
    EXPECT_FALSE(cursor.has_room(1));
    cursor.heard(3);
    EXPECT_TRUE(cursor.has_room(3));
    EXPECT_FALSE(cursor.has_room(4));
    EXPECT_TRUE(cursor.has_place(2)) << "and the unit behind";
    EXPECT_FALSE(cursor.has_place(3));
}

TEST_F(Cursor, AnOlderOrImpossibleCountIsIgnored) {
    cursor.advance(10);
    cursor.heard(7);
    cursor.heard(4);
    EXPECT_EQ(cursor.consumed(), 7u);
    cursor.heard(11);
    EXPECT_EQ(cursor.consumed(), 7u);
}

TEST_F(Cursor, TheReaderHasCaughtUpWhenItHasZeroedTheLastMessage) {
    cursor.advance(2);
    std::byte* const last = cursor.here();
    store_ring_word(last, 1, std::memory_order_relaxed);
    cursor.advance(3);
    EXPECT_FALSE(cursor.caught_up());
    store_ring_word(last, 0, std::memory_order_relaxed);
    ASSERT_TRUE(cursor.caught_up());
    cursor.all_consumed();
    EXPECT_EQ(cursor.consumed(), 5u);
    cursor.stop_storing();
    EXPECT_FALSE(cursor.caught_up()) << "only the reader's own memory tells";
}

TEST_F(Cursor, ASkipIsNotConsumedWithTheMessageBeforeIt) {
    cursor.advance(5);
    std::byte* const skip = cursor.here();
    store_ring_word(skip, 1, std::memory_order_relaxed);
    cursor.skip(kUnits - 5);
    EXPECT_EQ(cursor.position(), 0u);
    EXPECT_EQ(cursor.produced(), kUnits);
    EXPECT_FALSE(cursor.caught_up());
    store_ring_word(skip, 0, std::memory_order_relaxed);
    EXPECT_TRUE(cursor.caught_up());
}

TEST_F(Cursor, WordsAreToBeZeroedUpToACount) {
    EXPECT_FALSE(cursor.must_zero());
    cursor.set_zero_until(2);
    EXPECT_TRUE(cursor.must_zero());
    cursor.advance(2);
    EXPECT_FALSE(cursor.must_zero());
}

TEST_F(Cursor, CountsHowOftenSequenceNumbersBeginAgain) {
    cursor.begin_lap(); // nothing has been sent
    EXPECT_EQ(cursor.wraps(), 0u);
    cursor.sent(0xfffffff0, 10);
    cursor.begin_lap();
    cursor.sent(0xffffffff, 10);
    cursor.begin_lap();
    EXPECT_EQ(cursor.wraps(), 0u);
    cursor.sent(3, 10);
    EXPECT_EQ(cursor.wraps(), 1u);
    cursor.begin_lap();
    cursor.sent(4, 10);
    cursor.begin_lap();
    EXPECT_EQ(cursor.wraps(), 1u);
    cursor.sent(2, 10);
    EXPECT_EQ(cursor.wraps(), 2u);
    cursor.uncount(10);
    EXPECT_EQ(cursor.sent_bytes(), 40u);
}

} // namespace
} // namespace adaptib::test
