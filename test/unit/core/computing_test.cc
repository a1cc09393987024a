// SPDX-License-Identifier: BSD-3-Clause
// A peer of this host that computes, and one that has ended: the system tells which,
// silence does not.
#include <string>

#include "cores.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kStep = 20ms; // between two polls of the waiting node

// A rank that computes: node 1 makes no progress while node 0 waits for it.
class Computing : public testing::TestWithParam<int> {
protected:
    Computing() {
        options_.parameters.partition_timeout = 2;
        options_.parameters.shm_rails = GetParam();
    }
    // Lets node 0 wait for `time`.
    void wait(Cores& world, Nanoseconds time) {
        for (Nanoseconds end = world.clock.now() + time; world.clock.now() < end;) {
            world.clock.advance(kStep);
            for (int pass = 0; pass < 70; ++pass) { // timers run in one of 64
                world.progress(0);
            }
        }
    }
    static std::string said(Cores& world) {
        std::string all;
        for (const std::string& text : world.messages(0)) {
            all += text + "\n";
        }
        return all;
    }

    Options options_;
};
INSTANTIATE_TEST_SUITE_P(Rails, Computing, testing::Values(1, 2, 3));

constexpr Nanoseconds kLong = 7s; // 3 x partition_timeout, and more

// Node 1 may owe the acknowledgment of a short message, the data of a long one, or a connection.
TEST_P(Computing, IsWaitedForWhateverItOwes) {
    for (const std::size_t bytes : {8u, 3000u, 20'000u, 1'000'000u}) {
        for (const int before : {0, 1, 15, 16, 40}) { // messages, before it computes
            for (const bool posted : {false, true}) {
                SCOPED_TRACE(std::to_string(before) + " before " + std::to_string(bytes));
                Cores world(2, options_);
                exchange(world, 8, before);
                std::vector<std::byte> sent = pattern(bytes, 1);
                std::vector<std::byte> got(bytes);
                std::vector<std::byte> answer(8);
                TestRequest send;
                TestRequest receive;
                TestRequest answered;
                if (posted) {
                    ASSERT_TRUE(world.receive(1, 0, 9, contiguous(got), receive).ok());
                }
                ASSERT_TRUE(world.send(0, 1, 9, contiguous(sent), send).ok());
                ASSERT_TRUE(world.receive(0, 1, 10, contiguous(answer), answered).ok());
                wait(world, kLong);
                ASSERT_EQ(world.counters(0).connections_failed, 0u) << said(world);
                if (!posted) {
                    ASSERT_TRUE(world.receive(1, 0, 9, contiguous(got), receive).ok());
                }
                ASSERT_TRUE(world.run({&send, &receive}));
                EXPECT_EQ(got, sent);
                TestRequest reply;
                std::vector<std::byte> eight = pattern(8, 2);
                ASSERT_TRUE(world.send(1, 0, 10, contiguous(eight), reply).ok());
                ASSERT_TRUE(world.run({&answered, &reply}));
                EXPECT_EQ(answer, eight);
                EXPECT_EQ(said(world), "");
                EXPECT_EQ(world.counters(0).paths_suspected, 0u);
            }
        }
    }
}

// Requests that wait for an ended process fail within a second, with the reason; messages that it
// had sent before are received.
TEST_P(Computing, AProcessThatHasEndedIsNoticedWithinASecond) {
    for (const int before : {0, 1, 40}) { // messages
        SCOPED_TRACE(before);
        Cores world(2, options_);
        exchange(world, 8, before);
        std::vector<std::byte> last = pattern(100, 3);
        std::vector<std::byte> got(100);
        std::vector<std::byte> more(100);
        TestRequest send;
        TestRequest receive;
        TestRequest waits;
        ASSERT_TRUE(world.receive(0, 1, 9, contiguous(got), receive).ok());
        ASSERT_TRUE(world.receive(0, 1, 9, contiguous(more), waits).ok());
        static_cast<void>(world.peer(0, 1));
        ASSERT_TRUE(world.send(1, 0, 9, contiguous(last), send).ok());
        world.end(1);
        wait(world, 1s);
        EXPECT_TRUE(receive.done);
        EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(got, last);
        if (waits.done) { // a receive ends if its sender is known
            EXPECT_EQ(waits.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
        }
        TestRequest vain;
        const Status status = world.send(0, 1, 9, contiguous(last), vain);
        wait(world, 1s);
        // A peer that nothing is wanted of has left; a later send to it is an error of its own.
        EXPECT_TRUE(!status.ok() || vain.done);
        EXPECT_TRUE(!status.ok() || vain.user.status == OPAL_COMMON_ADAPTIB_UNREACHABLE);
    }
}

// The data of a long message, which only the other end can fetch.
TEST_P(Computing, AProcessThatEndsWhileItIsWaitedForEndsTheRequest) {
    Cores world(2, options_);
    exchange(world, 8, 40);
    std::vector<std::byte> sent = pattern(1'000'000, 3);
    TestRequest send;
    ASSERT_TRUE(world.send(0, 1, 9, contiguous(sent), send).ok());
    wait(world, kLong);
    EXPECT_FALSE(send.done);
    world.end(1);
    wait(world, 1s);
    EXPECT_TRUE(send.done);
    EXPECT_EQ(send.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_NE(said(world).find("process"), std::string::npos) << said(world);
}

} // namespace
} // namespace adaptib::test
