// SPDX-License-Identifier: BSD-3-Clause
// A rail of a peer has another address: connections to the old one are made anew, others not.
#include "core/path_reactions.h"

#include "unit/core/known_peers.h"

namespace adaptib::test {
namespace {

class PathReactionsTest : public KnownPeers {
protected:
    explicit PathReactionsTest(const PartsOptions& options = {}) : KnownPeers(options) {
        reactions_.begin({rails(), nullptr, paths_, nullptr, datagram_paths_, directory_,
                          connections_, protocol_, departures_, counters()});
    }

    // Returns true if a peer in that state, connected over both rails, is to be connected anew.
    bool repairs(ConnectState state, bool repairable = true, std::uint32_t moved = 1) {
        Peer& peer = meet(++name_);
        connect(peer);
        peer.session.state = state;
        peer.session.repairable = repairable;
        reactions_.on_address_moved(peer, moved);
        const bool wanted = peer.interruption.repair.wanted;
        connections_.repairs().leave(peer);
        peer.interruption.repair.wanted = false;
        peer.session.state = ConnectState::open;
        return wanted;
    }

    std::uint64_t name_ = 10;
    PathReactions reactions_{message_};
};

class PathReactionsWithoutRepairs : public PathReactionsTest {
protected:
    PathReactionsWithoutRepairs() : PathReactionsTest({.fault_tolerance = false}) {}
};

TEST_F(PathReactionsTest, AConnectionToAnOldAddressIsMadeAnew) {
    EXPECT_TRUE(repairs(ConnectState::open));
    EXPECT_TRUE(repairs(ConnectState::closing)) << "its flush would wait for the last retry";
    EXPECT_TRUE(repairs(ConnectState::answered, false)) << "it becomes repairable when it opens";
}

TEST_F(PathReactionsTest, OneThatIsNotConnectedLearnsTheAddressWhenItIs) {
    EXPECT_FALSE(repairs(ConnectState::idle));
    EXPECT_FALSE(repairs(ConnectState::requested));
    EXPECT_FALSE(repairs(ConnectState::repairing));
}

TEST_F(PathReactionsTest, OneThatCannotBeRepairedStays) {
    EXPECT_FALSE(repairs(ConnectState::open, false));
    EXPECT_FALSE(repairs(ConnectState::closing, false));
}

TEST_F(PathReactionsTest, OneThatDoesNotUseTheRailStays) {
    for (const ConnectState state :
         {ConnectState::open, ConnectState::closing, ConnectState::answered}) {
        EXPECT_FALSE(repairs(state, true, 2));
    }
    Peer& peer = meet(7);
    connect(peer);
    peer.session.repairable = true;
    peer.lanes.subchannels[1].qp.reset();
    reactions_.on_address_moved(peer, 1);
    EXPECT_FALSE(peer.interruption.repair.wanted) << "that path is not connected";
}

TEST_F(PathReactionsWithoutRepairs, NothingIsRepaired) {
    for (const ConnectState state :
         {ConnectState::open, ConnectState::closing, ConnectState::answered}) {
        EXPECT_FALSE(repairs(state));
    }
}

} // namespace
} // namespace adaptib::test
