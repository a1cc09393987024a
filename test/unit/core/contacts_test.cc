// SPDX-License-Identifier: BSD-3-Clause
// Peers that cannot be reached yet: when they are tried again, and when they are given up.
#include "core/contacts.h"

#include <gtest/gtest.h>

#include "base/wire_connect.h"
#include "unit/core/reachable_rail.h"
#include "unit/messages.h"
#include "unit/protocol/losses.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

constexpr Status kLacking = Status::error(Reason::no_memory);
constexpr Status kLate = Status::again(Reason::not_connected);
constexpr Status kDenied = Status::error(Reason::no_permission);

class Unreached : public testing::Test, public PathObserver, public DatagramPathsListener {
protected:
    explicit Unreached(LinkLayer link = LinkLayer::memory) : world_(link) {
        PathRepository::Options options;
        options.clock = &world_.clock;
        PathObserver& observer = *this;
        repository_.emplace(options, world_.rails, world_.counters, observer);
        DatagramPathsListener& listener = *this;
        paths_.emplace(world_.rails, *repository_, liveness_, losses_.peers, listener);
        contacts_.emplace(world_.rails, *paths_, liveness_, world_.clock, losses_.peers,
                          losses_.events, messages_into(notices_));
        begin_ = world_.clock.now();
    }

    void set_obstacle(Status status) { world_.first.obstacle = world_.second.obstacle = status; }
    // Lets time pass, by deadlines, and returns how long after the beginning each try was.
    std::vector<Nanoseconds> tries_until(Nanoseconds end) {
        std::vector<Nanoseconds> at;
        while (contacts_->deadline() <= begin_ + end) {
            const std::size_t before = world_.first.tries;
            world_.clock.advance(contacts_->deadline() - world_.clock.now());
            contacts_->retry(world_.clock.now());
            if (world_.first.tries > before) {
                at.push_back(world_.clock.now() - begin_);
            }
        }
        world_.clock.advance(begin_ + end - world_.clock.now());
        return at;
    }

    void on_path_changed(Peer&, std::size_t, PathState, PathState, const std::string&) override {}
    void on_path_line(const std::string&) override {}
    void on_address_moved(Peer&, std::uint32_t) override { ADD_FAILURE(); }
    bool is_lost() const { return !peer_.ending.failure.empty(); }
    // Returns true if the peer is lost for a reason that begins so.
    bool is_lost_since(const std::string& why) const {
        return peer_.ending.failure.find("is broken: " + why) != std::string::npos;
    }

    ReachablePeer world_;
    Peer& peer_ = *world_.peer;
    Liveness liveness_{20s};
    Losses losses_{world_.counters};
    std::optional<PathRepository> repository_;
    std::optional<DatagramPaths> paths_;
    std::optional<Contacts> contacts_;
    Nanoseconds begin_{};
    std::vector<std::string> notices_;
};

class UnreachedElsewhere : public Unreached {
protected:
    UnreachedElsewhere() : Unreached(LinkLayer::infiniband) {}
};

TEST_F(Unreached, PausesDoubleUpToAQuarterOfASecond) {
    set_obstacle(kLacking);
    contacts_->add(peer_, kLacking);
    EXPECT_TRUE(peer_.contact.datagram.coming);
    const std::vector<Nanoseconds> first{1ms, 3ms, 7ms, 15ms, 31ms, 63ms, 127ms, 255ms, 511ms};
    EXPECT_EQ(tries_until(600ms), first);
    EXPECT_EQ(tries_until(1100ms), (std::vector<Nanoseconds>{767ms, 1023ms}));
}

TEST_F(Unreached, APeerThatNothingWaitsForIsNeitherReportedNorGivenUp) {
    set_obstacle(kLacking);
    contacts_->add(peer_, kLacking);
    tries_until(300s);
    EXPECT_FALSE(contacts_->empty());
    EXPECT_TRUE(!is_lost() && notices_.empty());
}

TEST_F(Unreached, OnceItIsReachedItsEarlyRequestIsHandedOn) {
    set_obstacle(kLacking);
    contacts_->add(peer_, kLacking);
    peer_.connection.early_request = std::make_unique<ConnectBody>();
    peer_.connection.early_request->connection = 17;
    tries_until(10ms);
    EXPECT_FALSE(losses_.events.any());
    set_obstacle(kOk);
    tries_until(20ms);
    EXPECT_EQ(losses_.events.take(PeerEvent::reachable), std::vector<Peer*>{&peer_});
    ASSERT_NE(peer_.connection.early_request, nullptr) << "the core takes it";
    EXPECT_EQ(peer_.connection.early_request->connection, 17u);
    EXPECT_NE(peer_.contact.datagram.handle, nullptr);
    EXPECT_FALSE(peer_.contact.datagram.coming);
    EXPECT_EQ(contacts_->deadline(), Nanoseconds::max());
}

TEST_F(Unreached, AfterASecondOfWaitingOneNoticeAndAfterPatienceTheEnd) {
    set_obstacle(kLacking);
    contacts_->add(peer_, kLacking);
    tries_until(100s);
    peer_.transfers.users = 1; // from now on it counts
    tries_until(100s + 700ms);
    EXPECT_TRUE(notices_.empty());
    tries_until(119s);
    ASSERT_EQ(notices_.size(), 1u);
    EXPECT_NE(notices_[0].find("an operation waits for it: rail m0:1: "), std::string::npos)
        << notices_[0];
    EXPECT_NE(notices_[0].find("after 20 s"), std::string::npos) << notices_[0];
    EXPECT_FALSE(is_lost());
    tries_until(121s);
    EXPECT_TRUE(is_lost_since("this process cannot reach it, for 20 s")) << peer_.ending.failure;
    EXPECT_EQ(losses_.reported.size(), 1u);
    EXPECT_EQ(world_.first.refused, std::vector<Reason>{Reason::no_memory});
    EXPECT_TRUE(contacts_->empty());
    EXPECT_FALSE(peer_.contact.datagram.coming);
}

// A handle that is being made for long.
TEST_F(Unreached, APeerThatIsGoingToComeUpIsTriedOftenAndNeverGivenUp) {
    set_obstacle(kLate);
    peer_.transfers.users = 1;
    contacts_->add(peer_, kLate);
    EXPECT_TRUE(may_be_reached(kLate));
    const std::vector<Nanoseconds> tries = tries_until(20ms);
    ASSERT_GT(tries.size(), 8u);
    EXPECT_LE(tries[0], 1ms);
    EXPECT_EQ(tries.back() - tries[tries.size() - 2], Contacts::kMostPauseOfHandle);
    tries_until(60s);
    EXPECT_TRUE(!is_lost() && notices_.empty());
    set_obstacle(kOk);
    tries_until(61s);
    EXPECT_TRUE(contacts_->empty());
    EXPECT_NE(peer_.contact.datagram.handle, nullptr);
}

TEST_F(Unreached, ARefusalOfTheSystemIsFinal) {
    contacts_->add(peer_, kDenied);
    EXPECT_TRUE(contacts_->empty());
    EXPECT_EQ(world_.first.refused, std::vector<Reason>{Reason::no_permission});
    EXPECT_TRUE(is_lost_since("this process cannot reach it: rail")) << peer_.ending.failure;
    EXPECT_EQ(losses_.reported.size(), 1u);
}

TEST_F(UnreachedElsewhere, NoRefusalOfADeviceIsFinal) {
    set_obstacle(kDenied);
    contacts_->add(peer_, kDenied);
    EXPECT_EQ(tries_until(10ms).size(), 3u);
    EXPECT_FALSE(is_lost());
}

// RoCE: the neighbor's answer was lost, or the host is dead.
TEST_F(UnreachedElsewhere, AnAddressThatDoesNotAnswerIsTriedUntilPatienceEnds) {
    EXPECT_TRUE(may_be_reached(kUnanswered));
    set_obstacle(kUnanswered);
    peer_.transfers.users = 1;
    contacts_->add(peer_, kUnanswered);
    tries_until(19s);
    EXPECT_EQ(notices_.size(), 1u);
    EXPECT_FALSE(is_lost());
    tries_until(21s);
    EXPECT_TRUE(is_lost_since("this process cannot reach it, for 20 s")) << peer_.ending.failure;
}

TEST_F(Unreached, APeerThatHasEndedOrFailedIsLetGo) {
    contacts_->add(peer_, Status::error(Reason::peer_gone));
    EXPECT_TRUE(contacts_->empty());
    set_obstacle(kLacking);
    contacts_->add(peer_, kLacking);
    peer_.health.life.ended = true;
    tries_until(10ms);
    EXPECT_TRUE(contacts_->empty());
    EXPECT_FALSE(is_lost()) << "nothing waits for it";
    peer_.health.life.ended = false;
    contacts_->add(peer_, kLacking);
    peer_.session.state = ConnectState::failed;
    tries_until(20ms);
    EXPECT_TRUE(contacts_->empty());
}

TEST_F(Unreached, AnEndedPeerThatIsWaitedForFails) {
    set_obstacle(kLacking);
    contacts_->add(peer_, kLacking);
    peer_.transfers.users = 1;
    peer_.health.life.ended = true;
    tries_until(10ms);
    EXPECT_TRUE(contacts_->empty());
    EXPECT_TRUE(is_lost());
}

} // namespace
} // namespace adaptib::test
