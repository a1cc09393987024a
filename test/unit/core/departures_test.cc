// SPDX-License-Identifier: BSD-3-Clause
// Peers that are gone or have disconnected: what they sent counts, and each is released once.
#include "core/departures.h"

#include <utility>

#include "unit/core/known_peers.h"

namespace adaptib::test {
namespace {

class DeparturesTest : public KnownPeers {
protected:
    DeparturesTest() {
        connect(peer_);
        counters().connections_open = 1;
    }

    // The disconnect handshake is over.
    void disconnect() {
        peer_.session.disconnect_sent = peer_.ending.disconnect_received =
            peer_.ending.disconnect_acked = true;
        peer_.in.teardown_pending = true;
        peer_.ending.release = Release::released;
        peer_.flow.messages_sent = 5;
        events_.report(peer_, PeerEvent::disconnected);
    }
    // A datagram to the peer is under way, by an address handle that holds the token.
    void send_datagram(const std::shared_ptr<int>& token) {
        DatagramTarget& target = peer_.contact.datagram;
        target.handle = std::make_unique<StandingHandle>(kOk, token);
        MessageHeader header;
        header.type = MessageType::allowance;
        ASSERT_NE(peer_.contact.channel.reserve(target), nullptr);
        ASSERT_TRUE(peer_.contact.channel.commit(target, header).ok());
    }
    bool torn_down() const { return peer_.flow.messages_sent == 0; }
    void on_lost(const std::string& text) override {
        KnownPeers::on_lost(text);
        if (leaves_next_ != nullptr) {
            events_.report(*std::exchange(leaves_next_, nullptr), PeerEvent::gone);
        }
    }

    // REQUIRES: the peer leaves, and this is before the end of the progress that found it.
    void expect_released_at_the_end_of_progress() {
        EXPECT_TRUE(events_.any());
        EXPECT_EQ(peer_.session.state, ConnectState::open);
        departures_.tear_down_peers();
        EXPECT_FALSE(events_.any());
        EXPECT_EQ(peer_.session.state, ConnectState::idle);
        EXPECT_EQ(peer_.contact.datagram.handle, nullptr);
        EXPECT_TRUE(failures_.empty() && !lost_.any());
    }

    Peer* leaves_next_ = nullptr; // says that it ends once a peer is broken

    Peer& peer_ = meet(7);
};

TEST_F(DeparturesTest, APeerThatFinalizesLeavesWithoutAFailure) {
    paths_.report_failure(peer_, 1, "the peer closes one rail after another");
    ASSERT_LT(paths_.usable_count(peer_), peer_.contact.route.total);
    handle_of(peer_).says(Status::error(Reason::no_device));
    peer_.session.disconnect_sent = true; // nobody will answer it
    departures_.on_peers_changed();
    expect_released_at_the_end_of_progress();
    EXPECT_FALSE(peer_.session.disconnect_sent) << "what is sent later would wait for its end";
    EXPECT_TRUE(peer_.lanes.subchannels.empty());
    EXPECT_EQ(paths_.usable_count(peer_), peer_.contact.route.total);
    EXPECT_EQ(directory_.find(7), &peer_) << "its record stays";
}

TEST_F(DeparturesTest, AHandleOutlivesTheDatagramsUnderWay) {
    const auto token = std::make_shared<int>();
    DatagramTarget& target = peer_.contact.datagram;
    ASSERT_NO_FATAL_FAILURE(send_datagram(token));
    handle_of(peer_).says(Status::error(Reason::no_device));
    departures_.on_peers_changed();
    departures_.tear_down_peers();
    EXPECT_EQ(target.handle, nullptr);
    EXPECT_EQ(token.use_count(), 2) << "the adapter may still use it";
}

TEST_F(DeparturesTest, APeerLeavesOnceHoweverOftenItIsNoticed) {
    handle_of(peer_).says(Status::error(Reason::peer_gone));
    departures_.on_peers_changed();
    departures_.on_peers_changed();
    departures_.end({&peer_});
    EXPECT_TRUE(protocol_.leaves(peer_));
    departures_.tear_down_peers();
    EXPECT_FALSE(events_.any());
    EXPECT_EQ(counters().connections_open, 0u);
    peer_.flow.messages_sent = 5;
    departures_.tear_down_peers();
    EXPECT_FALSE(torn_down());
}

TEST_F(DeparturesTest, APeerThatSomethingIsWantedOfIsLost) {
    peer_.transfers.users = 1;
    handle_of(peer_).says(Status::error(Reason::peer_gone));
    departures_.on_peers_changed();
    EXPECT_EQ(peer_.session.state, ConnectState::failed);
    EXPECT_NE(peer_.ending.failure.find("its process has ended"), std::string::npos);
    EXPECT_FALSE(events_.any());
}

// The core does not know what the user of active messages waits for.
TEST_F(DeparturesTest, APeerOfActiveMessagesThatEndsWithoutAWordIsLost) {
    protocol_.active().listen([](void*, Peer&, std::uint8_t, const std::byte*, Bytes) {}, nullptr);
    handle_of(peer_).says(Status::error(Reason::peer_gone));
    peer_.in.next_receive = 0;
    peer_.session.next_send = 0;
    EXPECT_TRUE(protocol_.leaves(peer_)) << "it has exchanged no message";
    departures_.tear_down_peers();
    Peer& other = meet(8);
    connect(other);
    other.in.next_receive = 3;
    handle_of(other).says(Status::error(Reason::no_device));
    EXPECT_TRUE(protocol_.leaves(other)) << "it has closed";
    other.health.life.ended = true;
    EXPECT_TRUE(protocol_.leaves(other)) << "and has ended since, says the runtime";
    handle_of(other).says(kOk);
    EXPECT_FALSE(protocol_.leaves(other)) << "it has ended, and has not closed";
    other.health.life.ended = false;
    handle_of(other).says(Status::error(Reason::peer_gone));
    other.ending.disconnect_received = true;
    EXPECT_TRUE(protocol_.leaves(other)) << "it has said goodbye";
    other.ending.disconnect_received = false;
    EXPECT_FALSE(protocol_.leaves(other));
    departures_.on_peers_changed();
    EXPECT_EQ(other.session.state, ConnectState::failed);
    EXPECT_NE(other.ending.failure.find("its process has ended"), std::string::npos);
    EXPECT_TRUE(other.ending.failure_reported);
}

TEST_F(DeparturesTest, ALeavingPeerThatIsWantedAgainIsNotReleased) {
    handle_of(peer_).says(Status::error(Reason::no_device));
    departures_.on_peers_changed();
    peer_.transfers.one_sided = 1;
    departures_.tear_down_peers();
    EXPECT_EQ(peer_.session.state, ConnectState::open);
    EXPECT_NE(peer_.contact.datagram.handle, nullptr);
    EXPECT_FALSE(events_.any());
    peer_.transfers.one_sided = 0;
}

TEST_F(DeparturesTest, APeerThatSaysThatItEndsLeaves) {
    protocol_.active().listen([](void*, Peer&, std::uint8_t, const std::byte*, Bytes) {}, nullptr);
    peer_.in.next_receive = 3;
    peer_.health.life.ended = true; // says the runtime, and comes first
    peer_.health.life.left = true;
    events_.report(peer_, PeerEvent::gone);
    expect_released_at_the_end_of_progress();
    EXPECT_FALSE(protocol_.active().may_await(peer_));
}

TEST_F(DeparturesTest, APeerThatSaysThatItEndsIsLostIfSomethingIsWantedOfIt) {
    peer_.transfers.users = 1;
    peer_.health.life.left = true;
    events_.report(peer_, PeerEvent::gone);
    departures_.tear_down_peers();
    EXPECT_FALSE(events_.any());
    EXPECT_EQ(peer_.session.state, ConnectState::failed);
    EXPECT_NE(peer_.ending.failure.find("has finalized MPI"), std::string::npos);
}

// Both finalize MPI: a message that the peer has never received is nobody's failure.
TEST_F(DeparturesTest, APeerThatHasFinalizedIsLostInSilenceWhileThisProcessFinalizes) {
    for (const bool finalizes : {true, false}) {
        Peer& gone = meet(finalizes ? 8 : 9);
        connect(gone);
        gone.interruption.work_failed = true; // so that it is reported
        gone.transfers.users = 1;
        gone.health.life.left = true;
        lost_.expect_all(finalizes);
        events_.report(gone, PeerEvent::gone);
        departures_.tear_down_peers();
        EXPECT_EQ(gone.session.state, ConnectState::failed);
        EXPECT_EQ(failures_.empty(), finalizes);
        gone.transfers.users = 0;
    }
}

TEST_F(DeparturesTest, APeerThatSaysSoWhileAnotherIsEndedLeavesToo) {
    Peer& other = meet(8);
    connect(other);
    other.health.life.left = true;
    leaves_next_ = &other;
    peer_.interruption.work_failed = true; // so that it is reported
    peer_.transfers.users = 1;
    peer_.health.life.left = true;
    events_.report(peer_, PeerEvent::gone);
    departures_.tear_down_peers();
    EXPECT_EQ(leaves_next_, nullptr) << "the other one has said so";
    EXPECT_FALSE(events_.any());
    EXPECT_EQ(other.session.state, ConnectState::idle);
    EXPECT_EQ(other.contact.datagram.handle, nullptr);
    EXPECT_EQ(other.ending.failure, "");
}

TEST_F(DeparturesTest, TheRuntimesWordCountsToo) {
    peer_.health.life.ended = true;
    peer_.transfers.users = 1;
    departures_.end({&peer_});
    EXPECT_NE(peer_.ending.failure.find("says the runtime"), std::string::npos);
}

TEST_F(DeparturesTest, APeerThatLivesIsLeftAlone) {
    departures_.on_peers_changed();
    departures_.end({&peer_});
    EXPECT_FALSE(protocol_.leaves(peer_));
    EXPECT_FALSE(events_.any());
    EXPECT_EQ(peer_.session.state, ConnectState::open);
}

TEST_F(DeparturesTest, TheLastMessagesOfAGonePeerAreReceivedFirst) {
    PeerRing ring(peer_);
    rings_.heat(peer_, 0);
    for (std::size_t i = 1; i <= 30; ++i) {
        ASSERT_TRUE(ring.send(i));
    }
    handle_of(peer_).says(Status::error(Reason::peer_gone));
    peer_.transfers.users = 1;
    departures_.on_peers_changed();
    ASSERT_EQ(arrived_.size(), 30u);
    EXPECT_EQ(arrived_.back(), (Arrived{&peer_, 30}));
    EXPECT_EQ(peer_.session.state, ConnectState::failed);
    rings_.remove(peer_);
}

TEST_F(DeparturesTest, APeerThatRefusesThisProcessIsLostAndTheUserHears) {
    Peer& other = meet(8);
    handle_of(peer_).says(Status::error(Reason::no_permission));
    departures_.on_peers_changed();
    EXPECT_EQ(peer_.session.state, ConnectState::failed);
    ASSERT_EQ(failures_.size(), 1u);
    EXPECT_NE(failures_[0].find("cannot reach this one to answer: the test"), std::string::npos);
    EXPECT_EQ(told(), std::vector<std::uint64_t>{7});
    departures_.on_peers_changed();
    EXPECT_EQ(failures_.size(), 1u) << "once";
    EXPECT_EQ(other.session.state, ConnectState::idle);
}

TEST_F(DeparturesTest, ADisconnectedPeerIsReleasedOnce) {
    disconnect();
    EXPECT_TRUE(events_.any());
    departures_.tear_down_peers();
    EXPECT_FALSE(events_.any());
    EXPECT_TRUE(torn_down());
    EXPECT_EQ(peer_.session.state, ConnectState::idle);
    EXPECT_FALSE(peer_.session.disconnect_sent || peer_.ending.disconnect_received);
    EXPECT_FALSE(peer_.in.teardown_pending);
    EXPECT_EQ(peer_.contact.datagram.handle, nullptr);
    EXPECT_EQ(counters().connections_open, 0u);
    peer_.flow.messages_sent = 5;
    departures_.tear_down_peers();
    EXPECT_FALSE(torn_down());
}

TEST_F(DeparturesTest, TheHandleOfADisconnectedPeerOutlivesTheDatagramsUnderWay) {
    const auto token = std::make_shared<int>();
    DatagramTarget& target = peer_.contact.datagram;
    ASSERT_NO_FATAL_FAILURE(send_datagram(token));
    peer_.contact.channel.retransmitter().forget(target); // no acknowledgment is awaited
    disconnect();
    departures_.tear_down_peers();
    EXPECT_TRUE(torn_down());
    EXPECT_EQ(target.handle, nullptr);
    EXPECT_EQ(token.use_count(), 2) << "the adapter may still use it";
}

// Its path has failed before the peer confirmed the connection, which then comes to nothing.
TEST_F(DeparturesTest, ADisconnectThatWaitsForARepairEndsWithoutAConnection) {
    disconnect();
    peer_.session.state = ConnectState::answered;
    peer_.interruption.repair.wanted = true;
    departures_.tear_down_peers();
    ASSERT_FALSE(torn_down());
    connections_.close(peer_, ConnectState::idle);
    protocol_.on_unconnected(peer_);
    departures_.tear_down_peers();
    EXPECT_TRUE(torn_down());
    EXPECT_FALSE(peer_.session.disconnect_sent || peer_.ending.disconnect_received);
}

TEST_F(DeparturesTest, APeerThatIsWantedAgainKeepsItsHandle) {
    disconnect();
    peer_.ending.release = Release::none;
    departures_.tear_down_peers();
    EXPECT_TRUE(torn_down());
    EXPECT_EQ(peer_.session.state, ConnectState::idle);
    EXPECT_NE(peer_.contact.datagram.handle, nullptr);
}

TEST_F(DeparturesTest, AFailedPeerIsNotTornDown) {
    disconnect();
    lost_.lose(peer_, "test");
    protocol_.end_lost_peers();
    departures_.tear_down_peers();
    EXPECT_FALSE(events_.any());
    EXPECT_FALSE(torn_down());
    EXPECT_EQ(peer_.session.state, ConnectState::failed);
}

TEST_F(DeparturesTest, AnAnswerThatMayBeLostIsRepairedFirst) {
    disconnect();
    peer_.interruption.active = true;
    departures_.tear_down_peers();
    EXPECT_FALSE(events_.any()) << "the protocol comes again after the repair";
    EXPECT_FALSE(torn_down());
    EXPECT_FALSE(peer_.in.teardown_pending);
    EXPECT_EQ(peer_.session.state, ConnectState::open);
    peer_.interruption.active = false;
}

TEST_F(DeparturesTest, AnAnswerOnItsWayThroughTheRingIsAwaited) {
    MemoryRail rail;
    MemoryQp qp;
    qp.mappable = false; // the ring is posted to
    PlainRegion lines(64 * kRingUnit);
    const std::uint64_t consumed = 0;
    peer_.out.ring = std::make_unique<RingWriter>(
        rail, qp,
        RingTarget{.address = reinterpret_cast<std::uintptr_t>(lines.address()), .units = 64},
        &consumed, 0);
    ASSERT_TRUE(peer_.out.ring->prepare());
    peer_.out.ring_capacity = peer_.out.ring->most();
    MessageHeader answer;
    answer.type = MessageType::disconnect;
    answer.length = 8;
    ASSERT_NE(peer_.reserve(answer.length), nullptr);
    ASSERT_TRUE(peer_.commit(answer).ok());
    ASSERT_FALSE(peer_.out.ring->poster().settled());
    disconnect();
    departures_.tear_down_peers();
    EXPECT_TRUE(events_.any());
    ASSERT_FALSE(torn_down());
    qp.show(4096);
    for (std::size_t left = qp.completions(); left > 0; --left) {
        peer_.out.ring->poster().on_completion();
    }
    departures_.tear_down_peers();
    EXPECT_TRUE(torn_down());
    EXPECT_FALSE(events_.any());
}

} // namespace
} // namespace adaptib::test
