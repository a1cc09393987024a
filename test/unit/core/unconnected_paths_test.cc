// SPDX-License-Identifier: BSD-3-Clause
// Paths whose queue pairs could not be connected are left out for a while, each for its own.
#include "core/unconnected_paths.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "unit/core/reachable_rail.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

struct TwoPeers {
    template <typename F> void for_each(F&& f) const {
        f(*first.peer);
        f(*second.peer);
    }
    ReachablePeer first{LinkLayer::infiniband};
    ReachablePeer second{LinkLayer::infiniband};
};

constexpr Nanoseconds kAfter = UnconnectedPaths::kForgiveAfter;

TEST(UnconnectedPaths, OnlyPeersThatHaveSomeAreRetriedOnce) {
    const TwoPeers peers;
    UnconnectedPaths paths;
    std::vector<const Peer*> retried;
    const auto retry = [&](Peer& peer) { retried.push_back(&peer); };
    EXPECT_EQ(paths.deadline(), Nanoseconds::max());
    Peer& peer = *peers.second.peer;
    paths.add(peer, 2, 5s + kAfter);
    EXPECT_TRUE(UnconnectedPaths::has(peer, 2));
    EXPECT_FALSE(UnconnectedPaths::has(peer, 1));
    EXPECT_EQ(paths.deadline(), 5s + kAfter);
    paths.forgive(peers, 5s + kAfter, retry);
    EXPECT_EQ(retried, std::vector<const Peer*>{&peer});
    EXPECT_FALSE(UnconnectedPaths::has(peer, 2));
    EXPECT_EQ(paths.deadline(), Nanoseconds::max());
    paths.forgive(peers, 99s + kAfter, retry);
    EXPECT_EQ(retried.size(), 1u);
}

TEST(UnconnectedPaths, EachIsForgivenInItsTime) {
    const TwoPeers peers;
    UnconnectedPaths paths;
    paths.add(*peers.first.peer, 0, 35s);
    paths.add(*peers.first.peer, 1, 99s);
    paths.add(*peers.second.peer, 0, 50s);
    paths.add(*peers.second.peer, 0, 70s); // once more
    std::size_t retried = 0;
    const auto retry = [&](Peer&) { ++retried; };
    EXPECT_EQ(paths.deadline(), 35s);
    paths.forgive(peers, 60s, retry);
    EXPECT_EQ(retried, 1u);
    EXPECT_FALSE(UnconnectedPaths::has(*peers.first.peer, 0));
    EXPECT_TRUE(UnconnectedPaths::has(*peers.first.peer, 1));
    EXPECT_TRUE(UnconnectedPaths::has(*peers.second.peer, 0));
    EXPECT_EQ(paths.deadline(), 70s);
    UnconnectedPaths::forget(*peers.second.peer);
    paths.forgive(peers, 99s, retry);
    EXPECT_EQ(retried, 2u) << "the first peer's other path";
    EXPECT_EQ(paths.deadline(), Nanoseconds::max());
}

TEST(UnconnectedPaths, RestsDoubleUpToABound) {
    EXPECT_EQ(UnconnectedPaths::rest_after(0), kAfter);
    EXPECT_EQ(UnconnectedPaths::rest_after(1), 2 * kAfter);
    EXPECT_EQ(UnconnectedPaths::rest_after(UnconnectedPaths::kDoublings), 64 * kAfter);
    EXPECT_EQ(UnconnectedPaths::rest_after(~0u), 64 * kAfter);
}

} // namespace
} // namespace adaptib::test
