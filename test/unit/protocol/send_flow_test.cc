// SPDX-License-Identifier: BSD-3-Clause
// SendFlow, over a ring whose reader the test is: messages arrive in their order, whatever had to
// wait; held requests stay with this process; after a repair nothing is missing.
#include "protocol/send_flow.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "unit/channel/ring_pair.h"
#include "unit/protocol/held_flow.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kUnits = 64;
constexpr Bytes kCapacity = 256;
constexpr std::uint64_t kThreshold = 3;

class Flow : public testing::Test, PendingSender {
protected:
    Flow() {
        peer->session.state = ConnectState::open;
        peer->session.repairable = true;
        use(*ring);
    }
    ~Flow() override {
        flow.forget(*peer);
        EXPECT_EQ(flow.queued(), 0u);
    }

    void use(Ring& to) {
        peer->out.ring = std::move(to.writer);
        peer->out.ring_capacity = kCapacity;
    }
    void send_control(std::uint64_t id) {
        const IdBody body{id};
        flow.send_control(*peer, MessageType::sync_ack, &body, sizeof body);
    }
    // Sends control messages until the ring is full. Returns their number.
    std::uint64_t fill() {
        std::uint64_t sent = 0;
        while (!flow.any_stalled()) {
            send_control(sent++);
        }
        return sent;
    }
    // Takes the messages that are in the ring.
    std::vector<MessageHeader> take() {
        std::vector<MessageHeader> taken;
        ring->take_all(*peer->out.ring, [&](const MessageHeader& header, const std::byte* body) {
            taken.push_back(header);
            if (header.type == MessageType::sync_ack) {
                ids.push_back(read_body<IdBody>(body).id);
            }
        });
        return taken;
    }
    SendRequest& request(MessageType type = MessageType::eager, Bytes bytes = 8) {
        SendRequest& made = *requests.emplace_back(std::make_unique<SendRequest>());
        made.peer = peer.get();
        made.user = users.emplace_back(std::make_unique<UserRequest>()).get();
        made.type = type;
        made.data.bytes = bytes;
        return made;
    }

    // Returns the requests that have ended as lost since the last call.
    std::vector<const SendRequest*> lost() {
        std::vector<const SendRequest*> found;
        while (!completions.list().empty()) {
            const UserRequest* const user = completions.list().pop();
            EXPECT_EQ(user->status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
            for (const auto& each : requests) {
                if (each->user == user) {
                    found.push_back(each.get());
                }
            }
        }
        return found;
    }

    TwoRails there;
    std::unique_ptr<Ring> ring = std::make_unique<Ring>(kUnits, false);
    std::unique_ptr<Peer> peer = there.peer(9);
    BlockPool pool;
    Losses losses{there.counters};
    Completions completions;
    SendFlow flow{kThreshold,    {*this, *this, *this}, pool,          completions,
                  losses.events, losses.peers,          there.counters};
    std::vector<std::unique_ptr<UserRequest>> users;
    std::vector<std::unique_ptr<SendRequest>> requests;
    std::vector<std::uint64_t> ids;         // of control messages that have arrived
    std::vector<const PendingSend*> passed; // to transmit
    bool has_room = true;                   // for requests

private:
    bool transmit(PendingSend& send) override {
        passed.push_back(&send);
        return has_room;
    }
};

TEST_F(Flow, WithRoomAControlMessageGoesAtOnce) {
    send_control(4);
    EXPECT_FALSE(flow.any_stalled());
    const std::vector<MessageHeader> arrived = take();
    ASSERT_EQ(arrived.size(), 1u);
    EXPECT_EQ(arrived[0].type, MessageType::sync_ack);
    EXPECT_EQ(ids, std::vector<std::uint64_t>{4});
}

TEST_F(Flow, WithoutRoomMessagesWaitInTheirOrder) {
    std::uint64_t sent = fill();
    EXPECT_EQ(there.counters.send_stalls, 1u);
    for (int i = 0; i < 100; ++i) {
        send_control(sent++);
    }
    EXPECT_TRUE(flow.retry().empty()) << "there is still no room";
    std::vector<Peer*> flushed;
    for (int pass = 0; pass < 1000 && ids.size() < sent; ++pass) {
        take();
        for (Peer* each : flow.retry()) {
            flushed.push_back(each);
        }
    }
    ASSERT_EQ(ids.size(), sent);
    for (std::uint64_t i = 0; i < sent; ++i) {
        EXPECT_EQ(ids[i], i);
    }
    EXPECT_FALSE(flow.any_stalled());
    EXPECT_EQ(flushed, std::vector<Peer*>{peer.get()});
}

TEST_F(Flow, TheOwnersSendsHaveTheirTurns) {
    has_room = false;
    SendRequest& first = request();
    flow.stall(*peer, first);
    send_control(1);
    SendRequest& last = request();
    flow.stall(*peer, last);
    EXPECT_EQ(flow.retry().size(), 0u);
    EXPECT_TRUE(take().empty()) << "nothing overtakes the first one";
    has_room = true;
    EXPECT_EQ(flow.retry().size(), 1u);
    EXPECT_EQ(passed, (std::vector<const PendingSend*>{&first, &first, &last}));
    take();
    EXPECT_EQ(ids, std::vector<std::uint64_t>{1});
}

TEST_F(Flow, APeerThatTakesNoMessagesGetsControlAndActiveMessages) {
    has_room = false;
    SendRequest& matched = request();
    SendRequest& active = request(MessageType::active);
    flow.stall(*peer, matched);
    flow.stall(*peer, active);
    peer->allow(Allowance::nothing);
    flow.queue_pending(*peer);
    EXPECT_EQ(flow.queued(), 1u);
    has_room = true;
    send_control(1);
    EXPECT_EQ(flow.retry().size(), 1u);
    EXPECT_EQ(passed, std::vector<const PendingSend*>{&active});
    SendRequest& later = request(MessageType::eager, 100'000);
    ASSERT_TRUE(SendFlow::must_queue(*peer, later));
    flow.queue_send(later);
    flow.send_queued(*peer);
    EXPECT_EQ(flow.queued(), 2u);

    peer->allow(Allowance::announcements);
    flow.send_queued(*peer);
    EXPECT_EQ(flow.queued(), 0u);
    EXPECT_EQ(passed, (std::vector<const PendingSend*>{&active, &matched, &later}));
    EXPECT_EQ(matched.type, MessageType::eager) << "as short as an announcement";
    EXPECT_EQ(later.type, MessageType::rendezvous);
}

TEST_F(Flow, NothingPassesTheBarrier) {
    flow.interrupt(*peer);
    send_control(1);
    flow.retry();
    EXPECT_TRUE(take().empty());
    flow.resume(*peer);
    take();
    EXPECT_EQ(ids, std::vector<std::uint64_t>{1});
    EXPECT_FALSE(flow.any_stalled());
}

TEST_F(Flow, AfterARepairMessagesInDoubtComeFirstAndThoseThatArrivedNotAgain) {
    send_control(10);
    send_control(11);
    const std::size_t arrived = take().size();
    ASSERT_EQ(arrived, 2u);
    ring->credit = 0; // the writer has not heard of it
    send_control(12);
    ring->qp.lose();
    flow.interrupt(*peer);
    send_control(13);
    flow.on_fenced(*peer);
    peer->out.ring.reset();
    ring = std::make_unique<Ring>(kUnits, false);
    use(*ring);
    peer->interruption.repair.expected = 2;
    flow.resume(*peer);
    const std::vector<MessageHeader> again = take();
    ASSERT_EQ(again.size(), 2u);
    EXPECT_EQ(again[0].sequence, 2u);
    EXPECT_EQ(again[1].sequence, 3u);
    EXPECT_EQ(ids, (std::vector<std::uint64_t>{10, 11, 12, 13}));
    EXPECT_EQ(there.counters.messages_repeated, 1u);
    EXPECT_FALSE(flow.any_stalled());
}

TEST_F(Flow, OnceThePeerHasFailedRequestsAreLost) {
    has_room = false;
    SendRequest& pending = request();
    SendRequest& held = request();
    flow.stall(*peer, pending);
    send_control(1);
    flow.queue_send(held);
    peer->session.state = ConnectState::failed;
    flow.fail(*peer);
    EXPECT_EQ(lost(), (std::vector<const SendRequest*>{&pending, &held}));
    EXPECT_FALSE(flow.any_stalled());
    EXPECT_FALSE(peer->out.has_pending());
    EXPECT_EQ(flow.queued(), 0u);
    send_control(2);
    EXPECT_FALSE(peer->out.has_pending()) << "nothing is kept for it";
}

TEST_F(Flow, NothingThatWaitsIsSentToALostPeer) {
    fill();
    SendRequest& pending = request();
    SendRequest& held = request();
    flow.stall(*peer, pending);
    flow.queue_send(held);
    losses.peers.lose(*peer, "test");
    take();
    EXPECT_EQ(flow.retry().size(), 0u);
    flow.send_queued(*peer);
    EXPECT_TRUE(take().empty() && passed.empty());
    flow.fail(*peer);
    EXPECT_EQ(lost(), (std::vector<const SendRequest*>{&pending, &held}));
}

TEST_F(Flow, AnErrorOfTheRingFailsThePeerUnlessItIsLeaving) {
    peer->session.repairable = false;
    ring->qp.post_result = Status::error(Reason::peer_gone);
    peer->health.life.left = true;
    flow.send_control(*peer, MessageType::disconnect, nullptr, 0);
    EXPECT_TRUE(losses.none());
    EXPECT_EQ(losses.events.take(PeerEvent::gone), std::vector<Peer*>{peer.get()});
    send_control(1);
    EXPECT_TRUE(losses.only(*peer));
    EXPECT_EQ(peer->session.state, ConnectState::failed);
}

TEST_F(Flow, APeerThatIsNotGoneIsLostWithItsDisconnectToo) {
    peer->session.repairable = false;
    ring->qp.post_result = Status::error(Reason::peer_gone);
    flow.send_control(*peer, MessageType::disconnect, nullptr, 0);
    EXPECT_TRUE(losses.only(*peer));
}

TEST_F(Flow, ABrokenRingWantsARepair) {
    has_room = false;
    flow.stall(*peer, request());
    flow.retry();
    EXPECT_FALSE(losses.events.any(PeerEvent::want_repair));
    peer->session.ring_broken = true;
    flow.retry();
    EXPECT_EQ(losses.events.take(PeerEvent::want_repair), std::vector<Peer*>{peer.get()});
}

TEST_F(Flow, AConnectionIsWantedAfterSomeMessages) {
    flow.note_sent(*peer);
    EXPECT_EQ(peer->flow.messages_sent, 0u) << "it has one";
    peer->session.state = ConnectState::idle;
    for (std::uint64_t i = 1; i < kThreshold; ++i) {
        flow.note_sent(*peer);
        EXPECT_FALSE(losses.events.any());
    }
    flow.note_sent(*peer);
    EXPECT_EQ(losses.events.take(PeerEvent::want_connection), std::vector<Peer*>{peer.get()});
}

TEST_F(Flow, DisconnectMessagesAloneAreNoBusiness) {
    flow.interrupt(*peer);
    const IdBody body{1};
    flow.send_control(*peer, MessageType::disconnect, &body, sizeof body);
    EXPECT_FALSE(SendFlow::has_more_than_disconnects(*peer));
    send_control(2);
    EXPECT_TRUE(SendFlow::has_more_than_disconnects(*peer));
}

// A peer that has said that it ends had got all that it waited for.
TEST_F(Flow, WhatIsInDoubtIsNoBusinessOfAPeerThatHasLeft) {
    RepeatedMessage message;
    peer->interruption.in_doubt.add(message);
    EXPECT_TRUE(SendFlow::has_more_than_disconnects(*peer));
    peer->health.life.left = true;
    EXPECT_FALSE(SendFlow::has_more_than_disconnects(*peer));
    peer->interruption.in_doubt.take();
}

} // namespace
} // namespace adaptib::test
