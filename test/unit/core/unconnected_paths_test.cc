// SPDX-License-Identifier: BSD-3-Clause
// Paths whose queue pairs could not be connected are left out for a while, each for its own.
#include "core/unconnected_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
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
    paths.add(peer, 2, 0, 5s);
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
    paths.add(*peers.first.peer, 0, 0, 5s);
    paths.add(*peers.first.peer, 1, 2, 69s);
    paths.add(*peers.second.peer, 0, 0, 20s);
    std::size_t retried = 0;
    const auto retry = [&](Peer&) { ++retried; };
    EXPECT_EQ(paths.deadline(), 5s + kAfter);
    paths.forgive(peers, 5s + kAfter, retry);
    EXPECT_EQ(retried, 1u);
    EXPECT_FALSE(UnconnectedPaths::has(*peers.first.peer, 0));
    EXPECT_TRUE(UnconnectedPaths::has(*peers.first.peer, 1));
    EXPECT_TRUE(UnconnectedPaths::has(*peers.second.peer, 0));
    EXPECT_EQ(paths.deadline(), 20s + kAfter);
    UnconnectedPaths::forget(*peers.second.peer);
    paths.forgive(peers, 69s + kAfter, retry);
    EXPECT_EQ(retried, 2u) << "the first peer's other path";
    EXPECT_EQ(paths.deadline(), Nanoseconds::max());
}

TEST(UnconnectedPaths, EachRetryInARowRestsTwiceAsLongUpToABound) {
    const TwoPeers peers;
    Peer& peer = *peers.first.peer;
    UnconnectedPaths paths;
    Nanoseconds now = 5s;
    for (std::uint32_t i = 0; i < 9; ++i) {
        paths.add(peer, 0, 2 + i, now);
        paths.add(peer, 0, 2 + i, now + 1s); // interrupted for another reason
        EXPECT_EQ(paths.deadline(), now + kAfter * (1 << std::min(i, 4u)));
        now = paths.deadline();
        paths.forgive(peers, now, [](Peer&) {});
        paths.add(peer, 0, 2 + i, now); // the retry interrupts the connection
        EXPECT_FALSE(UnconnectedPaths::has(peer, 0)) << "it has its chance";
        now += 7s;
    }
    now += 999s;
    paths.add(peer, 0, 2, now);
    EXPECT_EQ(paths.deadline(), now + kAfter) << "it has worked for long";
}

} // namespace
} // namespace adaptib::test
