// SPDX-License-Identifier: BSD-3-Clause
// The control lane of a connection: when it is chosen, which subchannel could carry it, and the
// empty write behind what was posted there.
#include "connect/control_lanes.h"

#include <gtest/gtest.h>

#include <memory>

#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

class Lanes : public RecordedConnections {
protected:
    const ConnectContext context_ = recorded_context({});
    ControlLanes lanes_{context_};
    std::unique_ptr<Peer> peer_ = open_peer(1);
};

TEST_F(Lanes, TheFastestPathIsChosenAndStaysChosen) {
    peer_->lanes.subchannels[0].rate = BytesPerSecond{1'000'000'000};
    peer_->lanes.subchannels[1].rate = BytesPerSecond{10'000'000'000};
    EXPECT_EQ(peer_->control.lane, kNoControlLane);
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 1u);
    peer_->lanes.subchannels[0].rate = BytesPerSecond{100'000'000'000};
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 1u); // only a migration changes it
}

TEST_F(Lanes, AnotherIsChosenOnceItsQueuePairIsGone) {
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 0u);
    peer_->lanes.subchannels[0].qp.reset();
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 1u);
}

TEST_F(Lanes, OnlyAPathThatIsUpCanCarryIt) {
    EXPECT_TRUE(lanes_.can_carry(*peer_, 1));
    EXPECT_FALSE(lanes_.can_carry(*peer_, 2));
    second_.port = PortState::down;
    EXPECT_FALSE(lanes_.can_carry(*peer_, 1));
    EXPECT_TRUE(lanes_.can_carry(*peer_, 0));
    second_.port = PortState::active;
    events_.usable = false;
    EXPECT_FALSE(lanes_.can_carry(*peer_, 1));
    events_.usable = true;
    peer_->lanes.subchannels[1].qp.reset();
    EXPECT_FALSE(lanes_.can_carry(*peer_, 1));
}

TEST_F(Lanes, AFlushIsOverWhenItsOwnWriteIs) {
    peer_->in.credit_address = 0x1000;
    peer_->lanes.subchannels[0].remote_memory_key = 9;
    FlushWork& by = peer_->connection.closing_flush;
    ASSERT_TRUE(lanes_.post_flush(*peer_, by).ok());
    ASSERT_EQ(pair_of(*peer_, 0).posts.size(), 1u);
    const SendWork work = pair_of(*peer_, 0).posts.front();
    EXPECT_EQ(work.opcode, Opcode::write);
    EXPECT_EQ(work.gather_count, 0u);
    EXPECT_NE(work.flags & kSignaled, 0u);
    EXPECT_EQ(work.remote_address, 0x1000u);
    EXPECT_EQ(work.remote_key, 9u);
    EXPECT_TRUE(by.flush().awaits(peer_->lanes.subchannels[0]));
    EXPECT_FALSE(by.flush().awaits(peer_->lanes.subchannels[1]));

    WorkCompletion completion{};
    completion.status = WorkStatus::success;
    completion.wr_id = work.wr_id;
    completion.qp_number = 1;
    target_of(work.wr_id)->on_work_done(1, completion); // same number, another rail
    EXPECT_FALSE(by.flush().done);
    completion.qp_number = 2; // of an earlier connection
    target_of(work.wr_id)->on_work_done(0, completion);
    EXPECT_FALSE(by.flush().done);
    completion.qp_number = 1;
    completion.status = WorkStatus::flushed;
    target_of(work.wr_id)->on_work_done(0, completion);
    EXPECT_FALSE(by.flush().done);
    completion.status = WorkStatus::success;
    target_of(work.wr_id)->on_work_done(0, completion);
    EXPECT_TRUE(by.flush().done);
    EXPECT_FALSE(by.flush().awaits(peer_->lanes.subchannels[0]));
}

// The connection is taken down, and comes up again over the same shared queue pair.
TEST_F(Lanes, AFlushIsNotOverWithAnEarlierOne) {
    FlushWork& by = peer_->connection.closing_flush;
    ASSERT_TRUE(lanes_.post_flush(*peer_, by).ok());
    by.flush() = {};
    ASSERT_TRUE(lanes_.post_flush(*peer_, by).ok());
    ASSERT_EQ(pair_of(*peer_, 0).posts.size(), 2u);
    WorkCompletion completion{};
    completion.status = WorkStatus::success;
    completion.qp_number = 1;
    completion.wr_id = pair_of(*peer_, 0).posts.front().wr_id;
    target_of(completion.wr_id)->on_work_done(0, completion);
    EXPECT_TRUE(by.flush().awaits(peer_->lanes.subchannels[0]));
    completion.wr_id = pair_of(*peer_, 0).posts.back().wr_id;
    target_of(completion.wr_id)->on_work_done(0, completion);
    EXPECT_TRUE(by.flush().done);
}

TEST_F(Lanes, AFlushThatCannotBePostedIsNotAwaited) {
    FlushWork& by = peer_->connection.closing_flush;
    pair_of(*peer_, 0).answer = Status::again(Reason::queue_full);
    EXPECT_TRUE(lanes_.post_flush(*peer_, by).is_again());
    EXPECT_FALSE(by.flush().posted);
    EXPECT_FALSE(by.flush().awaits(peer_->lanes.subchannels[0]));
    pair_of(*peer_, 0).answer = kOk;
    EXPECT_TRUE(lanes_.post_flush(*peer_, by).ok());
    EXPECT_TRUE(by.flush().awaits(peer_->lanes.subchannels[0]));
    EXPECT_EQ(lanes_.posts(), 2u); // each attempt: progress was made
}

} // namespace
} // namespace adaptib::test
