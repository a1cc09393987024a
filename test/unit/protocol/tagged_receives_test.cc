// SPDX-License-Identifier: BSD-3-Clause
// TaggedReceives: a message meets its receive whichever comes first, of each kind and length;
// probes; the bound on unexpected messages; messages to this process; receives of a lost peer.
#include "protocol/tagged_receives.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "unit/protocol/tagged_end.h"

namespace adaptib::test {
namespace {

constexpr Envelope kEnvelope{3, 5, 7};
constexpr Envelope kAny{3, Envelope::kAnySource, Envelope::kAnyTag};
constexpr std::uint64_t kSendId = 77;

class Receives : public testing::Test, protected TaggedEnd {
protected:
    Status receive(Bytes bytes, const Envelope& pattern = kEnvelope, Peer* from = nullptr) {
        return receives.receive(pattern, to_fill(bytes), user, complete, from);
    }
    // Messages of the peer.
    void eager(Bytes bytes) { receives.on_eager(*peer, kEnvelope, data.data(), bytes); }
    void eager_sync(Bytes bytes) {
        std::vector<std::byte> body(sizeof(SyncBody) + bytes);
        const SyncBody sync{kSendId};
        std::memcpy(body.data(), &sync, sizeof sync);
        std::memcpy(body.data() + sizeof sync, data.data(), bytes);
        receives.on_eager_sync(*peer, header(MessageType::eager_sync, body.size()), body.data());
    }
    void announce(Bytes bytes) {
        RendezvousBody source{};
        source.bytes = bytes;
        source.send_id = kSendId;
        source.address = 0x10000;
        source.kind = SourceKind::direct;
        source.key_count = 2;
        receives.on_rendezvous(*peer, header(MessageType::rendezvous, sizeof source), source);
    }
    static MessageHeader header(MessageType type, Bytes length) {
        MessageHeader made;
        made.type = type;
        made.length = static_cast<std::uint32_t>(length);
        made.context = kEnvelope.context;
        made.source = kEnvelope.source;
        made.tag = kEnvelope.tag;
        return made;
    }
    void expect_received(Bytes bytes, int status = OPAL_COMMON_ADAPTIB_SUCCESS) {
        EXPECT_EQ(user.status, status);
        EXPECT_EQ(user.bytes, bytes);
        EXPECT_EQ(user.source, kEnvelope.source);
        EXPECT_EQ(user.tag, kEnvelope.tag);
        EXPECT_EQ(std::memcmp(got.data(), data.data(), bytes), 0);
    }
    void send_to_self(Bytes bytes, bool synchronous = false) {
        bool at_once = false;
        ASSERT_TRUE(sends
                        .send(nullptr, kEnvelope, to_send(bytes), synchronous, OpKind::blocking,
                              other, at_once)
                        .ok());
        sent = at_once;
    }

    bool sent = false; // a message to this process, within its call
};

TEST_F(Receives, APostedReceiveGetsTheMessage) {
    ASSERT_TRUE(receive(100, kAny).ok());
    EXPECT_FALSE(complete);
    EXPECT_EQ(receives.posted(), 1u);
    eager(100);
    EXPECT_EQ(reported(), &user);
    expect_received(100);
    EXPECT_EQ(receives.posted(), 0u);
}

TEST_F(Receives, AReceiveTakesTheMessageThatCameBefore) {
    for (const Bytes bytes : {0u, 8u, 100u, 2000u}) {
        eager(bytes);
        EXPECT_TRUE(receives.keeps_messages_of(*peer));
        ASSERT_TRUE(receive(2000, kAny).ok());
        EXPECT_TRUE(complete);
        expect_received(bytes);
        EXPECT_FALSE(receives.keeps_messages_of(*peer));
        EXPECT_EQ(receives.pool().in_use(), 0u);
    }
    EXPECT_EQ(reported(), nullptr);
    EXPECT_EQ(there.counters.unexpected, 4u);
}

TEST_F(Receives, AMessageLongerThanTheBufferIsCutOff) {
    ASSERT_TRUE(receive(60).ok());
    eager(100);
    EXPECT_EQ(reported(), &user);
    expect_received(60, OPAL_COMMON_ADAPTIB_TRUNCATED);
    eager(100);
    ASSERT_TRUE(receive(50).ok());
    EXPECT_TRUE(complete);
    expect_received(50, OPAL_COMMON_ADAPTIB_TRUNCATED);
}

TEST_F(Receives, ASynchronousMessageIsAcknowledgedOnceItIsMatched) {
    ASSERT_TRUE(receive(100).ok());
    eager_sync(100);
    EXPECT_EQ(read_body<IdBody>(take(MessageType::sync_ack).body.data()).id, kSendId);
    expect_received(100);
    eager_sync(100);
    EXPECT_TRUE(take().empty());
    ASSERT_TRUE(receive(100).ok());
    EXPECT_EQ(read_body<IdBody>(take(MessageType::sync_ack).body.data()).id, kSendId);
    EXPECT_TRUE(complete);
    expect_received(100);
}

TEST_F(Receives, TheDataOfAnAnnouncedMessageIsFetchedOnceItIsMatched) {
    announce(1500);
    EXPECT_EQ(posted(), 0u);
    ASSERT_TRUE(receive(2000).ok());
    EXPECT_FALSE(complete);
    EXPECT_EQ(posted(), 1u);
    complete_all();
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.bytes, 1500u);
    take(MessageType::finish);

    ASSERT_TRUE(receive(1000).ok());
    announce(1500);
    complete_all();
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_TRUNCATED);
    EXPECT_EQ(user.bytes, 1000u);
    take(MessageType::finish);
}

TEST_F(Receives, AnAnnouncedMessageOfWhichNothingIsWantedIsFinished) {
    ASSERT_TRUE(receive(0).ok());
    announce(1500);
    EXPECT_EQ(posted(), 0u);
    EXPECT_EQ(read_body<IdBody>(take(MessageType::finish).body.data()).id, kSendId);
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_TRUNCATED);
}

TEST_F(Receives, AProbeLeavesTheMessageAndAMatchedProbeTakesIt) {
    EXPECT_EQ(receives.find(kAny), nullptr);
    eager(100);
    const InboundMessage* const found = receives.find(kAny, peer.get());
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->length, 100u);
    InboundMessage* const taken = receives.take(kEnvelope);
    EXPECT_EQ(taken, found);
    EXPECT_EQ(receives.find(kAny), nullptr);
    ASSERT_TRUE(receives.receive_taken(*taken, to_fill(100), user, complete).ok());
    EXPECT_TRUE(complete);
    expect_received(100);
}

TEST_F(Receives, ACancelledReceiveGetsNoMessage) {
    ASSERT_TRUE(receive(100).ok());
    EXPECT_TRUE(receives.cancel(user));
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_CANCELLED);
    EXPECT_FALSE(receives.cancel(user));
    eager(100);
    EXPECT_TRUE(receives.keeps_messages_of(*peer));
    EXPECT_EQ(reported(), nullptr);
}

TEST_F(Receives, AMessageToThisProcessIsCopiedOnceItIsMatched) {
    ASSERT_TRUE(receive(100).ok());
    send_to_self(100);
    EXPECT_TRUE(sent);
    EXPECT_EQ(reported(), &user);
    expect_received(100);
    EXPECT_EQ(there.counters.self_sent, 1u);

    send_to_self(kSelfLimit);
    EXPECT_TRUE(sent) << "copied";
    ASSERT_TRUE(receive(100).ok());
    EXPECT_TRUE(complete);
    expect_received(kSelfLimit);

    for (const bool synchronous : {false, true}) {
        const Bytes bytes = synchronous ? 8 : kSelfLimit + 1;
        send_to_self(bytes, synchronous);
        EXPECT_FALSE(sent);
        ASSERT_TRUE(receive(100).ok());
        EXPECT_TRUE(complete);
        expect_received(bytes);
        EXPECT_EQ(reported(), &other);
        EXPECT_EQ(other.bytes, bytes);
    }
}

TEST_F(Receives, APeerWhoseMessagesTakeTooMuchMemoryIsRestrained) {
    while (!receives.back_pressure().restrains()) {
        eager(kLimit);
        ASSERT_LE(receives.back_pressure().bytes(), kMost);
    }
    EXPECT_EQ(allowed(), Allowance::nothing);
    EXPECT_EQ(receives.find({3, 5, 8}, peer.get()), nullptr);
    EXPECT_EQ(allowed(), Allowance::announcements) << "the probe may be for one of its";
    while (receives.find(kAny) != nullptr) {
        ASSERT_TRUE(receive(kLimit).ok());
        EXPECT_TRUE(complete);
    }
    EXPECT_EQ(allowed(), Allowance::all);
    EXPECT_EQ(receives.back_pressure().bytes(), 0u);
    receives.update_levels();
    EXPECT_EQ(there.counters.unexpected_bytes, 0u);
}

TEST_F(Receives, ARestrainedPeerIsLookedAtEachTimeThatSomeMemoryIsFree) {
    BackPressure& pressure = receives.back_pressure();
    const auto nothing = [] { return Allowance::nothing; };
    constexpr Bytes kStep = kMost / 8;
    constexpr Bytes kEach = kStep - 124; // of others, none of which is restrained
    std::vector<std::unique_ptr<Peer>> others;
    for (std::uint64_t i = 0; i < 8; ++i) {
        pressure.on_kept(*others.emplace_back(there.peer(10 + i)), kEach, nothing);
    }
    pressure.on_kept(*peer, kStep, nothing);
    EXPECT_EQ(allowed(), Allowance::nothing);
    std::size_t received = 0;
    for (; received < 5; ++received) {
        pressure.on_received(*others[received], kEach);
    }
    EXPECT_LT(pressure.bytes(), kMost / 2) << "it may go on";
    EXPECT_TRUE(take().empty()) << "since the last look less than a step has become free";
    pressure.on_received(*others[received++], kEach);
    EXPECT_EQ(allowed(), Allowance::all);
    for (; received < others.size(); ++received) {
        pressure.on_received(*others[received], kEach);
    }
    pressure.on_received(*peer, kStep);
    EXPECT_EQ(pressure.bytes(), 0u);
}

TEST_F(Receives, AReceiveMayAwaitItsSenderOrAnyIfThatIsNotKnown) {
    const auto stranger = there.peer(10);
    EXPECT_FALSE(receives.may_await(*peer));
    ASSERT_TRUE(receive(100, kEnvelope, peer.get()).ok());
    EXPECT_TRUE(receives.may_await(*peer));
    EXPECT_FALSE(receives.may_await(*stranger));
    int senders = 0;
    receives.for_each_sender([&](const Peer& each) { senders += &each == peer.get() ? 1 : 0; });
    EXPECT_EQ(senders, 1);
    ASSERT_TRUE(receives.receive(kAny, to_fill(8), other, complete).ok());
    EXPECT_TRUE(receives.may_await(*stranger));
    receives.update_levels();
    EXPECT_EQ(there.counters.posted_now, 2u);
    receives.drop_receives();
    EXPECT_EQ(receives.posted(), 0u);
    EXPECT_EQ(reported(), nullptr);
}

TEST_F(Receives, OnlyReceivesOfTheLostPeerEndWithIt) {
    ASSERT_TRUE(receive(100, kEnvelope, peer.get()).ok());
    ASSERT_TRUE(receives.receive(kAny, to_fill(8), other, complete).ok());
    peer->session.state = ConnectState::failed;
    receives.fail(*peer);
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(reported(), nullptr);
    EXPECT_EQ(receives.posted(), 1u);

    EXPECT_EQ(receive(100, kEnvelope, peer.get()), Status::error(Reason::unreachable));
    EXPECT_EQ(losses.reported.size(), 1u);
    EXPECT_EQ(receives.posted(), 1u);
}

TEST_F(Receives, AnAnnouncedMessageOfALostPeerEndsItsReceive) {
    announce(1500);
    peer->session.state = ConnectState::failed;
    ASSERT_TRUE(receive(2000).ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(user.bytes, 0u);
    EXPECT_EQ(posted(), 0u);
}

} // namespace
} // namespace adaptib::test
