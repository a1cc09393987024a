// SPDX-License-Identifier: BSD-3-Clause
// Paths whose queue pairs could not be connected are left out for a while, and forgiven together.
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

TEST(UnconnectedPaths, OnlyPeersThatHaveSomeAreRetriedOnce) {
    const TwoPeers peers;
    UnconnectedPaths paths;
    std::vector<const Peer*> retried;
    const auto retry = [&](Peer& peer) { retried.push_back(&peer); };
    EXPECT_EQ(paths.deadline(), Nanoseconds::max());
    Peer& peer = *peers.second.peer;
    paths.add(peer, 2, 5s);
    EXPECT_TRUE(UnconnectedPaths::has(peer, 2));
    EXPECT_FALSE(UnconnectedPaths::has(peer, 1));
    EXPECT_EQ(paths.deadline(), 5s + UnconnectedPaths::kForgiveAfter);
    paths.forgive(peers, retry);
    EXPECT_EQ(retried, std::vector<const Peer*>{&peer});
    EXPECT_FALSE(UnconnectedPaths::has(peer, 2));
    EXPECT_EQ(paths.deadline(), Nanoseconds::max());
    paths.forgive(peers, retry);
    EXPECT_EQ(retried.size(), 1u);
}

TEST(UnconnectedPaths, TheOldestDecidesWhenAllAreForgiven) {
    const TwoPeers peers;
    UnconnectedPaths paths;
    paths.add(*peers.first.peer, 0, 5s);
    paths.add(*peers.first.peer, 1, 9s);
    paths.add(*peers.second.peer, 0, 20s);
    EXPECT_EQ(paths.deadline(), 5s + UnconnectedPaths::kForgiveAfter);
    std::size_t retried = 0;
    paths.forgive(peers, [&](Peer&) { ++retried; });
    EXPECT_EQ(retried, 2u);
}

} // namespace
} // namespace adaptib::test
