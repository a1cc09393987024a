// SPDX-License-Identifier: BSD-3-Clause
// The receiving side of a queue pair: records into posted receives, without peers.
#include "fabric/shm/receiver.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabric/shm/context.h"
#include "fabric/shm/ud.h"

namespace adaptib::shm {
namespace {

constexpr std::uint64_t kKey = 0x11;
constexpr std::uint32_t kNumber = 77;

class ReceiverTest : public testing::Test {
protected:
    void SetUp() override {
        SegmentOptions options;
        options.segment_max = 16 * kMiB;
        options.queue_bytes = 64 * kKiB;
        options.server = false;
        std::unique_ptr<OwnSegment> segment;
        std::string error;
        ASSERT_TRUE(OwnSegment::create(options, segment, error).ok()) << error;
        context_.emplace(std::move(segment), clock_, 1, notices_);
        cq_.emplace(*context_, 0);
        init_.type = QpType::ud;
        init_.send_cq = init_.receive_cq = &*cq_;
        init_.receive_depth = 8;
        init_.send_depth = 1;
        init_.max_gather = 2;
        owner_.emplace(*context_, 0, init_);
        ASSERT_TRUE(owner_->enter().ok());
        ASSERT_TRUE(context_->regions()
                        .add(reinterpret_cast<std::uintptr_t>(memory_.data()), memory_.size(), 0,
                             kLocalWrite, kPrivate, key_)
                        .ok());
    }
    // Receiver of a queue pair of that type, with a connection.
    void make(QpType type) {
        init_.type = type;
        receiver_.emplace(*context_, &*owner_, 0, init_);
        receiver_->open(kNumber, &entry_);
        receiver_->set_key(kKey);
        receiver_->restart();
    }
    Status post(std::uint64_t wr_id, Bytes length) {
        const Gather list{memory_.data(), length, key_};
        ReceiveWork work;
        work.wr_id = wr_id;
        work.scatter = &list;
        work.scatter_count = 1;
        return receiver_->post(work);
    }
    Receiver::Taken deliver(RecordType type, const std::string& payload, int flags = 0,
                            std::uint64_t key = kKey) {
        RecordView record;
        record.fields.type = type;
        record.fields.flags = static_cast<std::uint8_t>(flags);
        record.fields.length = static_cast<std::uint32_t>(payload.size());
        record.fields.key = static_cast<std::uint32_t>(key);
        record.fields.source_qp = 5;
        record.payload = reinterpret_cast<const std::byte*>(payload.data());
        record.payload_bytes = payload.size();
        return receiver_->deliver(record);
    }
    // Next completion; wr_id ~0: there is none.
    WorkCompletion next() {
        WorkCompletion out;
        out.wr_id = ~0ull;
        static_cast<void>(cq_->poll({&out, 1}));
        return out;
    }
    std::string received(Bytes length) const {
        return {reinterpret_cast<const char*>(memory_.data()), length};
    }

    ManualClock clock_;
    std::vector<std::string> notices_;
    std::optional<Context> context_;
    std::optional<ShmCompletionQueue> cq_;
    QpInit init_;
    std::optional<UdQueuePair> owner_;
    QueuePairEntry entry_{};
    std::vector<std::byte> memory_ = std::vector<std::byte>(256);
    std::uint32_t key_ = 0;
    std::optional<Receiver> receiver_;
};

TEST_F(ReceiverTest, ADatagramWithoutReceiveIsKept) {
    make(QpType::ud);
    EXPECT_EQ(deliver(RecordType::datagram, "one"), Receiver::Taken::yes);
    EXPECT_EQ(deliver(RecordType::datagram, "two"), Receiver::Taken::yes);
    EXPECT_EQ(next().wr_id, ~0ull);
    ASSERT_TRUE(post(1, 16).ok());
    EXPECT_EQ(receiver_->drain(), Receiver::Taken::no_receive);
    const WorkCompletion done = next();
    EXPECT_EQ(done.wr_id, 1u);
    EXPECT_EQ(done.length, 3u);
    EXPECT_EQ(done.source_qp, 5u);
    EXPECT_EQ(done.qp_number, kNumber);
    EXPECT_EQ(received(3), "one");
    ASSERT_TRUE(post(2, 16).ok());
    EXPECT_EQ(receiver_->drain(), Receiver::Taken::yes);
    EXPECT_EQ(next().wr_id, 2u);
    EXPECT_EQ(received(3), "two");
}

TEST_F(ReceiverTest, ADatagramWithAnotherKeyOrTooLongIsDropped) {
    make(QpType::ud);
    ASSERT_TRUE(post(1, 4).ok());
    EXPECT_EQ(deliver(RecordType::datagram, "abc", 0, kKey + 1), Receiver::Taken::yes);
    EXPECT_EQ(context_->counters().dropped_key, 1u);
    EXPECT_EQ(deliver(RecordType::datagram, "abcde"), Receiver::Taken::yes);
    EXPECT_EQ(context_->counters().dropped_target, 1u);
    EXPECT_EQ(next().wr_id, ~0ull);
}

TEST_F(ReceiverTest, KeepsNoMoreDatagramsThanItHasRoomFor) {
    make(QpType::ud);
    const std::string payload(kDatagramBytes, 'x');
    Receiver::Taken taken = Receiver::Taken::yes;
    Bytes kept = 0;
    for (; taken == Receiver::Taken::yes && kept < 2 * kMaxQueuedBytes; kept += kDatagramBytes) {
        taken = deliver(RecordType::datagram, payload);
    }
    EXPECT_EQ(taken, Receiver::Taken::no_room);
    EXPECT_LE(kept, kMaxQueuedBytes + kDatagramBytes);
    receiver_->reset();
    EXPECT_EQ(deliver(RecordType::datagram, payload, 0, 0), Receiver::Taken::yes);
}

TEST_F(ReceiverTest, AMessageOfSeveralRecordsTakesOneReceive) {
    make(QpType::rc);
    ASSERT_TRUE(post(1, 16).ok());
    EXPECT_EQ(entry_.posted.load(), 1u);
    EXPECT_EQ(deliver(RecordType::message, "abc", kRecordFirst), Receiver::Taken::yes);
    EXPECT_EQ(next().wr_id, ~0ull);
    EXPECT_EQ(entry_.acknowledged.load(), 0u);
    EXPECT_EQ(deliver(RecordType::message, "de", kRecordLast), Receiver::Taken::yes);
    EXPECT_EQ(entry_.acknowledged.load(), 1u);
    EXPECT_EQ(next().length, 5u);
    EXPECT_EQ(received(5), "abcde");
}

// The receive of a message of which only a part has arrived ends like those behind it.
TEST_F(ReceiverTest, AMessageThatBreaksOffGivesItsReceiveBack) {
    make(QpType::rc);
    ASSERT_TRUE(post(7, 16).ok());
    ASSERT_TRUE(post(8, 16).ok());
    ASSERT_EQ(deliver(RecordType::message, "abc", kRecordFirst), Receiver::Taken::yes);
    receiver_->flush();
    for (const std::uint64_t wr_id : {7, 8}) {
        const WorkCompletion flushed = next();
        EXPECT_EQ(flushed.wr_id, wr_id);
        EXPECT_EQ(flushed.status, WorkStatus::flushed);
    }
    EXPECT_EQ(next().wr_id, ~0ull);
}

// Else the peer would take a message of the next connection, whose numbers begin anew, for refused.
TEST_F(ReceiverTest, ANewConnectionForgetsTheMessageThatWasRefused) {
    make(QpType::rc);
    ASSERT_TRUE(post(1, 4).ok());
    ASSERT_EQ(deliver(RecordType::message, "abcde", kRecordFirst | kRecordLast),
              Receiver::Taken::broken);
    receiver_->flush();
    receiver_->restart();
    EXPECT_EQ(entry_.refused.load(), 0u);
}

TEST_F(ReceiverTest, ASharedReceiveQueueThatEndsMakesRoomForAnother) {
    for (std::uint32_t i = 0; i <= kMaxSrqs; ++i) {
        std::uint32_t index = 0;
        ASSERT_TRUE(context_->srqs().add(index).ok()) << i;
        const ShmSharedReceiveQueue queue(*context_, 0, index, 4);
    }
}

TEST_F(ReceiverTest, RefusesAMessageThatIsLongerThanItsReceive) {
    make(QpType::rc);
    ASSERT_TRUE(post(1, 4).ok());
    ASSERT_TRUE(post(2, 4).ok());
    EXPECT_EQ(deliver(RecordType::message, "abcde", kRecordFirst | kRecordLast),
              Receiver::Taken::broken);
    EXPECT_EQ(entry_.refused.load(),
              1u << 8 | static_cast<std::uint64_t>(WorkStatus::remote_invalid_request));
    const WorkCompletion failed = next();
    EXPECT_EQ(failed.wr_id, 1u);
    EXPECT_EQ(failed.status, WorkStatus::local_length_error);
    receiver_->flush();
    const WorkCompletion flushed = next();
    EXPECT_EQ(flushed.wr_id, 2u);
    EXPECT_EQ(flushed.status, WorkStatus::flushed);
}

} // namespace
} // namespace adaptib::shm
