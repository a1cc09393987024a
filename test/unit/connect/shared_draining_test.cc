// SPDX-License-Identifier: BSD-3-Clause
// The end of work over shared queue pairs: what is awaited, and when memory may be reused.
#include "connect/shared_draining.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>

#include "unit/channel/datagram_rail.h"
#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Draining : public RecordedConnections {
protected:
    static constexpr std::size_t kDepth = 16;

    Draining() {
        peer_->connection.shared = true;
        for (std::uint32_t i = 0; i < 2; ++i) {
            auto initiator = std::make_unique<RecordingPair>(i + 1);
            pairs_[i] = initiator.get();
            initiators_[i] = std::make_shared<SharedInitiator>(std::move(initiator), kDepth);
            peer_->lanes.subchannels[i].qp = std::make_unique<SharedQueuePair>(
                initiators_[i], std::make_shared<RecordingPair>(i + 11),
                peer_->connection.quiet_work);
        }
        EXPECT_EQ(lanes_.get_or_choose(*peer_), 0u);
    }

    void post(std::size_t subchannel) {
        EXPECT_TRUE(
            peer_->lanes.subchannels[subchannel].qp->post_send(empty_write(0, 0x1000, 0)).ok());
    }
    void complete_flush() {
        const SendWork work = pairs_[0]->posts.back();
        WorkCompletion completion{};
        completion.qp_number = 1;
        completion.status = WorkStatus::success;
        completion.wr_id = work.wr_id;
        target_of(work.wr_id)->on_work_done(0, completion);
    }
    // Returns another peer that uses the first initiator.
    std::unique_ptr<Peer> open_sharer() {
        auto other = open_peer(2);
        other->connection.shared = true;
        other->lanes.subchannels[0].qp = std::make_unique<SharedQueuePair>(
            initiators_[0], std::make_shared<RecordingPair>(21), other->connection.quiet_work);
        other->lanes.subchannels[1].qp.reset();
        other->in.credit_address = 0x2000;
        return other;
    }

    const ConnectContext context_ = recorded_context({});
    ControlLanes lanes_{context_};
    SharedDraining draining_{context_, lanes_};
    std::array<RecordingPair*, 2> pairs_{};
    std::array<std::shared_ptr<SharedInitiator>, 2> initiators_;
    std::unique_ptr<Peer> peer_ = open_peer(1);
};

// The adapter may still use it, even if the queue pair is in ERR.
TEST_F(Draining, TheHandleOfWorkUnderWayOutlivesTheQueuePair) {
    int handles = 0;
    for (std::size_t i = 0; i < 2; ++i) {
        static_cast<SharedQueuePair*>(peer_->lanes.subchannels[i].qp.get())
            ->set_destination(std::make_unique<CountedHandle>(handles), 5, 6);
    }
    post(0);
    peer_->lanes.subchannels[0].qp.reset();
    peer_->lanes.subchannels[1].qp.reset();
    EXPECT_EQ(handles, 1) << "the second one has nothing under way";
    initiators_[0]->destroy();
    initiators_[0].reset();
    EXPECT_EQ(handles, 0);
}

TEST_F(Draining, ADestroyedInitiatorHasFailed) {
    initiators_[0]->destroy();
    EXPECT_TRUE(initiators_[0]->failed()) << "the next connection gets another one";
}

// Nobody has asked for that completion, which tells that the send queue has room.
TEST_F(Draining, TheCompletionOfOneOfManyRequestsGoesToTheirOwner) {
    SendWork work = empty_write(0, 0x1000, 0);
    work.flags = 0;
    for (std::uint32_t i = 0; i < kSignalEvery; ++i) {
        ASSERT_TRUE(peer_->lanes.subchannels[0].qp->post_send(work).ok());
    }
    const SendWork& last = pairs_[0]->posts.back();
    EXPECT_NE(last.flags & kSignaled, 0u);
    EXPECT_EQ(target_of(last.wr_id), &peer_->connection.quiet_work);
}

TEST_F(Draining, QueuePairsOfThePeersOwnNeedNone) {
    const auto own = open_peer(2);
    EXPECT_TRUE(draining_.drained(*own));
    EXPECT_TRUE(draining_.may_fence(*own));
    EXPECT_TRUE(pair_of(*own, 0).posts.empty());
}

TEST_F(Draining, WithoutWorkThereIsNothingToWaitFor) {
    EXPECT_TRUE(SharedDraining::is_quiet(*peer_));
    EXPECT_TRUE(draining_.drained(*peer_));
    EXPECT_TRUE(pairs_[0]->posts.empty());
}

TEST_F(Draining, AnEmptyWriteBehindTheWorkTellsWhen) {
    post(0);
    EXPECT_FALSE(SharedDraining::is_quiet(*peer_));
    EXPECT_FALSE(draining_.drained(*peer_));
    EXPECT_EQ(pairs_[0]->posts.size(), 2u);
    EXPECT_FALSE(draining_.drained(*peer_));
    EXPECT_EQ(pairs_[0]->posts.size(), 2u); // one is enough
    complete_flush();
    EXPECT_TRUE(draining_.drained(*peer_));
    EXPECT_TRUE(draining_.may_fence(*peer_));
    EXPECT_FALSE(initiators_[0]->failed());
}

TEST_F(Draining, WorkPostedBehindTheEmptyWriteNeedsAnother) {
    post(0);
    EXPECT_FALSE(draining_.drained(*peer_));
    post(0);
    const SendWork first = pairs_[0]->posts[1];
    WorkCompletion completion{};
    completion.qp_number = 1;
    completion.status = WorkStatus::success;
    completion.wr_id = first.wr_id;
    target_of(first.wr_id)->on_work_done(0, completion);
    EXPECT_FALSE(draining_.drained(*peer_));
    EXPECT_EQ(pairs_[0]->posts.size(), 4u);
    complete_flush();
    EXPECT_TRUE(draining_.drained(*peer_));
}

TEST_F(Draining, TransfersReportTheirOwnEnd) {
    post(1);
    peer_->transfers.stripes = 1;
    EXPECT_FALSE(draining_.drained(*peer_));
    EXPECT_FALSE(draining_.may_fence(*peer_));
    EXPECT_TRUE(pairs_[0]->posts.empty());
    peer_->transfers.stripes = 0;
    EXPECT_TRUE(draining_.drained(*peer_)); // nothing else is posted on that lane
    EXPECT_EQ(pairs_[1]->posts.size(), 1u);
}

TEST_F(Draining, PacketsOfAFailedInitiatorMayBeLate) {
    world_.clock.advance(1s);
    post(0);
    initiators_[0]->fail();
    EXPECT_TRUE(draining_.drained(*peer_)); // nothing more leaves this side
    EXPECT_FALSE(draining_.may_fence(*peer_));
    world_.clock.advance(draining_.packets_gone(*peer_) - 1ns);
    EXPECT_FALSE(draining_.may_fence(*peer_)); // the time does not begin anew
    world_.clock.advance(1ns);
    EXPECT_TRUE(draining_.may_fence(*peer_));
}

TEST_F(Draining, OnlyInitiatorsWithWorkOfThePeersAreStopped) {
    post(1);
    SharedDraining::stop(*peer_);
    EXPECT_FALSE(initiators_[0]->failed()); // other peers use it on
    EXPECT_TRUE(initiators_[1]->failed());
    EXPECT_EQ(pairs_[1]->states, std::vector{QpState::error});
    EXPECT_TRUE(SharedDraining::is_quiet(*peer_));
}

// Nothing can be written to the peer itself any more.
TEST_F(Draining, WorkOfAPeerThatHasLeftIsOverOnceLaterWorkOfOthersIs) {
    const auto other = open_sharer();
    QueuePairOwners owners;
    for (Peer* peer : {peer_.get(), other.get()}) {
        owners.add(*peer, peer->lanes.subchannels[0]);
    }
    EXPECT_TRUE(draining_.drained_by_others(*peer_, owners));
    post(0);
    other->session.state = ConnectState::answered;
    EXPECT_FALSE(draining_.drained_by_others(*peer_, owners)) << "the other one is not yet open";
    EXPECT_EQ(pairs_[0]->posts.size(), 1u);
    other->session.state = ConnectState::open;
    EXPECT_FALSE(draining_.drained_by_others(*peer_, owners));
    EXPECT_FALSE(draining_.drained_by_others(*peer_, owners));
    ASSERT_EQ(pairs_[0]->posts.size(), 2u);
    EXPECT_EQ(pairs_[0]->posts[1].remote_address, 0x2000u);
    complete_flush();
    EXPECT_TRUE(draining_.drained_by_others(*peer_, owners));
    SharedDraining::stop(*peer_);
    EXPECT_FALSE(initiators_[0]->failed());
    post(0);
    other->health.life.left = true;
    EXPECT_TRUE(draining_.drained_by_others(*peer_, owners)) << "nobody needs it";
}

// Its process may have ended since it has disconnected.
TEST_F(Draining, APeerThatMayBeGoneIsDrainedByOthers) {
    const auto other = open_sharer();
    QueuePairOwners owners;
    owners.add(*other, other->lanes.subchannels[0]);
    owners.add(*peer_, peer_->lanes.subchannels[0]);
    EXPECT_TRUE(draining_.drained_if_gone(*peer_, owners));
    post(0);
    EXPECT_FALSE(draining_.drained_if_gone(*peer_, owners));
    ASSERT_EQ(pairs_[0]->posts.size(), 2u);
    EXPECT_EQ(pairs_[0]->posts[1].remote_address, 0x2000u);
    complete_flush();
    EXPECT_TRUE(draining_.drained_if_gone(*peer_, owners));
    other->session.state = ConnectState::answered; // nobody else can post
    post(0);
    EXPECT_FALSE(draining_.drained_if_gone(*peer_, owners));
    EXPECT_EQ(pairs_[0]->posts.back().remote_address, peer_->in.credit_address);
    complete_flush();
    EXPECT_TRUE(draining_.drained_if_gone(*peer_, owners));
}

TEST_F(Draining, APathThatHasDroppedOutIsNotWaitedFor) {
    peer_->lanes.subchannels[1].qp.reset();
    EXPECT_TRUE(draining_.drained(*peer_));
    SharedDraining::stop(*peer_);
    EXPECT_TRUE(draining_.may_fence(*peer_));
}

} // namespace
} // namespace adaptib::test
