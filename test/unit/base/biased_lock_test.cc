// SPDX-License-Identifier: BSD-3-Clause
// BiasedLock: mutual exclusion while the bias comes and goes, and attempts that disturb nobody.
#include "base/biased_lock.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.h"

namespace adaptib {
namespace {

void take_often(BiasedLock& lock, std::uint32_t times = 4 * BiasedLock::kBiasAfter) {
    for (std::uint32_t i = 0; i < times; ++i) {
        const std::lock_guard guard(lock);
    }
}

// Returns false if the system has no such filters.
bool refuse_membarrier() {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{4, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool biases() {
    BiasedLock lock;
    take_often(lock);
    std::thread([&lock] { take_often(lock, 1); }).join();
    return lock.revocations() > 0;
}

TEST(BiasedLock, IsAMutexForSeveralThreads) {
    constexpr int kThreads = 4;
    constexpr int kTimes = 20'000;
    BiasedLock lock;
    std::uint64_t count = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < kTimes; ++i) {
                const std::lock_guard guard(lock);
                ++count;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(count, std::uint64_t{kThreads} * kTimes);
}

// Each thread has phases in which it alone takes the lock, so that the bias moves often, and phases
// in which all take it.
TEST(BiasedLock, ExcludesWhileTheBiasMoves) {
    constexpr int kThreads = 3;
    constexpr int kPhases = 600;
    BiasedLock lock;
    std::array<std::uint64_t, 8> words{}; // all equal whenever the lock is free
    std::atomic<int> turn = 0;
    std::atomic<std::uint64_t> attempts_failed = 0;
    const auto once = [&] {
        const std::uint64_t before = words.front();
        for (std::uint64_t& word : words) {
            ASSERT_EQ(word, before);
            word = before + 1;
        }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            Random random(static_cast<std::uint64_t>(t) + 1);
            while (turn.load() < kPhases) {
                const bool mine = turn.load() % kThreads == t;
                for (int i = 0; i < (mine ? 400 : 1); ++i) {
                    if (random.below(4) == 0) {
                        if (!lock.try_lock()) {
                            ++attempts_failed;
                            continue;
                        }
                    } else {
                        lock.lock();
                    }
                    once();
                    lock.unlock();
                }
                if (mine) {
                    ++turn;
                }
                std::this_thread::yield();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const std::uint64_t word : words) {
        EXPECT_EQ(word, words.front());
    }
}

TEST(BiasedLock, AnAttemptDoesNotWaitForTheOwner) {
    BiasedLock lock;
    take_often(lock);
    lock.lock();
    bool taken = true;
    std::thread([&] { taken = lock.try_lock(); }).join();
    EXPECT_FALSE(taken);
    EXPECT_EQ(lock.revocations(), 0U);
    lock.unlock();
    std::thread([&] {
        taken = lock.try_lock();
        lock.unlock();
    }).join();
    EXPECT_TRUE(taken);
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
}

TEST(BiasedLock, AnotherThreadWaitsForTheOwner) {
    BiasedLock lock;
    take_often(lock);
    lock.lock();
    std::atomic<bool> entered = false;
    std::thread other([&] {
        const std::lock_guard guard(lock);
        entered = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    EXPECT_FALSE(entered);
    lock.unlock();
    other.join();
    EXPECT_TRUE(entered);
}

// Two threads in turn: a bias that does not last is not tried again and again.
TEST(BiasedLock, SeldomBiasesWhatIsShared) {
    if (!biases()) {
        GTEST_SKIP() << "no membarrier here";
    }
    constexpr int kTurns = 4'000;
    BiasedLock lock;
    std::atomic<int> turn = 0;
    const auto in_turn = [&](int of) {
        for (int i = of; i < kTurns; i += 2) {
            while (turn.load() != i) {
                std::this_thread::yield();
            }
            take_often(lock, BiasedLock::kBiasAfter + 1);
            ++turn;
        }
    };
    std::thread first([&] { in_turn(0); });
    std::thread second([&] { in_turn(1); });
    first.join();
    second.join();
    EXPECT_LE(lock.revocations(), 2U);
}

// The first thread's bias is revoked while it has the lock, and the system refuses barriers by then
// (as a filter of system calls may that the program installs after MPI_Init).
TEST(BiasedLock, DoesWithoutABarrierThatIsRefusedLater) {
    if (!biases()) {
        GTEST_SKIP() << "no membarrier here";
    }
    const pid_t child = fork();
    if (child == 0) {
        BiasedLock lock;
        take_often(lock);
        if (!refuse_membarrier()) {
            _exit(77);
        }
        lock.lock();
        std::atomic<bool> entered = false;
        std::thread other([&] {
            take_often(lock);
            entered = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        const bool excluded = !entered;
        lock.unlock();
        other.join();
        const bool revoked_once = lock.revocations() == 1;
        take_often(lock);
        take_often(lock);
        std::thread([&] { take_often(lock, 1); }).join();
        const bool biased_no_more = lock.revocations() == 1;
        _exit((excluded ? 0 : 1) + (revoked_once ? 0 : 2) + (biased_no_more ? 0 : 4));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        GTEST_SKIP() << "no filter of system calls here";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A thread of real-time priority revokes while the owner, on the same processor, has the lock: the
// owner gets the processor, and leaves.
TEST(BiasedLock, ARealTimeThreadLetsTheOwnerLeave) {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    BiasedLock lock;
    take_often(lock);
    lock.lock();
    std::atomic<int> refused = 0;
    std::atomic<bool> waits = false;
    std::thread urgent([&] {
        const sched_param priority{1};
        refused = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(getpid(), sizeof one, &one); // the owner's, too
        sched_setaffinity(0, sizeof one, &one);
        waits = true;
        if (refused == 0) {
            const std::lock_guard guard(lock);
        }
    });
    while (!waits) {
        std::this_thread::yield();
    }
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds{1}); // the other thread waits by then
    lock.unlock();
    urgent.join();
    sched_setaffinity(0, sizeof before, &before);
    if (refused != 0) {
        GTEST_SKIP() << "no real-time priority here";
    }
    // The system takes the processor from real-time threads after 0.95 s of each second.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds{500});
}

TEST(BiasedLock, OutlivesItsOwner) {
    BiasedLock lock;
    std::thread([&] { take_often(lock); }).join();
    std::thread([&] { take_often(lock); }).join();
    take_often(lock);
    EXPECT_LE(lock.revocations(), 2U);
}

TEST(BiasedLock, TellsIfOthersWantIt) {
    BiasedLock lock;
    EXPECT_TRUE(lock.is_wanted_by_no_other()) << "nobody has taken it";
    const auto wanted_by_no_other = [&lock] {
        const std::lock_guard guard(lock);
        return lock.is_wanted_by_no_other();
    };
    EXPECT_TRUE(wanted_by_no_other());
    std::thread([&] { EXPECT_FALSE(wanted_by_no_other()); }).join();
    EXPECT_FALSE(wanted_by_no_other());
    take_often(lock);
    EXPECT_TRUE(wanted_by_no_other());
    std::thread([&lock] { // helps
        ASSERT_TRUE(lock.try_lock_to_help());
        EXPECT_FALSE(lock.is_wanted_by_no_other());
        lock.unlock();
    })
        .join();
}

} // namespace
} // namespace adaptib
