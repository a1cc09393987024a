// SPDX-License-Identifier: BSD-3-Clause
// Connections that yield: how both sides learn of it, what the closing waits for, and for how long.
#include "connect/yielding.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "base/wire_connect.h"
#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Yields : public RecordedConnections {
protected:
    Yields() {
        world_.clock.advance(1s);
        peer_ = idle_peer(1);
        peer_->session.state = ConnectState::open;
        peer_->connection.number = 5;
        peer_->connection.remote_number = 7;
    }
    ~Yields() override {
        yielding_.stop(*peer_);
        closings_.forget(*peer_);
        messages_.forget(*peer_);
    }

    const ConnectContext context_ = recorded_context({});
    HandshakeMessages messages_{context_};
    ControlLanes lanes_{context_};
    SharedDraining draining_{context_, lanes_};
    Closings closings_{context_, lanes_, messages_, draining_};
    Yielding yielding_{context_, messages_, closings_};
    std::unique_ptr<Peer> peer_;
};

TEST_F(Yields, TheOtherSideIsToldOnce) {
    yielding_.begin(*peer_);
    EXPECT_TRUE(peer_->transfers.yields);
    EXPECT_TRUE(yielding_.active());
    EXPECT_EQ(sent(), std::vector{MessageType::connect_yield});
    EXPECT_EQ(body<ConnectNote>(0).connection, 5u);
    EXPECT_EQ(body<ConnectNote>(0).answers, 7u);
    yielding_.on_yield(*peer_, {7, 5, 0, 0}); // both have begun
    EXPECT_EQ(sent(), std::vector<MessageType>{});
    EXPECT_EQ(world_.counters.connections_yielded, 1u);
    yielding_.stop(*peer_);
    yielding_.stop(*peer_);
    EXPECT_FALSE(yielding_.active());
}

TEST_F(Yields, TheOtherSideMakesItYield) {
    yielding_.on_yield(*peer_, {7, 4, 0, 0}); // of earlier connections
    yielding_.on_yield(*peer_, {6, 5, 0, 0});
    peer_->session.state = ConnectState::repairing;
    yielding_.on_yield(*peer_, {7, 5, 0, 0});
    EXPECT_FALSE(yielding_.active());
    peer_->session.state = ConnectState::open;
    yielding_.on_yield(*peer_, {7, 5, 0, 0});
    EXPECT_TRUE(peer_->transfers.yields);
    EXPECT_EQ(sent(), std::vector<MessageType>{}); // it knows
}

TEST_F(Yields, IsClosedOnceWorkUnderWayIsOver) {
    peer_->transfers.users = 1;
    yielding_.begin(*peer_);
    yielding_.advance();
    EXPECT_EQ(peer_->session.state, ConnectState::open);
    peer_->transfers.users = 0;
    yielding_.advance();
    EXPECT_EQ(peer_->session.state, ConnectState::closing);
    EXPECT_TRUE(yielding_.active()); // until the closing has ended
    world_.clock.advance(1s);
    yielding_.advance();
    EXPECT_TRUE(peer_->transfers.yields);
}

TEST_F(Yields, PutsAndGetsThatWaitForTheNextTurnDoNotHoldItUp) {
    peer_->transfers.users = 2;
    peer_->transfers.rma_operations = 2;
    peer_->transfers.stripes = 1; // one of them is under way
    yielding_.begin(*peer_);
    yielding_.advance();
    EXPECT_EQ(peer_->session.state, ConnectState::open);
    peer_->transfers.stripes = 0;
    yielding_.advance();
    EXPECT_EQ(peer_->session.state, ConnectState::closing);
}

TEST_F(Yields, WorkThatTakesLongGetsAnotherTurn) {
    peer_->transfers.users = 1;
    yielding_.begin(*peer_);
    world_.clock.advance(10ms - 1ns);
    yielding_.advance();
    EXPECT_TRUE(peer_->transfers.yields);
    world_.clock.advance(1ns);
    yielding_.advance();
    EXPECT_FALSE(peer_->transfers.yields);
    EXPECT_FALSE(yielding_.active());
    EXPECT_EQ(peer_->session.state, ConnectState::open);
    EXPECT_EQ(peer_->connection.activity.turn_began, world_.clock.now()); // of the new turn
}

TEST_F(Yields, AConnectionThatWasJustKeptIsNotClosedAtOnce) {
    yielding_.begin(*peer_);
    peer_->connection.closing.began = world_.clock.now(); // which the other side answered with keep
    yielding_.advance();
    EXPECT_EQ(peer_->session.state, ConnectState::open);
    world_.clock.advance(1ms);
    yielding_.advance();
    EXPECT_EQ(peer_->session.state, ConnectState::closing);
}

TEST_F(Yields, AMessageThatFindsNoRoomIsSentOnlyWhileItYields) {
    datagrams_.post_result = Status::again(Reason::queue_full);
    yielding_.begin(*peer_);
    EXPECT_TRUE(peer_->transfers.yields);
    EXPECT_TRUE(messages_.owing());
    yielding_.stop(*peer_);
    datagrams_.post_result = kOk;
    messages_.retry();
    EXPECT_EQ(sent(), std::vector<MessageType>{});
}

} // namespace
} // namespace adaptib::test
