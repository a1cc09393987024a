// SPDX-License-Identifier: BSD-3-Clause
// The MTL's waits for several requests: other threads end these at the same time, and tell the
// sleeping thread when its wait is over.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <thread>

#include "unit/mtl/wait_stand_in.h"

namespace {

// Returns false if it does not become true within some seconds.
bool soon(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds()) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
}

// The thread that waits, again and again.
class Waiter {
public:
    explicit Waiter(wait_for_t what) : what_(what), thread_([this] { run(); }) {
        EXPECT_TRUE(soon([this] { return stack_end_ != nullptr; }));
    }
    ~Waiter() {
        stop_ = true;
        thread_.join();
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    // Starts requests, and a wait for them; returns when the thread sleeps.
    void begin() {
        wait_stand_in_start();
        ++wanted_;
        EXPECT_TRUE(soon([] { return wait_stand_in_slept_for(WAIT_REQUESTS - 1); }));
    }
    bool has_returned() const { return ended_ == wanted_; }
    bool returns() const {
        return soon([this] { return has_returned(); });
    }
    bool has_on_stack(const void* address) const {
        return address >= stack_begin_ && address < stack_end_;
    }

private:
    void run() {
        pthread_attr_t attributes;
        void* begin = nullptr;
        std::size_t bytes = 0;
        EXPECT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
        EXPECT_EQ(pthread_attr_getstack(&attributes, &begin, &bytes), 0);
        pthread_attr_destroy(&attributes);
        stack_begin_ = static_cast<const char*>(begin);
        stack_end_ = static_cast<const char*>(begin) + bytes;
        while (!stop_) {
            if (ended_ == wanted_) {
                std::this_thread::yield();
                continue;
            }
            EXPECT_TRUE(wait_stand_in_wait(what_));
            ++ended_;
        }
    }

    const wait_for_t what_;
    std::atomic<const char*> stack_begin_ = nullptr;
    std::atomic<const char*> stack_end_ = nullptr;
    std::atomic<int> wanted_ = 0;
    std::atomic<int> ended_ = 0;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

class Waits : public testing::TestWithParam<wait_for_t> {
protected:
    void SetUp() override { wait_stand_in_open(); }
    void TearDown() override { wait_stand_in_close(); }

    // All requests end at once; only the first one's end is told. Returns the condition.
    static void* end_and_tell_one() {
        void* conditions[WAIT_REQUESTS];
        for (int i = WAIT_REQUESTS; i-- > 0;) {
            conditions[i] = wait_stand_in_end(i);
            EXPECT_NE(conditions[i], nullptr);
            EXPECT_EQ(conditions[i], conditions[WAIT_REQUESTS - 1]);
        }
        wait_stand_in_tell(conditions[0], false);
        return conditions[0];
    }
    static void end_and_tell_all() {
        for (int i = 0; i < WAIT_REQUESTS; ++i) {
            if (void* condition = wait_stand_in_end(i); condition != nullptr) {
                wait_stand_in_tell(condition, false);
            }
        }
    }
};

TEST_P(Waits, EndWhenTheyAreTold) {
    Waiter waiter(GetParam());
    for (int round = 0; round < 20; ++round) {
        waiter.begin();
        EXPECT_FALSE(waiter.has_returned());
        end_and_tell_all();
        ASSERT_TRUE(waiter.returns());
    }
}

// A late update may not go into the frame of a function that has returned: the thread's next call
// has other things there.
TEST_P(Waits, AreToldTooLateWhereNothingElseIs) {
    Waiter waiter(GetParam());
    std::set<void*> conditions;
    for (int round = 0; round < 20; ++round) {
        waiter.begin();
        void* const condition = end_and_tell_one();
        EXPECT_FALSE(waiter.has_on_stack(condition)) << "round " << round;
        ASSERT_TRUE(waiter.returns());
        if (testing::Test::HasFailure()) {
            return; // the update would do harm
        }
        for (int i = 1; i < WAIT_REQUESTS; ++i) {
            wait_stand_in_tell(condition, round % 2 == 0);
        }
        conditions.insert(condition);
    }
    EXPECT_EQ(conditions.size(), 1u) << "one thread sleeps at a time";
}

TEST_P(Waits, GoOnThoughAnEarlierOneIsToldTooLate) {
    Waiter waiter(GetParam());
    for (int round = 0; round < 20; ++round) {
        waiter.begin();
        void* const condition = end_and_tell_one();
        ASSERT_TRUE(waiter.returns());
        if (waiter.has_on_stack(condition)) {
            FAIL() << "the update would do harm";
        }
        waiter.begin();
        for (int i = 1; i < WAIT_REQUESTS; ++i) {
            wait_stand_in_tell(condition, round % 2 == 0);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_FALSE(waiter.has_returned()) << "no request has ended";
        end_and_tell_all();
        ASSERT_TRUE(waiter.returns());
    }
}

INSTANTIATE_TEST_SUITE_P(For, Waits, testing::Values(WAIT_FOR_ALL, WAIT_FOR_ANY, WAIT_FOR_SOME),
                         [](const auto& info) {
                             return info.param == WAIT_FOR_ALL   ? "All"
                                    : info.param == WAIT_FOR_ANY ? "Any"
                                                                 : "Some";
                         });

} // namespace
