// SPDX-License-Identifier: BSD-3-Clause
// ActiveMessages, over a ring whose reader the test is: messages arrive whole and in their order,
// whatever had to wait or went in parts; each request ends once.
#include "protocol/active_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/channel/ring_pair.h"
#include "unit/protocol/held_flow.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kUnits = 256;
constexpr Bytes kCapacity = 1024; // of the ring, more than a datagram's
constexpr Bytes kMost = 8 * kKiB;
constexpr Bytes kUnexpectedMost = 1000;
constexpr Bytes kTryMost = 600;

using Payload = std::vector<std::byte>;

struct Heard {
    std::uint8_t tag;
    Payload payload;
};

class Active : public testing::Test {
protected:
    Active() {
        peer->session.state = ConnectState::open;
        peer->out.try_send_active_below = kTryMost + 1;
        use(*ring);
        listen(receiver);
    }
    ~Active() override {
        flow.forget(*peer);
        flow.forget(*from);
    }

    void use(Ring& to) {
        peer->out.ring = std::move(to.writer);
        peer->out.ring_capacity = kCapacity;
    }
    void listen(ActiveMessages& active) {
        active.listen(
            [](void* list, Peer&, std::uint8_t tag, const std::byte* payload, Bytes length) {
                static_cast<std::vector<Heard>*>(list)->push_back(
                    {tag, {payload, payload + length}});
            },
            &heard);
    }
    // Starts a send. Returns true if it ended within the call.
    bool send(std::uint8_t tag, const Data& data) {
        UserRequest& user = *requests.emplace_back(std::make_unique<UserRequest>());
        bool complete = false;
        EXPECT_TRUE(sender.send(*peer, tag, data, user, complete).ok());
        return complete;
    }
    bool send(std::uint8_t tag, const Payload& payload) { return send(tag, data_of(payload)); }
    static Data data_of(const Payload& payload) {
        Data data{};
        data.base = const_cast<std::byte*>(payload.data());
        data.bytes = payload.size();
        return data;
    }
    // The same, behind a function that packs it.
    static Data packed(Payload& payload) {
        Data data{};
        data.bytes = payload.size();
        data.context = &payload;
        data.pack = [](void* context, std::size_t offset, void* to, std::size_t* bytes) {
            const auto& whole = *static_cast<Payload*>(context);
            *bytes = std::min(*bytes, whole.size() - offset);
            std::memcpy(to, whole.data() + offset, *bytes);
            return 0;
        };
        return data;
    }
    // Fills the ring. Returns the number of messages sent.
    std::size_t fill() {
        std::size_t sent = 0;
        while (ActiveMessages::try_send(*peer, 1, none.data(), 500, nullptr, 0)) {
            ++sent;
        }
        return sent;
    }
    // The receiver takes what is in the ring. Returns the types of the messages.
    std::vector<MessageType> take() {
        std::vector<MessageType> types;
        ring->take_all(*peer->out.ring, [&](const MessageHeader& header, const std::byte* body) {
            types.push_back(header.type);
            if (header.type == MessageType::active) {
                receiver.on_active(*from, header.flags, body, header.length);
            } else {
                receiver.on_active_part(*from, header, body);
            }
        });
        return types;
    }
    UserRequest* ended() { return completions.list().empty() ? nullptr : completions.list().pop(); }

    TwoRails there;
    std::unique_ptr<Ring> ring = std::make_unique<Ring>(kUnits, true);
    std::unique_ptr<Peer> peer = there.peer(9);
    std::unique_ptr<Peer> from = there.peer(8); // the sender, as the receiver sees it
    BlockPool pool;
    Completions completions;
    Losses losses{there.counters};
    NoSender no;
    BackPressure back_pressure{kUnexpectedMost, flow, there.counters};
    EagerTuning tuning{there.clock, 0, there.counters};
    ActiveMessages sender{kMost,       flow,         back_pressure, tuning,
                          completions, losses.peers, there.counters};
    ActiveMessages receiver{kMost,       flow,         back_pressure, tuning,
                            completions, losses.peers, there.counters};
    SendFlow flow{
        0, {no, sender, no}, pool, completions, losses.events, losses.peers, there.counters};
    const Payload none = Payload(kCapacity);
    std::vector<std::unique_ptr<UserRequest>> requests;
    std::vector<Heard> heard;
};

TEST_F(Active, TwoPiecesGoIntoTheRingAsOneMessage) {
    const Payload payload = payload_of(1, 100);
    ASSERT_TRUE(ActiveMessages::try_send(*peer, 7, payload.data(), 30, payload.data() + 30, 70));
    ASSERT_TRUE(ActiveMessages::try_send(*peer, 8, payload.data(), 0, nullptr, 0));
    take();
    ASSERT_EQ(heard.size(), 2u);
    EXPECT_EQ(heard[0].tag, 7);
    EXPECT_EQ(heard[0].payload, payload);
    EXPECT_EQ(heard[1].tag, 8);
    EXPECT_TRUE(heard[1].payload.empty());
}

TEST_F(Active, TheFastPathRefusesWhatMayNotGoNow) {
    EXPECT_FALSE(ActiveMessages::try_send(*peer, 1, none.data(), kTryMost, none.data(), 1));
    peer->session.disconnect_sent = true;
    EXPECT_FALSE(ActiveMessages::try_send(*peer, 1, none.data(), 8, nullptr, 0));
    peer->session.disconnect_sent = false;
    EXPECT_GT(fill(), 0u);
    EXPECT_FALSE(send(2, none));
    take();
    EXPECT_FALSE(ActiveMessages::try_send(*peer, 1, none.data(), 8, nullptr, 0))
        << "there is room, but another message is first";
}

TEST_F(Active, OnlyLongMessagesOfPeersThatLearnAreTimed) {
    const Payload payload = payload_of(2, EagerLimit::kTimedFrom);
    peer->out.ring_capacity = 2 * EagerLimit::kTimedFrom;
    EXPECT_FALSE(sender.send_timed(*peer, 1, payload.data(), payload.size(), nullptr, 0));
    peer->flow.learnt_limit =
        std::make_unique<EagerLimit>(CopyCosts{}, EagerLimit::kTimedFrom, kMost);
    peer->flow.stream_choices = std::make_unique<StreamChoices>();
    EXPECT_FALSE(sender.send_timed(*peer, 1, payload.data(), payload.size() - 1, nullptr, 0));
    EXPECT_FALSE(sender.send_timed(*peer, 1, payload.data(), kMost, payload.data(), 1));
    EXPECT_TRUE(sender.send_timed(*peer, 1, payload.data(), 100, payload.data() + 100,
                                  payload.size() - 100));
    take();
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(heard[0].payload, payload);
}

TEST_F(Active, WithRoomASendEndsWithinTheCall) {
    const Payload payload = payload_of(3, 200);
    Payload other = payload_of(4, 300);
    EXPECT_TRUE(send(5, payload));
    EXPECT_TRUE(send(6, packed(other)));
    EXPECT_EQ(requests[0]->status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(requests[1]->bytes, 300u);
    EXPECT_EQ(ended(), nullptr);
    take();
    ASSERT_EQ(heard.size(), 2u);
    EXPECT_EQ(heard[0].tag, 5);
    EXPECT_EQ(heard[0].payload, payload);
    EXPECT_EQ(heard[1].payload, other);
    EXPECT_EQ(peer->flow.messages_sent, 0u);
}

TEST_F(Active, WithoutRoomSendsWaitInTheirOrder) {
    const std::size_t before = fill();
    const Payload payload = payload_of(5, 500);
    EXPECT_FALSE(send(2, payload));
    EXPECT_FALSE(send(3, payload));
    EXPECT_EQ(flow.retry().size(), 0u);
    EXPECT_EQ(ended(), nullptr);
    take();
    EXPECT_EQ(flow.retry().size(), 1u);
    EXPECT_EQ(ended(), requests[0].get());
    EXPECT_EQ(ended(), requests[1].get());
    take();
    ASSERT_EQ(heard.size(), before + 2);
    EXPECT_EQ(heard[before].tag, 2);
    EXPECT_EQ(heard[before].payload, payload);
    EXPECT_EQ(heard[before + 1].tag, 3);
}

TEST_F(Active, ALongMessageGoesInParts) {
    const Payload payload = payload_of(6, 3 * kCapacity + 10);
    Payload other = payload_of(7, 2 * kCapacity);
    EXPECT_TRUE(send(4, payload));
    EXPECT_EQ(take(), (std::vector<MessageType>{MessageType::active_part, MessageType::active_part,
                                                MessageType::active_part, MessageType::active}));
    EXPECT_TRUE(send(5, packed(other)));
    EXPECT_EQ(take(), (std::vector<MessageType>{MessageType::active_part, MessageType::active}));
    ASSERT_EQ(heard.size(), 2u);
    EXPECT_EQ(heard[0].tag, 4);
    EXPECT_EQ(heard[0].payload, payload);
    EXPECT_EQ(heard[1].payload, other);
}

TEST_F(Active, NothingComesBetweenPartsThatWait) {
    const Payload payload = payload_of(8, kMost);
    const std::size_t before = fill();
    EXPECT_FALSE(send(4, payload));
    EXPECT_FALSE(send(5, none));
    for (int pass = 0; pass < 100 && flow.any_stalled(); ++pass) {
        take();
        flow.retry();
    }
    take();
    ASSERT_EQ(heard.size(), before + 2);
    EXPECT_EQ(heard[before].tag, 4);
    EXPECT_EQ(heard[before].payload, payload);
    EXPECT_EQ(heard[before + 1].tag, 5);
    EXPECT_EQ(ended(), requests[0].get());
    EXPECT_EQ(ended(), requests[1].get());
    EXPECT_EQ(ended(), nullptr);
}

TEST_F(Active, DataThatCannotBePackedEndsWithAnErrorAndIsNotSent) {
    for (const Bytes bytes : {Bytes{100}, 2 * kCapacity}) {
        Data data{};
        data.bytes = bytes;
        data.pack = [](void*, std::size_t, void*, std::size_t*) { return -1; };
        EXPECT_TRUE(send(1, data));
        EXPECT_EQ(requests.back()->status, OPAL_COMMON_ADAPTIB_ERROR);
    }
    EXPECT_TRUE(take().empty());
    EXPECT_TRUE(losses.none());
    EXPECT_TRUE(send(2, none));
    EXPECT_EQ(take().size(), 1u);
}

TEST_F(Active, AMessageBeyondTheLongestIsRefused) {
    UserRequest user{};
    bool complete = false;
    EXPECT_EQ(sender.send(*peer, 1, data_of(Payload(kMost + 1)), user, complete),
              Status::error(Reason::bad_argument));
    EXPECT_EQ(sender.most(), kMost);
}

TEST_F(Active, DuringADisconnectSendsAreHeldAndPeersMaySendAgain) {
    const auto told = [this] {
        std::vector<Allowance> allowances;
        for (const HeldMessage& each : take_held(pool, *from)) {
            allowances.push_back(static_cast<Allowance>(each.flags));
        }
        return allowances;
    };
    flow.interrupt(*from);
    back_pressure.on_kept(*from, 2 * kUnexpectedMost, [] { return Allowance::nothing; });
    ASSERT_EQ(told(), std::vector<Allowance>{Allowance::nothing});
    peer->session.disconnect_sent = true;
    EXPECT_FALSE(send(3, none));
    EXPECT_EQ(flow.queued(), 1u);
    EXPECT_EQ(told(), std::vector<Allowance>{Allowance::all}) << "a send of this process waits";
    peer->session.disconnect_sent = false;
    flow.send_queued(*peer);
    EXPECT_EQ(ended(), requests[0].get());
    EXPECT_EQ(take().size(), 1u);
}

TEST_F(Active, ToAPeerThatIsLostNothingIsSent) {
    peer->session.state = ConnectState::failed;
    UserRequest user{};
    bool complete = false;
    EXPECT_EQ(sender.send(*peer, 1, data_of(none), user, complete),
              Status::error(Reason::unreachable));
    EXPECT_EQ(losses.reported.size(), 1u);
    EXPECT_TRUE(take().empty());
}

TEST_F(Active, AnErrorOfTheRingEndsTheRequestAndThePeer) {
    for (const Bytes bytes : {Bytes{100}, 2 * kCapacity}) {
        peer->session.state = ConnectState::open;
        peer->ending.failure.clear();
        peer->ending.failure_reported = false;
        peer->out.ring.reset();
        ring = std::make_unique<Ring>(kUnits, false);
        use(*ring);
        ring->qp.post_result = Status::error(Reason::peer_gone);
        EXPECT_TRUE(send(1, Payload(bytes)));
        EXPECT_EQ(requests.back()->status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
        EXPECT_EQ(ended(), nullptr);
    }
    EXPECT_EQ(losses.reported.size(), 2u);
}

TEST_F(Active, MessagesToAPeerWithoutAConnectionAreCounted) {
    peer->session.state = ConnectState::idle;
    EXPECT_TRUE(send(1, none));
    EXPECT_TRUE(send(1, Payload(2 * kCapacity)));
    EXPECT_EQ(peer->flow.messages_sent, 3u) << "each part counts";
    EXPECT_TRUE(losses.events.any(PeerEvent::want_connection));
}

TEST_F(Active, WithoutAHandlerAMessageIsABadPacket) {
    receiver.listen(nullptr, nullptr);
    EXPECT_TRUE(send(1, none));
    take();
    EXPECT_TRUE(heard.empty());
    EXPECT_EQ(there.counters.bad_packets, 1u);
}

TEST_F(Active, PartsBeyondTheLongestMessageFailThePeer) {
    MessageHeader header;
    header.type = MessageType::active_part;
    header.length = kCapacity;
    for (Bytes taken = 0; taken < kMost; taken += kCapacity) {
        receiver.on_active_part(*from, header, none.data());
    }
    EXPECT_TRUE(losses.none());
    receiver.on_active_part(*from, header, none.data());
    EXPECT_TRUE(losses.only(*from));
    EXPECT_EQ(there.counters.bad_packets, 1u);
    EXPECT_EQ(from->session.state, ConnectState::failed);
}

TEST_F(Active, AMessageMayComeFromAPeerThatHasSentSomeAndStays) {
    EXPECT_FALSE(receiver.may_await(*from)) << "no traffic yet";
    from->in.next_receive = 1;
    EXPECT_TRUE(receiver.may_await(*from));
    EXPECT_FALSE(sender.may_await(*from)) << "has no handler";
    from->ending.disconnect_received = true;
    EXPECT_FALSE(receiver.may_await(*from));
    from->ending.disconnect_received = false;
    from->ending.release = Release::released;
    EXPECT_FALSE(receiver.may_await(*from));
}

} // namespace
} // namespace adaptib::test
