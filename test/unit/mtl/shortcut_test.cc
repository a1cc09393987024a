// SPDX-License-Identifier: BSD-3-Clause
// Receives of the MTL's fast path among several threads: each of them holds its communicator, also
// where one thread starts them and another one frees them, at the end of a session and in the next
// one.
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "unit/mtl/shortcut_stand_in.h"

namespace {

constexpr int kBulk = 64; // references that a thread takes at once

// Another thread, which lives through several sessions.
class Worker {
public:
    Worker() : thread_([this] { run(); }) {}
    ~Worker() {
        call(nullptr);
        thread_.join();
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Calls f in the thread; returns when it has returned.
    void call(const std::function<void()>& f) {
        std::unique_lock lock(mutex_);
        next_ = f;
        wanted_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !wanted_; });
    }

private:
    void run() {
        std::unique_lock lock(mutex_);
        for (bool goes_on = true; goes_on;) {
            changed_.wait(lock, [this] { return wanted_; });
            goes_on = next_ != nullptr;
            if (goes_on) {
                next_();
            }
            wanted_ = false;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> next_;
    bool wanted_ = false;
    std::thread thread_;
};

class Shortcut : public testing::Test {
protected:
    void SetUp() override {
        shortcut_stand_in_open();
        ASSERT_TRUE(shortcut_stand_in_begin());
    }
    void TearDown() override {
        shortcut_stand_in_finish();
        shortcut_stand_in_close();
    }

    static std::vector<int> receive(int count) {
        std::vector<int> numbers;
        for (int i = 0; i < count; ++i) {
            numbers.push_back(shortcut_stand_in_receive());
            EXPECT_GE(numbers.back(), 0);
        }
        return numbers;
    }
    static void end(const std::vector<int>& numbers) {
        for (const int number : numbers) {
            shortcut_stand_in_end(number);
        }
    }
    static void free(const std::vector<int>& numbers) {
        for (const int number : numbers) {
            shortcut_stand_in_free(number);
        }
    }
};

TEST_F(Shortcut, ThreadGivesItsReferencesUpWithItsLastReceive) {
    const int before = shortcut_stand_in_references();
    const std::vector<int> numbers = receive(10);
    EXPECT_EQ(shortcut_stand_in_references(), before + 1 + kBulk);
    end(numbers);
    free(numbers);
    EXPECT_EQ(shortcut_stand_in_references(), before);
}

// MPI_Finalize frees communicators before it ends the MTL.
TEST_F(Shortcut, EndOfASessionLeavesCommunicatorsAlone) {
    const int before = shortcut_stand_in_references();
    const std::vector<int> numbers = receive(kBulk); // one by itself, and all of the bulk but one
    end(numbers);
    std::thread([&] { free(numbers); }).join();
    EXPECT_EQ(shortcut_stand_in_references(), before + 1) << "the spare one";
    shortcut_stand_in_finish();
    EXPECT_EQ(shortcut_stand_in_references(), before + 1);
}

// A communicator may lie where one of the last session was.
TEST_F(Shortcut, ReferencesOfAThreadEndWithTheirSession) {
    Worker worker;
    std::vector<int> numbers;
    worker.call([&] { numbers = receive(2); });
    end(numbers);
    free(numbers);
    shortcut_stand_in_finish();
    ASSERT_TRUE(shortcut_stand_in_begin());
    const int before = shortcut_stand_in_references();
    numbers = receive(2);
    end(numbers);
    worker.call([&] { free(numbers); });
    EXPECT_EQ(shortcut_stand_in_references(), before + 1 + kBulk - 2)
        << "those that this thread has spare";
}

} // namespace
