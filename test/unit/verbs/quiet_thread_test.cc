// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/quiet_thread.h"

#include <gtest/gtest.h>

#include <csignal>

namespace adaptib::test {
namespace {

bool blocks(int signal) {
    sigset_t now;
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
    return sigismember(&now, signal) == 1;
}

TEST(QuietThread, BlocksSignalsInItselfAndNotInTheProgram) {
    const bool before = blocks(SIGUSR1);
    bool in_thread = false;
    verbs::QuietThread thread;
    ASSERT_TRUE(thread.start(
        [](void* result) -> void* {
            *static_cast<bool*>(result) = blocks(SIGUSR1);
            return nullptr;
        },
        &in_thread));
    EXPECT_EQ(blocks(SIGUSR1), before);
    thread.join();
    EXPECT_TRUE(in_thread);
    EXPECT_FALSE(thread.running());
}

} // namespace
} // namespace adaptib::test
