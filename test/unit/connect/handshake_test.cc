// SPDX-License-Identifier: BSD-3-Clause
// The handshake: how a connection comes up, which messages are answered again or ignored, requests
// that cross, refusals.
#include "connect/handshake.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/wire_connect.h"
#include "connect/connection_manager.h"
#include "unit/connect/shared_connections.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSelf = 5;

// Makes queue pairs that record what is done with them, and counts datagrams.
class RecordingRail final : public NamedRail {
public:
    using NamedRail::NamedRail;

    // From now on queue pairs connect through rdma_cm. The test tells when.
    void connects_by_cm() {
        info_.capabilities |= static_cast<std::uint32_t>(Capability::cm_connects);
    }

    std::size_t sent = 0;  // datagrams
    Status connects = kOk; // answer of queue pairs, after that to INIT
    Status posts = kOk;    // ... and to what is posted
    bool away = false;     // its device

private:
    class Datagrams final : public QueuePair {
    public:
        explicit Datagrams(std::size_t& sent) : QueuePair(QpType::ud), sent_(sent) {}

    private:
        Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
        QpAttributes query_impl() const override { return {}; }
        Status post_send_impl(const SendWork&) override {
            ++sent_;
            return kOk;
        }
        Status post_receive_impl(const ReceiveWork&) override { return kOk; }

        std::size_t& sent_;
    };
    class Connected final : public QueuePair {
    public:
        Connected(const Status& answer, const Status& posts, std::uint32_t number)
            : QueuePair(QpType::rc), answer_(answer), posts_(posts) {
            number_ = number;
        }

    private:
        Status modify_impl(const QpAttributes& attributes, std::uint32_t) override {
            return attributes.state == QpState::init || attributes.state == QpState::error
                       ? kOk
                       : answer_;
        }
        Status cm_connect_impl(const QpAttributes&, std::uint32_t,
                               const CmConnectParams&) override {
            return answer_;
        }
        QpAttributes query_impl() const override { return {}; }
        Status post_send_impl(const SendWork&) override { return posts_; }
        Status post_receive_impl(const ReceiveWork&) override { return kOk; }

        const Status& answer_;
        const Status& posts_;
    };
    class Registered final : public MemoryRegion {
    public:
        Registered(void* address, Bytes length) : MemoryRegion(address, length) {}
    };
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<Registered>(address, length);
        return kOk;
    }
    Status create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) override {
        if (init.type == QpType::ud) {
            out = std::make_unique<Datagrams>(sent);
        } else if (away) {
            return Status::error(Reason::no_device);
        } else {
            out = std::make_unique<Connected>(connects, posts, ++pairs_);
        }
        return kOk;
    }

    std::uint32_t pairs_ = 0;
};

class Handshakes : public testing::Test, private Witness {
protected:
    Handshakes() {
        EXPECT_TRUE(DatagramChannel::create(first_, {kSelf, 2}, clock_, counters_, channel_).ok());
        attended_.at_most(1h);
        for (Rail* rail : rails_) {
            EXPECT_TRUE(rail->create_cq(16, cqs_.emplace_back()).ok());
        }
    }
    ~Handshakes() override {
        for (const std::unique_ptr<Peer>& peer : peers_) {
            connections_->close(*peer, ConnectState::failed);
        }
    }

    // Makes a peer that something has been sent to.
    Peer& peer(std::uint64_t name) {
        class Handle final : public AddressHandle {
            Status standing_impl(std::string&) const override { return kOk; }
        };
        ProcessAddress address;
        address.name = name;
        address.host = "there";
        address.rails.resize(2);
        PeerRoute route;
        route.local = route.remote = {0, 2};
        pair_rails(route, true, [](std::uint32_t, std::uint32_t) { return 0; });
        peers_.push_back(std::make_unique<Peer>(address, route, *channel_, 4096, counters_));
        Peer& made = *peers_.back();
        made.contact.datagram.handle = std::make_unique<Handle>();
        made.session.next_send = 1;
        return made;
    }
    // Lets a message of the handshake arrive. Returns the number of datagrams that this side sends.
    template <typename Body> std::size_t arrive(Peer& peer, MessageType type, const Body& body) {
        const std::size_t before = first_.sent;
        MessageHeader header;
        header.type = type;
        header.flags = type == MessageType::connect_request ? kConnectNeeded : 0;
        header.length = sizeof body;
        connections_->on_handshake(peer, header, reinterpret_cast<const std::byte*>(&body));
        return first_.sent - before;
    }
    // A request, reply or confirmation of the peer's attempt.
    static ConnectBody body(std::uint32_t connection, std::uint32_t answers = 0) {
        ConnectBody made{};
        made.connection = connection;
        made.answers = answers;
        made.subchannel_count = 2;
        for (std::uint8_t rail = 0; rail < 2; ++rail) {
            made.subchannels[rail].rail = made.subchannels[rail].to = rail;
            made.subchannels[rail].qp = 100u + rail;
        }
        return made;
    }
    static ConnectNote refusal(std::uint32_t answers, RefusalReason reason) {
        return {1, answers, static_cast<std::uint32_t>(reason), 0};
    }
    // Returns the events that are handled now.
    std::string handle() {
        events_.log.clear();
        connections_->handle_events();
        return events_.log;
    }
    void limit_to_one() {
        options_.connect_max = 1;
        make();
    }
    // Makes progress until the repair of an open connection has sent its request.
    void begin_repair(Peer& peer) {
        connections_->request(peer);
        arrive(peer, MessageType::connect_reply, body(1, peer.connection.number));
        handle();
        ASSERT_EQ(peer.session.state, ConnectState::open);
        connections_->repairs().begin(peer);
        advance();
        ASSERT_EQ(peer.session.state, ConnectState::requested);
    }
    // Makes progress after a time in which each step that waits for time comes to be due.
    void advance() {
        constexpr Nanoseconds kLong = 100ms;
        clock_.advance(kLong);
        for (int i = 0; i < 4; ++i) {
            connections_->retry();
            handle();
        }
    }

    ManualClock clock_;
    AttendedClock attended_{clock_};
    const Liveness liveness_{5s};
    Counters counters_;
    Random random_{1};
    RecordingRail first_{"m0:1"};
    RecordingRail second_{"m1:1"};
    const std::vector<Rail*> rails_{&first_, &second_};
    std::vector<std::unique_ptr<CompletionQueue>> cqs_;
    std::unique_ptr<DatagramChannel> channel_;
    ConnectEvents events_;
    std::vector<std::unique_ptr<Peer>> peers_;
    ConnectOptions options_;
    std::unique_ptr<ConnectionManager> connections_;

    void SetUp() override {
        options_.self = kSelf;
        options_.clock = &clock_;
        options_.attended = &attended_;
        options_.liveness = &liveness_;
        options_.witness = this;
        options_.random = &random_;
        make();
    }

    void make() {
        connections_ =
            std::make_unique<ConnectionManager>(options_, rails_, cqs_, counters_, events_);
    }

private:
    bool may_live(Peer&, Nanoseconds) override { return true; }
};

TEST_F(Handshakes, TheRequesterConfirmsTheReply) {
    Peer& other = peer(1);
    connections_->request(other);
    EXPECT_EQ(other.session.state, ConnectState::requested);
    EXPECT_EQ(first_.sent, 1u);
    EXPECT_EQ(arrive(other, MessageType::connect_reply, body(7, other.connection.number)), 1u);
    EXPECT_EQ(other.session.state, ConnectState::open);
    EXPECT_EQ(events_.log, ""); // not in the middle of that
    EXPECT_EQ(handle(), "1 connected; ");
    EXPECT_EQ(other.lanes.live_subchannels(), 2u);
    EXPECT_EQ(counters_.connections_open, 1u);
}

// Writes into its memory have to be short then.
TEST_F(Handshakes, APeersDeviceMayPlacePacketsInAnyOrder) {
    Peer& other = peer(1);
    connections_->request(other);
    ConnectBody reply = body(7, other.connection.number);
    reply.subchannels[1].unordered = 1;
    arrive(other, MessageType::connect_reply, reply);
    ASSERT_EQ(other.lanes.live_subchannels(), 2u);
    EXPECT_FALSE(other.lanes.subchannels[0].unordered);
    EXPECT_TRUE(other.lanes.subchannels[1].unordered);
}

TEST_F(Handshakes, TheOtherSideIsOpenOnceItIsConfirmed) {
    Peer& other = peer(1);
    EXPECT_EQ(arrive(other, MessageType::connect_request, body(7)), 1u);
    EXPECT_EQ(other.session.state, ConnectState::answered);
    EXPECT_EQ(handle(), "");
    ConnectBody confirm = body(7, other.connection.number);
    confirm.subchannel_count = 1; // it could not connect the other one
    EXPECT_EQ(arrive(other, MessageType::connect_confirm, confirm), 0u);
    EXPECT_EQ(other.session.state, ConnectState::open);
    EXPECT_EQ(handle(), "1 connected; ");
    EXPECT_EQ(other.lanes.live_subchannels(), 1u);
}

TEST_F(Handshakes, ACloseMeansThatTheConfirmationIsLate) {
    Peer& other = peer(1);
    arrive(other, MessageType::connect_request, body(7));
    ASSERT_EQ(other.session.state, ConnectState::answered);
    arrive(other, MessageType::connect_close, ConnectNote{6, other.connection.number, 1, 0});
    EXPECT_EQ(other.session.state, ConnectState::answered) << "of an earlier connection";
    arrive(other, MessageType::connect_close, ConnectNote{7, other.connection.number, 1, 0});
    EXPECT_EQ(other.session.state, ConnectState::open) << "messages that wait for it go first";
    EXPECT_EQ(handle(), "1 connected; ");
    EXPECT_EQ(other.session.state, ConnectState::closing);
}

// Nothing else may say that it has failed.
TEST_F(Handshakes, AQueuePairThatHasFailedBeforeItsConnectionIsClosedIsRepaired) {
    options_.fault_tolerance = true;
    make();
    Peer& other = peer(1);
    connections_->request(other);
    arrive(other, MessageType::connect_reply, body(1, other.connection.number));
    handle();
    ASSERT_TRUE(other.session.repairable);
    connections_->close_if_unused(other);
    ASSERT_EQ(other.session.state, ConnectState::closing);
    first_.posts = second_.posts = Status::error(Reason::bad_state);
    for (int pass = 0; pass < 3; ++pass) {
        connections_->retry();
        handle();
    }
    EXPECT_TRUE(other.interruption.repair.active);
    EXPECT_FALSE(connections_->closing() && other.session.state == ConnectState::closing);
}

TEST_F(Handshakes, AMessageThatCannotBeSentGivesThePeerUp) {
    Peer& other = peer(1);
    other.contact.datagram.handle.reset();
    connections_->request(other);
    EXPECT_EQ(events_.log, "") << "not in the middle of that";
    EXPECT_EQ(handle(), "1 failed: a message of the connection handshake could not be sent; ");
    EXPECT_EQ(other.session.state, ConnectState::failed);
    EXPECT_TRUE(other.lanes.subchannels.empty());
}

TEST_F(Handshakes, DoubledMessagesAreAnsweredAgainOrIgnored) {
    Peer& other = peer(1);
    const ConnectBody request = body(7);
    arrive(other, MessageType::connect_request, request);
    EXPECT_EQ(arrive(other, MessageType::connect_request, request), 1u); // the reply
    EXPECT_EQ(other.session.state, ConnectState::answered);
    const ConnectBody confirm = body(7, other.connection.number);
    arrive(other, MessageType::connect_confirm, confirm);
    EXPECT_EQ(handle(), "1 connected; ");
    EXPECT_EQ(arrive(other, MessageType::connect_confirm, confirm), 0u);
    EXPECT_EQ(arrive(other, MessageType::connect_request, request), 1u);
    EXPECT_EQ(arrive(other, MessageType::connect_request, body(6)), 0u); // of an earlier attempt
    EXPECT_EQ(other.session.state, ConnectState::open);
    EXPECT_EQ(handle(), "");

    Peer& third = peer(2);
    connections_->request(third);
    const ConnectBody reply = body(9, third.connection.number);
    arrive(third, MessageType::connect_reply, reply);
    EXPECT_EQ(handle(), "2 connected; ");
    EXPECT_EQ(arrive(third, MessageType::connect_reply, reply), 1u); // the confirmation
    EXPECT_EQ(handle(), "");
    EXPECT_EQ(counters_.connections_open, 2u);
    EXPECT_EQ(counters_.bad_packets, 0u);
}

TEST_F(Handshakes, MessagesOfOtherAttemptsAreIgnored) {
    Peer& other = peer(1);
    connections_->request(other);
    const std::uint32_t number = other.connection.number;
    EXPECT_EQ(arrive(other, MessageType::connect_reply, body(7, number - 1)), 0u);
    EXPECT_EQ(counters_.bad_packets, 0u); // late
    EXPECT_EQ(arrive(other, MessageType::connect_reply, body(7, number + 1)), 0u);
    EXPECT_EQ(counters_.bad_packets, 1u);
    EXPECT_EQ(
        arrive(other, MessageType::connect_refuse, refusal(number - 1, RefusalReason::no_room)),
        0u);
    EXPECT_EQ(other.session.state, ConnectState::requested);
}

TEST_F(Handshakes, OfCrossingRequestsThatOfTheHigherNameIsAnswered) {
    Peer& higher = peer(9);
    connections_->request(higher);
    EXPECT_EQ(arrive(higher, MessageType::connect_request, body(7)), 1u);
    EXPECT_EQ(higher.session.state, ConnectState::answered);

    Peer& lower = peer(1);
    connections_->request(lower);
    EXPECT_EQ(arrive(lower, MessageType::connect_request, body(7)), 0u);
    EXPECT_EQ(lower.session.state, ConnectState::requested); // the peer answers this side's
    EXPECT_EQ(arrive(lower, MessageType::connect_reply, body(7, lower.connection.number)), 1u);
    EXPECT_EQ(lower.session.state, ConnectState::open);
    EXPECT_EQ(lower.connection.early_request, nullptr);
    EXPECT_EQ(counters_.connections_crossed, 2u);
    EXPECT_EQ(counters_.bad_packets, 0u);
}

TEST_F(Handshakes, ACrossingRequestIsAnsweredIfThePeerRefusesThisSides) {
    Peer& lower = peer(1);
    connections_->request(lower);
    const std::uint32_t number = lower.connection.number;
    arrive(lower, MessageType::connect_request, body(7));
    EXPECT_EQ(arrive(lower, MessageType::connect_refuse, refusal(number, RefusalReason::no_room)),
              1u);
    EXPECT_EQ(lower.session.state, ConnectState::answered);
    EXPECT_EQ(lower.connection.number, number + 1);
    EXPECT_EQ(handle(), "");
}

// The peer has answered this side's request, and has thereby given up its own, which crossed it.
TEST_F(Handshakes, ACrossingRequestThatThePeerHasGivenUpIsNotAnsweredLater) {
    for (const bool overtakes : {false, true}) { // the reply overtakes the request
        SCOPED_TRACE(overtakes);
        Peer& lower = peer(overtakes ? 2 : 1);
        begin_repair(lower);
        const std::uint32_t number = lower.connection.number;
        if (!overtakes) {
            arrive(lower, MessageType::connect_request, body(7));
        }
        first_.connects = second_.connects = Status::error(Reason::unreachable);
        arrive(lower, MessageType::connect_reply, body(7, number));
        EXPECT_EQ(lower.session.state, ConnectState::repairing); // no path: it is to begin anew
        if (overtakes) {
            arrive(lower, MessageType::connect_request, body(7));
        }
        first_.connects = second_.connects = kOk;
        advance();
        EXPECT_EQ(lower.session.state, ConnectState::requested);
        EXPECT_EQ(lower.connection.number, number + 1);
        arrive(lower, MessageType::connect_request, body(8)); // one that is not given up
        arrive(lower, MessageType::connect_refuse, refusal(number + 1, RefusalReason::no_path));
        advance();
        EXPECT_EQ(lower.session.state, ConnectState::answered);
        EXPECT_EQ(lower.connection.remote_number, 8u);
    }
}

// While queue pairs connect through rdma_cm, the request that the reply has overtaken comes.
TEST_F(Handshakes, ACrossingRequestThatComesAfterTheReplyIsNotKept) {
    first_.connects_by_cm();
    Peer& lower = peer(1);
    connections_->request(lower);
    arrive(lower, MessageType::connect_reply, body(7, lower.connection.number));
    ASSERT_EQ(lower.session.state, ConnectState::requested);
    arrive(lower, MessageType::connect_request, body(7));
    EXPECT_EQ(lower.connection.early_request, nullptr);
}

TEST_F(Handshakes, ARefusedPeerWaits) {
    Peer& other = peer(1);
    connections_->request(other);
    arrive(other, MessageType::connect_refuse,
           refusal(other.connection.number, RefusalReason::no_room));
    EXPECT_EQ(other.session.state, ConnectState::idle);
    EXPECT_EQ(other.connection.activity.refusals, 1u);
    EXPECT_TRUE(other.connection.wanted_link.linked());
    EXPECT_GT(other.connection.activity.ask_at, clock_.now());
    EXPECT_EQ(handle(), "1 unconnected; ");
    connections_->request(other); // it waits already
    EXPECT_EQ(other.session.state, ConnectState::idle);
    clock_.advance(1ms);
    connections_->serve_waiting();
    EXPECT_EQ(other.session.state, ConnectState::requested);
}

TEST_F(Handshakes, APeerThatHasGivenThisSideUpIsLost) {
    Peer& other = peer(1);
    connections_->request(other);
    EXPECT_EQ(arrive(other, MessageType::connect_refuse,
                     refusal(other.connection.number, RefusalReason::broken)),
              0u);
    EXPECT_EQ(other.session.state, ConnectState::failed);
    EXPECT_EQ(handle(), "1 failed: the other side has given the connection up; ");
}

TEST_F(Handshakes, WhileDevicesAreAwayConnectionsWait) {
    Peer& other = peer(1);
    first_.away = second_.away = true;
    connections_->request(other);
    EXPECT_EQ(other.session.state, ConnectState::idle);
    EXPECT_TRUE(other.connection.wanted_link.linked());
    Peer& asking = peer(2);
    EXPECT_EQ(arrive(asking, MessageType::connect_request, body(8)), 1u);
    EXPECT_EQ(asking.session.state, ConnectState::idle);
    EXPECT_EQ(asking.connection.refusal, static_cast<std::uint32_t>(RefusalReason::no_room));
    EXPECT_EQ(handle(), "") << "nobody is lost";
    first_.away = second_.away = false;
    Peer& another = peer(3);
    connections_->request(another);
    EXPECT_EQ(another.session.state, ConnectState::requested);
}

// Others may need the memory of its last ring.
TEST_F(Handshakes, APeerWithoutQueuePairsKeepsNoRing) {
    Peer& other = peer(1);
    ASSERT_TRUE(first_.allocate(4096, kLocalWrite, other.in.ring_memory).ok());
    counters_.buffers = 1;
    counters_.buffers_bytes = other.in.ring_memory->length();
    first_.away = second_.away = true;
    connections_->request(other);
    EXPECT_EQ(other.in.ring_memory, nullptr);
    EXPECT_EQ(counters_.buffers, 0u);
    EXPECT_EQ(counters_.buffers_bytes, 0u);
}

TEST_F(Handshakes, WithoutRoomARequestIsRefused) {
    limit_to_one();
    arrive(peer(1), MessageType::connect_request, body(7));
    Peer& other = peer(2);
    EXPECT_EQ(arrive(other, MessageType::connect_request, body(8)), 1u);
    EXPECT_EQ(other.session.state, ConnectState::idle);
    EXPECT_EQ(other.connection.refusal, static_cast<std::uint32_t>(RefusalReason::no_room));
    EXPECT_EQ(other.connection.remote_number, 8u);
    EXPECT_EQ(counters_.connections_refused, 1u);
    EXPECT_TRUE(other.connection.wanted_link.linked()); // this side asks when there is room
    EXPECT_EQ(handle(), "");
}

// Both sides have sent their disconnect and received the other's. The peer's answer may be on its
// way, so a request for the next connection waits. A peer that repairs the last connection sends no
// answer before it hears that this side has closed it.
TEST_F(Handshakes, ARepairOfAClosedConnectionIsRefusedThoughADisconnectIsUnderWay) {
    Peer& other = peer(1);
    other.session.disconnect_sent = other.ending.disconnect_received = true;
    ConnectBody request = body(7);
    EXPECT_EQ(arrive(other, MessageType::connect_request, request), 0u);
    EXPECT_NE(other.connection.early_request, nullptr); // of the next connection
    other.connection.early_request.reset();
    request.replaces = 3;
    EXPECT_EQ(arrive(other, MessageType::connect_request, request), 1u);
    EXPECT_EQ(other.connection.early_request, nullptr);
    EXPECT_EQ(other.connection.refusal, static_cast<std::uint32_t>(RefusalReason::no_room));
    EXPECT_EQ(other.connection.remote_number, 7u);
    EXPECT_EQ(other.session.state, ConnectState::idle);
}

// The connection that this side has requested is over shared queue pairs, since it has no room for
// those that the peer requests.
TEST_F(Handshakes, ACrossingRequestForAnotherKindGetsNoRoomThatThereIsNot) {
    limit_to_one();
    arrive(peer(1), MessageType::connect_request, body(7));
    Peer& higher = peer(9);
    higher.session.state = ConnectState::requested;
    higher.connection.shared = true;
    higher.lanes.subchannels.resize(2);
    EXPECT_EQ(arrive(higher, MessageType::connect_request, body(8)), 1u);
    EXPECT_EQ(higher.session.state, ConnectState::idle);
    EXPECT_EQ(higher.connection.refusal, static_cast<std::uint32_t>(RefusalReason::no_room));
    EXPECT_EQ(counters_.connections_refused, 1u);
    EXPECT_EQ(handle(), "9 unconnected; ");
}

// Nothing is left of what this side has requested, as when the device has become full.
TEST_F(Handshakes, ARefusalOfACrossingRequestGivesThisSidesRequestUp) {
    limit_to_one();
    arrive(peer(1), MessageType::connect_request, body(7));
    Peer& higher = peer(9);
    higher.session.state = ConnectState::requested;
    EXPECT_EQ(arrive(higher, MessageType::connect_request, body(8)), 1u);
    EXPECT_EQ(higher.session.state, ConnectState::idle);
    EXPECT_EQ(handle(), "9 unconnected; ");
}

// The peer answers a request of this side's that was late, after this side has given it up and has
// refused another one of the peer's: the peer would wait for the confirmation for ever.
TEST_F(Handshakes, AReplyToARequestThatWasGivenUpLongAgoIsRefused) {
    limit_to_one();
    arrive(peer(1), MessageType::connect_request, body(7));
    Peer& higher = peer(9);
    higher.session.state = ConnectState::requested;
    const std::uint32_t number = ++higher.connection.number;
    arrive(higher, MessageType::connect_request, body(8));
    arrive(higher, MessageType::connect_request, body(9));
    ASSERT_EQ(higher.connection.number, number + 1);
    EXPECT_EQ(arrive(higher, MessageType::connect_reply, body(10, number)), 1u);
    EXPECT_EQ(higher.connection.refusal, static_cast<std::uint32_t>(RefusalReason::over));
    EXPECT_EQ(higher.connection.remote_number, 10u);
    EXPECT_EQ(arrive(higher, MessageType::connect_reply, body(9, number)), 0u); // late
    EXPECT_EQ(counters_.bad_packets, 0u);
}

// The peer has answered a request that this side had given up, with the number of its own request,
// which this side has answered meanwhile: each would wait for the other's confirmation for ever.
TEST_F(Handshakes, AReplyThatCrossesTheAnswerToItsSendersRequestEndsBoth) {
    limit_to_one();
    Peer& higher = peer(9);
    const std::uint32_t number = ++higher.connection.number;
    arrive(higher, MessageType::connect_request, body(8));
    ASSERT_EQ(higher.session.state, ConnectState::answered);
    handle();
    EXPECT_EQ(arrive(higher, MessageType::connect_reply, body(8, number)), 1u);
    EXPECT_EQ(higher.session.state, ConnectState::idle);
    EXPECT_EQ(higher.connection.refusal, static_cast<std::uint32_t>(RefusalReason::over));
    EXPECT_EQ(handle(), "9 unconnected; ");
    EXPECT_EQ(counters_.bad_packets, 0u);
}

// The request was kept for the end of a disconnect, which the peer has revoked: it waits for the
// answer.
TEST_F(Handshakes, ARequestKeptForADisconnectIsAnsweredWhenThatIsRevoked) {
    for (const bool asks : {false, true}) { // this side has asked meanwhile, and is the lower one
        SCOPED_TRACE(asks);
        Peer& higher = peer(asks ? 9 : 8);
        higher.session.disconnect_sent = higher.ending.disconnect_received = true;
        EXPECT_EQ(arrive(higher, MessageType::connect_request, body(7)), 0u);
        higher.ending.disconnect_received = false;
        if (asks) {
            connections_->request(higher);
        }
        const std::size_t before = first_.sent + second_.sent;
        connections_->on_disconnect_revoked(higher);
        EXPECT_EQ(first_.sent + second_.sent, before + 1);
        EXPECT_EQ(higher.session.state, ConnectState::answered);
        EXPECT_EQ(higher.connection.remote_number, 7u);
        EXPECT_EQ(higher.connection.early_request, nullptr);
        connections_->on_disconnect_revoked(higher); // nothing is kept any more
        EXPECT_EQ(first_.sent + second_.sent, before + 1);
    }
}

// The peer answers this side's request instead.
TEST_F(Handshakes, ARequestKeptForADisconnectOfALowerPeerIsKeptWhereThisSideHasAsked) {
    Peer& lower = peer(1);
    lower.session.disconnect_sent = lower.ending.disconnect_received = true;
    arrive(lower, MessageType::connect_request, body(7));
    lower.ending.disconnect_received = false;
    connections_->request(lower);
    connections_->on_disconnect_revoked(lower);
    EXPECT_EQ(lower.session.state, ConnectState::requested);
    EXPECT_NE(lower.connection.early_request, nullptr);
}

// The end of the disconnect would take the new connection down, on this side alone.
TEST_F(Handshakes, NoConnectionIsRequestedInTheMiddleOfADisconnect) {
    Peer& other = peer(1);
    other.session.disconnect_sent = other.ending.disconnect_received = true;
    connections_->request(other);
    EXPECT_EQ(first_.sent, 0u);
    EXPECT_EQ(other.session.state, ConnectState::idle);
    EXPECT_TRUE(other.connection.wanted_link.linked());
}

// The other side repairs a connection that this side has taken down.
TEST_F(Handshakes, ARepairIsRefusedWhereThisSideAsksForTheNextConnection) {
    for (const std::uint64_t name : {1, 9}) {
        Peer& other = peer(name);
        connections_->request(other);
        ConnectBody request = body(7);
        request.replaces = 3;
        EXPECT_EQ(arrive(other, MessageType::connect_request, request), 1u);
        EXPECT_EQ(other.session.state, ConnectState::requested);
        EXPECT_EQ(other.connection.refusal, static_cast<std::uint32_t>(RefusalReason::no_room));
        EXPECT_EQ(other.connection.early_request, nullptr);
    }
}

// The other side has finished the disconnect, and this side hears of that by the next request.
TEST_F(Handshakes, ARequestForTheNextConnectionEndsTheRepairOfTheOneBefore) {
    Peer& higher = peer(9);
    connections_->request(higher);
    higher.session.disconnect_sent = higher.ending.disconnect_received = true;
    higher.interruption.repair.active = true;
    EXPECT_EQ(arrive(higher, MessageType::connect_request, body(7)), 0u);
    EXPECT_EQ(higher.session.state, ConnectState::idle);
    EXPECT_FALSE(higher.interruption.repair.active);
    EXPECT_NE(higher.connection.early_request, nullptr); // until the disconnect is over
    EXPECT_EQ(handle(), "9 unconnected; ");
}

// Both sides repair a connection in the middle of its disconnect.
TEST_F(Handshakes, ARepairIsAnsweredThoughTheDisconnectIsUnderWay) {
    Peer& higher = peer(9);
    begin_repair(higher);
    higher.session.disconnect_sent = higher.ending.disconnect_received = true;
    ConnectBody request = body(2);
    request.replaces = 1;
    EXPECT_EQ(arrive(higher, MessageType::connect_request, request), 1u);
    EXPECT_EQ(higher.session.state, ConnectState::answered);
    EXPECT_EQ(higher.connection.early_request, nullptr);
}

TEST_F(Handshakes, ARefusalOfARepairTellsWhatTheOtherSideLacks) {
    Peer& other = peer(1);
    begin_repair(other);
    ConnectNote note = refusal(other.connection.number, RefusalReason::no_path);
    note.expected = 11;
    arrive(other, MessageType::connect_refuse, note);
    EXPECT_EQ(other.interruption.repair.expected, 11u);
    EXPECT_TRUE(other.interruption.repair.active);
}

TEST_F(Handshakes, APathThatCannotBeConnectedIsLeftOut) {
    second_.connects = Status::error(Reason::unreachable);
    Peer& other = peer(1);
    connections_->request(other);
    EXPECT_EQ(arrive(other, MessageType::connect_reply, body(7, other.connection.number)), 1u);
    EXPECT_EQ(other.session.state, ConnectState::open);
    EXPECT_EQ(other.lanes.live_subchannels(), 1u);
    EXPECT_EQ(other.lanes.subchannels[1].qp, nullptr);
}

TEST_F(Handshakes, TheOtherSideHearsOfAFailureOnceTheCoreHasActedOnIt) {
    first_.connects = second_.connects = Status::error(Reason::unreachable);
    Peer& other = peer(1);
    connections_->request(other);
    EXPECT_EQ(arrive(other, MessageType::connect_reply, body(7, other.connection.number)), 0u);
    EXPECT_EQ(other.session.state, ConnectState::failed);
    const std::size_t before = first_.sent;
    EXPECT_EQ(handle(), "1 failed: the connection could not be completed; ");
    EXPECT_EQ(first_.sent, before + 1);
    EXPECT_EQ(other.connection.refusal, static_cast<std::uint32_t>(RefusalReason::broken));
    EXPECT_EQ(other.connection.remote_number, 7u);
}

TEST_F(Handshakes, NoMessageSaysThatTheOtherSideHasFencedWithoutARepair) {
    Peer& other = peer(1);
    EXPECT_FALSE(Handshake::may_say_fenced(other, MessageType::connect_request));
    other.interruption.repair.active = true;
    EXPECT_TRUE(Handshake::may_say_fenced(other, MessageType::connect_request));
    EXPECT_TRUE(Handshake::may_say_fenced(other, MessageType::connect_reply));
    EXPECT_TRUE(Handshake::may_say_fenced(other, MessageType::connect_refuse));
    EXPECT_FALSE(Handshake::may_say_fenced(other, MessageType::connect_confirm));
    other.interruption.repair = {};
}

class SharedHandshakes : public SharedConnections {
protected:
    SharedHandshakes() : SharedConnections(Sharing::all) {}

    std::unique_ptr<Peer> peer_ = sharing_peer(1);
};

// The other side may have written into the ring already. What the queue pair that has failed still
// carried never completes.
TEST_F(SharedHandshakes, ASharedQueuePairThatIsReplacedOwesNoCredit) {
    connections_.request(*peer_);
    ASSERT_TRUE(peer_->connection.shared);
    ASSERT_EQ(peer_->session.state, ConnectState::requested);
    peer_->in.credit_work.on_posted(5);
    SharedInitiator& before = peer_->shared_queue_pair(peer_->lanes.subchannels[0])->initiator();
    before.fail();
    EXPECT_TRUE(connections_.renew_shared(*peer_, peer_->lanes.subchannels[0]));
    EXPECT_NE(&peer_->shared_queue_pair(peer_->lanes.subchannels[0])->initiator(), &before);
    EXPECT_FALSE(peer_->in.credit_work.any());
    connections_.close(*peer_, ConnectState::idle);
}

} // namespace
} // namespace adaptib::test
