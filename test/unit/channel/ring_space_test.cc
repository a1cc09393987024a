// SPDX-License-Identifier: BSD-3-Clause
// The memory of a ring, as its writer knows it (channel/ring_space.h).
#include "channel/ring_space.h"

#include <gtest/gtest.h>

#include "unit/channel/ring_pair.h"

namespace adaptib::test {
namespace {

constexpr std::uint32_t kUnits = 1024;
constexpr std::uint32_t kFirst = 256;

class Space : public testing::Test {
protected:
    Space() {
        room().begin(kFirst);
        space.bound_by(room());
        space.begin_here();
        qp.commits = [this](std::byte* at, Bytes length) {
            ++asked;
            const auto begin = reinterpret_cast<std::uintptr_t>(at) / kRingUnit;
            const Bytes end = begin + length / kRingUnit;
            EXPECT_EQ(begin, space.memory());
            return end <= limit ? kOk : Status::error(Reason::no_memory);
        };
    }
    RingRoom room() { return RingRoom(reinterpret_cast<std::byte*>(&word)); }
    void extend(std::uint64_t wanted, std::uint64_t needed) {
        space.extend_to(wanted, needed, poster);
    }

    std::uint64_t word = 0;
    std::uint64_t limit = kUnits; // units that there is memory for
    std::uint32_t asked = 0;
    MemoryQp qp;
    RingPoster poster{qp, {0, 0, kUnits, 0, 0}, 0};
    RingSpace space{kUnits};
};

TEST_F(Space, AWholeRingHasMemoryIfNoWordBoundsIt) {
    RingSpace whole(kUnits);
    whole.bound_by(RingRoom());
    whole.begin_here();
    EXPECT_EQ(whole.end(), kUnits);
    EXPECT_EQ(whole.memory(), kUnits);
    whole.extend_to(kUnits, 1, poster);
    EXPECT_EQ(asked, 0u);
    EXPECT_FALSE(whole.beyond());
}

TEST_F(Space, ItsLastUnitIsKeptForTheEndOfALap) {
    EXPECT_EQ(space.memory(), kFirst);
    EXPECT_EQ(space.end(), kFirst - 1);
    EXPECT_EQ(space.most(), kUnits) << "there may be memory for all";
    extend(kFirst - 1, 1);
    EXPECT_FALSE(space.beyond());
    EXPECT_EQ(asked, 0u);
}

TEST_F(Space, GrowsByHalfAtLeast) {
    extend(kFirst + 8, kFirst + 2);
    EXPECT_TRUE(space.beyond());
    EXPECT_EQ(space.memory(), 2 * kFirst);
    EXPECT_EQ(room().units(), 2 * kFirst);
    extend(kUnits, kUnits);
    EXPECT_EQ(space.end(), kUnits) << "the whole ring needs no unit for the end";
    space.leave();
    EXPECT_FALSE(space.beyond());
    EXPECT_EQ(space.memory(), kFirst) << "the reader may take back the rest";
    EXPECT_EQ(space.end(), kFirst - 1);
    const std::uint32_t before = asked;
    extend(kFirst + 8, kFirst + 2);
    EXPECT_EQ(space.memory(), kUnits) << "it has not";
    EXPECT_EQ(asked, before);
}

TEST_F(Space, GetsMemoryForThisMessageIfThereIsNoneForMore) {
    limit = kFirst + 40;
    extend(kFirst + 100, kFirst + 20);
    EXPECT_EQ(asked, 2u);
    EXPECT_EQ(space.end(), kFirst + 20);
    EXPECT_EQ(space.most(), kUnits);
}

TEST_F(Space, AsksForNoMemoryThatItHas) {
    limit = kFirst;
    extend(kFirst + 100, kFirst - 50);
    EXPECT_EQ(asked, 1u) << "the message itself has room";
    EXPECT_EQ(space.memory(), kFirst);
}

TEST_F(Space, StaysWithinTheRingWhateverTheWordSays) {
    for (const std::uint32_t units : {0u, 2 * kUnits}) {
        room().begin(units);
        RingSpace other(kUnits);
        other.bound_by(room());
        other.begin_here();
        EXPECT_LE(other.end(), kUnits);
    }
}

TEST_F(Space, AsksRarelyOnceMemoryWasRefused) {
    limit = kFirst;
    extend(kFirst + 100, kFirst + 20);
    EXPECT_EQ(space.end(), kFirst - 1);
    EXPECT_EQ(space.most(), kFirst - 1);
    EXPECT_EQ(asked, 2u);
    std::uint32_t laps = 0;
    for (limit = kUnits; space.end() < kFirst; ++laps) {
        ASSERT_LT(laps, 1000u);
        extend(kFirst + 100, kFirst + 20);
    }
    EXPECT_GT(laps, 10u);
    EXPECT_EQ(asked, 3u);
    EXPECT_EQ(space.most(), kUnits);
}

TEST_F(Space, StaysInTheFirstPartWhileTheReaderTakesMemoryBack) {
    extend(kFirst + 8, kFirst + 2);
    space.leave();
    ASSERT_TRUE(room().begin_to_shrink(kFirst));
    extend(kFirst + 8, kFirst + 2);
    EXPECT_FALSE(space.beyond());
    EXPECT_EQ(space.end(), kFirst - 1);
    room().end_shrinking(kFirst);
    extend(kFirst + 8, kFirst + 2);
    EXPECT_TRUE(space.beyond());
    EXPECT_EQ(space.memory(), 2 * kFirst);
}

} // namespace
} // namespace adaptib::test
