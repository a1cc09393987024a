// SPDX-License-Identifier: BSD-3-Clause
// A rail of a peer has another address: connections to the old one are made anew, others not.
#include "core/path_reactions.h"

#include "stats/incident_queue.h"
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

    // A queue pair of a peer in that state, not yet repairable, fails. Returns true if the
    // connection is to be made anew. Otherwise the peer is lost.
    bool survives(ConnectState state, WorkStatus status) {
        Peer& peer = meet(++name_);
        connect(peer);
        peer.session.state = state;
        const Subchannel& failed = peer.lanes.subchannels[1];
        connections_.queue_pairs().owners().add(peer, failed);
        reactions_.on_path_failed(failed.local_rail, failed.qp->number(), status, 0);
        const bool wanted = peer.interruption.repair.wanted;
        EXPECT_NE(wanted, peer.session.state == ConnectState::failed);
        connections_.close(peer, ConnectState::idle);
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

// The peer may be open already, so that its messages find credit posted to it.
TEST_F(PathReactionsTest, AnIncidentSaysWhatHasBecomeOfAPath) {
    IncidentQueue incidents(counters(), [] { return true; });
    counters().incidents = &incidents;
    Peer& peer = meet(++name_);
    PathState was = PathState::up;
    for (const PathState now : {PathState::suspect, PathState::failed, PathState::up}) {
        reactions_.on_path_changed(peer, 1, was, now, "");
        was = now;
    }
    counters().incidents = nullptr;
    std::vector<IncidentKind> kinds;
    for (const Incident& incident : incidents.take()) {
        EXPECT_EQ(incident.peer, peer.contact.name);
        kinds.push_back(incident.kind);
    }
    EXPECT_EQ(kinds, (std::vector{IncidentKind::path_suspect, IncidentKind::path_failed,
                                  IncidentKind::path_up}));
}

TEST_F(PathReactionsTest, APathThatFailsBeforeTheConfirmationIsRepairedAfterIt) {
    EXPECT_TRUE(survives(ConnectState::answered, WorkStatus::retry_exceeded));
    EXPECT_TRUE(survives(ConnectState::requested, WorkStatus::flushed));
    EXPECT_FALSE(survives(ConnectState::answered, WorkStatus::remote_access_error))
        << "that would come again";
}

TEST_F(PathReactionsWithoutRepairs, APathThatFailsBeforeTheConfirmationLosesThePeer) {
    EXPECT_FALSE(survives(ConnectState::answered, WorkStatus::retry_exceeded));
}

TEST_F(PathReactionsWithoutRepairs, AQueuePairThatFailsSinceTheProcessHasEndedSaysSo) {
    Peer& peer = meet(++name_);
    connect(peer);
    peer.transfers.users = 1;
    handle_of(peer).says(Status::error(Reason::peer_gone));
    const Subchannel& failed = peer.lanes.subchannels[1];
    connections_.queue_pairs().owners().add(peer, failed);
    reactions_.on_path_failed(failed.local_rail, failed.qp->number(), WorkStatus::retry_exceeded,
                              0);
    departures_.tear_down_peers();
    EXPECT_EQ(peer.session.state, ConnectState::failed);
    EXPECT_NE(peer.ending.failure.find("broken: its process has ended."), std::string::npos)
        << peer.ending.failure;
    connections_.close(peer, ConnectState::idle);
}

TEST_F(PathReactionsWithoutRepairs, NothingIsRepaired) {
    for (const ConnectState state :
         {ConnectState::open, ConnectState::closing, ConnectState::answered}) {
        EXPECT_FALSE(repairs(state));
    }
}

} // namespace
} // namespace adaptib::test
