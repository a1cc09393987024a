// SPDX-License-Identifier: BSD-3-Clause
// Conditions that an ending process waits for (Core::drain): that others have what it sent them,
// but not that ranks which are gone say so.
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

// Two hosts: connected, or with datagrams over a rail that may lose them.
RanksOptions two(bool connected) {
    RanksOptions options;
    options.ranks = 2;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(2, {}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.connect_threshold = connected ? 0 : 1000;
    options.world.machine.offers.reliable_ud = connected;
    return options;
}

class Ending : public testing::TestWithParam<bool> {
protected:
    Ending() : ranks(make(two(GetParam()))) {
        for (int i = 0; i < 5; ++i) {
            carry(*ranks, 0, 1, 100);
            carry(*ranks, 1, 0, 100);
        }
        rest(*ranks, 10ms);
        EXPECT_EQ(ranks->peer(1, 0)->session.state == ConnectState::open, GetParam());
        EXPECT_EQ(unsent(1), Core::Unsent::none);
    }
    void send_disconnect(std::size_t rank) {
        ranks->core(rank).protocol().disconnects().release(*ranks->peer(rank, 1 - rank));
        ranks->wake(rank);
    }

    // Asks, waits, and asks again: the first call sends a message behind those that it is about.
    Core::Unsent unsent(std::size_t rank) {
        ranks->core(rank).unsent();
        rest(*ranks, 1ms);
        return ranks->core(rank).unsent();
    }

    std::unique_ptr<Ranks> ranks;
};

TEST_P(Ending, WhoSentDisconnectMayBeGone) {
    Peer& peer = *ranks->peer(1, 0);
    send_disconnect(0);
    ASSERT_TRUE(ranks->run_until([&] { return peer.ending.disconnect_received; }, 100ms));
    ranks->kill(0);
    send_disconnect(1);
    EXPECT_EQ(unsent(1), Core::Unsent::last_words);
}

TEST_P(Ending, WhoDidNotIsWaitedFor) {
    ranks->kill(0);
    Message message(1, 0, 100);
    message.start(*ranks);
    EXPECT_EQ(unsent(1), Core::Unsent::data);
}

TEST_P(Ending, BothGoWhenBothAreThrough) {
    send_disconnect(0);
    send_disconnect(1);
    rest(*ranks, 50ms);
    EXPECT_EQ(unsent(0), Core::Unsent::none);
    EXPECT_EQ(unsent(1), Core::Unsent::none);
    EXPECT_EQ(ranks->peer(0, 1)->session.state, ConnectState::idle);
    EXPECT_EQ(ranks->peer(1, 0)->session.state, ConnectState::idle);
}

INSTANTIATE_TEST_SUITE_P(Over, Ending, testing::Values(true, false),
                         [](const auto& each) { return each.param ? "connection" : "datagrams"; });

// Two ranks that have exchanged datagrams, over rails that may lose them; all are acknowledged.
std::unique_ptr<Ranks> two_that_talked() {
    RanksOptions options = two(false);
    options.world.machine.offers.dc = false;
    auto ranks = make(std::move(options));
    carry(*ranks, 0, 1, 8);
    rest(*ranks, 1ms);
    return ranks;
}

TEST(Leaving, WhatIsInTheRingOfAClosingConnectionIsOwed) {
    const auto ranks = make(two(true));
    carry(*ranks, 0, 1, 100);
    carry(*ranks, 1, 0, 100);
    rest(*ranks, 10ms);
    Peer& peer = *ranks->peer(0, 1);
    ASSERT_EQ(peer.session.state, ConnectState::open);
    ranks->kill(1);
    Message message(0, 1, 100);
    message.start(*ranks);
    ranks->core(0).selection().demote(peer);
    ASSERT_EQ(peer.session.state, ConnectState::closing);
    ranks->core(0).unsent(); // posts what tells
    EXPECT_EQ(ranks->core(0).unsent(), Core::Unsent::data);
}

// A rank that asks for a connection as the other end leaves gets no answer, and must not wait for
// one when it leaves itself.
TEST(Leaving, WhoEndsDoesNotWaitForAConnection) {
    for (const bool message : {false, true}) {
        SCOPED_TRACE(message);
        const auto ranks = two_that_talked();
        ranks->kill(1);
        ranks->core(0).selection().promote(*ranks->peer(0, 1));
        EXPECT_EQ(ranks->peer(0, 1)->session.state, ConnectState::requested);
        Message last(0, 1, 8);
        if (message) {
            last.start(*ranks);
        }
        const Nanoseconds before = ranks->now(0);
        ranks->core(0).drain(40ms);
        const Nanoseconds lasted = ranks->now(0) - before;
        EXPECT_GE(lasted, message ? 40ms : 10ms);
        EXPECT_LT(lasted, message ? 45ms : 30ms);
    }
}

// The other end leaves as soon as it has the reply to its disconnect. It should acknowledge that
// reply; if the acknowledgment is lost, nobody waits for it.
TEST(Leaving, WhoEndsDoesNotWaitForWhoHasLeft) {
    for (const bool lost : {false, true}) {
        SCOPED_TRACE(lost);
        const auto ranks = two_that_talked();
        Peer* const peers[] = {ranks->peer(0, 1), ranks->peer(1, 0)};
        const auto part = [&](std::size_t rank) {
            ranks->core(rank).protocol().disconnects().release(*peers[rank]);
            ranks->wake(rank);
        };
        const Peer& other = *peers[0];
        const DatagramLink& link = *other.contact.datagram.link;
        part(1);
        ASSERT_TRUE(ranks->run_until([&] { return other.ending.disconnect_received; }, 1s));
        part(0);
        ASSERT_TRUE(ranks->run_until([&] { return !other.session.disconnect_sent; }, 1s));
        ASSERT_FALSE(link.unacknowledged());
        ASSERT_TRUE(link.busy()) << "it is to acknowledge the answer";
        if (!lost) {
            ranks->core(0).drain(40ms);
            EXPECT_FALSE(link.busy());
            rest(*ranks, 1ms); // the acknowledgment arrives
        }
        ranks->kill(0);
        EXPECT_EQ(peers[1]->contact.datagram.link->unacknowledged(), lost);
        const Nanoseconds before = ranks->now(1);
        ranks->core(1).drain(40ms);
        EXPECT_LT(ranks->now(1) - before, lost ? Nanoseconds{25ms} : Nanoseconds{1ms});
    }
}

} // namespace
} // namespace adaptib::sim
