// SPDX-License-Identifier: BSD-3-Clause
// Connects through rdma_cm: repeats and their pauses, the time limits of both sides, and the
// outcomes.
#include "connect/cm_connects.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/wire_connect.h"
#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Connecting : public RecordedConnections, private Witness {
protected:
    static constexpr std::uint64_t kSelf = 9;

    Connecting() {
        attended_.at_most(1h);
        first_.can(Capability::cm_connects);
        second_.can(Capability::cm_connects);
    }
    ~Connecting() override { connects_.leave(*peer_); }

    ConnectOptions options() {
        ConnectOptions options;
        options.self = kSelf;
        options.key = 0x1234;
        options.attended = &attended_;
        options.liveness = &liveness_;
        options.witness = this;
        options.random = &random_;
        return options;
    }
    // The queue pairs of both paths begin to connect. `initiates`: this side does.
    void begin(bool initiates) {
        ASSERT_TRUE(pairs_.make_all(*peer_).ok());
        ConnectBody body{};
        body.connection = 7;
        connects_.prepare(*peer_, body, initiates);
        for (std::uint8_t path = 0; path < 2; ++path) {
            ASSERT_TRUE(
                pairs_.connect(*peer_, peer_->lanes.subchannels[path], {path, path, 0, 0, 77, 1, 5})
                    .ok());
        }
        ASSERT_TRUE(connects_.begin(*peer_));
    }
    // Returns the outcome of a pass of progress.
    std::string advance(Nanoseconds after = 0s) {
        world_.clock.advance(after);
        outcome_.clear();
        connects_.advance([this](Peer&, CmConnects::Outcome outcome, const std::string& what) {
            outcome_ += outcome == CmConnects::Outcome::connected ? "connected"
                        : outcome == CmConnects::Outcome::no_path ? "no path"
                                                                  : "failed " + what;
        });
        return outcome_;
    }
    std::size_t tries(std::size_t path) { return made(*peer_, path).tries.size(); }
    void connected(std::uint32_t path) {
        connects_.on_connected(path, made(*peer_, path).number());
    }
    void failed(std::uint32_t path, const std::string& why = "no route") {
        connects_.on_failed(path, made(*peer_, path).number(), why);
    }

    bool alive_ = false; // as far as the witness knows
    Random random_{1};
    AttendedClock attended_{world_.clock};
    Liveness liveness_{30s};
    const ConnectContext context_ = recorded_context(options());
    ConnectionPool pool_{0, world_.counters};
    QueuePairs pairs_{context_, pool_};
    CmConnects connects_{context_, pairs_};
    std::unique_ptr<Peer> peer_ = idle_peer(1);

private:
    bool may_live(Peer&, Nanoseconds) override { return alive_; }

    std::string outcome_;
};

TEST_F(Connecting, BothSidesOfAnAttemptHaveTheSameTokenAndNoOtherHas) {
    peer_->contact.address.key = 0x5678;
    peer_->connection.number = 3;
    ConnectBody from_peer{};
    from_peer.connection = 7;
    connects_.prepare(*peer_, from_peer, true);
    EXPECT_TRUE(peer_->connection.cm_connect.initiates);
    const auto token = peer_->connection.cm_connect.token;

    ConnectOptions of_peer = options();
    of_peer.self = 1;
    of_peer.key = 0x5678;
    const ConnectContext there = recorded_context(of_peer);
    CmConnects other(there, pairs_);
    const auto self = idle_peer(kSelf);
    self->contact.address.key = 0x1234;
    self->connection.number = 7;
    ConnectBody from_self{};
    from_self.connection = 3;
    other.prepare(*self, from_self, false);
    EXPECT_EQ(self->connection.cm_connect.token, token);
    EXPECT_FALSE(self->connection.cm_connect.initiates);
    from_self.connection = 4; // the next attempt
    other.prepare(*self, from_self, false);
    EXPECT_NE(self->connection.cm_connect.token, token);
}

TEST_F(Connecting, EndsWhenAllQueuePairsAreConnected) {
    EXPECT_FALSE(connects_.begin(*peer_)); // none connects through rdma_cm
    EXPECT_EQ(connects_.deadline(), Nanoseconds::max());
    begin(true);
    EXPECT_TRUE(connects_.active());
    connected(1);
    EXPECT_EQ(advance(), "");
    connects_.on_connected(0, 99);                            // of no queue pair here
    connects_.on_failed(1, made(*peer_, 1).number(), "late"); // it is connected
    EXPECT_EQ(advance(), "");
    connected(0);
    EXPECT_EQ(advance(), "connected");
    EXPECT_FALSE(connects_.active());
    EXPECT_EQ(tries(0), 1u);
    EXPECT_EQ(tries(1), 1u);
    EXPECT_EQ(world_.counters.cm_connects_repeated, 0u);
    EXPECT_TRUE(events_.lost_paths.empty());
}

TEST_F(Connecting, AnotherAttemptBeginsAnew) {
    begin(true);
    connected(0);
    world_.clock.advance(1500ms);
    pairs_.drop_all(*peer_);
    begin(false); // the other side has asked for it
    EXPECT_FALSE(peer_->connection.cm_connect.initiates);
    EXPECT_EQ(advance(1s), ""); // no path of this attempt is connected yet
    EXPECT_EQ(connects_.deadline(), world_.clock.now() + 31s);
}

TEST_F(Connecting, AFailedOneIsTriedAgainAfterAPauseThatDoubles) {
    begin(true);
    connected(1);
    Nanoseconds pause = 10ms;
    Nanoseconds more{};
    for (std::uint32_t i = 1; i <= 6; ++i) {
        failed(0);
        EXPECT_EQ(world_.counters.cm_connects_repeated, i);
        const Nanoseconds in = peer_->lanes.subchannels[0].cm_connect.again_at - world_.clock.now();
        EXPECT_GE(in, pause);
        EXPECT_LT(in, 2 * pause);
        more += in - pause;
        EXPECT_EQ(connects_.deadline(), world_.clock.now() + in);
        EXPECT_EQ(advance(in - 1ns), "");
        EXPECT_EQ(tries(0), i);
        EXPECT_EQ(advance(1ns), "");
        EXPECT_EQ(tries(0), i + 1);
        pause *= 2;
    }
    EXPECT_GT(more, 1ms); // the random part
    for (std::uint32_t i = 0; i < 10; ++i) {
        failed(0);
    }
    EXPECT_LT(peer_->lanes.subchannels[0].cm_connect.again_at, world_.clock.now() + 2s);
}

TEST_F(Connecting, ASilentOneBeginsAnewAfterASecond) {
    begin(true);
    connected(1);
    EXPECT_EQ(connects_.deadline(), world_.clock.now() + 1s);
    EXPECT_EQ(advance(1s - 1ns), "");
    EXPECT_EQ(tries(0), 1u);
    EXPECT_EQ(advance(1ns), "");
    EXPECT_EQ(tries(0), 2u);
    EXPECT_EQ(tries(1), 1u);
    EXPECT_EQ(world_.counters.cm_connects_repeated, 1u);
    EXPECT_EQ(peer_->lanes.subchannels[0].cm_connect.again_at, world_.clock.now() + 2s);
}

TEST_F(Connecting, OnceOnePathIsConnectedTheOthersGetTwoSeconds) {
    begin(true);
    EXPECT_EQ(advance(500ms), "");
    connected(0);
    world_.clock.advance(10ms);
    failed(1);
    EXPECT_EQ(advance(1989ms), "");
    EXPECT_EQ(advance(1ms), "connected");
    EXPECT_EQ(events_.lost_paths, std::vector<std::size_t>{1});
    EXPECT_EQ(events_.last_loss, "no route");
    EXPECT_EQ(peer_->lanes.subchannels[1].qp, nullptr);
    EXPECT_FALSE(connects_.active());
}

TEST_F(Connecting, ThatCannotEvenBeginAnewDropsOut) {
    begin(true);
    connected(1);
    failed(0);
    made(*peer_, 0).answer = Status::error(Reason::no_device);
    EXPECT_EQ(advance(20ms), "connected");
    EXPECT_EQ(events_.lost_paths, std::vector<std::size_t>{0});
}

TEST_F(Connecting, ARepairLooksForPathsAgainAfterTenSeconds) {
    peer_->interruption.repair.active = true;
    begin(true);
    alive_ = true;
    EXPECT_EQ(advance(10s - 1ns), "");
    EXPECT_EQ(advance(1ns), "no path");
    EXPECT_FALSE(connects_.active());
    EXPECT_EQ(events_.lost_paths, (std::vector<std::size_t>{0, 1}));
}

TEST_F(Connecting, AnErrorEndsAFirstConnectionAfterThePartitionTimeout) {
    alive_ = true; // no excuse: the network has answered
    begin(true);
    for (Nanoseconds time = 1s; time < 30s; time += 1s) {
        failed(0);
        failed(1);
        ASSERT_EQ(advance(1s), "") << time.count();
    }
    failed(0);
    failed(1);
    EXPECT_EQ(advance(1s), "failed for 30 s no connection could be made: no route");
}

TEST_F(Connecting, APeerThatDoesNotAnswerIsWaitedForAsLongAsItMayLive) {
    begin(true);
    alive_ = true;
    EXPECT_EQ(advance(29s), "");
    EXPECT_EQ(advance(1s), "");
    Liveness::note(peer_->health.life, Evidence::responder, world_.clock.now());
    EXPECT_EQ(advance(29s), "");
    alive_ = false;
    EXPECT_EQ(advance(0s), ""); // it was alive 29 s ago
    EXPECT_EQ(advance(1s), "failed for 60 s no connection could be made: there is no answer");
}

TEST_F(Connecting, TheOtherSideWaitsForTheConfirmationALittleLonger) {
    begin(false);
    EXPECT_EQ(advance(31s), "");
    EXPECT_EQ(tries(0), 1u); // only the initiator repeats
    EXPECT_EQ(connects_.deadline(), world_.clock.now() + 1s);
    EXPECT_EQ(advance(1s), "failed for 32 s the other side has not confirmed the connection");
}

TEST_F(Connecting, OneNoticeTellsThatNoPathComesUp) {
    begin(true);
    failed(1, "no address");
    EXPECT_EQ(advance(10s - 1ns), "");
    EXPECT_TRUE(events_.notices.empty());
    EXPECT_EQ(advance(1ns), "");
    ASSERT_EQ(events_.notices.size(), 1u);
    EXPECT_NE(events_.notices.front().find("host there"), std::string::npos);
    EXPECT_EQ(advance(1s), "");
    EXPECT_EQ(events_.notices.size(), 1u);
}

TEST_F(Connecting, APeerThatIsLeftIsNotAdvancedAnyMore) {
    begin(true);
    connects_.leave(*peer_);
    EXPECT_FALSE(connects_.active());
    EXPECT_EQ(advance(1h), "");
    connected(0);
    EXPECT_EQ(peer_->lanes.subchannels[0].cm_connect.step, CmConnectStep::under_way);
}

} // namespace
} // namespace adaptib::test
