// SPDX-License-Identifier: BSD-3-Clause
// Both halves of the copy pipeline, without queue pairs, and the lock of atomics.
#include "fabric/shm/copy_pipeline.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/shm/queue.h"
#include "fabric/shm/rma_target.h"
#include "unit/fabric_shm/two_segments.h"

namespace adaptib::shm {
namespace {

using test::kInitiatorQp;

class CopyPipelineTest : public test::TwoSegments {
protected:
    void SetUp() override {
        TwoSegments::SetUp();
        back_ = open(*initiator_, *target_);
        pool_.emplace(initiator_.get());
        pipeline_.emplace(*pool_, *peer_, initiator_->header()->pid);
        rma_.emplace(regions_, *target_, 0);
        consumer_ = Consumer(target_->base());
        attributes_.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
        attributes_.max_target_reads = 1;
    }
    SendWork work(Opcode opcode, const Gather& gather, const void* remote, std::uint32_t key) {
        SendWork out;
        out.opcode = opcode;
        out.gather = &gather;
        out.gather_count = 1;
        out.remote_address = reinterpret_cast<std::uintptr_t>(remote);
        out.remote_key = key;
        return out;
    }
    // Takes the requests in the target's queue and serves them; returns their number.
    int serve(const std::function<void(const BounceRequest&)>& look = {}) {
        int count = 0;
        RecordView record;
        for (; consumer_.front(record); ++count) {
            BounceRequest request{};
            EXPECT_EQ(record.payload_bytes, sizeof request);
            std::memcpy(&request, record.payload, sizeof request);
            if (look) {
                look(request);
            }
            std::byte* slot = find_slot(*back_, request);
            auto* header = reinterpret_cast<BounceHeader*>(slot);
            last_ = rma_->serve(attributes_, request, slot + sizeof *header, header->result);
            header->answer.store(request.tag << 8 | static_cast<std::uint64_t>(last_));
            consumer_.pop();
        }
        return count;
    }

    std::shared_ptr<PeerSegment> back_; // the initiator, as the target sees it
    std::optional<BouncePool> pool_;
    std::optional<CopyPipeline> pipeline_;
    std::optional<RmaTarget> rma_;
    Consumer consumer_;
    QpAttributes attributes_;
    BounceAnswer last_ = BounceAnswer::none;
    Attempt attempt_;
    WorkStatus status_ = WorkStatus::success;
};

TEST_F(CopyPipelineTest, CopiesInPiecesOfWhichAFewAreInFlight) {
    const Bytes length = 6 * kBounceBytes + 40;
    std::vector<std::byte> from(length);
    std::vector<std::byte> to(length);
    for (Bytes i = 0; i < length; ++i) {
        from[i] = static_cast<std::byte>(i * 7 >> 3);
    }
    const std::uint32_t key = register_memory(to.data(), length, kLocalWrite | kRemoteWrite);
    const Gather gather{from.data(), length, 0};
    const SendWork write = work(Opcode::write, gather, to.data(), key);
    ASSERT_TRUE(pipeline_->request(write, length, kInitiatorQp, attempt_));
    EXPECT_EQ(attempt_.moved, kBounceSlotsPerQp * kBounceBytes);
    EXPECT_EQ(serve(), static_cast<int>(kBounceSlotsPerQp));
    ASSERT_TRUE(pipeline_->reap(write, attempt_, status_));
    EXPECT_TRUE(pipeline_->empty());
    ASSERT_TRUE(pipeline_->request(write, length, kInitiatorQp, attempt_));
    EXPECT_EQ(attempt_.moved, length);
    EXPECT_EQ(serve(), 3);
    ASSERT_TRUE(pipeline_->reap(write, attempt_, status_));
    EXPECT_TRUE(pipeline_->empty());
    EXPECT_EQ(from, to);
}

TEST_F(CopyPipelineTest, TheLastWordOfAPublishedWriteIsInOnePiece) {
    const Bytes length = 2 * kBounceBytes + 4;
    std::vector<std::byte> from(length, std::byte{7});
    std::vector<std::uint64_t> words(length / 8 + 2);
    auto* const to = reinterpret_cast<std::byte*>(words.data()) + 4; // ends on a multiple of 8
    const std::uint32_t key = register_memory(to, length, kLocalWrite | kRemoteWrite);
    const Gather gather{from.data(), length, 0};
    SendWork write = work(Opcode::write, gather, to, key);
    write.flags = kPublish;
    ASSERT_TRUE(pipeline_->request(write, length, kInitiatorQp, attempt_));
    std::vector<BounceRequest> requests;
    EXPECT_EQ(serve([&](const BounceRequest& request) { requests.push_back(request); }), 3);
    EXPECT_GE(requests.back().length, 8u);
    EXPECT_EQ(requests.back().remote_address % 8, 0u);
    EXPECT_NE(requests.back().flags & kBouncePublish, 0u);
    ASSERT_TRUE(pipeline_->reap(write, attempt_, status_));
    EXPECT_EQ(std::memcmp(from.data(), to, length), 0);
}

TEST_F(CopyPipelineTest, SendsAPieceAgainThatTheTargetWasNotReadyFor) {
    std::uint64_t word = 5;
    const std::uint32_t key = register_memory(&word, 8, kLocalWrite | kRemoteAtomic);
    std::uint64_t old = 0;
    const Gather gather{&old, 8, 0};
    SendWork add = work(Opcode::fetch_add, gather, &word, key);
    add.compare_add = 3;
    // Another process holds the lock of the atomics.
    AtomicLock held(target_->base(), static_cast<std::uint32_t>(getpid()), AtomicLock::kOwner);
    ASSERT_TRUE(held.try_lock());
    EXPECT_FALSE(held.try_lock());
    ASSERT_TRUE(pipeline_->request(add, 8, kInitiatorQp, attempt_));
    EXPECT_EQ(serve(), 1);
    EXPECT_EQ(last_, BounceAnswer::not_ready);
    ASSERT_TRUE(pipeline_->reap(add, attempt_, status_));
    EXPECT_EQ(attempt_.moved, 0u);
    EXPECT_EQ(word, 5u);
    held.unlock();
    ASSERT_TRUE(pipeline_->request(add, 8, kInitiatorQp, attempt_));
    EXPECT_EQ(serve(), 1);
    ASSERT_TRUE(pipeline_->reap(add, attempt_, status_));
    EXPECT_EQ(old, 5u);
    EXPECT_EQ(word, 8u);
    EXPECT_TRUE(held.try_lock()) << "the target has released it";
}

TEST_F(CopyPipelineTest, TheTargetRefusesWhatItDoesNotGrant) {
    std::byte memory[32] = {};
    const std::uint32_t key = register_memory(memory, 32, kLocalWrite | kRemoteWrite);
    std::byte data[32] = {};
    const Gather gather{data, 32, 0};
    const SendWork beyond = work(Opcode::write, gather, memory + 1, key);
    ASSERT_TRUE(pipeline_->request(beyond, 32, kInitiatorQp, attempt_));
    EXPECT_EQ(serve(), 1);
    EXPECT_FALSE(pipeline_->reap(beyond, attempt_, status_));
    EXPECT_EQ(status_, WorkStatus::remote_access_error);
    attempt_ = {};
    attributes_.max_target_reads = 0;
    const SendWork read = work(Opcode::read, gather, memory, key);
    ASSERT_TRUE(pipeline_->request(read, 32, kInitiatorQp, attempt_));
    EXPECT_EQ(serve(), 1);
    EXPECT_FALSE(pipeline_->reap(read, attempt_, status_));
    EXPECT_EQ(status_, WorkStatus::remote_invalid_request);
}

TEST_F(CopyPipelineTest, ReadsThroughTheSystemWhatMayNotBeMapped) {
    std::vector<std::byte> memory(100, std::byte{9});
    const std::uint32_t key = register_memory(memory.data(), 100, kRemoteRead);
    std::vector<std::byte> data(100);
    const Gather gather{data.data(), 100, 0};
    const SendWork read = work(Opcode::read, gather, memory.data(), key);
    attempt_.unpinned = true;
    ASSERT_TRUE(pipeline_->request(read, 100, kInitiatorQp, attempt_));
    EXPECT_EQ(serve(), 1);
    ASSERT_TRUE(pipeline_->reap(read, attempt_, status_));
    EXPECT_EQ(data, memory);
}

TEST_F(CopyPipelineTest, AbandonedPiecesKeepTheirSlotsUntilTheAnswer) {
    std::byte memory[8] = {};
    const std::uint32_t key = register_memory(memory, 8, kLocalWrite | kRemoteWrite);
    const Gather gather{memory, 8, 0};
    const SendWork write = work(Opcode::write, gather, memory, key);
    ASSERT_TRUE(pipeline_->request(write, 8, kInitiatorQp, attempt_));
    pipeline_->abandon();
    EXPECT_TRUE(pipeline_->empty());
    EXPECT_EQ(serve(), 1);
    EXPECT_EQ(last_, BounceAnswer::done);
}

TEST_F(CopyPipelineTest, ASlotLiesWithinTheInitiatorsSegment) {
    const Bytes last = back_->size() - sizeof(BounceHeader) - kBounceBytes;
    const auto is_found = [&](Bytes offset) {
        BounceRequest request{};
        request.slot_offset = offset;
        request.length = kBounceBytes;
        return find_slot(*back_, request) != nullptr;
    };
    EXPECT_TRUE(is_found(initiator_->header()->heap_offset));
    EXPECT_TRUE(is_found(last));
    EXPECT_FALSE(is_found(kRingOffset - kCacheLine));
    EXPECT_FALSE(is_found(last + kCacheLine));
    EXPECT_FALSE(is_found(last - 8));
}

TEST(AtomicLock, IsFreedWhenItsHolderHasEnded) {
    alignas(kPage) static std::byte segment[kQueuePairsOffset];
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    AtomicLock dead(segment, static_cast<std::uint32_t>(child), 1);
    AtomicLock own(segment, static_cast<std::uint32_t>(getpid()), 2);
    ASSERT_TRUE(dead.try_lock());
    EXPECT_FALSE(own.try_lock());
    own.break_dead();
    EXPECT_TRUE(own.try_lock());
}

} // namespace
} // namespace adaptib::shm
