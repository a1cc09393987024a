// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of a datagram channel on one rail (channel/datagram_port.h).
#include "channel/datagram_port.h"

#include <gtest/gtest.h>

#include <array>

#include "unit/channel/datagram_rail.h"

namespace adaptib::test {
namespace {

constexpr std::uint32_t kReceives = 4;
constexpr std::uint32_t kMostReceives = 19;

class Port : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(port.open(rail, {8, 2}, {kReceives, kMostReceives}, 99, counters).ok());
        ASSERT_TRUE(rail.allocate(64, 0, memory).ok());
    }
    Status post(std::uint32_t slot) {
        const CountedHandle handle(handles);
        const Gather piece{memory->address(), 64, memory->local_key()};
        return port.post(handle, 5, 6, {&piece, 1}, slot);
    }
    WorkCompletion polled() {
        std::array<WorkCompletion, 1> one;
        EXPECT_EQ(port.poll(one), 1u);
        return one[0];
    }

    Counters counters;
    DatagramRail rail;
    int handles = 0;
    std::unique_ptr<MemoryRegion> memory;
    DatagramPort port;
};

TEST_F(Port, IsReadyWithItsReceivesPosted) {
    EXPECT_TRUE(port.ready());
    EXPECT_EQ(rail.access_key, 99u);
    EXPECT_EQ(rail.receives.size(), kReceives);
    EXPECT_EQ(port.receive_at(1) - port.receive_at(0), 512);
    EXPECT_EQ(port.qp_number(), 77u);
    EXPECT_EQ(counters.buffers_bytes, kReceives * 512u);
}

TEST_F(Port, ReceivesAreAddedWhenHalfOfThemWait) {
    port.on_polled(1, false);
    EXPECT_EQ(rail.receives.size(), kReceives);
    port.on_polled(1, true);
    ASSERT_EQ(rail.receives.size(), 2 * kReceives) << "posted at once";
    EXPECT_EQ(port.receives(), 2 * kReceives);
    for (std::uint32_t i = 0; i < 10; ++i) {
        port.on_polled(3, true);
    }
    EXPECT_EQ(rail.receives.size(), 2 * kReceives) << "fewer than half at a time";
    for (std::uint32_t i = 0; i < 100; ++i) {
        port.on_polled(100, true);
    }
    EXPECT_EQ(port.receives(), 16u) << "whole blocks, up to the bound";
    EXPECT_EQ(rail.receives.size(), 16u);
    EXPECT_EQ(counters.buffers_bytes, 16 * 512u);
    for (std::uint32_t i = 0; i + 1 < port.receives(); ++i) {
        EXPECT_NE(port.receive_at(i), port.receive_at(i + 1));
    }
}

TEST_F(Port, ReceivesAreAddedForExpectedSenders) {
    port.want_receives(9);
    EXPECT_EQ(port.receives(), 12u);
    port.want_receives(5);
    EXPECT_EQ(port.receives(), 12u);
}

TEST_F(Port, WithoutMemoryThereAreNoMore) {
    rail.memory_result = Status::error(Reason::locked_memory);
    port.want_receives(100);
    EXPECT_EQ(port.receives(), kReceives);
    EXPECT_FALSE(port.broken());
    rail.memory_result = kOk;
    port.want_receives(100);
    EXPECT_EQ(port.receives(), kReceives) << "it does not ask again";
}

TEST_F(Port, ARestartPostsAllReceives) {
    port.want_receives(12);
    rail.receives.clear();
    ASSERT_TRUE(port.reset(Nanoseconds{1000}));
    port.start_again();
    EXPECT_EQ(rail.receives.size(), 12u);
}

TEST_F(Port, CompletionsSayWhoseTheyAre) {
    ASSERT_TRUE(post(3).ok());
    EXPECT_EQ(rail.sends[0].remote_qp, 5u);
    EXPECT_EQ(rail.sends[0].remote_key, 6u);
    rail.end_send();
    const WorkCompletion send = polled();
    EXPECT_TRUE(DatagramPort::is_send(send));
    EXPECT_EQ(DatagramPort::index_of(send), 3u);
    EXPECT_TRUE(port.is_current(send));
    WorkCompletion receive;
    receive.wr_id = rail.receives[2];
    EXPECT_FALSE(DatagramPort::is_send(receive));
    EXPECT_EQ(DatagramPort::index_of(receive), 2u);
    EXPECT_TRUE(port.is_current(receive));
}

TEST_F(Port, CompletionsFromBeforeARestartDoNotCount) {
    ASSERT_TRUE(post(3).ok());
    rail.end_send();
    const WorkCompletion send = polled();
    ASSERT_TRUE(port.reset(Nanoseconds{1000}));
    EXPECT_FALSE(port.ready());
    port.start_again();
    EXPECT_TRUE(port.ready());
    EXPECT_FALSE(port.broken());
    EXPECT_EQ(port.mend_at(), Nanoseconds{0});
    EXPECT_FALSE(port.is_current(send));
    EXPECT_EQ(rail.receives.size(), 2 * kReceives);
    ASSERT_TRUE(post(3).ok());
    rail.end_send();
    static_cast<void>(polled());
}

// E810 as RoCE, for example
TEST_F(Port, AQueuePairThatCannotStartAgainIsReplaced) {
    rail.reuses = false;
    rail.receives.clear();
    ASSERT_TRUE(port.reset(Nanoseconds{1000}));
    port.start_again();
    EXPECT_TRUE(port.ready());
    EXPECT_FALSE(port.broken());
    EXPECT_EQ(port.qp_number(), 78u);
    EXPECT_EQ(rail.receives.size(), kReceives);
}

TEST_F(Port, ADeviceThatIsGoneIsTriedAgainLater) {
    rail.create_result = rail.modify_result = Status::error(Reason::no_device);
    EXPECT_FALSE(port.reset(Nanoseconds{1000}));
    EXPECT_TRUE(port.broken());
    EXPECT_GT(port.mend_at(), Nanoseconds{1000});
    rail.create_result = kOk;
    EXPECT_TRUE(port.reset(Nanoseconds{1500})) << "another queue pair for that of the lost device";
    EXPECT_FALSE(port.broken());
    rail.modify_result = kOk;
    ASSERT_TRUE(port.reset(Nanoseconds{2000}));
    rail.modify_result = Status::error(Reason::no_device);
    port.start_again();
    EXPECT_TRUE(port.broken());
    EXPECT_GT(port.mend_at(), Nanoseconds{2000});
    port.renew();
    EXPECT_TRUE(port.broken());
    EXPECT_EQ(port.mend_at(), Nanoseconds{0}) << "at once";
}

TEST_F(Port, AHandleIsKeptUntilTheSendsBeforeItHaveEnded) {
    ASSERT_TRUE(post(0).ok());
    ASSERT_TRUE(post(1).ok());
    port.retire(std::make_unique<CountedHandle>(handles));
    ASSERT_TRUE(post(2).ok());
    port.on_ended();
    port.drop_retired();
    EXPECT_EQ(handles, 1);
    port.on_ended();
    port.drop_retired();
    EXPECT_EQ(handles, 0) << "the third send does not use it";
    port.on_ended();
    port.retire(std::make_unique<CountedHandle>(handles));
    EXPECT_EQ(handles, 0) << "nothing is under way";
}

TEST_F(Port, ASendThatIsRefusedIsNoneToWaitFor) {
    rail.post_result = Status::again(Reason::queue_full);
    EXPECT_TRUE(post(0).is_again());
    port.retire(std::make_unique<CountedHandle>(handles));
    EXPECT_EQ(handles, 0);
}

} // namespace
} // namespace adaptib::test
