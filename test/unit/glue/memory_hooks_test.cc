// SPDX-License-Identifier: BSD-3-Clause
// Memory hooks: threads that unmap memory while a core ends or begins.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "unit/glue/hooks_stand_in.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class MemoryHooks : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(hooks_stand_in_open()); }
    void TearDown() override {
        hooks_stand_in_let_go();
        hooks_stand_in_close();
    }
    // Has a thread report released memory and stay within the core.
    std::thread thread_within_the_core() {
        hooks_stand_in_hold();
        std::thread out([] { hooks_stand_in_release(); });
        while (hooks_stand_in_inside() == 0) {
            std::this_thread::yield();
        }
        return out;
    }
};

TEST_F(MemoryHooks, ReportToTheCoreWhileThereIsOne) {
    hooks_stand_in_release();
    EXPECT_EQ(hooks_stand_in_reports(), 1);
    hooks_stand_in_end_core();
    hooks_stand_in_release();
    EXPECT_EQ(hooks_stand_in_reports(), 1);
    hooks_stand_in_begin_core();
    hooks_stand_in_release();
    EXPECT_EQ(hooks_stand_in_reports(), 2);
}

TEST_F(MemoryHooks, ACoreIsReleasedOnlyAfterTheLastReport) {
    std::thread within = thread_within_the_core();
    std::atomic<bool> ended{false};
    std::atomic<int> inside_then{-1};
    std::thread ends([&] {
        hooks_stand_in_end_core();
        inside_then = hooks_stand_in_inside();
        ended = true;
    });
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(ended) << "a thread is still within the core";
    hooks_stand_in_let_go();
    ends.join();
    within.join();
    EXPECT_EQ(inside_then, 0);
    EXPECT_EQ(hooks_stand_in_reports(), 1);
}

TEST_F(MemoryHooks, CoresEndAndBeginWhileThreadsUnmap) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            while (!stop) {
                hooks_stand_in_release();
            }
        });
    }
    int reported = 0;
    for (int i = 0; i < 50 || reported == 0; ++i) {
        hooks_stand_in_begin_core();
        std::this_thread::yield();
        hooks_stand_in_end_core();
        ASSERT_EQ(hooks_stand_in_inside(), 0);
        reported = hooks_stand_in_reports();
        std::this_thread::yield();
        ASSERT_EQ(hooks_stand_in_reports(), reported) << "there is no core";
    }
    stop = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
}

// The thread within the core does not exist in the child.
TEST_F(MemoryHooks, AForkedChildWaitsForNoThreadOfItsParent) {
    std::thread within = thread_within_the_core();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(20);
        hooks_stand_in_end_core();
        _exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    hooks_stand_in_let_go();
    within.join();
}

} // namespace
} // namespace adaptib::test
