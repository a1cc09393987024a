// SPDX-License-Identifier: BSD-3-Clause
// Events of fabrics: a rail that fails takes along exactly the peers that lose data with it.
#include "core/fabric_events.h"

#include <array>
#include <cstring>
#include <span>

#include "unit/core/known_peers.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class FabricEventsTest : public KnownPeers, public PathListener {
protected:
    explicit FabricEventsTest(const PartsOptions& options = {}) : KnownPeers(options) {}

    // A peer that is connected over one path, whose ring goes over that rail.
    Peer& connected_over(std::uint32_t rail, std::uint64_t name, bool repairable) {
        Peer& peer = meet(name);
        connect(peer);
        peer.lanes.subchannels.erase(peer.lanes.subchannels.begin() + (rail == 0 ? 1 : 0));
        peer.session.repairable = repairable;
        return peer;
    }
    void happens(EventKind kind, std::uint32_t rail, std::uint32_t qp_number = 0) {
        fabric().events.push_back({kind, rail, qp_number, nullptr});
        fabric_events_.poll();
    }
    // The address of a rail that a peer gets which asks the responder.
    RailAddress answered_address(std::uint32_t rail) const {
        struct Packet {
            DatagramHeader prefix;
            MessageHeader header;
            LifeBody body{};
        } packet;
        static_assert(sizeof packet ==
                      sizeof packet.prefix + sizeof packet.header + sizeof packet.body);
        packet.prefix.target_key = kKey;
        packet.header.type = MessageType::life_question;
        packet.header.length = sizeof packet.body;
        packet.body.sequence = 1;
        packet.body.size = 1; // of the asker's address
        std::array<std::byte, kMostQuestion> question{};
        std::array<std::byte, kMostQuestion> reply{};
        std::memcpy(question.data(), &packet, sizeof packet);
        const std::size_t length =
            fabrics_[0]
                .answerer->answer(rail, std::span(question).first(sizeof packet), reply)
                .length;
        EXPECT_EQ(length, sizeof packet);
        std::memcpy(&packet, reply.data(), sizeof packet);
        return {packet.body.size, packet.body.bytes};
    }
    std::vector<std::string> told() const {
        std::vector<std::string> texts;
        for (const auto& [severity, text] : messages_) {
            texts.push_back(text);
        }
        return texts;
    }

    void on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status,
                        std::uint64_t) override {
        EXPECT_EQ(status, WorkStatus::flushed);
        path_failures_.emplace_back(rail, qp_number);
    }
    void on_path_changed(Peer&, std::size_t pair, PathState, PathState now,
                         const std::string&) override {
        changes_.emplace_back(pair, now);
    }

    std::vector<std::pair<std::uint32_t, std::uint32_t>> path_failures_; // rail, queue pair
    std::vector<std::pair<std::size_t, PathState>> changes_;
    PathListener& path_listener_ = *this;
    FabricEvents fabric_events_{"here",
                                message_,
                                {fabrics_, rails(), nullptr, paths_, nullptr, datagram_paths_,
                                 connections_, directory_, departures_, protocol_, path_listener_,
                                 counters()}};
};

class FabricEventsWithoutRepairs : public FabricEventsTest {
protected:
    FabricEventsWithoutRepairs() : FabricEventsTest({.fault_tolerance = false}) {}
};

TEST_F(FabricEventsTest, APortErrorFailsThePeersThatLoseData) {
    Peer& lost = connected_over(0, 7, false);
    Peer& repaired = connected_over(0, 8, true);
    Peer& elsewhere = connected_over(1, 9, false);
    Peer& unconnected = meet(10);
    happens(EventKind::port_error, 0);
    EXPECT_EQ(lost.session.state, ConnectState::failed);
    EXPECT_EQ(counters().connections_failed, 1u);
    EXPECT_NE(lost.ending.failure.find("rail m0:1 is down"), std::string::npos);
    EXPECT_EQ(repaired.session.state, ConnectState::open);
    EXPECT_EQ(elsewhere.session.state, ConnectState::open);
    EXPECT_EQ(unconnected.session.state, ConnectState::idle);
    happens(EventKind::device_fatal, 0);
    EXPECT_EQ(counters().connections_failed, 1u) << "it has failed before";
    happens(EventKind::port_error, 1);
    EXPECT_EQ(elsewhere.session.state, ConnectState::failed);
    EXPECT_EQ(counters().connections_failed, 2u);
}

TEST_F(FabricEventsTest, AConnectionThatClosesLosesItsLastMessages) {
    Peer& closing = connected_over(0, 7, false);
    closing.session.state = ConnectState::closing;
    happens(EventKind::port_error, 0);
    EXPECT_EQ(closing.session.state, ConnectState::failed);
}

TEST_F(FabricEventsWithoutRepairs, ThePeersWhoseDatagramsTakeThatRailFailToo) {
    Peer& datagrams = meet(7);
    Peer& ring = connected_over(1, 8, false);
    happens(EventKind::port_error, 1);
    EXPECT_EQ(ring.session.state, ConnectState::failed);
    EXPECT_NE(datagrams.session.state, ConnectState::failed);
    happens(EventKind::port_error, 0);
    EXPECT_EQ(datagrams.session.state, ConnectState::failed);
}

TEST_F(FabricEventsTest, PathsOverTheRailFailAndAreProbedOnceItIsBack) {
    Peer& peer = meet(7);
    happens(EventKind::port_error, 1);
    EXPECT_TRUE(paths_.rail_down(1));
    EXPECT_FALSE(paths_.rail_down(0));
    EXPECT_TRUE(paths_.usable(peer, 0));
    EXPECT_FALSE(paths_.usable(peer, 1));
    happens(EventKind::port_active, 1);
    EXPECT_FALSE(paths_.rail_down(1));
    EXPECT_EQ(paths_.state(peer, 1), PathState::suspect);
    EXPECT_TRUE(told().empty()) << "the path repository writes the lines";
}

TEST_F(FabricEventsTest, TheUserIsToldOnceThatADeviceIsLost) {
    happens(EventKind::device_fatal, 1);
    happens(EventKind::device_fatal, 1);
    ASSERT_EQ(told().size(), 1u);
    EXPECT_NE(told()[0].find("Device m1:1 of host here"), std::string::npos);
    EXPECT_NE(told()[0].find("Traffic takes the other rails, until the device is back."),
              std::string::npos);
    happens(EventKind::device_fatal, 0);
    ASSERT_EQ(told().size(), 2u);
    EXPECT_NE(told()[1].find("There is no other rail to other hosts"), std::string::npos);
}

TEST_F(FabricEventsTest, TheUserIsToldThatADeviceIsBack) {
    happens(EventKind::device_fatal, 1);
    happens(EventKind::device_restored, 1);
    EXPECT_TRUE(paths_.rail_down(1)) << "until its port is active";
    happens(EventKind::port_active, 1);
    EXPECT_FALSE(paths_.rail_down(1));
    ASSERT_EQ(told().size(), 2u);
    EXPECT_NE(told()[1].find("Device m1:1 of host here is back"), std::string::npos);
    happens(EventKind::device_fatal, 1);
    EXPECT_EQ(told().size(), 3u) << "it is lost once more";
}

TEST_F(FabricEventsTest, RailsAreIncidentsOfTheHistory) {
    RunHistory history(clock(), counters());
    counters().history = &history;
    for (const EventKind kind : {EventKind::port_error, EventKind::port_active,
                                 EventKind::device_fatal, EventKind::address_changed}) {
        happens(kind, 1);
        clock().advance(RunHistory::kTogether);
    }
    ASSERT_EQ(history.incidents(), 3u) << "the address is the same";
    EXPECT_EQ(history.incident(0).kind, IncidentKind::rail_down);
    EXPECT_EQ(history.incident(1).kind, IncidentKind::rail_up);
    EXPECT_EQ(history.incident(2).kind, IncidentKind::rail_down);
    EXPECT_EQ(history.incident(2).rail, 1);
    EXPECT_EQ(history.incident(2).peer, Incident::kNoPeer);
    world_.second.own.bytes[0] = std::byte{3};
    world_.second.own.size = 1;
    happens(EventKind::address_changed, 1);
    ASSERT_EQ(history.incidents(), 4u);
    EXPECT_EQ(history.incident(3).kind, IncidentKind::rail_changed);
    counters().history = nullptr;
}

TEST_F(FabricEventsWithoutRepairs, TheUserIsToldOfRails) {
    happens(EventKind::port_error, 0);
    happens(EventKind::port_active, 0);
    happens(EventKind::device_fatal, 1);
    EXPECT_EQ(told(), (std::vector<std::string>{"Rail m0:1 of host here went down.",
                                                "Rail m0:1 of host here is up again.",
                                                "Rail m1:1 of host here's device failed."}));
}

TEST_F(FabricEventsTest, EventsOfRailsThatAreNotUsedAreIgnored) {
    fabrics_[0].rails.count = 1;
    Peer& peer = connected_over(1, 7, false);
    happens(EventKind::port_error, 1);
    EXPECT_FALSE(paths_.rail_down(1));
    EXPECT_EQ(peer.session.state, ConnectState::open);
}

TEST_F(FabricEventsTest, AQueuePairThatFailsWithoutACompletionFailsItsPath) {
    happens(EventKind::qp_fatal, 1, 55);
    EXPECT_EQ(path_failures_, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 55}}));
}

TEST_F(FabricEventsWithoutRepairs, AQueuePairsFailureIsLeftToItsCompletions) {
    happens(EventKind::qp_fatal, 1, 55);
    EXPECT_TRUE(path_failures_.empty());
}

TEST_F(FabricEventsTest, AQueuePairOfDatagramsIsTheirs) {
    happens(EventKind::qp_fatal, 1, fabrics_[0].datagrams->qp_number(1));
    EXPECT_TRUE(path_failures_.empty());
}

TEST_F(FabricEventsTest, OnlyAnotherAddressRenewsThePaths) {
    Peer& peer = meet(7);
    happens(EventKind::address_changed, 1);
    EXPECT_TRUE(changes_.empty()) << "the same one";
    world_.second.own.size = 1;
    world_.second.own.bytes[0] = std::byte{3};
    happens(EventKind::address_changed, 1);
    EXPECT_FALSE(changes_.empty());
    EXPECT_EQ(paths_.state(peer, 0), PathState::up);
    EXPECT_EQ(paths_.state(peer, 1), PathState::suspect) << "is probed at once";
    EXPECT_FALSE(paths_.rail_down(1));
    changes_.clear();
    happens(EventKind::address_changed, 1);
    EXPECT_TRUE(changes_.empty());
}

TEST_F(FabricEventsTest, AnotherQueuePairOfDatagramsMakesItsPathsSuspect) {
    Peer& peer = meet(7);
    fabrics_[0].numbers = {{fabrics_[0].datagrams->qp_number(0) + 1, 0},
                           fabrics_[0].numbers_now(1)};
    fabric_events_.poll();
    EXPECT_EQ(fabrics_[0].numbers[0], fabrics_[0].numbers_now(0));
    for (std::size_t pair = 0; pair < peer.contact.route.total; ++pair) {
        EXPECT_EQ(paths_.state(peer, pair),
                  peer.contact.route.pairs[pair].local == 0 ? PathState::suspect : PathState::up);
    }
    changes_.clear();
    fabric_events_.poll();
    EXPECT_TRUE(changes_.empty());
}

// Queue pairs and handles name a RoCE address by its place in the port's table.
TEST_F(FabricEventsTest, TheSameAddressInAnotherPlaceRenewsThePaths) {
    Peer& peer = meet(7);
    world_.second.own.changes = 1;
    happens(EventKind::address_changed, 1);
    EXPECT_FALSE(changes_.empty());
    EXPECT_EQ(paths_.state(peer, 1), PathState::suspect) << "is probed at once";
    changes_.clear();
    happens(EventKind::address_changed, 1);
    EXPECT_TRUE(changes_.empty());
}

// The event of the change itself came while the port was down, when its address cannot be read.
TEST_F(FabricEventsTest, AnAddressThatChangedWhileThePortWasDownIsNoticed) {
    RunHistory history(clock(), counters());
    counters().history = &history;
    fabrics_[0].answerer = std::make_unique<LifeAnswerer>(kSelf, kKey, 0);
    fabrics_[0].answerer->set_address(1, {1, {std::byte{2}}});
    Peer& peer = meet(7);
    happens(EventKind::port_error, 1);
    happens(EventKind::address_changed, 1);
    RailAddress now = world_.second.own;
    now.size = 1;
    now.bytes[0] = std::byte{3};
    world_.second.own = now;
    clock().advance(RunHistory::kTogether);
    happens(EventKind::port_active, 1);
    EXPECT_EQ(fabrics_[0].addresses[1].size, now.size);
    EXPECT_EQ(fabrics_[0].addresses[1].bytes, now.bytes);
    const RailAddress answered = answered_address(1);
    EXPECT_EQ(answered.size, now.size);
    EXPECT_EQ(answered.bytes, now.bytes);
    EXPECT_EQ(paths_.state(peer, 1), PathState::suspect) << "is probed at once";
    EXPECT_FALSE(paths_.rail_down(1));
    counters().history = nullptr;
    ASSERT_EQ(history.incidents(), 3u);
    EXPECT_EQ(history.incident(1).kind, IncidentKind::rail_up);
    EXPECT_EQ(history.incident(2).kind, IncidentKind::rail_changed);
}

// Some drivers report the change before the port is active.
TEST_F(FabricEventsTest, AnotherAddressDoesNotBringARailBackThatIsDown) {
    Peer& peer = meet(7);
    happens(EventKind::port_error, 1);
    world_.second.own.size = 1;
    world_.second.own.bytes[0] = std::byte{3};
    happens(EventKind::address_changed, 1);
    EXPECT_TRUE(paths_.rail_down(1));
    EXPECT_EQ(paths_.state(peer, 1), PathState::failed);
    EXPECT_FALSE(paths_.all_well());
    happens(EventKind::port_active, 1);
    EXPECT_FALSE(paths_.rail_down(1));
    EXPECT_EQ(paths_.state(peer, 1), PathState::suspect);
}

TEST_F(FabricEventsTest, PeersThatHaveGoneDepart) {
    Peer& gone = meet(7);
    Peer& lives = meet(8);
    handle_of(gone).says(Status::error(Reason::no_device));
    happens(EventKind::peer_changed, 0);
    departures_.tear_down_peers();
    EXPECT_EQ(gone.contact.datagram.handle, nullptr);
    EXPECT_NE(lives.contact.datagram.handle, nullptr);
}

TEST_F(FabricEventsTest, EachNoticeIsPassedOnOnce) {
    fabric().note("single copy: off");
    fabric_events_.report_notices();
    fabric_events_.report_notices();
    fabric().note("no hugepages");
    fabric_events_.poll();
    EXPECT_EQ(told(), (std::vector<std::string>{"single copy: off", "no hugepages"}));
}

TEST_F(FabricEventsTest, TimersPollNowAndThen) {
    fabric().events.push_back({EventKind::port_error, 1, 0, nullptr});
    fabric_events_.run_timers(1s);
    EXPECT_TRUE(fabric().events.empty());
    fabric().events.push_back({EventKind::port_active, 1, 0, nullptr});
    fabric_events_.run_timers(1s + FabricEvents::kEvery - 1ns);
    EXPECT_FALSE(fabric().events.empty());
    fabric_events_.run_timers(1s + FabricEvents::kEvery);
    EXPECT_TRUE(fabric().events.empty());
}

} // namespace
} // namespace adaptib::test
