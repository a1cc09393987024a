// SPDX-License-Identifier: BSD-3-Clause
// A peer that is stopped in the middle of a copy: the memory that it may still write is not given
// back before it goes on or ends.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "fabric/shm/segment.h"
#include "unit/fabric_shm/node.h"

namespace adaptib::test {
namespace {

using std::chrono::milliseconds;

// Two connected nodes. Node b's queue pair can be made to look as if its process were stopped in
// the middle of touching node a's memory.
class StoppedInitiator : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(a.ok && b.ok);
        QueuePair* x = a.add_qp(QpType::rc);
        QueuePair* y = b.add_qp(QpType::rc);
        ASSERT_TRUE(Node::connect(*x, b.rail().address(), y->number()));
        ASSERT_TRUE(Node::connect(*y, a.rail().address(), x->number()));
        ASSERT_TRUE(shm::PeerSegment::open(b.rail().address(), 1, view_).ok());
        entry_ = shm::queue_pairs_of(view_->base()) + shm::qp_index(y->number());
    }
    void stop() { entry_->busy.store(1); }
    void go_on() { entry_->busy.store(0); }
    // Lets the peer go on after that time, which is more than a second.
    std::thread go_on_after(milliseconds time) {
        return std::thread([this, time] {
            std::this_thread::sleep_for(time);
            went_on = true;
            go_on();
        });
    }
    void poll_for_long() {
        WorkCompletion done;
        for (int i = 0; i < 2000; ++i) {
            static_cast<void>(a.cq->poll({&done, 1}));
        }
    }

    Node a;
    Node b;
    std::atomic<bool> went_on{false};

private:
    std::shared_ptr<shm::PeerSegment> view_;
    shm::QueuePairEntry* entry_ = nullptr;
};

TEST_F(StoppedInitiator, MemoryOfTheUserIsNotGivenBackBefore) {
    stop();
    std::thread other = go_on_after(milliseconds{1500});
    a.own.reset();
    EXPECT_TRUE(went_on) << "the peer may still write";
    other.join();
}

TEST_F(StoppedInitiator, NorOnceTheQueuePairHasBeenReset) {
    stop();
    std::thread other = go_on_after(milliseconds{2500});
    QpAttributes attributes;
    attributes.state = QpState::reset;
    ASSERT_TRUE(a.qps[0]->modify(attributes, kQpState).ok());
    EXPECT_FALSE(went_on) << "a queue pair waits for a second only";
    a.own.reset();
    EXPECT_TRUE(went_on) << "the peer may still write";
    other.join();
}

TEST_F(StoppedInitiator, NorOnceTheQueuePairIsGone) {
    stop();
    std::thread other = go_on_after(milliseconds{2500});
    a.qps.clear();
    a.own.reset();
    EXPECT_TRUE(went_on) << "the peer may still write";
    other.join();
}

TEST_F(StoppedInitiator, ABlockOfTheSegmentIsNotUsedAgainBefore) {
    void* const old = a.shared->address();
    stop();
    a.shared.reset(); // does not wait for long
    std::unique_ptr<MemoryRegion> next;
    ASSERT_TRUE(a.rail().allocate(kBuffer, kAll, next).ok());
    EXPECT_NE(next->address(), old);
    poll_for_long();
    next.reset();
    ASSERT_TRUE(a.rail().allocate(kBuffer, kAll, next).ok());
    EXPECT_NE(next->address(), old) << "the peer is still stopped";
    go_on();
    poll_for_long();
    next.reset();
    ASSERT_TRUE(a.rail().allocate(kBuffer, kAll, next).ok());
    EXPECT_EQ(next->address(), old) << "the block is free again";
}

TEST_F(StoppedInitiator, APeerThatGoesOnInTimeIsWaitedForWithoutMore) {
    void* const old = a.shared->address();
    stop();
    std::thread other = go_on_after(milliseconds{50});
    a.shared.reset();
    EXPECT_TRUE(went_on);
    other.join();
    ASSERT_TRUE(a.rail().allocate(kBuffer, kAll, a.shared).ok());
    EXPECT_EQ(a.shared->address(), old);
}

} // namespace
} // namespace adaptib::test
