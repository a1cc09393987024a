// SPDX-License-Identifier: BSD-3-Clause
// The limit on connections: which peers wait, in which order they get room, and which connections
// are closed for them.
#include "connect/connection_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "unit/connect/connections.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Limit : public Connections {
protected:
    static ConnectOptions at_most(std::uint64_t connections) {
        ConnectOptions options;
        options.connect_max = connections;
        return options;
    }
    // Runs the timers each tenth of a millisecond.
    void pass(Nanoseconds time) {
        for (const Nanoseconds end = world_.clock.now() + time; world_.clock.now() < end;) {
            world_.clock.advance(100us);
            limit_.serve([this](Peer& peer) { return ask(peer); });
        }
    }
    Peer& open() {
        peers_.push_back(open_peer(peers_.size() + 1));
        Peer& peer = *peers_.back();
        peer.connection.activity.active = peer.connection.activity.turn_began = world_.clock.now();
        peer.connection.activity.messages = peer.messages();
        limit_.enter(peer);
        return peer;
    }
    Peer& wait() {
        peers_.push_back(world_.peer(peers_.size() + 1));
        Peer& peer = *peers_.back();
        peer.session.next_send = 1;
        limit_.wait(peer, Nanoseconds{0});
        return peer;
    }
    // Takes the connection down, as its closing does in the end.
    void close(Peer& peer) {
        closings_.forget(peer);
        yielding_.stop(peer);
        limit_.leave(peer);
        peer.session.state = ConnectState::idle;
    }

    std::vector<const Peer*> asked_; // peers that got room
    bool grants_ = true;

    const ConnectContext context_ = context(at_most(2));
    HandshakeMessages messages_{context_};
    ControlLanes lanes_{context_};
    SharedDraining draining_{context_, lanes_};
    Closings closings_{context_, lanes_, messages_, draining_};
    Yielding yielding_{context_, messages_, closings_};
    ConnectionLimit limit_{context_, closings_, yielding_};

private:
    bool ask(Peer& peer) {
        if (grants_) {
            asked_.push_back(&peer);
            peer.session.state = ConnectState::requested;
            limit_.enter(peer);
        }
        return grants_;
    }

    std::vector<std::unique_ptr<Peer>> peers_;
};

TEST_F(Limit, CountsConnectionsWithQueuePairsOfTheirOwn) {
    EXPECT_EQ(limit_.room(), 2u);
    open();
    EXPECT_EQ(limit_.free_room(), 1u);
    Peer& shared = *world_.peer(77).release();
    const std::unique_ptr<Peer> owner(&shared);
    shared.connection.shared = true;
    limit_.enter(shared);
    EXPECT_EQ(limit_.shared(), 1u);
    EXPECT_EQ(limit_.free_room(), 1u);
    EXPECT_EQ(world_.counters.connections_shared, 1u);
    open();
    EXPECT_FALSE(limit_.has_room());
    limit_.leave(shared);
    EXPECT_EQ(limit_.shared(), 0u);
    EXPECT_FALSE(limit_.has_room());
}

TEST_F(Limit, AFullDeviceIsTheLimitForAWhile) {
    open();
    EXPECT_FALSE(limit_.no_room_says(Status::error(Reason::no_device)));
    EXPECT_TRUE(limit_.has_room());
    EXPECT_TRUE(limit_.no_room_says(Status::error(Reason::no_memory)));
    EXPECT_EQ(limit_.room(), 1u);
    EXPECT_TRUE(limit_.no_room_says(Status::error(Reason::no_memory)));
    EXPECT_EQ(events_.notices.size(), 1u);
    grants_ = false;
    Peer& peer = wait();
    peer.transfers.users = 1; // it goes on waiting
    pass(99ms);
    EXPECT_FALSE(limit_.has_room());
    pass(2ms);
    EXPECT_TRUE(limit_.has_room());
    limit_.stop_waiting(peer);
}

TEST_F(Limit, NobodyWaitsForever) {
    open();
    open();
    EXPECT_EQ(limit_.deadline(), Nanoseconds::max());
    Peer& peer = wait();
    EXPECT_EQ(limit_.deadline(), world_.clock.now() + 1ms);
    for (Nanoseconds time{}; time < 50ms; time += 1ms) { // the connections are in use, and so is it
        limit_.for_each([](Peer& each) { ++each.session.next_send; });
        ++peer.session.next_send;
        pass(1ms);
        ASSERT_TRUE(peer.connection.wanted_link.linked());
    }
    for (Nanoseconds time{}; time < 15ms; time += 1ms) {
        limit_.for_each([](Peer& each) { ++each.session.next_send; });
        pass(1ms);
    }
    EXPECT_FALSE(peer.connection.wanted_link.linked());
    EXPECT_EQ(limit_.deadline(), Nanoseconds::max());
    EXPECT_FALSE(closings_.active());
}

TEST_F(Limit, TheConnectionIdleLongestIsClosed) {
    Peer& later = open();
    Peer& idle = open();
    world_.clock.advance(300us);
    ++later.in.next_receive;
    limit_.note_activity();
    Peer& peer = wait();
    pass(5ms);
    EXPECT_EQ(idle.session.state, ConnectState::closing);
    EXPECT_EQ(later.session.state, ConnectState::open);
    EXPECT_TRUE(asked_.empty());
    close(idle);
    pass(100us); // at once
    EXPECT_EQ(asked_, std::vector<const Peer*>{&peer});
    EXPECT_FALSE(peer.connection.wanted_link.linked());
    EXPECT_EQ(later.session.state, ConnectState::open);
}

TEST_F(Limit, OneConnectionIsClosedForEachThatWaits) {
    Peer& first = open();
    Peer& second = open();
    wait();
    wait();
    pass(3ms);
    EXPECT_EQ(first.session.state, ConnectState::closing);
    EXPECT_EQ(second.session.state, ConnectState::closing);
}

TEST_F(Limit, AConnectionThatIsNeededIsNotClosed) {
    Peer& used = open();
    used.transfers.users = 1;
    Peer& busy = open();
    Peer& peer = wait();
    peer.transfers.users = 1;
    for (Nanoseconds time{}; time < 20ms; time += 500us) {
        ++busy.in.next_receive;
        pass(500us);
    }
    EXPECT_EQ(used.session.state, ConnectState::open);
    EXPECT_EQ(busy.session.state, ConnectState::open);
    EXPECT_TRUE(asked_.empty());
    limit_.stop_waiting(peer);
}

TEST_F(Limit, ABusyConnectionIsClosedForAChosenPeerUnlessItIsChosenItself) {
    Peer& chosen = open();
    chosen.connection.activity.chosen = true;
    Peer& busy = open();
    world_.clock.advance(50ms); // the chosen one is idle, but for less than 100 ms
    Peer& peer = wait();
    peer.connection.activity.chosen = true;
    ++busy.session.next_send;
    pass(1ms);
    EXPECT_EQ(busy.session.state, ConnectState::closing);
    EXPECT_EQ(chosen.session.state, ConnectState::open);
}

TEST_F(Limit, ChosenPeersAndThoseThatCannotDoWithoutComeFirst) {
    open();
    Peer& idle = open();
    Peer& usual = wait();
    Peer& required = wait();
    required.connection.activity.required = true;
    Peer& chosen = wait();
    chosen.connection.activity.chosen = true;
    close(idle);
    pass(100us);
    EXPECT_EQ(asked_, std::vector<const Peer*>{&required});
    close(required);
    pass(100us);
    ASSERT_EQ(asked_.size(), 2u);
    EXPECT_EQ(asked_.back(), &chosen);
    EXPECT_TRUE(usual.connection.wanted_link.linked());
}

// It is closed first, so its work has to be over, and room has to be there.
TEST_F(Limit, ASharedConnectionBecomesAnOwnOneWhenItIsUnusedAndThereIsRoom) {
    Peer& other = open();
    Peer& third = open();
    Peer& shared = open();
    limit_.leave(shared);
    shared.connection.shared = true;
    limit_.enter(shared);
    shared.connection.activity.preference = SharingPreference::own;
    other.transfers.stripes = third.transfers.stripes = 1;
    limit_.wait(shared, Nanoseconds{0});
    pass(1ms);
    EXPECT_EQ(shared.session.state, ConnectState::open) << "there is no room";
    close(third);
    ASSERT_TRUE(limit_.has_room());
    shared.transfers.users = 1;
    pass(1ms);
    EXPECT_EQ(shared.session.state, ConnectState::open) << "it is in use";
    shared.transfers.users = 0;
    ++shared.session.next_send; // the program still talks to it
    pass(1ms);
    EXPECT_EQ(shared.session.state, ConnectState::closing);
    limit_.leave(shared);
}

TEST_F(Limit, AConnectionInUseYieldsToAPeerThatCannotDoWithout) {
    Peer& older = open();
    older.transfers.users = 1;
    world_.clock.advance(1ms);
    Peer& newer = open();
    newer.transfers.users = 1;
    Peer& usual = wait();
    usual.transfers.users = 1;
    pass(10ms);
    EXPECT_FALSE(yielding_.active()); // it can do without
    Peer& peer = wait();
    peer.transfers.users = peer.transfers.rma_operations = 1;
    pass(2ms);
    EXPECT_TRUE(older.transfers.yields);
    EXPECT_FALSE(newer.transfers.yields); // one at a time
    EXPECT_EQ(world_.counters.connections_yielded, 1u);
    yielding_.advance();
    EXPECT_EQ(older.session.state, ConnectState::open); // work is under way
    older.transfers.users = 0;
    yielding_.advance();
    EXPECT_EQ(older.session.state, ConnectState::closing);
    close(older);
    pass(100us);
    EXPECT_EQ(asked_, std::vector<const Peer*>{&peer}); // though the other one came first
}

TEST_F(Limit, AConnectionThatTheOtherSideHasKeptIsNotClosedAgainAtOnce) {
    Peer& peer = open();
    yielding_.begin(peer);
    world_.clock.advance(5ms);
    peer.connection.closing.began = world_.clock.now();
    yielding_.advance();
    EXPECT_EQ(peer.session.state, ConnectState::open);
    world_.clock.advance(1ms);
    yielding_.advance();
    EXPECT_EQ(peer.session.state, ConnectState::closing);
}

TEST_F(Limit, WorkThatLastsGivesAYieldingConnectionAnotherTurn) {
    Peer& peer = open();
    peer.transfers.users = 1;
    yielding_.begin(peer);
    world_.clock.advance(9ms);
    yielding_.advance();
    EXPECT_TRUE(peer.transfers.yields);
    world_.clock.advance(1ms);
    yielding_.advance();
    EXPECT_FALSE(peer.transfers.yields);
    EXPECT_FALSE(yielding_.active());
    EXPECT_EQ(peer.connection.activity.turn_began, world_.clock.now());
}

TEST_F(Limit, APeerThatCanDoWithoutGoesBehindOneThatCannot) {
    Peer& fresh = open();
    EXPECT_FALSE(limit_.goes_behind(fresh));
    wait();
    EXPECT_FALSE(limit_.goes_behind(fresh));
    Peer& required = wait();
    required.connection.activity.required = true;
    EXPECT_TRUE(limit_.goes_behind(fresh));
    fresh.transfers.rma_operations = 1;
    EXPECT_FALSE(limit_.goes_behind(fresh));
    fresh.transfers.rma_operations = 0;
    required.connection.activity.urgent_at =
        world_.clock.now() + 1ms; // it was refused, and asks later
    EXPECT_FALSE(limit_.goes_behind(fresh));
}

TEST_F(Limit, AProcessWaitsForItsLoopbackAsLongAsItAsksForIt) {
    Peer& idle = open();
    open().transfers.users = 1;
    limit_.wait_with_self();
    EXPECT_TRUE(limit_.goes_behind(idle));
    pass(2ms);
    EXPECT_EQ(idle.session.state, ConnectState::closing);
    pass(10ms);
    EXPECT_EQ(limit_.deadline(), Nanoseconds::max());
}

} // namespace
} // namespace adaptib::test
