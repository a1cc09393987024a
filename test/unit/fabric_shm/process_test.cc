// SPDX-License-Identifier: BSD-3-Clause
// Liveness of processes, also when there is no file descriptor left to find out with.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fabric/shm/process.h"

namespace adaptib::shm {
namespace {

TEST(Process, ALivingOneIsAliveAndADeadOneIsNot) {
    const auto self = static_cast<std::uint32_t>(getpid());
    const std::uint64_t start = process_start_time(self);
    EXPECT_NE(start, 0u);
    EXPECT_TRUE(process_alive(self, start));
    EXPECT_FALSE(process_alive(self, start + 1)) << "the pid was used again";
    EXPECT_FALSE(process_alive(0, 0));
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    const auto pid = static_cast<std::uint32_t>(child);
    const std::uint64_t child_start = process_start_time(pid);
    EXPECT_NE(child_start, 0u);
    EXPECT_TRUE(process_alive(pid, child_start));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_FALSE(process_alive(pid, child_start));
    EXPECT_FALSE(process_alive(pid, 0)) << "nobody's start was taken";
}

TEST(Process, ACopyTakesFromEachPieceWhatItHas) {
    std::byte first[8];
    std::byte second[8];
    std::byte plain[12] = {};
    std::fill_n(first, 8, std::byte{1});
    std::fill_n(second, 8, std::byte{2});
    const Gather pieces[] = {{first, 4, 0}, {second, 8, 0}};
    const auto self = static_cast<std::uint32_t>(getpid());
    ASSERT_EQ(copy_checked(Direction::to_peer, self, plain, pieces, 3, 9), CopyResult::ok);
    EXPECT_EQ(plain[0], std::byte{1});
    EXPECT_EQ(std::count(plain, plain + 12, std::byte{1}), 1);
    EXPECT_EQ(std::count(plain, plain + 12, std::byte{2}), 8);
}

TEST(Process, WithoutAFileDescriptorNobodyIsDeclaredDead) {
    const auto self = static_cast<std::uint32_t>(getpid());
    const std::uint64_t start = process_start_time(self);
    const std::uint64_t host = host_identity();
    std::vector<int> taken;
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit before = limit;
    limit.rlim_cur = 64;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
        taken.push_back(fd);
    }
    EXPECT_TRUE(process_alive(self, start));
    EXPECT_EQ(host_identity(), host);
    for (const int fd : taken) {
        close(fd);
    }
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// One descriptor does for the pidfd, but not for the list of threads and what it names.
TEST(Process, WithOneDescriptorLeftOneThatHasEndedIsKnown) {
    if (const long pidfd = syscall(SYS_pidfd_open, getpid(), 0u); pidfd >= 0) {
        close(static_cast<int>(pidfd));
    } else {
        GTEST_SKIP() << "no pidfds here";
    }
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    const auto pid = static_cast<std::uint32_t>(child);
    const std::uint64_t start = process_start_time(pid);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    siginfo_t ended{};
    ASSERT_EQ(waitid(P_PID, pid, &ended, WEXITED | WNOWAIT), 0);
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit before = limit;
    limit.rlim_cur = 64;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::vector<int> taken;
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
        taken.push_back(fd);
    }
    ASSERT_FALSE(taken.empty());
    close(taken.back());
    taken.pop_back();
    EXPECT_FALSE(process_alive(pid, start));
    for (const int fd : taken) {
        close(fd);
    }
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(Process, WhoMayRunOnOneProcessorOnlyIsKnown) {
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    const auto pid = static_cast<std::uint32_t>(child);
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    EXPECT_EQ(only_processor(pid) < 0, CPU_COUNT(&before) > 1);
    int last = -1;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
        last = CPU_ISSET(i, &before) ? i : last;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    ASSERT_EQ(sched_setaffinity(child, sizeof one, &one), 0);
    EXPECT_EQ(only_processor(pid), last);
    EXPECT_EQ(only_processor(0) < 0, CPU_COUNT(&before) > 1) << "only its own counts";
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_EQ(only_processor(pid), -1) << "it has ended";
}

} // namespace
} // namespace adaptib::shm
