// SPDX-License-Identifier: BSD-3-Clause
// A pass that finds nothing looks into the rings again (Parameters::idle_looks), unless others
// would suffer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

constexpr int kMessages = 50;
constexpr std::uint64_t kManyPasses = 200; // enough for timers to run while the ring exists

// Node 1 waits in a thread of its own, with calls that look `again`, and node 0 takes its time
// before each message. Returns how often something came while a pass looked again.
std::uint64_t found_idle(int looks, bool again, const bool* yields,
                         std::uint64_t tight_ticks = ~std::uint64_t{0}) {
    Options options;
    options.tight_ticks = tight_ticks;
    options.parameters.idle_looks = looks;
    options.yields = yields;
    Cores world(2, options);
    exchange(world, 8, 100);
    for (std::uint64_t pass = 0; pass < kManyPasses; ++pass) {
        world.core(1).progress(again);
    }
    std::atomic<int> got{0};
    std::thread waiting([&] {
        for (int i = 0; i < kMessages; ++i) {
            std::vector<std::byte> data(8);
            TestRequest receive;
            EXPECT_TRUE(world.receive(1, 0, 5, contiguous(data), receive).ok());
            while (!receive.done) {
                world.progress(1, again);
            }
            EXPECT_EQ(data, pattern(8, static_cast<std::uint64_t>(i)));
            got = i + 1;
        }
    });
    for (int i = 0; i < kMessages; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
        std::vector<std::byte> data = pattern(8, static_cast<std::uint64_t>(i));
        EXPECT_TRUE(world.try_send(0, 1, 5, contiguous(data)));
        while (got != i + 1) {
            std::this_thread::yield();
        }
    }
    waiting.join();
    return world.counters(1).found_idle;
}

TEST(IdleLooks, FindWhatComesMeanwhile) {
    // Nearly all the time is spent on these looks. One find is enough, since the test does not
    // control which thread runs when.
    EXPECT_GT(found_idle(100'000, true, nullptr), 0u);
}

TEST(IdleLooks, AreNotTakenWhereSomebodyMinds) {
    EXPECT_EQ(found_idle(100'000, false, nullptr), 0u);
    EXPECT_EQ(found_idle(0, true, nullptr), 0u);
    const bool yields = true;
    EXPECT_EQ(found_idle(100'000, true, &yields), 0u);
    EXPECT_EQ(found_idle(100'000, true, nullptr, 0), 0u) << "who does something else meanwhile";
}

} // namespace
} // namespace adaptib::test
