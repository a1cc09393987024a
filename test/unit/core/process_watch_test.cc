// SPDX-License-Identifier: BSD-3-Clause
// Evidence for and against an awaited peer: its process, its responder's answers, its silence.
#include "core/process_watch.h"

#include <gtest/gtest.h>

#include "unit/core/reachable_rail.h"
#include "unit/protocol/losses.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;
using Standing = DatagramChannel::Standing;

class WatchedPeer : public testing::Test, public PathObserver, public DatagramPathsListener {
protected:
    explicit WatchedPeer(LinkLayer link = LinkLayer::memory) : world_(link) {
        PathRepository::Options options;
        options.clock = &world_.clock;
        PathObserver& observer = *this;
        repository_.emplace(options, world_.rails, world_.counters, observer);
        DatagramPathsListener& listener = *this;
        paths_.emplace(world_.rails, *repository_, liveness_, losses_.peers, listener);
        watch_.emplace(ProcessWatch::Options{&world_.clock, &world_.clock, &random_, &liveness_},
                       world_.rails, *repository_, *paths_, world_.counters);
        world_.clock.advance(1s);
        begin_ = world_.clock.now();
        std::size_t pair = 0;
        EXPECT_TRUE(paths_->open(peer_, pair).ok());
    }
    ~WatchedPeer() override { watch_->life().forget(peer_); }

    void on_path_changed(Peer&, std::size_t, PathState, PathState, const std::string&) override {}
    void on_path_line(const std::string&) override {}
    void on_address_moved(Peer&, std::uint32_t) override { ADD_FAILURE(); }

    ReachablePeer world_;
    Peer& peer_ = *world_.peer;
    Random random_{1};
    Liveness liveness_{10s};
    Losses losses_{world_.counters};
    std::optional<PathRepository> repository_;
    std::optional<DatagramPaths> paths_;
    std::optional<ProcessWatch> watch_;
    Nanoseconds begin_{};
};

class WatchedPeerElsewhere : public WatchedPeer {
protected:
    WatchedPeerElsewhere() : WatchedPeer(LinkLayer::infiniband) {}
};

TEST_F(WatchedPeer, AProcessThatRunsMayBeSilentForAnyTime) {
    world_.first.known = Reach::good;
    for (int minute = 0; minute < 10; ++minute) {
        world_.clock.advance(60s);
        EXPECT_TRUE(watch_->may_live(peer_, begin_));
        EXPECT_EQ(watch_->standing_of(peer_, begin_), Standing::absent);
    }
    EXPECT_EQ(peer_.health.life.alive, world_.clock.now());
    EXPECT_EQ(peer_.health.life.evidence, Evidence::process);
}

TEST_F(WatchedPeer, AProcessBehindARailThatIsDownGivesNoEvidence) {
    world_.first.known = Reach::cut_off;
    EXPECT_EQ(watch_->standing_of(peer_, begin_), Standing::doubtful);
    world_.clock.advance(9s);
    EXPECT_TRUE(watch_->may_live(peer_, begin_));
    world_.clock.advance(1s);
    EXPECT_FALSE(watch_->may_live(peer_, begin_));
}

TEST_F(WatchedPeer, AnEndedProcessIsGivenUpElsewhere) {
    peer_.health.life.ended = true;
    world_.clock.advance(60s);
    EXPECT_TRUE(watch_->may_live(peer_, begin_));
    EXPECT_EQ(watch_->standing_of(peer_, begin_), Standing::absent);
}

TEST_F(WatchedPeerElsewhere, SilenceCountsFromTheLastEvidence) {
    world_.first.known = Reach::good; // nothing that such a rail could know
    world_.clock.advance(9s);
    EXPECT_EQ(watch_->standing_of(peer_, begin_), Standing::doubtful);
    Liveness::note(peer_.health.life, Evidence::responder, world_.clock.now());
    world_.clock.advance(9s);
    EXPECT_TRUE(watch_->may_live(peer_, begin_));
    EXPECT_EQ(watch_->standing_of(peer_, begin_), Standing::doubtful);
    world_.clock.advance(1s);
    EXPECT_FALSE(watch_->may_live(peer_, begin_));
    EXPECT_EQ(watch_->standing_of(peer_, begin_), Standing::lost);
}

TEST_F(WatchedPeerElsewhere, OnlyARailWithAResponderIsAsked) {
    EXPECT_FALSE(watch_->has_responder(peer_, 0));
    peer_.contact.address.rails[1].responder_qp = 3;
    EXPECT_FALSE(watch_->has_responder(peer_, 0));
    EXPECT_TRUE(watch_->has_responder(peer_, 1));
    EXPECT_TRUE(watch_->send_question(peer_, 1, LifeBody{}));
    repository_->rail_failed(1, "test");
    EXPECT_FALSE(watch_->send_question(peer_, 1, LifeBody{})) << "the rail is down";
}

TEST_F(WatchedPeer, WorkThatOnlyThePeerCanContinueAwaitsIt) {
    EXPECT_FALSE(watch_->is_awaited(peer_));
    peer_.transfers.users = 1;
    EXPECT_TRUE(watch_->is_awaited(peer_));
    peer_.transfers.users = 0;
    peer_.transfers.one_sided = 1;
    EXPECT_TRUE(watch_->is_awaited(peer_));
    peer_.transfers.one_sided = 0;
    peer_.session.state = ConnectState::requested;
    EXPECT_TRUE(watch_->is_awaited(peer_));
    peer_.session.state = ConnectState::open;
    EXPECT_FALSE(watch_->is_awaited(peer_));
    peer_.interruption.repair.active = true;
    EXPECT_TRUE(watch_->is_awaited(peer_));
}

} // namespace
} // namespace adaptib::test
