// SPDX-License-Identifier: BSD-3-Clause
// The choice of the path for a peer's datagrams, over two rails of each side that carry nothing.
#include "core/datagram_paths.h"

#include <gtest/gtest.h>

#include "unit/core/reachable_rail.h"
#include "unit/protocol/losses.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;
using Failure = DatagramChannel::PathFailure;

class DatagramPathsTest : public testing::Test, public PathObserver, public DatagramPathsListener {
protected:
    DatagramPathsTest() {
        PathRepository::Options options;
        options.clock = &world_.clock;
        options.host = "here";
        PathObserver& observer = *this;
        repository_.emplace(options, world_.rails, world_.counters, observer);
        repository_->add(peer_);
        paths_.emplace(world_.rails, *repository_, liveness_, losses_.peers, *this);
    }
    ~DatagramPathsTest() override { repository_->remove(peer_); }

    void open() {
        std::size_t pair = 9;
        ASSERT_TRUE(paths_->open(peer_, pair).ok());
        ASSERT_EQ(pair, peer_.contact.datagram.pair);
    }
    // The last datagram came over that pair.
    void hear_over(std::size_t pair) {
        const PeerRoute::Pair& rails = peer_.contact.route.pairs[pair];
        peer_.contact.datagram.heard_rail = rails.remote;
        peer_.contact.datagram.heard_port = static_cast<std::uint8_t>(rails.local);
        peer_.contact.datagram.heard = 1s;
    }

    void on_path_changed(Peer& peer, std::size_t pair, PathState, PathState now,
                         const std::string&) override {
        paths_->on_path_changed(peer, pair, now);
    }
    void on_path_line(const std::string&) override {}
    void on_address_moved(Peer&, std::uint32_t remote_rail) override {
        moved_.push_back(remote_rail);
    }

    ReachablePeer world_{LinkLayer::infiniband};
    Peer& peer_ = *world_.peer;
    Liveness liveness_{10s};
    std::optional<PathRepository> repository_;
    std::optional<DatagramPaths> paths_;
    Losses losses_{world_.counters};
    std::vector<std::uint32_t> moved_;
};

TEST(DatagramsOfOneRail, GoOverNoOther) {
    TwoRails world; // the channel has one of them
    const std::unique_ptr<Peer> peer = world.peer(12);
    for (AddressRail& rail : peer->contact.address.rails) {
        rail.datagram_qp = 5;
    }
    for (std::size_t pair = 0; pair < peer->contact.route.total; ++pair) {
        EXPECT_EQ(DatagramPaths::has_datagrams(*peer, pair),
                  peer->contact.route.pairs[pair].local == 0)
            << pair;
    }
}

TEST_F(DatagramPathsTest, TheFirstPathThatWorksIsTaken) {
    open();
    EXPECT_EQ(peer_.contact.datagram.pair, 0);
    EXPECT_NE(peer_.contact.datagram.handle, nullptr);
}

TEST_F(DatagramPathsTest, APathThatHasFailedIsTriedLast) {
    repository_->report_failure(peer_, 0, "test");
    open();
    EXPECT_EQ(peer_.contact.datagram.pair, 1);
}

TEST_F(DatagramPathsTest, AMovedAddressIsTakenUpAndReported) {
    open();
    const std::size_t before = world_.first.tries;
    paths_->on_address_moved(peer_, 1);
    EXPECT_EQ(world_.first.tries, before) << "the datagrams go to the other rail of the peer";
    paths_->on_address_moved(peer_, 0);
    EXPECT_EQ(world_.first.tries, before + 1);
    EXPECT_EQ(moved_, (std::vector<std::uint32_t>{1, 0}));
}

TEST_F(DatagramPathsTest, ARailWithoutHandlesIsPassedOver) {
    world_.first.obstacle = Status::error(Reason::no_memory);
    open();
    EXPECT_EQ(peer_.contact.datagram.pair, 1);
    world_.second.obstacle = Status::error(Reason::no_permission);
    std::size_t pair = 0;
    EXPECT_FALSE(paths_->open(peer_, pair).ok());
}

TEST_F(DatagramPathsTest, AHandleThatIsBeingMadeIsWaitedFor) {
    world_.first.obstacle = kNotYet;
    std::size_t pair = 9;
    EXPECT_EQ(paths_->open(peer_, pair), kNotYet);
    EXPECT_EQ(world_.second.tries, 0u);
    world_.first.obstacle = kOk;
    open();
    EXPECT_EQ(peer_.contact.datagram.pair, 0);
    world_.second.obstacle = kNotYet;
    paths_->on_failure(peer_, Failure::unanswered, WorkStatus::success);
    EXPECT_EQ(peer_.contact.datagram.pair, 0);
    EXPECT_EQ(repository_->state(peer_, 1), PathState::up) << "nothing is wrong with it";
    world_.second.obstacle = kOk;
    paths_->on_failure(peer_, Failure::unanswered, WorkStatus::success);
    EXPECT_EQ(peer_.contact.datagram.pair, 1);
}

TEST_F(DatagramPathsTest, OfSeveralErrorsTheOneThatMayPassCounts) {
    world_.first.obstacle = kUnanswered;
    world_.second.obstacle = Status::error(Reason::unreachable);
    std::size_t pair = 9;
    EXPECT_EQ(paths_->open(peer_, pair), kUnanswered);
}

TEST_F(DatagramPathsTest, AHandleIsRenewedOnItsPath) {
    open();
    const AddressHandle* const before = peer_.contact.datagram.handle.get();
    world_.first.obstacle = kUnanswered;
    paths_->renew_handle(peer_);
    EXPECT_EQ(peer_.contact.datagram.handle.get(), before) << "it may be good all the same";
    world_.first.obstacle = kOk;
    paths_->renew_handle(peer_);
    EXPECT_NE(peer_.contact.datagram.handle.get(), nullptr);
    EXPECT_NE(peer_.contact.datagram.handle.get(), before);
    EXPECT_EQ(peer_.contact.datagram.pair, 0);
}

TEST_F(DatagramPathsTest, AnEndedProcessIsNotReachedOverAnyPath) {
    peer_.health.life.ended = true;
    std::size_t pair = 0;
    EXPECT_EQ(paths_->open(peer_, pair), Status::error(Reason::peer_gone));
    EXPECT_EQ(world_.first.tries + world_.second.tries, 0u);
}

TEST_F(DatagramPathsTest, AfterAFailureTheNextPathThatIsUpIsTaken) {
    open();
    paths_->on_failure(peer_, Failure::failed, WorkStatus::retry_exceeded);
    EXPECT_EQ(repository_->state(peer_, 0), PathState::failed);
    EXPECT_EQ(peer_.contact.datagram.pair, 1);
}

TEST_F(DatagramPathsTest, ThePathOverWhichThePeerWasHeardIsPreferred) {
    open();
    hear_over(3);
    paths_->on_failure(peer_, Failure::failed, WorkStatus::retry_exceeded);
    EXPECT_EQ(peer_.contact.datagram.pair, 3);
}

TEST_F(DatagramPathsTest, ASuspectPathIsTakenOnlyIfNoneIsUp) {
    open();
    repository_->report_suspect(peer_, 1, "test");
    paths_->on_failure(peer_, Failure::unanswered, WorkStatus::success);
    EXPECT_EQ(repository_->state(peer_, 0), PathState::suspect) << "silence is no failure";
    EXPECT_EQ(peer_.contact.datagram.pair, 2);
    repository_->report_failure(peer_, 3, "test");
    paths_->on_failure(peer_, Failure::failed, WorkStatus::retry_exceeded);
    EXPECT_EQ(peer_.contact.datagram.pair, 0) << "the next suspect one";
}

TEST_F(DatagramPathsTest, TheyReturnToAnEarlierPathThatIsUpAgain) {
    open();
    paths_->on_failure(peer_, Failure::failed, WorkStatus::retry_exceeded);
    ASSERT_EQ(peer_.contact.datagram.pair, 1);
    repository_->report_success(peer_, 0);
    EXPECT_EQ(peer_.contact.datagram.pair, 0);
    repository_->report_failure(peer_, 1, "test");
    repository_->report_success(peer_, 1);
    EXPECT_EQ(peer_.contact.datagram.pair, 0) << "not to a later one";
    const std::size_t before = world_.first.tries;
    repository_->report_suspect(peer_, 0, "test");
    repository_->report_success(peer_, 0);
    EXPECT_EQ(world_.first.tries, before) << "they have not left it";
}

TEST_F(DatagramPathsTest, WithoutAPathForTooLongThePeerIsLost) {
    open();
    repository_->report_failure(peer_, 1, "test");
    paths_->on_failure(peer_, Failure::given_up, WorkStatus::retry_exceeded);
    EXPECT_EQ(peer_.session.state, ConnectState::failed);
    const std::string& why = peer_.ending.failure;
    EXPECT_NE(why.find("is broken: no path to it has worked for 10 s ("), std::string::npos) << why;
    EXPECT_NE(why.find("here/m1:1 -> there/x1:1: test"), std::string::npos) << why;
}

} // namespace
} // namespace adaptib::test
