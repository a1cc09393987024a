// SPDX-License-Identifier: BSD-3-Clause
// Repairs: when each step of a repair is due, when there is something to improve, and when the peer
// is given up.
#include "connect/repairs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/wire_connect.h"
#include "unit/connect/connections.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Repairing : public Connections, private RepairListener, private Witness {
protected:
    Repairing() {
        attended_.at_most(1h);
        events_.then = [this](Peer& peer, ConnectEventSet handled) {
            repairs_.on_events_handled(peer, handled);
        };
    }
    ~Repairing() override { repairs_.leave(*peer_); }

    // Returns the steps that are taken now.
    std::string advance() {
        steps_.clear();
        repairs_.advance();
        events_.queue.handle();
        return steps_;
    }
    ConnectOptions options() {
        ConnectOptions options;
        options.failure_timeout = 1s;
        options.attended = &attended_;
        options.liveness = &liveness_;
        options.witness = this;
        return options;
    }

    bool reports_ = false; // the steps report events
    bool alive_ = false;   // as far as the witness knows
    Nanoseconds ask_at_{0};
    AttendedClock attended_{world_.clock};
    const Liveness liveness_{5s};
    const ConnectContext context_ = context(options());
    ConnectionPool pool_{0, world_.counters};
    ControlLanes lanes_{context_};
    SharedDraining draining_{context_, lanes_};
    QueuePairs queue_pairs_{context_, pool_};
    Repairs repairs_{context_, queue_pairs_, draining_, *this};
    std::unique_ptr<Peer> peer_ = open_peer(1);

private:
    void on_repair_begins(Peer& peer) override {
        steps_ += "begins ";
        if (reports_) {
            events_.queue.report(peer, ConnectEvent::interrupted);
        }
        peer.session.state = ConnectState::repairing;
        peer.interruption.repair.wanted = false;
        peer.interruption.repair.active = true;
        peer.interruption.repair.began = attended_.now();
        if (!peer.interruption.repair.gentle) {
            queue_pairs_.fail_all(peer);
        }
    }
    void on_repair_late(Peer& peer) override {
        steps_ += "late ";
        peer.transfers.stripes = 0;
        if (reports_) {
            events_.queue.report(peer, ConnectEvent::abandoned);
        }
    }
    void on_repair_quiet(Peer& peer) override {
        steps_ += "quiet ";
        if (reports_) {
            events_.queue.report(peer, ConnectEvent::ring_final);
            events_.queue.report(peer, ConnectEvent::fenced);
        } else {
            on_repair_fenced(peer);
        }
    }
    void on_repair_fenced(Peer& peer) override {
        steps_ += reports_ ? "fenced " : "";
        peer.interruption.repair.fenced = true;
        peer.interruption.repair.ask_at = ask_at_;
    }
    void on_repair_ready(Peer& peer) override {
        steps_ += "ready ";
        peer.connection.early_request.reset();
        peer.interruption.repair.ask_at = world_.clock.now() + 10ms;
    }
    bool may_live(Peer&, Nanoseconds) override { return alive_; }

    std::string steps_;
};

TEST_F(Repairing, TakesAllStepsAtOnceIfNothingIsUnderWay) {
    EXPECT_FALSE(repairs_.active());
    EXPECT_EQ(repairs_.deadline(), Nanoseconds::max());
    repairs_.begin(*peer_);
    EXPECT_TRUE(repairs_.active());
    EXPECT_EQ(peer_->session.state, ConnectState::open); // until progress is made
    EXPECT_EQ(advance(), "begins quiet ready ");
    EXPECT_EQ(pair_of(*peer_, 0).states, std::vector{QpState::error});
    EXPECT_EQ(pair_of(*peer_, 1).states, std::vector{QpState::error});
}

TEST_F(Repairing, AsksAgainWhenThatIsDueOrARequestHasCome) {
    ask_at_ = world_.clock.now() + 10ms;
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), "begins quiet ");
    EXPECT_EQ(repairs_.deadline(), ask_at_);
    world_.clock.advance(9ms);
    EXPECT_EQ(advance(), "");
    world_.clock.advance(1ms);
    EXPECT_EQ(advance(), "ready ");
    EXPECT_EQ(advance(), "");
    peer_->connection.early_request = std::make_unique<ConnectBody>();
    EXPECT_EQ(advance(), "ready ");
}

TEST_F(Repairing, WorkUnderWayIsAwaitedForAQuarterOfTheFailureTimeout) {
    peer_->transfers.stripes = 1;
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), "begins ");
    EXPECT_EQ(repairs_.deadline(), world_.clock.now() + 250ms);
    world_.clock.advance(249ms);
    EXPECT_EQ(advance(), "");
    world_.clock.advance(1ms);
    EXPECT_EQ(advance(), "late quiet ready ");
}

TEST_F(Repairing, EachStepWaitsUntilTheEventsOfTheOneBeforeAreHandled) {
    reports_ = true;
    peer_->transfers.stripes = 1;
    repairs_.begin(*peer_);
    repairs_.advance();
    world_.clock.advance(1s);
    repairs_.advance(); // the core does not know yet
    EXPECT_EQ(events_.log, "");
    EXPECT_FALSE(peer_->interruption.repair.fenced);
    EXPECT_EQ(advance(), "late quiet fenced ready ");
    EXPECT_EQ(events_.log, "1 interrupted; 1 abandoned; 1 ring final; 1 fenced; ");
}

TEST_F(Repairing, AConnectionThatBreaksMeanwhileTakesNoFurtherStep) {
    reports_ = true;
    repairs_.begin(*peer_);
    events_.then = [this](Peer& peer, ConnectEventSet handled) {
        peer.session.state = ConnectState::failed;
        repairs_.on_events_handled(peer, handled);
    };
    EXPECT_EQ(advance(), "begins ");
}

TEST_F(Repairing, TheRingIsTakenBeforeARequestIsAccepted) {
    ask_at_ = Nanoseconds::max();
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), "begins quiet ");
    peer_->connection.early_request = std::make_unique<ConnectBody>();
    EXPECT_EQ(advance(), "ready ");
    EXPECT_EQ(events_.log, "1 ring final; ");
}

TEST_F(Repairing, AConnectionThatIsComingUpIsRepairedOnceItIsOpen) {
    peer_->session.state = ConnectState::requested;
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), "");
    peer_->session.state = ConnectState::open;
    EXPECT_EQ(advance(), "begins quiet ready ");
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
    EXPECT_EQ(advance(), "begins ");
    EXPECT_TRUE(pair_of(*peer_, 0).states.empty()); // work under way goes on
    world_.clock.advance(1s);
    EXPECT_EQ(advance(), "");
    repairs_.begin(*peer_); // now a path has failed
    EXPECT_EQ(pair_of(*peer_, 0).states, std::vector{QpState::error});
}

TEST_F(Repairing, ImprovesAConnectionWhicheverPathItLacks) {
    peer_->session.repairable = true;
    peer_->lanes.subchannels[0].qp.reset();
    repairs_.improve(*peer_);
    EXPECT_TRUE(peer_->interruption.repair.gentle);
    EXPECT_EQ(advance(), "begins quiet ready ");
}

TEST_F(Repairing, APeerThatMayLiveIsWaitedFor) {
    ask_at_ = Nanoseconds::max();
    repairs_.begin(*peer_);
    EXPECT_EQ(advance(), "begins quiet ");
    EXPECT_EQ(repairs_.deadline(), world_.clock.now() + 5s);
    world_.clock.advance(4999ms);
    advance();
    EXPECT_EQ(events_.partitions, 0u);
    world_.clock.advance(1ms);
    alive_ = true;
    advance();
    EXPECT_EQ(events_.partitions, 0u);
    alive_ = false;
    peer_->interruption.repair.ask_at = Nanoseconds{0};
    EXPECT_EQ(advance(), ""); // it is given up
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
