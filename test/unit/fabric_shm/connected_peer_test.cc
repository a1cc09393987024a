// SPDX-License-Identifier: BSD-3-Clause
// The peer of a connection as its segment shows it, and messages through the peer's queue.
#include "fabric/shm/connected_peer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "fabric/shm/initiator_fence.h"
#include "fabric/shm/message_sender.h"
#include "fabric/shm/queue.h"
#include "unit/fabric_shm/two_segments.h"

namespace adaptib::shm {
namespace {

using test::kInitiatorQp;
using test::kPsn;
using test::kTargetQp;

using ConnectedPeerTest = test::TwoSegments;

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

TEST_F(ConnectedPeerTest, IsConnectedWhileTheEntryNamesThisEnd) {
    EXPECT_TRUE(peer_->connected());
    grant(kRemoteRead); // other rights, the same connection
    EXPECT_TRUE(peer_->connected());
    entry().word.store(qp_word(kTargetQp, kInitiatorQp, kPsn + 1, kRemoteRead, true));
    EXPECT_FALSE(peer_->connected()) << "another packet number";
    entry().word.store(qp_word(kTargetQp, kInitiatorQp, kPsn, kRemoteRead, false));
    EXPECT_FALSE(peer_->connected()) << "receives nothing";
    grant(kRemoteRead);
    entry().remote_cookie.store(initiator_->cookie() + 1);
    EXPECT_FALSE(peer_->connected()) << "another process";
}

TEST_F(ConnectedPeerTest, IsReachableOverRailsThatAreUp) {
    EXPECT_TRUE(peer_->reachable());
    own_rail_.store(1'000'000); // slowed
    EXPECT_NE(peer_->rails_word(), 0u);
    EXPECT_EQ(peer_->rail_word(), 0u);
    EXPECT_TRUE(peer_->reachable());
    own_rail_.store(kRailDown);
    EXPECT_FALSE(peer_->reachable());
    own_rail_.store(0);
    target_->header()->rail[0].word.store(kRailClosed);
    EXPECT_FALSE(peer_->reachable());
    target_->header()->rail[0].word.store(0);
    EXPECT_TRUE(peer_->reachable());
}

// A key is of one rail.
TEST_F(ConnectedPeerTest, FindsTheKeyOfItsOwnRail) {
    std::byte memory[64] = {};
    register_memory(memory, 64, kRemoteRead);
    std::uint32_t second = 0;
    ASSERT_TRUE(regions_.add(address_of(memory), 64, 1, kRemoteRead, kPrivate, second).ok());
    ConnectedPeer other(own_rail_, initiator_->cookie());
    other.attach(peer_->shared_segment(), 1, kTargetQp);
    EXPECT_EQ(other.find_key({address_of(memory), 64, kRemoteRead}), second);
}

// Its segment stays mapped as long as it may write.
TEST_F(ConnectedPeerTest, AnInitiatorThatIsIdleAgainIsForgotten) {
    InitiatorFence fence;
    const std::shared_ptr<PeerSegment>& segment = peer_->shared_segment();
    const long before = segment.use_count();
    entry().busy.store(1);
    fence.wait_a_while({{segment, &entry()}});
    EXPECT_GT(segment.use_count(), before);
    fence.look(*initiator_);
    EXPECT_GT(segment.use_count(), before);
    entry().busy.store(0);
    fence.look(*initiator_);
    EXPECT_EQ(segment.use_count(), before);
}

TEST_F(ConnectedPeerTest, FindsOnlyMemoryThatBothRegionAndQueuePairGrant) {
    std::byte memory[64] = {};
    const std::uint32_t key = register_memory(memory, 64, kLocalWrite | kRemoteWrite);
    const std::uint64_t at = address_of(memory);
    EXPECT_TRUE(peer_->find(at, 64, key, kRemoteWrite));
    EXPECT_EQ(peer_->region().offset, kPrivate);
    EXPECT_TRUE(peer_->find(at + 63, 1, key, kRemoteWrite));
    EXPECT_FALSE(peer_->find(at + 1, 64, key, kRemoteWrite));
    EXPECT_FALSE(peer_->find(at, 64, key, kRemoteRead)) << "the region does not grant it";
    EXPECT_FALSE(peer_->find(at, 64, key + (1u << 16), kRemoteWrite)) << "another generation";
    grant(kRemoteRead);
    EXPECT_FALSE(peer_->find(at, 64, key, kRemoteWrite)) << "the queue pair does not grant it";
    grant(kRemoteWrite);
    EXPECT_TRUE(peer_->find(at, 64, key, kRemoteWrite));
    regions_.remove(key);
    EXPECT_FALSE(peer_->find(at, 64, key, kRemoteWrite));
}

TEST_F(ConnectedPeerTest, MapsMemoryOfTheSegment) {
    Bytes offset = 0;
    ASSERT_TRUE(target_->allocate(4096, offset).ok());
    std::byte* theirs = target_->at(offset);
    std::uint32_t key = 0;
    ASSERT_TRUE(regions_
                    .add(address_of(theirs), 4096, 0, kLocalWrite | kRemoteWrite | kRemoteAtomic,
                         offset, key)
                    .ok());
    ASSERT_TRUE(peer_->find(address_of(theirs), 4096, key, kRemoteWrite));
    std::byte* here = peer_->in_segment(address_of(theirs) + 8);
    ASSERT_NE(here, theirs + 8);
    std::uint64_t value = 40;
    std::memcpy(here, &value, 8);
    SendWork work;
    work.opcode = Opcode::fetch_add;
    work.remote_address = address_of(theirs) + 8;
    work.compare_add = 2;
    EXPECT_EQ(peer_->atomic_in_segment(work), 40u);
    std::memcpy(&value, theirs + 8, 8);
    EXPECT_EQ(value, 42u);
}

class MessageSenderTest : public test::TwoSegments {
protected:
    void SetUp() override {
        TwoSegments::SetUp();
        sender_.emplace(clock_, *peer_);
        sender_->restart(kInitiatorQp);
        consumer_ = Consumer(target_->base());
    }
    Step send(Bytes length, std::uint8_t rnr_retry = 7) {
        const Gather gather{data_.data(), length, 0};
        SendWork work;
        work.opcode = Opcode::send_imm;
        work.gather = &gather;
        work.gather_count = 1;
        work.immediate = 77;
        return sender_->send(work, length, rnr_retry, attempt_, status_);
    }

    ManualClock clock_;
    std::optional<MessageSender> sender_;
    Consumer consumer_;
    std::vector<std::byte> data_{2 * kDatagramBytes, std::byte{3}};
    Attempt attempt_;
    WorkStatus status_ = WorkStatus::success;
};

TEST_F(MessageSenderTest, WaitsForAReceiveAndThenCutsTheMessageIntoRecords) {
    EXPECT_EQ(send(kDatagramBytes + 5), Step::wait);
    entry().posted.store(1);
    ASSERT_EQ(send(kDatagramBytes + 5), Step::issued);
    EXPECT_EQ(attempt_.message, 1u);
    RecordView record;
    ASSERT_TRUE(consumer_.front(record));
    EXPECT_EQ(record.fields.type, RecordType::message);
    EXPECT_EQ(record.fields.flags, kRecordFirst);
    EXPECT_EQ(record.fields.length, kDatagramBytes);
    EXPECT_EQ(record.fields.source_qp, kInitiatorQp);
    EXPECT_EQ(record.fields.target_qp, kTargetQp);
    consumer_.pop();
    ASSERT_TRUE(consumer_.front(record));
    EXPECT_EQ(record.fields.flags, kRecordLast | kRecordImmediate);
    EXPECT_EQ(record.fields.length, 5u);
    EXPECT_EQ(record.fields.immediate, 77u);
}

TEST_F(MessageSenderTest, TellsWhatBecameOfAMessage) {
    entry().posted.store(2);
    ASSERT_EQ(send(8), Step::issued);
    attempt_ = {};
    ASSERT_EQ(send(8), Step::issued);
    bool over = true;
    sender_->state(1, over);
    EXPECT_FALSE(over);
    entry().acknowledged.store(1);
    EXPECT_EQ(sender_->state(1, over), WorkStatus::success);
    EXPECT_TRUE(over);
    entry().refused.store(2u << 8 | static_cast<std::uint64_t>(WorkStatus::remote_invalid_request));
    EXPECT_EQ(sender_->state(2, over), WorkStatus::remote_invalid_request);
    EXPECT_TRUE(over);
}

TEST_F(MessageSenderTest, GivesUpWhenNoReceiveComes) {
    entry().rnr_timer.store(1);
    EXPECT_EQ(send(8, 2), Step::wait);
    clock_.advance(Nanoseconds{1'000'000'000});
    EXPECT_EQ(send(8, 2), Step::over);
    EXPECT_EQ(status_, WorkStatus::rnr_retry_exceeded);
}

} // namespace
} // namespace adaptib::shm
