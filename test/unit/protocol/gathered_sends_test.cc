// SPDX-License-Identifier: BSD-3-Clause
// GatheredSends: a message from a buffer that is sent often is not copied, and its request ends
// when the device is done with the buffer; whoever waits for its send gets a copy.
#include "protocol/gathered_sends.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "protocol/active_messages.h"
#include "unit/channel/datagram_rail.h"
#include "unit/protocol/tagged_end.h"

namespace adaptib::test {
namespace {

constexpr Envelope kEnvelope{3, 5, 7};
constexpr Bytes kShort = FrequentBuffers::kLeastBytes;

ExposedMemory::Options always() {
    ExposedMemory::Options options{.registration_cache = 1 << 20, .block_bytes = 1024};
    options.frequent.mode = FrequentBuffersOptions::Mode::always;
    return options;
}

class GatheredMessagesOfAPeer : public testing::Test, protected TaggedEnd {
protected:
    GatheredMessagesOfAPeer() : TaggedEnd(always()) {
        first.set_max_gather(kRingGather);
        second.set_max_gather(kRingGather);
        peer->control.lane = 0;
        sends.gathered().begin(*peer, rails);
    }
    Status send(Bytes bytes, SendCaller caller, UserRequest& of, bool synchronous = false) {
        return sends.send(peer.get(), kEnvelope, to_send(bytes), synchronous, caller, of, complete);
    }
    Status send(Bytes bytes, SendCaller caller = OpKind::non_blocking) {
        return send(bytes, caller, user);
    }
    std::uint64_t gathered() const { return there.counters.messages_gathered; }
    // The device carries all that was posted. Returns the messages that have arrived.
    std::vector<Message> carry() {
        std::vector<Message> taken = take();
        peer->flow.gathered.on_written(peer->out.ring->poster().completed());
        return taken;
    }
    bool holds(const Message& message, std::byte value) {
        return message.body == std::vector<std::byte>(message.body.size(), value);
    }
    void fill_data(std::byte value) { std::fill(data.begin(), data.end(), value); }
};

TEST_F(GatheredMessagesOfAPeer, ARequestEndsWhenTheDeviceIsDone) {
    fill_data(std::byte{1});
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_FALSE(complete);
    EXPECT_EQ(gathered(), 1u);
    EXPECT_TRUE(transfers.work_outstanding()) << "progress has to poll";
    EXPECT_TRUE(sends.has_messages_of(*peer));
    fill_data(std::byte{2}); // the device has not read it yet: there is no copy
    const std::vector<Message> taken = carry();
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0].header.tag, kEnvelope.tag);
    EXPECT_EQ(taken[0].body.size(), kShort);
    EXPECT_TRUE(holds(taken[0], std::byte{2}));
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(user.bytes, kShort);
    EXPECT_FALSE(transfers.work_outstanding());
    EXPECT_FALSE(sends.has_messages_of(*peer));
}

TEST_F(GatheredMessagesOfAPeer, WhoWaitsGetsACopy) {
    for (const SendCaller caller : {SendCaller(OpKind::blocking), {OpKind::collective, true}}) {
        ASSERT_TRUE(send(kShort, caller).ok());
        EXPECT_TRUE(complete);
    }
    EXPECT_EQ(gathered(), 0u);
    ASSERT_TRUE(send(kShort, OpKind::collective).ok());
    EXPECT_FALSE(complete);
    EXPECT_EQ(gathered(), 1u);
    EXPECT_EQ(carry().size(), 3u);
}

TEST_F(GatheredMessagesOfAPeer, ShortSynchronousAndPackedMessagesAreCopied) {
    ASSERT_TRUE(send(kShort - 1).ok());
    EXPECT_TRUE(complete);
    ASSERT_TRUE(send(kShort, OpKind::non_blocking, other, true).ok());
    Data packed = to_send(kShort);
    packed.base = nullptr;
    packed.context = data.data();
    packed.pack = [](void* context, std::size_t offset, void* to, std::size_t* length) {
        std::memcpy(to, static_cast<std::byte*>(context) + offset, *length);
        return 0;
    };
    ASSERT_TRUE(
        sends.send(peer.get(), kEnvelope, packed, false, OpKind::non_blocking, user, complete)
            .ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(gathered(), 0u);
    EXPECT_EQ(carry().size(), 3u);
}

TEST_F(GatheredMessagesOfAPeer, TheFastPathLeavesThemToARequest) {
    EXPECT_TRUE(RingSends::try_isend(*peer, kEnvelope, data.data(), kShort - 1));
    EXPECT_FALSE(RingSends::try_isend(*peer, kEnvelope, data.data(), kShort));
    EXPECT_TRUE(RingSends::try_send(*peer, kEnvelope, data.data(), kShort)) << "its caller waits";
    peer->flow.gathers = nullptr;
    EXPECT_TRUE(RingSends::try_isend(*peer, kEnvelope, data.data(), kShort));
    EXPECT_EQ(carry().size(), 3u);
}

// The fast path finds a buffer for the request that follows, and that is another one.
TEST_F(GatheredMessagesOfAPeer, ABufferIsFoundForOneRequest) {
    EXPECT_FALSE(RingSends::try_isend(*peer, kEnvelope, data.data(), kShort));
    ASSERT_TRUE(send(kShort - 1).ok());
    EXPECT_TRUE(complete);
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_FALSE(complete);
    EXPECT_EQ(gathered(), 1u);
    EXPECT_EQ(carry().size(), 2u);
}

TEST_F(GatheredMessagesOfAPeer, ABufferThatTheFastPathHasFoundIsNotLookedForAgain) {
    EXPECT_FALSE(RingSends::try_isend(*peer, kEnvelope, data.data(), kShort));
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_EQ(gathered(), 1u);
    EXPECT_EQ(there.counters.frequent_gathered, 1u);
    EXPECT_EQ(carry().size(), 1u);
}

TEST_F(GatheredMessagesOfAPeer, WhatCannotBeRegisteredIsCopied) {
    constexpr std::uintptr_t kPage = 4096;
    first.refused = second.refused =
        reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data.data()) & ~(kPage - 1));
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_TRUE(complete);
    EXPECT_TRUE(RingSends::try_isend(*peer, kEnvelope, data.data(), kShort));
    EXPECT_EQ(gathered(), 0u);
    EXPECT_EQ(carry().size(), 2u);
}

TEST_F(GatheredMessagesOfAPeer, RailsThatGatherTooLittleCopy) {
    second.set_max_gather(kRingGather - 1);
    sends.gathered().begin(*peer, rails);
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(carry().size(), 1u);
}

TEST_F(GatheredMessagesOfAPeer, WithoutRoomARequestWaitsAndIsGatheredLater) {
    fill();
    ASSERT_TRUE(send(kLimit).ok());
    EXPECT_FALSE(complete);
    EXPECT_EQ(gathered(), 0u);
    carry();
    flow.retry();
    EXPECT_EQ(gathered(), 1u);
    EXPECT_EQ(reported(), nullptr);
    EXPECT_EQ(carry().size(), 1u);
    EXPECT_EQ(reported(), &user);
}

TEST_F(GatheredMessagesOfAPeer, AQueuePairWithoutRoomIsTriedAgain) {
    ring.qp.post_result = Status::again(Reason::queue_full);
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_FALSE(complete);
    EXPECT_FALSE(transfers.work_outstanding());
    ring.qp.post_result = kOk;
    flow.retry();
    EXPECT_EQ(carry().size(), 1u);
    EXPECT_EQ(reported(), &user);
}

TEST_F(GatheredMessagesOfAPeer, NoMoreAreUnderWayThanCompletionsFit) {
    std::vector<std::unique_ptr<UserRequest>> users;
    while (transfers.takes_more()) {
        users.push_back(std::make_unique<UserRequest>());
        ASSERT_TRUE(send(kShort, OpKind::non_blocking, *users.back()).ok());
        ASSERT_FALSE(complete);
    }
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_TRUE(complete) << "copied";
    EXPECT_EQ(carry().size(), users.size() + 1);
    EXPECT_TRUE(transfers.takes_more());
}

TEST_F(GatheredMessagesOfAPeer, AfterTheFenceACopyIsRepeatedAndTheBufferFree) {
    fill_data(std::byte{1});
    ASSERT_TRUE(send(kShort).ok());
    ASSERT_TRUE(send(kShort + 1, OpKind::blocking, other).ok());
    ring.qp.lose();
    flow.interrupt(*peer);
    flow.on_fenced(*peer);
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_FALSE(transfers.work_outstanding());
    fill_data(std::byte{2});
    for (const Bytes length : {kShort, kShort + 1}) {
        ASSERT_FALSE(peer->interruption.in_doubt.empty());
        auto& repeated = static_cast<RepeatedMessage&>(*peer->interruption.in_doubt.take());
        EXPECT_EQ(repeated.header.sequence, length - kShort);
        const std::vector<std::byte> body(repeated.body(),
                                          repeated.body() + repeated.header.length);
        EXPECT_EQ(body, std::vector<std::byte>(length, std::byte{1}));
        receives.pool().release(&repeated, repeated.size());
    }
    EXPECT_TRUE(peer->interruption.in_doubt.empty());
}

TEST_F(GatheredMessagesOfAPeer, WhatHasArrivedIsNotRepeated) {
    ASSERT_TRUE(send(kShort).ok());
    ring.qp.show(~std::size_t{0});
    for (std::size_t left = ring.qp.completions(); left > 0; --left) {
        peer->out.ring->poster().on_completion();
    }
    peer->flow.gathered.on_written(peer->out.ring->poster().completed());
    ASSERT_EQ(reported(), &user);
    fill_data(std::byte{9});
    flow.interrupt(*peer);
    flow.on_fenced(*peer);
    EXPECT_TRUE(peer->interruption.in_doubt.empty());
}

TEST_F(GatheredMessagesOfAPeer, TheyEndWithTheirPeer) {
    ASSERT_TRUE(send(kShort).ok());
    ASSERT_TRUE(send(kShort, OpKind::non_blocking, other).ok());
    peer->session.state = ConnectState::failed;
    sends.fail(*peer);
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(reported(), &other);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(other.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_FALSE(transfers.work_outstanding());
}

// Active messages: a header of the caller's, which is copied, and data in the user's buffer.
class GatheredActiveMessages : public GatheredMessagesOfAPeer {
protected:
    static constexpr Bytes kFront = 14;
    static constexpr std::uint8_t kTag = 65;

    GatheredActiveMessages() { front.fill(std::byte{7}); }
    GatheredSends::ActivePieces pieces(Bytes bytes) {
        return {kTag, front.data(), front.size(), data.data(), bytes};
    }
    bool send_active(Bytes bytes, UserRequest& of) {
        return sends.gathered().try_send_active(*peer, pieces(bytes), of);
    }
    bool send_active(Bytes bytes) { return send_active(bytes, user); }
    static std::vector<std::byte> contents(Bytes bytes, std::byte value) {
        std::vector<std::byte> all(kFront, std::byte{7});
        all.resize(kFront + bytes, value);
        return all;
    }

    std::array<std::byte, kFront> front{};
};

TEST_F(GatheredActiveMessages, TheHeaderIsCopiedAndTheDataIsNot) {
    for (const Bytes bytes : {kLimit, kShort, kShort + 1}) { // one registration serves all
        SCOPED_TRACE(bytes);
        ASSERT_TRUE(send_active(bytes));
        front.fill(std::byte{0});
        fill_data(std::byte{2}); // the device has not read it yet
        EXPECT_EQ(reported(), nullptr);
        const std::vector<Message> taken = carry();
        ASSERT_EQ(taken.size(), 1u);
        EXPECT_EQ(taken[0].header.type, MessageType::active);
        EXPECT_EQ(taken[0].header.flags, kTag);
        EXPECT_EQ(taken[0].body, contents(bytes, std::byte{2}));
        EXPECT_EQ(reported(), &user);
        EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(user.bytes, kFront + bytes);
        EXPECT_FALSE(transfers.work_outstanding());
        front.fill(std::byte{7});
    }
    EXPECT_EQ(gathered(), 3u);
}

TEST_F(GatheredActiveMessages, WhatCannotBeGatheredNowIsLeftToTheCaller) {
    EXPECT_FALSE(send_active(kShort - 1));
    EXPECT_FALSE(send_active(kCapacity - kFront + 1)) << "longer than the ring takes";
    ring.qp.post_result = Status::again(Reason::queue_full);
    EXPECT_FALSE(send_active(kShort));
    ring.qp.post_result = kOk;
    fill();
    EXPECT_FALSE(send_active(kShort));
    carry();
    ASSERT_TRUE(send_active(kShort));
    peer->flow.gathers = nullptr;
    EXPECT_FALSE(send_active(kShort, other));
    EXPECT_EQ(carry().size(), 1u);
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(reported(), nullptr);
}

TEST_F(GatheredActiveMessages, ACopiedMessageGoesWhereAGatheredOneCouldNot) {
    constexpr std::uintptr_t kPage = 4096;
    first.refused = second.refused =
        reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data.data()) & ~(kPage - 1));
    fill_data(std::byte{1});
    EXPECT_FALSE(send_active(kShort));
    peer->out.try_send_active_below = kCapacity;
    ASSERT_TRUE(ActiveMessages::try_send(*peer, kTag, front.data(), kFront, data.data(), kShort));
    const std::vector<Message> taken = carry();
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0].body, contents(kShort, std::byte{1}));
}

TEST_F(GatheredActiveMessages, AfterTheFenceBothPiecesAreRepeated) {
    fill_data(std::byte{1});
    ASSERT_TRUE(send_active(kShort));
    ring.qp.lose();
    flow.interrupt(*peer);
    flow.on_fenced(*peer);
    EXPECT_EQ(reported(), &user);
    fill_data(std::byte{2});
    ASSERT_FALSE(peer->interruption.in_doubt.empty());
    auto& repeated = static_cast<RepeatedMessage&>(*peer->interruption.in_doubt.take());
    EXPECT_EQ(repeated.header.flags, kTag);
    const std::vector<std::byte> body(repeated.body(), repeated.body() + repeated.header.length);
    EXPECT_EQ(body, contents(kShort, std::byte{1}));
    receives.pool().release(&repeated, repeated.size());
}

TEST_F(GatheredActiveMessages, TheyEndWithTheirPeer) {
    ASSERT_TRUE(send_active(kShort));
    peer->session.state = ConnectState::failed;
    sends.fail(*peer);
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
}

// A peer without a ring, which gets datagrams that are acknowledged.
class GatheredDatagrams : public GatheredMessagesOfAPeer {
protected:
    GatheredDatagrams() {
        port.set_max_gather(SendSlots::kMostPieces);
        Rail* const only = &port;
        EXPECT_TRUE(DatagramChannel::create({&only, 1}, 0, {1, 2}, there.clock, there.counters,
                                            channel, 256, 256, true)
                        .ok());
        peer = std::make_unique<Peer>(peer->contact.address, peer->contact.route, *channel, kLimit,
                                      there.counters);
        peer->contact.datagram.handle = std::make_unique<CountedHandle>(handles);
        peer->contact.datagram.name = peer->contact.name;
    }
    ~GatheredDatagrams() override {
        GatheredSends::forget(*peer);
        channel->retransmitter().release(peer->contact.datagram);
        channel->drop_loans();
        flow.forget(*peer);
    }
    // The adapter has sent all that was posted.
    void end_sends() {
        while (port.ended < port.sends.size()) {
            port.end_send();
        }
        channel->poll([](auto&&...) {}, 64);
    }
    // The peer acknowledges all that was sent.
    void acknowledge() {
        DatagramHeader prefix;
        prefix.expected = peer->session.next_send + 1;
        channel->accept(peer->contact.datagram, {prefix, 0, nullptr, nullptr});
    }
    void wait(Nanoseconds time) {
        there.clock.advance(time);
        channel->retransmitter().run_timers();
    }
    bool sent(std::size_t i, Bytes bytes, std::byte value) {
        const std::vector<std::byte>& all = port.sends.at(i).bytes;
        return all.size() == sizeof(DatagramHeader) + sizeof(MessageHeader) + bytes &&
               std::all_of(all.end() - static_cast<std::ptrdiff_t>(bytes), all.end(),
                           [value](std::byte each) { return each == value; });
    }
    std::uint64_t datagrams() const { return there.counters.datagrams_gathered; }

    std::vector<std::unique_ptr<UserRequest>> users;
    DatagramRail port;
    int handles = 0;
    std::unique_ptr<DatagramChannel> channel;
};

TEST_F(GatheredDatagrams, ARequestEndsWithTheAcknowledgment) {
    fill_data(std::byte{1});
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_FALSE(complete);
    EXPECT_EQ(datagrams(), 1u);
    EXPECT_EQ(gathered(), 0u) << "of a ring";
    EXPECT_TRUE(sent(0, kShort, std::byte{1}));
    EXPECT_TRUE(sends.has_messages_of(*peer));
    end_sends();
    EXPECT_EQ(reported(), nullptr);
    acknowledge();
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(user.bytes, kShort);
    EXPECT_FALSE(sends.has_messages_of(*peer));
    EXPECT_EQ(there.counters.datagram_loans_ended, 0u);
}

TEST_F(GatheredDatagrams, WithoutAnAcknowledgmentTheBufferComesBackSoon) {
    fill_data(std::byte{1});
    ASSERT_TRUE(send(kShort).ok());
    end_sends();
    wait(DatagramLink::kLoan - Nanoseconds{1});
    EXPECT_EQ(reported(), nullptr);
    wait(Nanoseconds{1});
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(there.counters.datagram_loans_ended, 1u);
    fill_data(std::byte{2});
    wait(DatagramLink::kFirstTimeout);
    ASSERT_EQ(port.sends.size(), 2u) << "sent again";
    EXPECT_TRUE(sent(1, kShort, std::byte{1})) << "from the copy";
}

TEST_F(GatheredDatagrams, TheBufferIsTheDevicesUntilItsSendHasEnded) {
    ASSERT_TRUE(send(kShort).ok());
    wait(DatagramLink::kLoan);
    EXPECT_EQ(there.counters.datagram_loans_ended, 1u);
    EXPECT_EQ(reported(), nullptr);
    end_sends();
    EXPECT_EQ(reported(), &user);
    ASSERT_TRUE(send(kShort).ok());
    acknowledge();
    EXPECT_EQ(reported(), nullptr);
    end_sends();
    EXPECT_EQ(reported(), &user);
}

TEST_F(GatheredDatagrams, WhoWaitsGetsACopy) {
    ASSERT_TRUE(send(kShort, OpKind::blocking).ok());
    EXPECT_TRUE(complete);
    ASSERT_TRUE(send(kShort - 1).ok());
    EXPECT_TRUE(complete) << "short";
    EXPECT_EQ(datagrams(), 0u);
}

TEST_F(GatheredDatagrams, MoreThanAWindowWait) {
    for (std::uint32_t i = 0; i <= DatagramLink::kWindow; ++i) {
        users.push_back(std::make_unique<UserRequest>());
        ASSERT_TRUE(send(kShort, OpKind::non_blocking, *users.back()).ok());
        ASSERT_FALSE(complete);
    }
    EXPECT_EQ(datagrams(), DatagramLink::kWindow);
    end_sends();
    acknowledge();
    flow.retry();
    EXPECT_EQ(datagrams(), users.size());
    end_sends();
    acknowledge();
    for (const auto& each : users) {
        EXPECT_EQ(reported(), each.get());
    }
}

TEST_F(GatheredDatagrams, ARefusedSendIsTriedAgain) {
    port.post_result = Status::again(Reason::queue_full);
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_FALSE(complete);
    EXPECT_EQ(datagrams(), 0u);
    EXPECT_EQ(peer->flow.lent, 0u);
    port.post_result = kOk;
    flow.retry();
    EXPECT_EQ(datagrams(), 1u);
}

TEST_F(GatheredDatagrams, EndWithTheirPeer) {
    ASSERT_TRUE(send(kShort).ok());
    peer->session.state = ConnectState::failed;
    sends.fail(*peer);
    EXPECT_EQ(reported(), &user);
    EXPECT_EQ(user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    end_sends();
    EXPECT_EQ(reported(), nullptr) << "once";
}

TEST_F(GatheredDatagrams, EndWithTheChannelUnreported) {
    ASSERT_TRUE(send(kShort).ok());
    EXPECT_EQ(peer->flow.lent, 1u);
    channel->drop_loans();
    EXPECT_EQ(peer->flow.lent, 0u);
    EXPECT_EQ(reported(), nullptr);
}

TEST_F(GatheredDatagrams, CarryActiveMessages) {
    const std::array<std::byte, 14> front{std::byte{7}};
    fill_data(std::byte{3});
    ASSERT_TRUE(sends.gathered().try_send_active(
        *peer, {65, front.data(), front.size(), data.data(), kShort}, user));
    const std::vector<std::byte>& all = port.sends.at(0).bytes;
    constexpr Bytes kHeaders = sizeof(DatagramHeader) + sizeof(MessageHeader);
    ASSERT_EQ(all.size(), kHeaders + front.size() + kShort);
    EXPECT_EQ(std::memcmp(all.data() + kHeaders, front.data(), front.size()), 0);
    EXPECT_EQ(all.back(), std::byte{3});
    peer->session.disconnect_sent = true;
    EXPECT_FALSE(sends.gathered().try_send_active(
        *peer, {65, front.data(), front.size(), data.data(), kShort}, other));
    peer->session.disconnect_sent = false;
    end_sends();
    acknowledge();
    EXPECT_EQ(reported(), &user);
}

TEST_F(GatheredDatagrams, CountTowardsAConnection) {
    for (std::uint64_t i = 0; i < kThreshold; ++i) {
        EXPECT_FALSE(losses.events.any(PeerEvent::want_connection));
        users.push_back(std::make_unique<UserRequest>());
        ASSERT_TRUE(send(kShort, OpKind::non_blocking, *users.back()).ok());
    }
    EXPECT_TRUE(losses.events.any(PeerEvent::want_connection));
}

} // namespace
} // namespace adaptib::test
