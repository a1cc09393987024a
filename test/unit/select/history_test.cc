// SPDX-License-Identifier: BSD-3-Clause
// Statistics of sources: sums over windows, and the memory that the statistics take.
#include "select/history.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace adaptib {
namespace {

using Counts = std::vector<SourceCount>;

Counts sum(const History& history, std::uint64_t from) {
    History::Window window;
    history.sum(from, window);
    return window.counts;
}

double messages(const History& history, std::uint64_t from) {
    History::Window window;
    history.sum(from, window);
    return window.messages;
}

TEST(History, RecentPeriodsAreExact) {
    History history;
    for (std::uint64_t t = 0; t < History::kPerWidth; ++t) {
        history.add({{9, 100.0 + static_cast<double>(t)}, {2, 1}});
    }
    EXPECT_EQ(sum(history, 0), (Counts{{2, 8}, {9, 828}}));
    EXPECT_EQ(sum(history, 6), (Counts{{2, 2}, {9, 213}}));
    EXPECT_EQ(sum(history, 8), Counts{});
    EXPECT_EQ(messages(history, 0), 836);
}

TEST(History, SourcesWithoutMessagesTakeNoPlace) {
    History history;
    history.add({{1, 0}, {2, 5}});
    EXPECT_EQ(sum(history, 0), (Counts{{2, 5}}));
}

TEST(History, OldPeriodsAreTogetherAndGiveTheirShare) {
    History history;
    for (int t = 0; t < 100; ++t) {
        history.add({{1, t < 50 ? 10.0 : 30.0}});
    }
    EXPECT_DOUBLE_EQ(sum(history, 0)[0].count, 2000);
    EXPECT_DOUBLE_EQ(sum(history, 95)[0].count, 150);
    for (std::uint64_t from = 0; from < 100; ++from) {
        const double exact = from < 50 ? 10.0 * static_cast<double>(50 - from) + 1500
                                       : 30.0 * static_cast<double>(100 - from);
        EXPECT_NEAR(sum(history, from)[0].count, exact, 0.1 * exact) << from;
    }
}

TEST(History, NothingIsLostOrDoubled) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        History history;
        std::map<std::uint64_t, double> all;
        const std::uint64_t periods = 1 + random.below(300);
        for (std::uint64_t t = 0; t < periods; ++t) {
            Counts counts;
            for (std::uint64_t source = 20; source > 0; --source) {
                if (random.below(3) == 0) {
                    counts.push_back({source, static_cast<double>(random.below(1000))});
                    all[source] += counts.back().count;
                }
            }
            history.add(counts);
        }
        double total = 0;
        for (const SourceCount& count : sum(history, 0)) {
            EXPECT_NEAR(count.count, all[count.source], 1e-6);
            total += count.count;
        }
        EXPECT_NEAR(messages(history, 0), total, 1e-6);
    }
}

// 256 active sources of 65,536, for longer than the history reaches.
TEST(History, MemoryFollowsTheActiveSources) {
    History history;
    for (std::uint64_t t = 0; t < 20 * History::kWidest; ++t) {
        Counts counts;
        if (t % 64 < 8) { // else nothing new, to keep the test short
            for (std::uint64_t source = 0; source < 256; ++source) {
                counts.push_back({source * 256, 7});
            }
        }
        history.add(std::move(counts));
    }
    EXPECT_LT(history.memory_bytes(), 2u << 20);
    EXPECT_EQ(history.now(), 20 * History::kWidest);
    EXPECT_LT(messages(history, 0), 256.0 * 7 * 2.5 * History::kWidest); // the oldest are gone
}

TEST(History, OfOldPeriodsTheBusiestStay) {
    History history;
    for (int t = 0; t < 40; ++t) {
        Counts counts;
        for (std::uint64_t source = 0; source < 10'000; ++source) {
            counts.push_back({source, source % 10 == 3 ? 1000.0 : 1.0});
        }
        history.add(std::move(counts));
    }
    EXPECT_NEAR(messages(history, 0), 40.0 * (1000 * 1000 + 9000), 1);
    std::size_t busy = 0;
    for (const SourceCount& count : sum(history, 0)) {
        busy += count.count > 39'000 ? 1 : 0;
        EXPECT_TRUE(count.source % 10 == 3 || count.count < 100);
    }
    EXPECT_EQ(busy, 1000u);
    EXPECT_LT(history.memory_bytes(), 5u << 20);
}

} // namespace
} // namespace adaptib
