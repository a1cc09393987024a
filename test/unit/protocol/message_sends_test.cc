// SPDX-License-Identifier: BSD-3-Clause
// MessageSends: a request goes out as the message that its length, its mode and the peer ask for,
// and ends once that is out, or acknowledged; without room it waits; it ends with its peer.
#include "protocol/message_sends.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "protocol/ring_sends.h"
#include "unit/protocol/tagged_end.h"

namespace adaptib::test {
namespace {

constexpr Envelope kEnvelope{3, 5, 7};

class Sends : public testing::Test, protected TaggedEnd {
protected:
    Status send(Bytes bytes, bool synchronous = false) {
        return sends.send(peer.get(), kEnvelope, to_send(bytes), synchronous, OpKind::blocking,
                          user, complete);
    }
    // Starts a synchronous send. Returns its id.
    std::uint64_t send_sync(Bytes bytes) {
        EXPECT_TRUE(send(bytes, true).ok());
        EXPECT_FALSE(complete);
        return read_body<SyncBody>(take(MessageType::eager_sync).body.data()).send_id;
    }
    bool has_messages() { return sends.has_messages_of(*peer); }
};

TEST_F(Sends, AShortMessageIsOutWithinTheCall) {
    ASSERT_TRUE(send(100).ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(reported(), nullptr);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(user.bytes, 100u);
    const Message message = take(MessageType::eager);
    EXPECT_EQ(message.header.context, kEnvelope.context);
    EXPECT_EQ(message.header.source, kEnvelope.source);
    EXPECT_EQ(message.header.tag, kEnvelope.tag);
    ASSERT_EQ(message.body.size(), 100u);
    EXPECT_EQ(std::memcmp(message.body.data(), data.data(), 100), 0);
    EXPECT_FALSE(has_messages());
}

TEST_F(Sends, TheFastPathSendsTheSameMessageWithoutARequest) {
    ASSERT_TRUE(RingSends::try_send(*peer, kEnvelope, to_send(100)));
    ASSERT_TRUE(RingSends::copy_into_ring(*peer, kEnvelope.context, kEnvelope.source, kEnvelope.tag,
                                          data.data(), 100));
    ASSERT_TRUE(send(100).ok());
    const std::vector<Message> taken = take();
    ASSERT_EQ(taken.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(taken[i].header.sequence, i);
        EXPECT_EQ(taken[i].header.tag, kEnvelope.tag);
        EXPECT_EQ(taken[i].body, taken[2].body);
    }
}

TEST_F(Sends, TheFastPathRefusesWhatHasToGoAnotherWay) {
    EXPECT_FALSE(RingSends::try_send(*peer, kEnvelope, to_send(kLimit + 1))) << "too long";
    Data packed = to_send(8);
    packed.base = nullptr;
    EXPECT_FALSE(RingSends::try_send(*peer, kEnvelope, packed)) << "not contiguous";
    peer->allow(Allowance::announcements);
    EXPECT_FALSE(RingSends::try_send(*peer, kEnvelope, to_send(8))) << "restrained";
    peer->allow(Allowance::all);
    fill();
    EXPECT_FALSE(RingSends::try_send(*peer, kEnvelope, to_send(kLimit))) << "no room";
    take();
    EXPECT_TRUE(RingSends::try_send(*peer, kEnvelope, to_send(kLimit)));
}

TEST_F(Sends, WithoutRoomARequestWaitsForIt) {
    fill();
    ASSERT_TRUE(send(kLimit).ok());
    EXPECT_FALSE(complete);
    EXPECT_TRUE(has_messages());
    EXPECT_FALSE(RingSends::try_send(*peer, kEnvelope, to_send(8))) << "overtakes it";
    take();
    flow.retry();
    EXPECT_EQ(take(MessageType::eager).header.tag, kEnvelope.tag);
    EXPECT_EQ(reported(), &user);
    EXPECT_FALSE(has_messages());
}

TEST_F(Sends, ASynchronousMessageEndsWithItsAcknowledgment) {
    const std::uint64_t id = send_sync(100);
    EXPECT_TRUE(has_messages());
    EXPECT_TRUE(sends.any_wait());
    EXPECT_EQ(flow.waiting_acks(), 1u);
    flow.on_sync_ack(*peer, {id + 1});
    EXPECT_EQ(bad(), 1u);
    EXPECT_EQ(reported(), nullptr);
    flow.on_sync_ack(*peer, {id});
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.bytes, 100u);
    flow.on_sync_ack(*peer, {id});
    EXPECT_EQ(bad(), 2u);
    EXPECT_FALSE(sends.any_wait());
}

TEST_F(Sends, AnAcknowledgmentOfAnotherPeerDoesNotCount) {
    const std::uint64_t id = send_sync(100);
    const auto stranger = there.peer(10);
    flow.on_sync_ack(*stranger, {id});
    EXPECT_EQ(bad(), 1u);
    EXPECT_EQ(reported(), nullptr);
}

TEST_F(Sends, ALongMessageIsAnnouncedAndAConnectionRequested) {
    peer->session.state = ConnectState::idle;
    ASSERT_TRUE(send(kLimit + 1).ok());
    EXPECT_FALSE(complete);
    const Message message = take(MessageType::rendezvous);
    EXPECT_EQ(read_rendezvous(message.header, message.body.data()).bytes, kLimit + 1);
    EXPECT_TRUE(losses.events.any(PeerEvent::want_connection));
    EXPECT_EQ(rendezvous.sends(), 1u);
    EXPECT_TRUE(sends.any_wait());
    EXPECT_TRUE(has_messages());
}

TEST_F(Sends, AChannelThatHasBecomeShorterTakesTheAnnouncement) {
    constexpr Bytes kLonger = 470;
    peer->flow.eager_limit = kLonger;
    fill();
    ASSERT_TRUE(send(kLonger, true).ok());
    EXPECT_EQ(rendezvous.sends(), 0u);
    take();
    peer->out.ring_capacity = 300;
    ASSERT_LT(peer->message_capacity(), kLonger);
    flow.retry();
    const Message message = take(MessageType::rendezvous);
    EXPECT_EQ(read_rendezvous(message.header, message.body.data()).bytes, kLonger);
    EXPECT_EQ(flow.waiting_acks(), 0u);
}

TEST_F(Sends, APeerThatTakesNothingGetsTheMessageOnceItDoesAgain) {
    sends.on_allowance(*peer, static_cast<std::uint8_t>(Allowance::nothing));
    ASSERT_TRUE(send(100).ok());
    EXPECT_TRUE(take().empty());
    EXPECT_EQ(flow.queued(), 1u);
    EXPECT_TRUE(has_messages());
    sends.on_allowance(*peer, static_cast<std::uint8_t>(Allowance::all));
    take(MessageType::eager);
    EXPECT_EQ(reported(), &user);
    sends.on_allowance(*peer, static_cast<std::uint8_t>(Allowance::nothing) + 1);
    EXPECT_EQ(bad(), 1u);
}

TEST_F(Sends, APeerThatTakesAnnouncementsGetsOne) {
    sends.on_allowance(*peer, static_cast<std::uint8_t>(Allowance::announcements));
    ASSERT_TRUE(send(kLimit).ok());
    take(MessageType::rendezvous);
}

TEST_F(Sends, AnErrorOfTheRingEndsEachSendOnce) {
    send_sync(100);
    peer->session.repairable = false;
    ring.qp.post_result = Status::error(Reason::peer_gone);
    ASSERT_TRUE(
        sends.send(peer.get(), kEnvelope, to_send(8), false, OpKind::blocking, other, complete)
            .ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(other.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_TRUE(peer->session.lost());
    EXPECT_EQ(losses.reported.size(), 1u);
    EXPECT_EQ(reported(), nullptr) << "not in the middle of something";
    end_lost();
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(reported(), nullptr);
}

TEST_F(Sends, WhatWaitsEndsWithThePeer) {
    const std::uint64_t id = send_sync(100);
    fill();
    ASSERT_TRUE(
        sends.send(peer.get(), kEnvelope, to_send(kLimit), false, OpKind::blocking, other, complete)
            .ok());
    EXPECT_FALSE(complete);
    int awaited = 0;
    flow.for_each_waiting_ack([&](const Peer& each) { awaited += &each == peer.get() ? 1 : 0; });
    EXPECT_EQ(awaited, 1);
    peer->session.state = ConnectState::failed;
    sends.fail(*peer);
    EXPECT_NE(reported(), nullptr);
    EXPECT_NE(reported(), nullptr);
    EXPECT_EQ(reported(), nullptr);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(other.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_FALSE(has_messages());
    flow.on_sync_ack(*peer, {id});
    EXPECT_EQ(bad(), 1u);

    EXPECT_EQ(send(8), Status::error(Reason::unreachable));
    EXPECT_EQ(losses.reported.size(), 1u);
}

TEST_F(Sends, DataThatCannotBePackedEndsItsRequest) {
    const auto fails = [](void*, std::size_t, void*, std::size_t*) { return -1; };
    const Data packed{nullptr, 100, fails, nullptr, nullptr};
    ASSERT_TRUE(
        sends.send(peer.get(), kEnvelope, packed, true, OpKind::blocking, user, complete).ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_ERROR);
    EXPECT_EQ(flow.waiting_acks(), 0u);
    EXPECT_TRUE(take().empty());
}

} // namespace
} // namespace adaptib::test
