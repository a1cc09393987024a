// SPDX-License-Identifier: BSD-3-Clause
// Disconnects of two ends, each of which writes into a ring that the test reads: a connection is
// taken down once, after each side has received all that the other one sent.
#include "protocol/disconnects.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/channel/ring_pair.h"
#include "unit/protocol/held_flow.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kUnits = 64;
constexpr Bytes kUnexpectedMost = 1000;

// One side of a connection. Its peer is the other side.
class End final {
public:
    End() {
        peer->session.state = ConnectState::open;
        peer->session.next_send = peer->in.next_receive = 1; // there was traffic
        peer->contact.datagram.coming = true;
        peer->out.ring = std::move(ring.writer);
        peer->out.ring_capacity = 256;
    }
    ~End() { flow.forget(*peer); }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    // Delivers what this side has sent. Returns the flags of the disconnect messages.
    std::vector<std::uint8_t> deliver_to(End& other) {
        std::vector<std::uint8_t> flags;
        ring.take_all(*peer->out.ring, [&](const MessageHeader& header, const std::byte* body) {
            if (header.type == MessageType::disconnect) {
                flags.push_back(header.flags);
                const auto disconnect = read_body<IdBody>(body);
                other.started +=
                    other.disconnects.on_disconnect(*other.peer, header.flags, disconnect) ? 1 : 0;
            }
        });
        return flags;
    }
    // Sends other messages until one finds no room.
    void fill() {
        while (!flow.any_stalled()) {
            const IdBody body{1};
            flow.send_control(*peer, MessageType::sync_ack, &body, sizeof body);
        }
    }
    // Sends what waits for room.
    void retry() {
        for (Peer* each : flow.retry()) {
            disconnects.end_if_over(*each);
        }
    }
    // Takes what this side has told the other about what it may send, and all else that was sent.
    std::vector<Allowance> allowed() {
        std::vector<Allowance> told;
        ring.take_all(*peer->out.ring, [&](const MessageHeader& header, const std::byte*) {
            if (header.type == MessageType::allowance) {
                told.push_back(static_cast<Allowance>(header.flags));
            }
        });
        return told;
    }
    // Return how often the end of the handshake, or of the other side, has been reported.
    int over() { return over_ += reports(PeerEvent::disconnected); }
    int left() { return left_ += reports(PeerEvent::gone); }
    void tear_down() {
        peer->session.state = ConnectState::idle;
        Disconnects::on_torn_down(*peer);
    }

    TwoRails there;
    Ring ring{kUnits, true};
    std::unique_ptr<Peer> peer = there.peer(9);
    BlockPool pool;
    Completions completions;
    Losses losses{there.counters};
    NoSender none;
    SendFlow flow{
        0, {none, none, none}, pool, completions, losses.events, losses.peers, there.counters};
    BackPressure back_pressure{kUnexpectedMost, flow, there.counters};
    Disconnects disconnects{flow, back_pressure, losses.events};
    int started = 0; // times that what was held might go

private:
    int reports(PeerEvent event) {
        const std::vector<Peer*> reported = losses.events.take(event);
        for (const Peer* of : reported) {
            EXPECT_EQ(of, peer.get());
            EXPECT_TRUE(event != PeerEvent::disconnected || of->in.teardown_pending);
        }
        return static_cast<int>(reported.size());
    }

    int over_ = 0;
    int left_ = 0;
};

using Flags = std::vector<std::uint8_t>;

class Disconnecting : public testing::Test {
protected:
    void release(End& end) { end.disconnects.release(*end.peer); }
    void keep(End& end) { end.started += end.disconnects.keep(*end.peer) ? 1 : 0; }
    // Delivers what both have sent, until nothing is left.
    void exchange() {
        while (!a.deliver_to(b).empty() || !b.deliver_to(a).empty()) {
        }
    }

    End a;
    End b;
};

TEST_F(Disconnecting, EndsOnceBothHaveReleasedAndAnswered) {
    release(a);
    release(b);
    EXPECT_TRUE(a.peer->session.disconnect_sent);
    EXPECT_EQ(a.deliver_to(b), Flags{kDisconnect});
    EXPECT_EQ(b.over(), 0) << "its own is not answered yet";
    EXPECT_EQ(b.deliver_to(a), (Flags{kDisconnect, kDisconnectAck}));
    EXPECT_EQ(a.over(), 1);
    EXPECT_EQ(a.deliver_to(b), Flags{kDisconnectAck});
    EXPECT_EQ(b.over(), 1);
    a.disconnects.end_if_over(*a.peer);
    EXPECT_EQ(a.over(), 1) << "reported once";
}

TEST_F(Disconnecting, OneSideAloneEndsNothing) {
    release(a);
    exchange();
    EXPECT_EQ(a.over() + b.over(), 0);
    EXPECT_TRUE(a.peer->ending.disconnect_acked);
    EXPECT_TRUE(b.peer->ending.disconnect_received);
    release(b);
    exchange();
    EXPECT_EQ(a.over(), 1);
    EXPECT_EQ(b.over(), 1);
}

TEST_F(Disconnecting, AfterATeardownItMayHappenAgain) {
    for (int round = 1; round <= 2; ++round) {
        release(a);
        release(b);
        exchange();
        EXPECT_EQ(a.over(), round);
        EXPECT_EQ(b.over(), round);
        for (End* end : {&a, &b}) {
            end->tear_down();
            EXPECT_FALSE(end->peer->disconnect_done());
            EXPECT_FALSE(end->peer->in.teardown_pending);
            end->peer->ending.release = Release::none; // contacted again
            end->peer->session.state = ConnectState::open;
        }
    }
}

TEST_F(Disconnecting, SendsNothingTwiceOrInVain) {
    release(a);
    release(a);
    EXPECT_EQ(a.deliver_to(b), Flags{kDisconnect});
    b.peer->contact.datagram.coming = false; // is disconnected, and has no channel
    release(b);
    EXPECT_EQ(b.deliver_to(a), Flags{kDisconnectAck});
    End c;
    c.peer->session.next_send = c.peer->in.next_receive = 0;
    c.peer->session.state = ConnectState::idle;
    release(c);
    EXPECT_FALSE(c.peer->session.disconnect_sent) << "there never was any traffic";
    EXPECT_TRUE(c.peer->ending.released());
}

TEST_F(Disconnecting, APeerThatIsWantedAgainStays) {
    release(a);
    keep(a);
    EXPECT_EQ(a.started, 1);
    EXPECT_FALSE(a.peer->session.disconnect_sent);
    EXPECT_EQ(a.deliver_to(b), (Flags{kDisconnect, kDisconnectRevoked}));
    EXPECT_FALSE(b.peer->ending.disconnect_received);
    release(a); // the answer to the first disconnect is still under way
    EXPECT_EQ(b.deliver_to(a), Flags{kDisconnectAck});
    EXPECT_FALSE(a.peer->ending.disconnect_acked) << "it answers another disconnect";
    release(b);
    exchange();
    EXPECT_EQ(a.over(), 1);
    EXPECT_EQ(b.over(), 1);
}

TEST_F(Disconnecting, IsNotRevokedOnceThePeerHasDisconnectedToo) {
    release(b);
    exchange();
    release(a);
    keep(a);
    EXPECT_TRUE(a.peer->session.disconnect_sent);
    EXPECT_EQ(a.started, 0) << "requests are held";
    exchange();
    EXPECT_EQ(a.over(), 1);
    EXPECT_EQ(b.over(), 1);
}

TEST_F(Disconnecting, ARevocationIsFollowedIfThePeerIsWantedHereAsWell) {
    release(a);
    exchange();
    release(b);
    keep(b); // too late to revoke it
    ASSERT_TRUE(b.peer->session.disconnect_sent);
    keep(a);
    EXPECT_EQ(a.deliver_to(b), Flags{kDisconnectRevoked});
    EXPECT_FALSE(b.peer->session.disconnect_sent);
    EXPECT_EQ(b.started, 1);
    exchange();
    EXPECT_FALSE(a.peer->ending.disconnect_received);
    EXPECT_EQ(a.over() + b.over(), 0);
}

TEST_F(Disconnecting, WaitsUntilTheAnswerIsOnItsWay) {
    release(b);
    exchange();
    b.fill();
    release(a);
    a.deliver_to(b);
    EXPECT_TRUE(b.peer->disconnect_done());
    EXPECT_EQ(b.over(), 0) << "the answer is pending";
    while (b.flow.any_stalled()) {
        b.deliver_to(a);
        b.retry();
    }
    EXPECT_EQ(b.over(), 1);
    exchange();
    EXPECT_EQ(a.over(), 1);
}

TEST_F(Disconnecting, APeerThatHasFailedIsNotTakenDown) {
    release(a);
    release(b);
    a.deliver_to(b);
    a.peer->session.state = ConnectState::failed;
    b.deliver_to(a);
    EXPECT_EQ(a.over(), 0);
}

TEST_F(Disconnecting, ThePeerMaySendAgainBeforeTheDisconnect) {
    a.back_pressure.on_kept(*a.peer, 2 * kUnexpectedMost, [] { return Allowance::nothing; });
    ASSERT_EQ(a.allowed(), std::vector<Allowance>{Allowance::nothing});
    release(a);
    EXPECT_EQ(a.allowed(), std::vector<Allowance>{Allowance::all});
}

TEST_F(Disconnecting, AProcessThatEndsSaysSoOnceAndWantsNoAnswer) {
    EXPECT_TRUE(a.disconnects.leave(*a.peer));
    EXPECT_FALSE(a.disconnects.leave(*a.peer));
    release(a); // its user comes late
    EXPECT_EQ(a.deliver_to(b), Flags{kDisconnectFinal});
    EXPECT_EQ(b.left(), 1);
    EXPECT_TRUE(b.peer->health.life.left);
    EXPECT_TRUE(b.peer->ending.disconnect_received) << "it takes no credit";
    EXPECT_EQ(b.deliver_to(a), Flags{});
    EXPECT_EQ(a.over() + b.over(), 0);
    EXPECT_FALSE(b.disconnects.leave(*b.peer)) << "the other side is gone";
}

TEST_F(Disconnecting, APeerThatHasReleasedNothingYetHearsOfTheEndAndHasNothingToSay) {
    release(a);
    exchange();
    EXPECT_TRUE(a.disconnects.leave(*a.peer));
    EXPECT_FALSE(a.disconnects.leave(*a.peer));
    EXPECT_EQ(a.deliver_to(b), Flags{kDisconnectFinal});
    EXPECT_EQ(b.left(), 1);
    release(b);
    EXPECT_TRUE(b.peer->ending.released());
    EXPECT_EQ(b.deliver_to(a), Flags{}) << "nobody is there";
}

TEST_F(Disconnecting, APeerThatWaitsForTheDisconnectOfAnotherHearsOfItsEnd) {
    release(b);
    exchange();
    EXPECT_TRUE(a.disconnects.leave(*a.peer));
    EXPECT_EQ(a.deliver_to(b), Flags{kDisconnectFinal});
    EXPECT_EQ(b.left(), 1);
}

// Puts and gets are no messages, and hold a connection all the same.
TEST_F(Disconnecting, APeerWithAConnectionAndWithoutMessagesHearsOfTheEnd) {
    a.peer->session.next_send = a.peer->in.next_receive = 0;
    EXPECT_TRUE(a.disconnects.leave(*a.peer));
    EXPECT_EQ(a.deliver_to(b), Flags{kDisconnectFinal});
}

TEST_F(Disconnecting, BothMayEndAtTheSameTime) {
    EXPECT_TRUE(a.disconnects.leave(*a.peer));
    EXPECT_TRUE(b.disconnects.leave(*b.peer));
    exchange();
    EXPECT_EQ(a.left(), 1);
    EXPECT_EQ(b.left(), 1);
}

TEST_F(Disconnecting, WhoNeedsNoWordOfTheEndGetsNone) {
    a.peer->session.next_send = a.peer->in.next_receive = 0;
    a.peer->session.state = ConnectState::idle;
    EXPECT_FALSE(a.disconnects.leave(*a.peer)) << "there was no traffic";
    a.peer->session.state = ConnectState::open;
    a.peer->session.next_send = 1;
    a.peer->contact.datagram.coming = false;
    EXPECT_FALSE(a.disconnects.leave(*a.peer)) << "it cannot be reached any more";
    a.peer->contact.datagram.coming = true;
    a.peer->health.life.ended = true;
    EXPECT_FALSE(a.disconnects.leave(*a.peer)) << "its process has ended";
    a.peer->health.life.ended = false;
    a.peer->session.state = ConnectState::failed;
    EXPECT_FALSE(a.disconnects.leave(*a.peer)) << "it is lost";
    a.peer->session.state = ConnectState::open;
    release(b);
    exchange();
    release(a);
    EXPECT_FALSE(a.disconnects.leave(*a.peer)) << "both have begun to disconnect";
    exchange();
    EXPECT_EQ(a.over(), 1);
    EXPECT_FALSE(a.disconnects.leave(*a.peer)) << "both have disconnected";
}

} // namespace
} // namespace adaptib::test
