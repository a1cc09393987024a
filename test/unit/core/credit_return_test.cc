// SPDX-License-Identifier: BSD-3-Clause
// Credit that no message carries: stored or posted, once for all that has been consumed.
#include "core/credit_return.h"

#include "unit/core/core_parts.h"

namespace adaptib::test {
namespace {

class CreditReturnTest : public CoreParts {
protected:
    CreditReturnTest() { connect(*peer_); }

    // The peer sends messages of four units each, and they are consumed.
    void consume(std::size_t messages) {
        for (std::size_t i = 0; i < messages; ++i) {
            ASSERT_TRUE(ring_.send(100));
            MessageHeader header;
            const std::byte* body = nullptr;
            ASSERT_EQ(peer_->in.ring->poll(header, body), RingReader::Found::message);
            peer_->in.ring->consume(header.sequence);
        }
    }
    // Returns the count in the last write that was posted.
    std::uint64_t posted_count() {
        std::uint64_t count = 0;
        std::memcpy(&count, qp().gathers.back().address, sizeof count);
        return count;
    }
    // Completes the last post, or that one.
    void complete(WorkStatus status = WorkStatus::success) { complete(qp().taken.back(), status); }
    static void complete(const SendWork& work, WorkStatus status = WorkStatus::success) {
        WorkCompletion completion;
        completion.wr_id = work.wr_id;
        completion.status = status;
        target_of(work.wr_id)->on_work_done(0, completion);
    }
    KeepingQp& qp() { return qp_of(*peer_, connections_.chosen_subchannel(*peer_)); }
    // Maps the peer's memory with the credit word here.
    void map_peer() {
        constexpr RingParts kParts{.direct = true};
        theirs_ = std::make_unique<PlainRegion>(round_up(RingMemory::bytes(kParts), kCacheLine));
        peer_->transfers.answers = &RingMemory(*theirs_, kParts).answer();
        const RingTarget lines{.address = reinterpret_cast<std::uintptr_t>(out_.address()),
                               .units = 64};
        mapping_.guarded = true;
        peer_->out.ring = std::make_unique<RingWriter>(rail_, mapping_, lines, &consumed_, 0);
        ASSERT_TRUE(peer_->out.ring->prepare());
        ASSERT_TRUE(peer_->out.ring->stores());
    }
    std::uint64_t stored() const {
        return load_ring_word(static_cast<const std::byte*>(theirs_->address()));
    }

    std::unique_ptr<Peer> peer_ = peer(20);
    PeerRing ring_{*peer_};
    MemoryRail rail_;
    MemoryQp mapping_;
    PlainRegion out_{64 * kRingUnit};
    std::unique_ptr<PlainRegion> theirs_;
    std::uint64_t consumed_ = 0;
    CostMeter meter_;
    CreditReturn credit_{connections_, rails(), nullptr, clock(), counters()};
};

TEST_F(CreditReturnTest, APostWritesTheCountOfAllThatWasConsumed) {
    consume(40);
    ASSERT_TRUE(peer_->in.ring->credit_due());
    peer_->lanes.subchannels[connections_.chosen_subchannel(*peer_)].remote_memory_key = 77;
    credit_.return_credit(*peer_);
    ASSERT_EQ(qp().taken.size(), 1u);
    const SendWork& work = qp().taken.front();
    EXPECT_EQ(work.opcode, Opcode::write);
    EXPECT_EQ(work.remote_address, reinterpret_cast<std::uintptr_t>(&ring_.ring.credit));
    EXPECT_EQ(work.remote_key, 77u);
    EXPECT_EQ(qp().gathers.front().length, sizeof(std::uint64_t));
    EXPECT_EQ(posted_count(), peer_->in.ring->consumed());
    EXPECT_FALSE(peer_->in.ring->credit_due());
    EXPECT_EQ(counters().credit_returns, 1u);
}

// The rail sends nothing inline, so that the adapter reads the count when it sends the write.
TEST_F(CreditReturnTest, ALateWriteHasALaterCount) {
    consume(40);
    credit_.return_credit(*peer_);
    const void* const first = qp().gathers.front().address;
    EXPECT_EQ(first, peer_->in.ring_layout().told());
    complete();
    ring_.ring.credit = peer_->in.ring->consumed();
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_EQ(qp().gathers.back().address, first);
    EXPECT_EQ(posted_count(), peer_->in.ring->consumed());
}

// An adapter may place the second of two writes first: then the older count would stay.
TEST_F(CreditReturnTest, ACountWrittenBesideAnotherIsWrittenOnceMore) {
    qp().room = 8;
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_NE(qp().taken.front().flags & kSignaled, 0u);
    EXPECT_FALSE(credit_.waits());
    ring_.ring.credit = peer_->in.ring->consumed();
    consume(40);
    credit_.return_credit(*peer_);
    ASSERT_EQ(qp().taken.size(), 2u) << "the peer may wait for it";
    EXPECT_EQ(posted_count(), peer_->in.ring->consumed());
    EXPECT_TRUE(peer_->in.ring->credit_due()) << "it is to be written again";
    EXPECT_TRUE(credit_.waits());
    credit_.on_polled();
    complete(qp().taken.front());
    credit_.return_credit(*peer_);
    EXPECT_EQ(qp().taken.size(), 2u) << "the second one is under way";
    complete();
    credit_.return_credit(*peer_);
    ASSERT_EQ(qp().taken.size(), 3u);
    EXPECT_EQ(posted_count(), peer_->in.ring->consumed());
    EXPECT_FALSE(peer_->in.ring->credit_due());
}

TEST_F(CreditReturnTest, AFailedPostIsNotUnderWay) {
    qp().room = 8;
    credit_.return_credit(*peer_);
    complete(WorkStatus::flushed);
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_FALSE(peer_->in.ring->credit_due());
}

// A completion of the former queue pair may be found after a repair.
TEST_F(CreditReturnTest, ACompletionOfTheFormerConnectionIsIgnored) {
    qp().room = 8;
    credit_.return_credit(*peer_);
    const SendWork former = qp().taken.back();
    peer_->in.credit_work.begin();
    credit_.return_credit(*peer_);
    ASSERT_EQ(qp().taken.size(), 2u);
    complete(former);
    EXPECT_TRUE(peer_->in.credit_work.under_way());
    complete();
    EXPECT_FALSE(peer_->in.credit_work.under_way());
}

TEST_F(CreditReturnTest, WithoutRoomForThePostCreditStaysDue) {
    qp().room = 0;
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_TRUE(peer_->in.ring->credit_due());
    EXPECT_EQ(counters().credit_returns, 0u);
    qp().room = 1;
    credit_.return_credit(*peer_);
    EXPECT_FALSE(peer_->in.ring->credit_due());
    EXPECT_EQ(posted_count(), peer_->in.ring->consumed());
}

// A shared queue pair that has failed without work of this peer's: no completion tells.
TEST_F(CreditReturnTest, AQueuePairThatTakesNoMoreIsReplaced) {
    qp().answer = Status::error(Reason::bad_state);
    peer_->session.repairable = true;
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_TRUE(peer_->in.ring->credit_due());
    EXPECT_TRUE(peer_->interruption.repair.wanted);
    connections_.repairs().leave(*peer_);
}

// A device may refuse inline data that it has offered.
TEST_F(CreditReturnTest, RefusedInlineTheCountGoesFromMemory) {
    world_.first.offer_inline(8);
    world_.second.offer_inline(8);
    qp().takes_inline = false;
    consume(40);
    credit_.return_credit(*peer_);
    ASSERT_EQ(qp().taken.size(), 1u);
    EXPECT_EQ(qp().taken.front().flags & kInline, 0u);
    EXPECT_EQ(qp().gathers.front().address, peer_->in.ring_layout().told());
    EXPECT_EQ(posted_count(), peer_->in.ring->consumed());
    EXPECT_FALSE(peer_->in.ring->credit_due());
}

TEST_F(CreditReturnTest, ARefusedCountBreaksTheConnection) {
    qp().answer = Status::error(Reason::bad_argument);
    peer_->session.repairable = true;
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_TRUE(peer_->in.ring->credit_due());
    EXPECT_TRUE(peer_->interruption.repair.wanted) << "else the peer waits for ever";
    connections_.repairs().leave(*peer_);
}

TEST_F(CreditReturnTest, AQueuePairThatFailsBeforeTheConfirmationIsReplacedAfterIt) {
    qp().answer = Status::error(Reason::bad_state);
    peer_->session.state = ConnectState::answered;
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_TRUE(peer_->interruption.repair.wanted);
    connections_.repairs().leave(*peer_);
    peer_->session.state = ConnectState::open;
}

TEST_F(CreditReturnTest, WithoutRepairsThePeerIsLost) {
    qp().answer = Status::error(Reason::bad_state);
    consume(40);
    peer_->in.teardown_pending = true;
    credit_.return_credit(*peer_);
    connections_.handle_events();
    EXPECT_EQ(connect_events_.log, "") << "it is disconnected, and waits for no credit";
    peer_->in.teardown_pending = false;
    credit_.return_credit(*peer_);
    connections_.handle_events();
    EXPECT_FALSE(peer_->interruption.repair.wanted);
    EXPECT_EQ(connect_events_.log, "20 failed: credit could not be returned: " +
                                       std::string(reason_text(Reason::bad_state)) + "; ");
}

TEST_F(CreditReturnTest, CreditWaitsWhileAnotherQueuePairIsToCarryIt) {
    consume(40);
    peer_->control.migration.paused = true;
    credit_.return_credit(*peer_);
    peer_->control.migration.paused = false;
    for (const ConnectState state : {ConnectState::repairing, ConnectState::requested}) {
        peer_->session.state = state;
        credit_.return_credit(*peer_);
    }
    EXPECT_TRUE(qp().taken.empty());
    EXPECT_TRUE(peer_->in.ring->credit_due());
    peer_->session.state = ConnectState::open;
    credit_.return_credit(*peer_);
    EXPECT_EQ(qp().taken.size(), 1u);
}

TEST_F(CreditReturnTest, WhereThePeersMemoryIsMappedTheCountIsStored) {
    map_peer();
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_EQ(stored(), peer_->in.ring->consumed());
    EXPECT_TRUE(qp().taken.empty());
    EXPECT_FALSE(peer_->in.ring->credit_due());
}

TEST_F(CreditReturnTest, AStoreNeverOvertakesAPost) {
    consume(40);
    credit_.return_credit(*peer_);
    ASSERT_EQ(qp().taken.size(), 1u);
    complete();
    ring_.ring.credit = peer_->in.ring->consumed();
    map_peer();
    consume(40);
    credit_.return_credit(*peer_);
    EXPECT_EQ(qp().taken.size(), 2u);
    EXPECT_EQ(stored(), 0u) << "the first post may arrive after a store";
}

TEST_F(CreditReturnTest, OnlyReturnsThatSucceedAreTimed) {
    CreditReturn timed(connections_, rails(), &meter_, clock(), counters());
    qp().room = 0;
    timed.return_credit(*peer_);
    EXPECT_EQ(meter_.samples(), 0u);
    qp().room = CostMeter::kSamples + 16;
    for (std::size_t i = 0; i < CostMeter::kSamples; ++i) {
        EXPECT_TRUE(meter_.wants_credits());
        timed.return_credit(*peer_);
        complete();
    }
    EXPECT_FALSE(meter_.wants_credits());
    const std::uint64_t samples = meter_.samples();
    for (std::size_t i = 0; i < 16; ++i) {
        timed.return_credit(*peer_);
        complete();
    }
    EXPECT_EQ(meter_.samples(), samples + 1) << "now one of sixteen is timed";
}

} // namespace
} // namespace adaptib::test
