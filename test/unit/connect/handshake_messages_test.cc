// SPDX-License-Identifier: BSD-3-Clause
// Handshake messages: what they say, and how those that find no room are sent later, once.
#include "connect/handshake_messages.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/wire_connect.h"
#include "connect/queue_pairs.h"
#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

using Types = std::vector<MessageType>;

class Messages : public RecordedConnections {
protected:
    Messages() {
        peer_->connection.number = 5;
        peer_->connection.remote_number = 7;
        peer_->session.state = ConnectState::requested;
        for (std::uint32_t rail = 0; rail < 2; ++rail) {
            Subchannel& subchannel = peer_->lanes.subchannels.emplace_back();
            subchannel.local_rail = rail;
            subchannel.path = rail;
            subchannel.qp = std::make_unique<RecordingPair>(100 + rail);
        }
        peer_->in.ring_parts = {.lines_bytes = 4096, .measuring = true};
        const Bytes bytes = RingMemory::bytes(peer_->in.ring_parts);
        EXPECT_TRUE(first_.allocate(bytes, kLocalWrite, peer_->in.ring_memory).ok());
        EXPECT_TRUE(peer_->in.ring_registration
                        .make(rails_, peer_->in.ring_memory->address(), bytes, kLocalWrite)
                        .ok());
    }
    ~Messages() override {
        messages_.forget(*peer_);
        events_.queue.forget(*peer_);
    }

    void room(bool there) {
        datagrams_.post_result = there ? kOk : Status::again(Reason::queue_full);
    }

    const ConnectContext context_ = recorded_context({});
    HandshakeMessages messages_{context_};
    std::unique_ptr<Peer> peer_ = idle_peer(1);
};

TEST_F(Messages, ARequestDescribesThisSide) {
    peer_->in.next_receive = 11;
    peer_->in.ring.emplace(peer_->in.ring_layout().lines(), 4096 / kRingUnit, ring_habits());
    EXPECT_TRUE(messages_.send(*peer_, MessageType::connect_request));
    EXPECT_EQ(sent(), Types{MessageType::connect_request});
    const auto request = body<ConnectBody>(0);
    EXPECT_EQ(request.connection, 5u);
    EXPECT_EQ(request.answers, 7u);
    EXPECT_EQ(request.replaces, 0u);
    EXPECT_EQ(request.expected, 11u);
    EXPECT_EQ(request.ring_bytes, 4096u);
    const RingMemory memory = peer_->in.ring_layout();
    EXPECT_EQ(request.ring_address, reinterpret_cast<std::uintptr_t>(memory.lines()));
    EXPECT_EQ(request.credit_address, reinterpret_cast<std::uintptr_t>(memory.credit()));
    EXPECT_EQ(request.measure_address, reinterpret_cast<std::uintptr_t>(memory.measuring()));
    EXPECT_EQ(request.access_key, 0u);
    ASSERT_EQ(request.subchannel_count, 2u);
    for (std::uint32_t rail = 0; rail < 2; ++rail) {
        EXPECT_EQ(request.subchannels[rail].rail, rail);
        EXPECT_EQ(request.subchannels[rail].path, rail);
        EXPECT_EQ(request.subchannels[rail].qp, 100 + rail);
        EXPECT_EQ(request.subchannels[rail].psn, QueuePairs::first_packet(5, 100 + rail));
        EXPECT_EQ(request.subchannels[rail].memory_key,
                  peer_->in.ring_registration.remote_key(rail));
    }
}

TEST_F(Messages, APathThatHasDroppedOutIsNotListedNorARingThatIsNotOffered) {
    peer_->lanes.subchannels[0].qp.reset();
    peer_->interruption.repair.replaces = 3;
    peer_->interruption.repair.active = true;
    EXPECT_TRUE(messages_.send(*peer_, MessageType::connect_reply));
    const auto reply = body<ConnectBody>(0);
    ASSERT_EQ(reply.subchannel_count, 1u);
    EXPECT_EQ(reply.subchannels[0].rail, 1u);
    EXPECT_EQ(reply.ring_bytes, 0u);
    EXPECT_NE(reply.credit_address, 0u);
    EXPECT_EQ(reply.replaces, 3u);
}

TEST_F(Messages, ARequestSaysOfEachPathWhetherItsDevicePlacesInOrder) {
    second_.place_in_any_order(1024);
    messages_.send(*peer_, MessageType::connect_request);
    EXPECT_EQ(body<ConnectBody>(0).subchannels[0].unordered, 0u);
    EXPECT_EQ(body<ConnectBody>(0).subchannels[1].unordered, 1u);
    for (const Placement placement : {Placement::in_order, Placement::any_order}) {
        ConnectOptions options;
        options.placement = placement;
        const ConnectContext context = recorded_context(options);
        HandshakeMessages messages{context};
        messages.send(*peer_, MessageType::connect_reply);
        const auto reply = body<ConnectBody>(placement == Placement::in_order ? 1 : 2);
        const auto expected = placement == Placement::any_order ? 1u : 0u;
        EXPECT_EQ(reply.subchannels[0].unordered, expected);
        EXPECT_EQ(reply.subchannels[1].unordered, expected);
    }
}

TEST_F(Messages, ADcTargetMayPlaceInAnotherOrderThanQueuePairs) {
    first_.let_target_place_in_any_order();
    const ConnectContext context = recorded_context({});
    EXPECT_TRUE(context.places_in_order(0, false));
    EXPECT_FALSE(context.places_in_order(0, true));
    EXPECT_TRUE(context.places_in_order(1, true));
}

TEST_F(Messages, ARequestDescribesAsManyPathsAsADatagramHolds) {
    for (std::uint32_t path = 2; path < 12; ++path) {
        Subchannel& subchannel = peer_->lanes.subchannels.emplace_back();
        subchannel.path = path;
        subchannel.qp = std::make_unique<RecordingPair>(100 + path);
    }
    EXPECT_TRUE(messages_.send(*peer_, MessageType::connect_request));
    EXPECT_EQ(body<ConnectBody>(0).subchannel_count, 12u);
    EXPECT_EQ(body_length(0), 64u + 12 * 16);
    constexpr Bytes kSmallest = 256 - sizeof(DatagramHeader) - sizeof(MessageHeader);
    peer_->contact.datagram.shorter = channel_->capacity() - kSmallest; // the peer's MTU is 256
    for (const MessageType type : {MessageType::connect_request, MessageType::connect_reply}) {
        EXPECT_TRUE(messages_.send(*peer_, type));
    }
    for (const std::size_t message : {1u, 2u}) {
        EXPECT_EQ(body<ConnectBody>(message).subchannel_count, 8u);
        EXPECT_EQ(body<ConnectBody>(message).subchannels[7].path, 7u);
        EXPECT_LE(body_length(message), kSmallest);
    }
}

TEST_F(Messages, ARequestSaysHowMuchTheConnectionIsNeeded) {
    messages_.send(*peer_, MessageType::connect_request); // only to be connected from the start
    EXPECT_EQ(header(0).flags, 0);
    peer_->session.next_send = 1;
    messages_.send(*peer_, MessageType::connect_request);
    EXPECT_EQ(header(1).flags, kConnectNeeded);
    peer_->transfers.users = 1;
    messages_.send(*peer_, MessageType::connect_request);
    EXPECT_EQ(header(2).flags, kConnectNeeded | kConnectAwaited);
    peer_->transfers.rma_operations = 1;
    messages_.send(*peer_, MessageType::connect_request);
    EXPECT_EQ(header(3).flags, kConnectNeeded | kConnectAwaited | kConnectRequired);
    messages_.send(*peer_, MessageType::connect_reply);
    EXPECT_EQ(header(4).flags, 0);
}

TEST_F(Messages, NotesCarryTheNumberThatTheirReceiverChecks) {
    peer_->connection.closing.number = 21;
    peer_->connection.closing.heard = 22;
    peer_->connection.refusal = static_cast<std::uint32_t>(RefusalReason::no_path);
    peer_->in.next_receive = 11;
    for (const MessageType type : {MessageType::connect_close, MessageType::connect_keep,
                                   MessageType::connect_refuse, MessageType::connect_yield}) {
        EXPECT_TRUE(messages_.send(*peer_, type));
    }
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(body<ConnectNote>(i).connection, 5u);
        EXPECT_EQ(body<ConnectNote>(i).answers, 7u);
    }
    EXPECT_EQ(body<ConnectNote>(0).number, 21u);
    EXPECT_EQ(body<ConnectNote>(1).number, 22u); // the close that it answers
    EXPECT_EQ(body<ConnectNote>(2).number, static_cast<std::uint32_t>(RefusalReason::no_path));
    EXPECT_EQ(body<ConnectNote>(2).expected, 11u);
    EXPECT_EQ(body<ConnectNote>(3).expected, 0u); // only a refusal tells that
}

TEST_F(Messages, AMessageThatFindsNoRoomIsSentLaterOnce) {
    room(false);
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_request));
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_request));
    EXPECT_TRUE(messages_.owing());
    messages_.retry();
    EXPECT_TRUE(messages_.owing()); // still no room
    EXPECT_EQ(sent(), Types{});
    room(true);
    peer_->connection.number = 6;
    messages_.retry();
    EXPECT_FALSE(messages_.owing());
    EXPECT_EQ(sent(), Types{MessageType::connect_request});
    EXPECT_EQ(body<ConnectBody>(0).connection, 6u); // the state at the time of sending
    messages_.retry();
    EXPECT_EQ(sent(), Types{});
    room(false);
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_refuse));
    room(true);
    messages_.retry();
    EXPECT_EQ(sent(), Types{MessageType::connect_refuse}); // and nothing that went before
    EXPECT_FALSE(events_.queue.any());
}

TEST_F(Messages, NoMessageToAPeerPassesOneThatWaits) {
    peer_->session.state = ConnectState::open;
    room(false);
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_confirm));
    room(true);
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_keep));
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_refuse));
    EXPECT_EQ(sent(), Types{});
    const auto other = idle_peer(2);
    EXPECT_TRUE(messages_.send(*other, MessageType::connect_refuse)); // another peer's does
    EXPECT_EQ(sent(), Types{MessageType::connect_refuse});
    messages_.retry();
    EXPECT_EQ(sent(), (Types{MessageType::connect_refuse, MessageType::connect_confirm,
                             MessageType::connect_keep}));
}

TEST_F(Messages, ThoseOfAllPeersWaitAsOftenAsThereIsNoRoom) {
    peer_->session.state = ConnectState::answered;
    const auto other = idle_peer(2);
    room(false);
    messages_.send(*peer_, MessageType::connect_reply);
    messages_.send(*peer_, MessageType::connect_refuse);
    messages_.send(*other, MessageType::connect_refuse);
    messages_.retry();
    messages_.retry();
    room(true);
    messages_.retry();
    EXPECT_EQ(sent(), (Types{MessageType::connect_refuse, MessageType::connect_reply,
                             MessageType::connect_refuse}));
    EXPECT_FALSE(messages_.owing());
}

TEST_F(Messages, AMessageThatIsNotDueAnyMoreIsNotSent) {
    struct Case {
        MessageType type;
        ConnectState then;
        ConnectState later;
    };
    for (const Case& each :
         {Case{MessageType::connect_request, ConnectState::requested, ConnectState::answered},
          Case{MessageType::connect_reply, ConnectState::answered, ConnectState::idle},
          Case{MessageType::connect_reply, ConnectState::answered, ConnectState::repairing},
          Case{MessageType::connect_confirm, ConnectState::open, ConnectState::repairing}}) {
        room(false);
        peer_->session.state = each.then;
        EXPECT_FALSE(messages_.send(*peer_, each.type));
        peer_->session.state = each.later;
        room(true);
        messages_.retry();
        EXPECT_FALSE(messages_.owing());
        EXPECT_EQ(sent(), Types{});
    }
    room(false);
    peer_->transfers.yields = true;
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_yield));
    peer_->transfers.yields = false;
    room(true);
    messages_.retry();
    EXPECT_EQ(sent(), Types{});
}

TEST_F(Messages, ACloseDoesNotWait) {
    room(false);
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_close));
    EXPECT_FALSE(messages_.owing());
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_keep));
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_close)); // behind one that waits
    room(true);
    messages_.retry();
    EXPECT_EQ(sent(), Types{MessageType::connect_keep});
    EXPECT_FALSE(events_.queue.any());
}

TEST_F(Messages, AMessageThatCannotBeSentIsReportedAndDoesNotWait) {
    peer_->contact.datagram.handle.reset(); // released
    EXPECT_FALSE(messages_.send(*peer_, MessageType::connect_request));
    ASSERT_TRUE(ConnectionEvents::is_unsent(*peer_));
    EXPECT_EQ(peer_->connection.events.failure->status.reason(), Reason::peer_gone);
    EXPECT_FALSE(messages_.owing());
}

TEST_F(Messages, AForgottenPeerIsOwedNothing) {
    const auto other = idle_peer(2);
    room(false);
    messages_.send(*peer_, MessageType::connect_refuse);
    messages_.send(*other, MessageType::connect_refuse);
    messages_.forget(*peer_);
    EXPECT_TRUE(messages_.owing());
    room(true);
    messages_.retry();
    EXPECT_EQ(sent(), Types{MessageType::connect_refuse});
    EXPECT_EQ(datagrams_.sends.size(), 1u);
    EXPECT_TRUE(messages_.send(*peer_, MessageType::connect_refuse)); // the next one goes at once
}

} // namespace
} // namespace adaptib::test
