// SPDX-License-Identifier: BSD-3-Clause
// GatheredSends: a message from a buffer that is sent often is not copied, and its request ends
// when the device is done with the buffer; whoever waits for its send gets a copy.
#include "protocol/gathered_sends.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "protocol/active_messages.h"
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
    for (const Bytes bytes : {kShort, kShort + 1, kLimit}) {
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

} // namespace
} // namespace adaptib::test
