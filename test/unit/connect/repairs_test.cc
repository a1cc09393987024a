// SPDX-License-Identifier: BSD-3-Clause
// Repairs: when each step of a repair is due, and what has to be handled before the next; when
// there is something to improve, and when the peer is given up.
#include "connect/repairs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/wire_connect.h"
#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

using Types = std::vector<MessageType>;

constexpr const char* kAllSteps = "1 interrupted; 1 ring final; 1 fenced; ";

class Repairing : public RecordedConnections, private Witness {
protected:
    Repairing() {
        attended_.at_most(1h);
        events_.then = [this](Peer& peer, ConnectEventSet handled) { go_on(peer, handled); };
        peer_->lanes.scheduler = make_scheduler({});
        EXPECT_TRUE(resources_.make(*peer_).ok());
        peer_->session.state = ConnectState::open;
    }
    ~Repairing() override {
        repairs_.leave(*peer_);
        closings_.forget(*peer_);
        resources_.drop(*peer_);
    }

    // Returns the events of the steps that are taken now.
    std::string advance() {
        events_.log.clear();
        repairs_.advance();
        events_.handle();
        return events_.log;
    }
    void go_on(Peer& peer, ConnectEventSet handled) {
        if (handled.has(ConnectEvent::abandoned)) {
            repairs_.abandon(peer);
            peer.transfers.stripes = 0;
        }
        if (auto request = repairs_.on_events_handled(peer, handled)) {
            accepted_ = std::move(request);
        }
    }
    ConnectOptions options() {
        ConnectOptions options;
        options.failure_timeout = 1s;
        options.attended = &attended_;
        options.liveness = &liveness_;
        options.witness = this;
        return options;
    }

    bool alive_ = false; // as far as the witness knows
    AttendedClock attended_{world_.clock};
    const Liveness liveness_{5s};
    const ConnectContext context_ = recorded_context(options());
    ConnectionPool pool_{0, world_.counters};
    ControlLanes lanes_{context_};
    SharedDraining draining_{context_, lanes_};
    QueuePairs queue_pairs_{context_, pool_};
    OfferedRings offered_rings_{context_, pool_};
    RemoteRings remote_rings_{context_, lanes_, pool_};
    HandshakeMessages messages_{context_};
    Closings closings_{context_, lanes_, messages_, draining_};
    Yielding yielding_{context_, messages_, closings_};
    ConnectionLimit limit_{context_, closings_, yielding_};
    CmConnects cm_connects_{context_, queue_pairs_};
    ConnectionResources resources_{context_,
                                   {pool_, queue_pairs_, offered_rings_, cm_connects_, limit_}};
    LaneMigrations lane_migrations_{context_, lanes_, remote_rings_};
    PathMeasurement measurement_{context_, lanes_, lane_migrations_};
    Repairs repairs_{context_,
                     {queue_pairs_, offered_rings_, resources_, messages_, closings_,
                      lane_migrations_, draining_, measurement_}};
    std::unique_ptr<Peer> peer_ = idle_peer(1);
    std::unique_ptr<ConnectBody> accepted_; // the request that could be accepted

private:
    bool may_live(Peer&, Nanoseconds) override { return alive_; }
};

TEST_F(Repairing, TakesAllStepsAtOnceIfNothingIsUnderWay) {
    EXPECT_FALSE(repairs_.active());
    EXPECT_EQ(repairs_.deadline(), Nanoseconds::max());
    repairs_.begin(*peer_);
    EXPECT_TRUE(repairs_.active());
    EXPECT_EQ(peer_->session.state, ConnectState::open); // until progress is made
    EXPECT_EQ(first_.made, 1u);
    EXPECT_EQ(advance(), kAllSteps);
    EXPECT_EQ(peer_->session.state, ConnectState::requested);
    EXPECT_EQ(first_.made, 2u);
    EXPECT_EQ(second_.made, 2u);
    EXPECT_EQ(sent(), Types{MessageType::connect_request});
}

TEST_F(Repairing, LooksForAPathAgainAndAgain) {
    first_.qp_result = second_.qp_result = Status::error(Reason::no_device);
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), kAllSteps);
    EXPECT_EQ(peer_->session.state, ConnectState::repairing);
    EXPECT_TRUE(peer_->interruption.repair.fenced);
    EXPECT_EQ(repairs_.deadline(), world_.clock.now() + 10ms);
    first_.qp_result = kOk;
    world_.clock.advance(9ms);
    EXPECT_EQ(advance(), "");
    EXPECT_EQ(sent(), Types{});
    world_.clock.advance(1ms);
    EXPECT_EQ(advance(), "");
    EXPECT_EQ(sent(), Types{MessageType::connect_request});
}

TEST_F(Repairing, TheRingIsTakenBeforeARequestIsAccepted) {
    first_.qp_result = second_.qp_result = Status::error(Reason::no_device);
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), kAllSteps);
    peer_->connection.early_request = std::make_unique<ConnectBody>();
    EXPECT_EQ(accepted_, nullptr);
    EXPECT_EQ(advance(), "1 ring final; ");
    EXPECT_NE(accepted_, nullptr);
}

TEST_F(Repairing, WorkUnderWayIsAwaitedForAQuarterOfTheFailureTimeout) {
    peer_->transfers.stripes = 1;
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), "1 interrupted; ");
    EXPECT_EQ(made(*peer_, 0).states.back(), QpState::error);
    EXPECT_EQ(made(*peer_, 1).states.back(), QpState::error);
    EXPECT_EQ(repairs_.deadline(), world_.clock.now() + 250ms);
    world_.clock.advance(249ms);
    EXPECT_EQ(advance(), "");
    world_.clock.advance(1ms);
    EXPECT_EQ(advance(), "1 abandoned; 1 ring final; 1 fenced; ");
    EXPECT_EQ(sent(), Types{MessageType::connect_request});
}

TEST_F(Repairing, EachStepWaitsUntilTheEventsOfTheOneBeforeAreHandled) {
    peer_->transfers.stripes = 1;
    repairs_.begin(*peer_);
    repairs_.advance();
    world_.clock.advance(1s);
    repairs_.advance(); // the core does not know yet
    EXPECT_EQ(events_.log, "");
    EXPECT_FALSE(peer_->interruption.repair.fenced);
    EXPECT_EQ(advance(), "1 interrupted; 1 abandoned; 1 ring final; 1 fenced; ");
}

TEST_F(Repairing, AConnectionThatBreaksMeanwhileTakesNoFurtherStep) {
    repairs_.begin(*peer_);
    events_.then = [this](Peer& peer, ConnectEventSet handled) {
        peer.session.state = ConnectState::failed;
        go_on(peer, handled);
    };
    EXPECT_EQ(advance(), "1 interrupted; ");
    EXPECT_EQ(sent(), Types{});
}

TEST_F(Repairing, AConnectionThatIsComingUpIsRepairedOnceItIsOpen) {
    peer_->session.state = ConnectState::requested;
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), "");
    peer_->session.state = ConnectState::open;
    EXPECT_EQ(advance(), kAllSteps);
}

TEST_F(Repairing, AConnectionThatIsClosingIsNotClosedAnyMore) {
    closings_.start(*peer_);
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), kAllSteps);
    EXPECT_FALSE(closings_.active());
    EXPECT_EQ(peer_->session.state, ConnectState::requested);
}

TEST_F(Repairing, WithoutAConnectionThereIsNothingToRepair) {
    for (const ConnectState state : {ConnectState::idle, ConnectState::failed}) {
        peer_->session.state = state;
        repairs_.begin(*peer_);
        EXPECT_FALSE(repairs_.active());
    }
}

TEST_F(Repairing, ImprovesAConnectionThatLacksAUsablePath) {
    peer_->session.repairable = true;
    repairs_.improve(*peer_);
    EXPECT_FALSE(repairs_.active()); // it has all paths
    peer_->lanes.subchannels[1].qp.reset();
    events_.usable = false;
    repairs_.improve(*peer_);
    EXPECT_FALSE(repairs_.active());
    events_.usable = true;
    peer_->session.state = ConnectState::closing;
    repairs_.improve(*peer_);
    EXPECT_FALSE(repairs_.active());
    EXPECT_TRUE(peer_->interruption.repair.improve); // later
    peer_->session.state = ConnectState::open;
    peer_->transfers.stripes = 1;
    repairs_.improve(*peer_);
    EXPECT_TRUE(peer_->interruption.repair.gentle);
    EXPECT_EQ(advance(), "1 interrupted; ");
    EXPECT_NE(made(*peer_, 0).states.back(), QpState::error); // work under way goes on
    world_.clock.advance(1s);
    EXPECT_EQ(advance(), "");
    repairs_.begin(*peer_); // now a path has failed
    EXPECT_EQ(made(*peer_, 0).states.back(), QpState::error);
}

TEST_F(Repairing, ImprovesAConnectionWhicheverPathItLacks) {
    peer_->session.repairable = true;
    peer_->lanes.subchannels[0].qp.reset();
    repairs_.improve(*peer_);
    EXPECT_TRUE(peer_->interruption.repair.gentle);
    EXPECT_EQ(advance(), kAllSteps);
}

TEST_F(Repairing, APeerThatMayLiveIsWaitedFor) {
    first_.qp_result = second_.qp_result = Status::error(Reason::no_device);
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), kAllSteps);
    world_.clock.advance(4999ms);
    advance();
    EXPECT_EQ(events_.partitions, 0u);
    world_.clock.advance(1ms);
    alive_ = true;
    advance();
    EXPECT_EQ(events_.partitions, 0u);
    alive_ = false;
    EXPECT_EQ(advance(), "1 partition; "); // it is given up
    EXPECT_EQ(events_.partitions, 1u);
}

TEST_F(Repairing, APathIsInUseUntilItsQueuePairIsGone) {
    EXPECT_FALSE(repairs_.uses_failed_path(*peer_));
    events_.usable = false;
    EXPECT_TRUE(repairs_.uses_failed_path(*peer_));
    peer_->lanes.subchannels[0].qp.reset();
    peer_->lanes.subchannels[1].qp.reset();
    EXPECT_FALSE(repairs_.uses_failed_path(*peer_));
}

} // namespace
} // namespace adaptib::test
