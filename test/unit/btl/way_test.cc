// SPDX-License-Identifier: BSD-3-Clause
// The ways of threads over the BTL: the cores that they use, and contacts that fail.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <thread>
#include <utility>

#include "common_adaptib.h"
#include "unit/btl/way_stand_in.h"

namespace adaptib::test {
namespace {

constexpr bool kMessages = false;
constexpr bool kOneSided = true;
constexpr int kUses = 100;

using Pairs = std::set<std::pair<std::uint32_t, std::uint32_t>>; // of cores: here, there

class WayTest : public testing::Test {
protected:
    static constexpr std::uint32_t kCores = 4;

    void SetUp() override { ASSERT_TRUE(way_stand_in_open(kCores)); }
    void TearDown() override { way_stand_in_close(); }

    // Has as many new threads as there are cores, and so one for each, use their ways, one after
    // the other. Returns the pairs of cores used.
    static Pairs use(bool one_sided) {
        Pairs pairs;
        for (std::uint32_t i = 0; i < kCores; ++i) {
            std::thread([&] {
                for (int each = 0; each < kUses; ++each) {
                    const way_seen_t seen = way_stand_in_look(one_sided);
                    EXPECT_FALSE(seen.mixed);
                    pairs.insert({seen.core, seen.theirs});
                }
            }).join();
        }
        return pairs;
    }
};

TEST_F(WayTest, MessagesGoToTheCoreOfTheSameNumber) {
    way_stand_in.theirs = 4;
    EXPECT_EQ(use(kMessages), (Pairs{{0, 0}, {1, 1}, {2, 2}, {3, 3}}));
}

TEST_F(WayTest, MessagesToAProcessWithFewerCoresShareThem) {
    way_stand_in.theirs = 2;
    EXPECT_EQ(use(kMessages), (Pairs{{0, 0}, {1, 1}, {2, 0}, {3, 1}}));
}

TEST_F(WayTest, MessagesToAProcessWithMoreCoresUseTheFirstOfThem) {
    way_stand_in.theirs = 16;
    EXPECT_EQ(use(kMessages), (Pairs{{0, 0}, {1, 1}, {2, 2}, {3, 3}}));
}

TEST_F(WayTest, OneSidedOperationsGoToTheFirstCore) {
    way_stand_in.theirs = 4;
    EXPECT_EQ(use(kOneSided), (Pairs{{0, 0}, {1, 0}, {2, 0}, {3, 0}}));
    EXPECT_EQ(way_stand_in.endpoints_calls, 0);
}

TEST_F(WayTest, EachCoreContactsTheProcessOnce) {
    for (int threads = 1; threads <= 3; ++threads) {
        use(kMessages);
        EXPECT_EQ(way_stand_in.endpoints_calls, 3);
        EXPECT_EQ(way_stand_in.peer_calls, 3);
    }
    way_stand_in_release();
    EXPECT_EQ(way_stand_in.releases, 3);
}

TEST_F(WayTest, AProcessThatAFurtherCoreCannotReachIsContactedOnce) {
    way_stand_in.peer_code = OPAL_COMMON_ADAPTIB_UNREACHABLE;
    EXPECT_EQ(use(kMessages), (Pairs{{0, 0}}));
    EXPECT_EQ(use(kOneSided), (Pairs{{0, 0}}));
    EXPECT_EQ(way_stand_in.peer_calls, 6) << "one for each core and use";
    EXPECT_EQ(way_stand_in.endpoints_calls, 3);
    way_stand_in_release();
    EXPECT_EQ(way_stand_in.releases, 0) << "the first core's peer is not theirs to release";

    // A process that is added again may have come with other addresses.
    way_stand_in.peer_code = OPAL_COMMON_ADAPTIB_SUCCESS;
    EXPECT_EQ(use(kMessages).size(), kCores);
}

TEST_F(WayTest, AProcessWithoutAddressesIsLookedUpOnce) {
    way_stand_in.endpoints_code = OPAL_COMMON_ADAPTIB_UNREACHABLE;
    EXPECT_EQ(use(kMessages), (Pairs{{0, 0}}));
    EXPECT_EQ(way_stand_in.endpoints_calls, 3);
    EXPECT_EQ(way_stand_in.peer_calls, 0);
}

TEST_F(WayTest, AContactThatLackedMemoryIsMadeAgain) {
    way_stand_in.peer_code = OPAL_COMMON_ADAPTIB_NO_MEMORY;
    EXPECT_EQ(use(kMessages), (Pairs{{0, 0}}));
    EXPECT_EQ(way_stand_in.peer_calls, 3 * kUses);
    way_stand_in.peer_code = OPAL_COMMON_ADAPTIB_SUCCESS;
    EXPECT_EQ(use(kMessages), (Pairs{{0, 0}, {1, 0}, {2, 0}, {3, 0}}));
    EXPECT_EQ(way_stand_in.peer_calls, 3 * kUses + 3);
}

} // namespace
} // namespace adaptib::test
