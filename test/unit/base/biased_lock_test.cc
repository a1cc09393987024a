// SPDX-License-Identifier: BSD-3-Clause
// BiasedLock: mutual exclusion while the bias comes and goes, and attempts that disturb nobody.
#include "base/biased_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
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
