// SPDX-License-Identifier: BSD-3-Clause
// The policies decide how many rails carry a message; the data that arrives is the same
// (two_sided_test.cc has these cases, too).
#include <gtest/gtest.h>

#include "cores.h"

namespace adaptib::test {
namespace {

struct Moved {
    std::uint64_t reads; // work requests of the receiver
    std::uint64_t bytes;
};

Moved moved(const char* multiplexing, const char* striping, int rails, std::size_t bytes) {
    Options options;
    options.parameters.shm_rails = rails;
    options.parameters.multiplexing_policy = const_cast<char*>(multiplexing);
    options.parameters.striping_policy = const_cast<char*>(striping);
    Cores world(2, options);
    exchange(world, 100'000, 1); // from now on they are connected
    const std::uint64_t reads = world.counters(1).rdma_read;
    const std::uint64_t read_bytes = world.counters(1).rdma_read_bytes;
    exchange(world, bytes, 1);
    return {world.counters(1).rdma_read - reads, world.counters(1).rdma_read_bytes - read_bytes};
}

TEST(Scheduling, EvenCutsLongMessagesForAllRails) {
    for (const int rails : {1, 2, 5}) {
        const Moved long_one = moved("binding", "even", rails, 1'000'000);
        EXPECT_EQ(long_one.reads, static_cast<std::uint64_t>(rails));
        EXPECT_EQ(long_one.bytes, 1'000'000u);
        EXPECT_EQ(moved("binding", "even", rails, 16384).reads, static_cast<std::uint64_t>(rails));
        EXPECT_EQ(moved("binding", "even", rails, 16383).reads, 1u);
    }
}

TEST(Scheduling, TheDefaultStripesOverAllRails) {
    const Parameters defaults = default_parameters();
    const auto reads = [&defaults](std::size_t bytes) {
        return moved(defaults.multiplexing_policy, defaults.striping_policy, 3, bytes).reads;
    };
    EXPECT_EQ(reads(1'000'000), 3u);
    EXPECT_GE(reads(4'000'000), 7u); // six rounds of 512 KiB, and the rest
}

// The sender's kind of operation, which is blocking here, reaches the receiver, which reads.
TEST(Scheduling, EpcStripesForASenderThatBlocks) {
    EXPECT_EQ(moved("binding", "epc", 2, 1'000'000).reads, 2u);
}

TEST(Scheduling, OthersKeepThemWhole) {
    for (const char* policy :
         {"binding", "round_robin", "weighted_round_robin", "window_round_robin"}) {
        EXPECT_EQ(moved(policy, "none", 3, 1'000'000).reads, 1u) << policy;
    }
}

// Returns what rank 0 of two reports when it starts.
std::vector<std::string> reported(std::size_t threshold, int eager_limit, const char* striping) {
    Options options;
    options.parameters.striping_threshold = threshold;
    options.parameters.eager_limit = eager_limit;
    options.parameters.striping_policy = const_cast<char*>(striping);
    Cores world(2, options);
    EXPECT_TRUE(world.messages(1).empty());
    return world.messages(0);
}

TEST(Scheduling, AThresholdBelowTheEagerLimitIsReported) {
    const std::vector<std::string> texts = reported(2000, 8192, "even");
    ASSERT_EQ(texts.size(), 1u);
    for (const char* part : {"opal_common_adaptib_striping_threshold (2000)",
                             "opal_common_adaptib_eager_limit (8192)"}) {
        EXPECT_NE(texts[0].find(part), std::string::npos) << texts[0];
    }
    EXPECT_TRUE(reported(8192, 8192, "even").empty());
    EXPECT_TRUE(reported(2000, 8192, "none").empty());
    EXPECT_TRUE(reported(default_parameters().striping_threshold, 32768, "even").empty())
        << "nobody has set it";
}

} // namespace
} // namespace adaptib::test
