// SPDX-License-Identifier: BSD-3-Clause
// Posting into a ring, and what is known of it (channel/ring_poster.h).
#include "channel/ring_poster.h"

#include <gtest/gtest.h>

#include "unit/channel/ring_pair.h"

namespace adaptib::test {
namespace {

class Poster : public testing::Test {
protected:
    Status write(std::uint64_t unit, bool signaled, Bytes length = sizeof(std::uint64_t)) {
        return poster.write({&words, length, 0}, unit, signaled);
    }
    void complete() {
        for (std::size_t left = qp.completions(); left > 0; --left) {
            poster.on_completion();
        }
    }

    PlainRegion memory{64 * kRingUnit};
    std::uint64_t words[2] = {5, 6};
    MemoryQp qp;
    RingPoster poster{
        qp,
        {reinterpret_cast<std::uintptr_t>(memory.address()), 0, 64, sizeof(std::uint64_t), 0},
        7};
};

TEST_F(Poster, AWriteGoesToItsUnit) {
    ASSERT_TRUE(write(3, false).ok());
    EXPECT_TRUE(qp.inlined);
    qp.show(sizeof(std::uint64_t));
    EXPECT_EQ(load_ring_word(static_cast<std::byte*>(memory.address()) + 3 * kRingUnit), 5u);
    ASSERT_TRUE(write(3, false, 2 * sizeof(std::uint64_t)).ok());
    EXPECT_FALSE(qp.inlined) << "longer than the queue pair takes inline";
}

TEST_F(Poster, OneOfManyWritesIsSignaled) {
    for (std::uint32_t i = 1; i < kSignalEvery; ++i) {
        ASSERT_TRUE(write(0, false).ok());
        EXPECT_TRUE(poster.settled());
    }
    ASSERT_TRUE(write(0, false).ok());
    EXPECT_FALSE(poster.settled());
    qp.show(kSignalEvery * sizeof(std::uint64_t));
    complete();
    EXPECT_TRUE(poster.settled());
    EXPECT_TRUE(poster.flushed()) << "no write came after the signaled one";
    EXPECT_EQ(qp.hidden(), 0u);
}

TEST_F(Poster, AFlushRequestsTheMissingCompletion) {
    EXPECT_TRUE(poster.flushed());
    ASSERT_TRUE(write(0, false).ok());
    EXPECT_FALSE(poster.flushed());
    EXPECT_FALSE(poster.settled());
    EXPECT_FALSE(poster.flushed()) << "once only";
    qp.show(sizeof(std::uint64_t));
    EXPECT_EQ(qp.completions(), 1u);
    poster.on_completion();
    EXPECT_TRUE(poster.flushed());
}

TEST_F(Poster, AWriteThatIsRefusedCountsForNothing) {
    qp.post_result = Status::again(Reason::queue_full);
    EXPECT_TRUE(write(0, true).is_again());
    EXPECT_TRUE(poster.settled());
    EXPECT_TRUE(poster.flushed());
    qp.post_result = Status::error(Reason::bad_state);
    EXPECT_TRUE(write(0, false).is_error());
    qp.post_result = kOk;
    ASSERT_TRUE(write(0, false).ok());
    qp.post_result = Status::error(Reason::bad_state);
    EXPECT_TRUE(poster.flush().is_error());
}

TEST_F(Poster, AGatheredWriteIsSignaledAndHasANumber) {
    ASSERT_TRUE(write(0, true).ok());
    const std::uint32_t before = poster.signaled();
    const Gather pieces[] = {{&words[0], 8, 0}, {&words[1], 8, 0}};
    ASSERT_TRUE(poster.write_gathered(pieces, 2).ok());
    EXPECT_FALSE(qp.inlined);
    EXPECT_EQ(poster.signaled(), before + 1);
    EXPECT_EQ(poster.completed(), before - 1);
    qp.show(24);
    complete();
    EXPECT_EQ(poster.completed(), before + 1);
    const auto* const to = static_cast<const std::byte*>(memory.address()) + 2 * kRingUnit;
    EXPECT_EQ(load_ring_word(to), 5u);
    EXPECT_EQ(load_ring_word(to + 8), 6u);
    qp.post_result = Status::again(Reason::queue_full);
    EXPECT_TRUE(poster.write_gathered(pieces, 2).is_again());
    EXPECT_EQ(poster.signaled(), before + 1);
}

TEST_F(Poster, AnotherQueuePairTakesOver) {
    MemoryQp other;
    ASSERT_TRUE(write(0, false).ok());
    poster.migrate_to(other, 9, 0);
    EXPECT_TRUE(poster.posts_to(other));
    EXPECT_FALSE(poster.posts_to(qp));
    EXPECT_EQ(poster.target().key, 9u);
    EXPECT_TRUE(poster.flushed()) << "the caller has seen to the earlier writes";
    ASSERT_TRUE(write(0, true).ok());
    EXPECT_FALSE(other.inlined);
    other.show(sizeof(std::uint64_t));
    EXPECT_EQ(other.completions(), 1u);
}

} // namespace
} // namespace adaptib::test
