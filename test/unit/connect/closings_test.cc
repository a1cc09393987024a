// SPDX-License-Identifier: BSD-3-Clause
// Closing of connections: when both sides have agreed, when one keeps the connection, and which
// messages are of an earlier one.
#include "connect/closings.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "base/wire_connect.h"
#include "unit/connect/connections.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Closing : public Connections {
protected:
    Closing() {
        events_.then = [this](Peer& peer, ConnectEventSet handled) {
            if (handled.has(ConnectEvent::flush_failed)) {
                ++broken_;
            } else if (handled.has(ConnectEvent::connected)) {
                closings_.on_connected(peer);
            } else if (handled.has(ConnectEvent::ring_final)) {
                ++agreed_;
                closings_.forget(peer);
                peer.session.state = ConnectState::idle;
            }
        };
        peer_->connection.number = 5;
        peer_->connection.remote_number = 7;
    }
    ~Closing() override { closings_.forget(*peer_); }

    // Completes the empty write behind all that was posted.
    void complete_flush() {
        std::vector<SendWork>& posts = pair_of(*peer_, 0).posts;
        ASSERT_EQ(posts.size(), 1u);
        WorkCompletion completion{};
        completion.qp_number = 1;
        completion.status = WorkStatus::success;
        completion.wr_id = posts.front().wr_id;
        target_of(posts.front().wr_id)->on_work_done(0, completion);
        posts.clear();
    }
    void advance() {
        closings_.advance();
        events_.handle();
    }
    // Lets this side tell the other one that it closes the connection.
    void tell() {
        closings_.start(*peer_);
        advance();
        EXPECT_FALSE(peer_->connection.closing.told);
        complete_flush();
        advance();
        EXPECT_TRUE(peer_->connection.closing.told);
    }
    static ConnectNote note(std::uint32_t number) { return {7, 5, number, 0}; }

    std::size_t agreed_ = 0;
    std::size_t broken_ = 0;

    const ConnectContext context_ = context({});
    HandshakeMessages messages_{context_};
    ControlLanes lanes_{context_};
    SharedDraining draining_{context_, lanes_};
    Closings closings_{context_, lanes_, messages_, draining_};
    std::unique_ptr<Peer> peer_ = open_peer(1);
};

TEST_F(Closing, EndsOnceBothSidesHaveToldThatNothingIsUnderWay) {
    tell();
    EXPECT_TRUE(closings_.active());
    advance();
    EXPECT_EQ(agreed_, 0u);
    closings_.on_close(*peer_, note(1)); // this side's message may have been answered with `keep`
    EXPECT_FALSE(peer_->connection.closing.told);
    advance();
    EXPECT_EQ(agreed_, 1u);
    EXPECT_FALSE(closings_.active());
    EXPECT_EQ(peer_->session.state, ConnectState::idle);
}

TEST_F(Closing, AnUnusedConnectionIsClosedWithTheOtherSide) {
    closings_.on_close(*peer_, note(1));
    EXPECT_EQ(peer_->session.state, ConnectState::closing);
    EXPECT_TRUE(peer_->connection.closing.agreed);
    advance();
    EXPECT_EQ(agreed_, 0u); // not before its own work is over
    complete_flush();
    advance();
    EXPECT_EQ(agreed_, 1u);
}

TEST_F(Closing, AConnectionThatIsNeededIsKept) {
    peer_->transfers.users = 1;
    closings_.on_close(*peer_, note(1));
    EXPECT_EQ(peer_->session.state, ConnectState::open);
    EXPECT_EQ(peer_->connection.closing.heard, 1u);
    peer_->transfers.users = 0;
    closings_.on_close(*peer_, note(1)); // doubled: it was answered
    EXPECT_EQ(peer_->session.state, ConnectState::open);
    closings_.on_close(*peer_, note(2));
    EXPECT_EQ(peer_->session.state, ConnectState::closing);
}

TEST_F(Closing, TheOtherSideMayKeepTheConnection) {
    tell();
    closings_.on_keep(*peer_, note(peer_->connection.closing.number - 1)); // of an earlier attempt
    EXPECT_EQ(peer_->session.state, ConnectState::closing);
    closings_.on_keep(*peer_, note(peer_->connection.closing.number));
    EXPECT_EQ(peer_->session.state, ConnectState::open);
    EXPECT_FALSE(closings_.active());
    events_.handle();
    EXPECT_EQ(events_.connected, 1u);
    EXPECT_EQ(peer_->connection.activity.active, world_.clock.now());
}

TEST_F(Closing, MessagesOfAnEarlierConnectionAreIgnored) {
    closings_.on_close(*peer_, {6, 5, 1, 0});
    closings_.on_close(*peer_, {7, 4, 1, 0});
    EXPECT_EQ(peer_->session.state, ConnectState::open);
    tell();
    closings_.on_keep(*peer_, {6, 5, peer_->connection.closing.number, 0});
    closings_.on_keep(*peer_, {7, 4, peer_->connection.closing.number, 0});
    EXPECT_EQ(peer_->session.state, ConnectState::closing);
}

TEST_F(Closing, AKeptCloseIsTakenOnceWhatWaitedForTheConnectionIsSent) {
    events_.queue.report(*peer_, ConnectEvent::connected);
    Closings::keep_close(*peer_, note(1));
    peer_->transfers.users = 1; // begins when the event is handled
    events_.handle();
    EXPECT_EQ(events_.log, "1 connected; ");
    EXPECT_EQ(peer_->session.state, ConnectState::open); // it is kept
    EXPECT_EQ(peer_->connection.closing.heard, 1u);
}

TEST_F(Closing, TakesNoStepWhileAnEventWaits) {
    tell();
    closings_.on_close(*peer_, note(1));
    closings_.advance();
    EXPECT_TRUE(ConnectionEvents::is_waiting(*peer_));
    closings_.advance();
    EXPECT_EQ(agreed_, 0u);
    events_.handle();
    EXPECT_EQ(events_.log, "1 ring final; ");
    EXPECT_EQ(agreed_, 1u);
}

TEST_F(Closing, AQueuePairThatHasFailedIsRepairedOrHasNothingUnderWay) {
    pair_of(*peer_, 0).answer = Status::error(Reason::bad_state);
    peer_->session.repairable = true;
    closings_.start(*peer_);
    advance();
    EXPECT_EQ(broken_, 1u);
    EXPECT_FALSE(peer_->connection.closing.told);
    peer_->session.repairable = false;
    advance();
    EXPECT_EQ(broken_, 1u);
    EXPECT_TRUE(peer_->connection.closing.told);
}

TEST_F(Closing, CountsThoseThatBeganLately) {
    world_.clock.advance(1s);
    closings_.start(*peer_);
    world_.clock.advance(10ms);
    EXPECT_EQ(closings_.begun_after(world_.clock.now() - 10ms), 0u);
    EXPECT_EQ(closings_.begun_after(world_.clock.now() - 11ms), 1u);
}

} // namespace
} // namespace adaptib::test
