// SPDX-License-Identifier: BSD-3-Clause
// EndedProcesses: several threads report, one takes.
#include "recovery/ended_processes.h"

#include <gtest/gtest.h>

#include <thread>

namespace adaptib {
namespace {

TEST(EndedProcesses, EachIsTakenOnceAndRemembered) {
    EndedProcesses ended;
    EXPECT_FALSE(ended.any_reported());
    ended.report(7);
    ended.report(9);
    ended.report(7);
    EXPECT_TRUE(ended.any_reported());
    EXPECT_FALSE(ended.contains(7)) << "nobody has taken it";
    std::vector<std::uint64_t> taken;
    ended.take([&](std::uint64_t name) { taken.push_back(name); });
    EXPECT_EQ(taken, (std::vector<std::uint64_t>{7, 9}));
    EXPECT_FALSE(ended.any_reported());
    EXPECT_TRUE(ended.contains(7));
    ended.report(9);
    ended.take([&](std::uint64_t name) { taken.push_back(name); });
    EXPECT_EQ(taken.size(), 2u);
    EXPECT_FALSE(ended.contains(8));
}

TEST(EndedProcesses, NoneIsLostWhoeverTells) {
    constexpr std::uint64_t kEach = 2000;
    EndedProcesses ended;
    std::vector<std::thread> threads;
    for (std::uint64_t first : {0u, 1u, 2u}) {
        threads.emplace_back([&ended, first] {
            for (std::uint64_t i = 0; i < kEach; ++i) {
                ended.report(3 * i + first);
            }
        });
    }
    std::size_t taken = 0;
    while (taken < 3 * kEach) {
        if (ended.any_reported()) {
            ended.take([&](std::uint64_t) { ++taken; });
        }
        std::this_thread::yield();
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_FALSE(ended.any_reported());
    EXPECT_TRUE(ended.contains(3 * kEach - 1));
}

} // namespace
} // namespace adaptib
