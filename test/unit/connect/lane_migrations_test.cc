// SPDX-License-Identifier: BSD-3-Clause
// Lane migrations: what they wait for, what is posted meanwhile, and when the old control lane is
// kept.
#include "connect/lane_migrations.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Migration : public RecordedConnections {
protected:
    static constexpr std::uint64_t kUnits = 4096 / kRingUnit;

    Migration() {
        peer_->in.ring_parts = {.lines_bytes = 4096};
        EXPECT_TRUE(first_
                        .allocate(RingMemory::bytes(peer_->in.ring_parts), kLocalWrite,
                                  peer_->in.ring_memory)
                        .ok());
        peer_->connection.remote_ring.units = kUnits;
        peer_->lanes.subchannels[0].remote_memory_key = 50;
        peer_->lanes.subchannels[1].remote_memory_key = 51;
        rings_.open(*peer_);
        EXPECT_NE(peer_->out.ring, nullptr);
        EXPECT_EQ(lanes_.get_or_choose(*peer_), 0u);
    }
    ~Migration() override { migrations_.stop(*peer_); }

    std::vector<SendWork>& posts(std::size_t subchannel) {
        return pair_of(*peer_, subchannel).posts;
    }
    // Writes a message into the peer's ring. Returns false if there is no room.
    bool write() {
        MessageHeader header;
        header.type = MessageType::eager;
        header.length = 0;
        return peer_->out.ring->reserve(0) != nullptr && peer_->out.ring->commit(header).ok();
    }
    void complete_first(std::uint32_t subchannel) {
        ASSERT_FALSE(posts(subchannel).empty());
        const SendWork work = posts(subchannel).front();
        posts(subchannel).erase(posts(subchannel).begin());
        if (work.wr_id != 0 && (work.flags & kSignaled) != 0) {
            WorkCompletion completion{};
            completion.qp_number = subchannel + 1;
            completion.status = WorkStatus::success;
            completion.wr_id = work.wr_id;
            target_of(work.wr_id)->on_work_done(subchannel, completion);
        }
    }

    const ConnectContext context_ = recorded_context({});
    ControlLanes lanes_{context_};
    ConnectionPool pool_{0, world_.counters};
    RemoteRings rings_{context_, lanes_, pool_};
    LaneMigrations migrations_{context_, lanes_, rings_};
    std::unique_ptr<Peer> peer_ = open_peer(1);
};

TEST_F(Migration, GoesOnOverTheNewPathOnceTheOldOneIsEmpty) {
    ASSERT_TRUE(write());
    migrations_.begin(*peer_, 1);
    EXPECT_TRUE(migrations_.active());
    EXPECT_TRUE(write()); // nothing stops before advance()
    migrations_.advance();
    ASSERT_EQ(posts(0).size(), 3u);
    EXPECT_EQ(posts(0).back().gather_count, 0u); // behind both messages
    EXPECT_FALSE(write());
    migrations_.advance();
    EXPECT_EQ(posts(0).size(), 3u); // one empty write
    EXPECT_TRUE(migrations_.active());
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 0u);

    complete_first(0);
    complete_first(0);
    migrations_.advance();
    EXPECT_EQ(lanes_.get_or_choose(*peer_),
              0u); // the messages have arrived, the empty write may not have
    complete_first(0);
    migrations_.advance();
    EXPECT_FALSE(migrations_.active());
    EXPECT_FALSE(peer_->control.migration.active);
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 1u);
    EXPECT_EQ(world_.counters.lanes_migrated, 1u);
    EXPECT_TRUE(posts(1).empty());
    EXPECT_TRUE(write());
    ASSERT_EQ(posts(1).size(), 1u);
    EXPECT_EQ(posts(1).front().remote_key, 51u); // of that path
    EXPECT_TRUE(posts(0).empty());
}

TEST_F(Migration, WaitsForTransfersUnderWayForAWhile) {
    peer_->lanes.subchannels[0].outstanding[1] = 4096;
    peer_->lanes.subchannels[1].outstanding[0] = 4096; // those do not matter
    migrations_.begin(*peer_, 1);
    world_.clock.advance(9'999us);
    migrations_.advance();
    EXPECT_TRUE(posts(0).empty());
    EXPECT_TRUE(write()); // messages go on
    peer_->lanes.subchannels[0].outstanding[1] = 0;
    migrations_.advance();
    EXPECT_EQ(posts(0).size(), 2u);
    EXPECT_FALSE(write());
}

TEST_F(Migration, DoesNotWaitForTransfersForEver) {
    peer_->lanes.subchannels[0].outstanding[0] = 4096;
    migrations_.begin(*peer_, 1);
    world_.clock.advance(10ms);
    migrations_.advance();
    ASSERT_EQ(posts(0).size(), 1u);
    complete_first(0);
    migrations_.advance();
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 1u);
}

TEST_F(Migration, WaitsForEachCompletionThatTheRingExpects) {
    ASSERT_TRUE(write());
    EXPECT_FALSE(peer_->out.ring->poster().flushed()); // requests a completion
    ASSERT_EQ(posts(0).size(), 2u);
    migrations_.begin(*peer_, 1);
    migrations_.advance();
    ASSERT_EQ(posts(0).size(), 3u);
    std::swap(posts(0)[1], posts(0)[2]); // taken in another order
    complete_first(0);
    complete_first(0);
    migrations_.advance();
    EXPECT_TRUE(peer_->control.migration.flush.done);
    EXPECT_TRUE(migrations_.active());
    complete_first(0);
    migrations_.advance();
    EXPECT_FALSE(migrations_.active());
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 1u);
}

TEST_F(Migration, BeginsOnlyWhereItCanEnd) {
    const auto begins = [&](std::uint32_t to) {
        migrations_.begin(*peer_, to);
        const bool began = migrations_.active();
        migrations_.stop(*peer_);
        return began;
    };
    EXPECT_TRUE(begins(1));
    EXPECT_FALSE(begins(0)); // there it is
    EXPECT_FALSE(begins(2));
    second_.port = PortState::down;
    EXPECT_FALSE(begins(1));
    second_.port = PortState::active;
    peer_->interruption.repair.wanted = true;
    EXPECT_FALSE(begins(1));
    peer_->interruption.repair.wanted = false;
    for (const ConnectState state :
         {ConnectState::closing, ConnectState::repairing, ConnectState::idle}) {
        peer_->session.state = state;
        EXPECT_FALSE(begins(1));
    }
    peer_->session.state = ConnectState::open;
    migrations_.begin(*peer_, 1);
    world_.clock.advance(1ms);
    const Nanoseconds by = peer_->control.migration.pause_by;
    migrations_.begin(*peer_, 1); // under way
    EXPECT_EQ(peer_->control.migration.pause_by, by);
}

TEST_F(Migration, TheOldLaneIsKeptIfTheNewPathGoesDownMeanwhile) {
    migrations_.begin(*peer_, 1);
    migrations_.advance();
    complete_first(0);
    second_.port = PortState::down;
    migrations_.advance();
    EXPECT_FALSE(migrations_.active());
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 0u);
    EXPECT_EQ(world_.counters.lanes_migrated, 0u);
    EXPECT_TRUE(write());
    EXPECT_EQ(posts(0).size(), 1u);
    EXPECT_TRUE(posts(1).empty());
}

TEST_F(Migration, TheOldLaneIsKeptIfTheNewRailCannotRegisterTheMirror) {
    second_.memory_result = Status::error(Reason::no_memory);
    migrations_.begin(*peer_, 1);
    migrations_.advance();
    EXPECT_FALSE(migrations_.active());
    EXPECT_TRUE(posts(0).empty());
    EXPECT_TRUE(write());
}

TEST_F(Migration, AQueuePairThatHasFailedEndsIt) {
    migrations_.begin(*peer_, 1);
    pair_of(*peer_, 0).answer = Status::error(Reason::bad_state);
    migrations_.advance();
    EXPECT_FALSE(migrations_.active());
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 0u);
}

TEST_F(Migration, AnEmptyWriteThatFindsNoRoomIsPostedLater) {
    migrations_.begin(*peer_, 1);
    pair_of(*peer_, 0).answer = Status::again(Reason::queue_full);
    migrations_.advance();
    EXPECT_TRUE(migrations_.active());
    EXPECT_FALSE(write());
    pair_of(*peer_, 0).answer = kOk;
    migrations_.advance();
    migrations_.advance();
    EXPECT_EQ(posts(0).size(), 1u);
}

TEST_F(Migration, WithoutARingOnlyTheCreditMoves) {
    peer_->out.ring.reset();
    migrations_.begin(*peer_, 1);
    migrations_.advance();
    complete_first(0);
    migrations_.advance();
    EXPECT_EQ(lanes_.get_or_choose(*peer_), 1u);
}

} // namespace
} // namespace adaptib::test
