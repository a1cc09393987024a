// SPDX-License-Identifier: BSD-3-Clause
// Patterns: each send has its receive, and the volumes are those of the algorithms.
#include "simulator/studies/patterns.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <utility>

namespace adaptib::study {
namespace {

std::uint64_t log2_up(std::uint32_t n) { return static_cast<std::uint64_t>(std::bit_width(n - 1)); }

std::set<std::pair<std::size_t, std::uint32_t>> pairs_of(const Pattern& pattern) {
    std::set<std::pair<std::size_t, std::uint32_t>> pairs;
    for (std::size_t rank = 0; rank < pattern.size(); ++rank) {
        for (const Step& step : pattern.ranks[rank]) {
            for (const Message& send : step.sends) {
                pairs.insert({rank, send.peer});
            }
        }
    }
    return pairs;
}

constexpr std::uint32_t kSizes[] = {2, 3, 4, 5, 7, 8, 12, 16, 24, 48, 64, 65};

TEST(Patterns, EverySendHasItsReceive) {
    for (const std::uint32_t n : kSizes) {
        for (const std::string_view name : pattern_names()) {
            const Pattern pattern = make_pattern(name, n, 100, 70);
            EXPECT_EQ(pattern.name, name);
            EXPECT_EQ(pattern.size(), n);
            EXPECT_GT(pattern.messages(), 0u);
            EXPECT_EQ(problem_of(pattern), "") << name << " of " << n;
        }
        EXPECT_EQ(problem_of(dissemination_barrier(n)), "");
    }
    EXPECT_EQ(make_pattern("ring", 4, 1, 1).size(), 0u);
}

TEST(Patterns, RingsAndAlltoallReachEveryPairOnce) {
    for (const std::uint32_t n : kSizes) {
        for (const Pattern& pattern : {displaced_ring(n, 10), alltoall_pairwise(n, 10)}) {
            EXPECT_EQ(pattern.steps(), n - 1);
            EXPECT_EQ(pattern.messages(), std::uint64_t{n} * (n - 1));
            EXPECT_EQ(pattern.bytes(), Bytes{10} * n * (n - 1));
            EXPECT_EQ(pairs_of(pattern).size(), std::size_t{n} * (n - 1));
            for (const auto& rank : pattern.ranks) {
                for (const Step& step : rank) {
                    EXPECT_EQ(step.sends.size(), 1u);
                    EXPECT_EQ(step.receives.size(), 1u);
                }
            }
        }
    }
}

TEST(Patterns, DisplacedRingStepByStep) {
    const Pattern pattern = displaced_ring(24, 8);
    EXPECT_EQ(pattern.ranks[3][0].sends[0].peer, 4u);
    EXPECT_EQ(pattern.ranks[3][0].receives[0].peer, 2u);
    // Step 12: all messages cross between the blocks.
    EXPECT_EQ(pattern.ranks[20][11].sends[0].peer, 8u);
    // With more steps than peers the ring begins again, and no rank ever sends to itself.
    const Pattern longer = displaced_ring(3, 8, 5);
    EXPECT_EQ(longer.steps(), 5u);
    EXPECT_EQ(problem_of(longer), "");
    EXPECT_EQ(longer.ranks[0][2].sends[0].peer, 1u);
}

TEST(Patterns, PairwiseExchangesWhereItCan) {
    const Pattern pattern = alltoall_pairwise(8, 8);
    for (std::size_t rank = 0; rank < 8; ++rank) {
        for (const Step& step : pattern.ranks[rank]) {
            EXPECT_EQ(step.sends[0].peer, step.receives[0].peer);
        }
    }
    EXPECT_EQ(pattern.ranks[5][2].sends[0].peer, 6u); // 5 xor 3
}

TEST(Patterns, AllgatherGoesRound) {
    const Pattern pattern = allgather_ring(6, 10);
    EXPECT_EQ(pattern.steps(), 5u);
    EXPECT_EQ(pairs_of(pattern).size(), 6u);
    EXPECT_EQ(pattern.bytes(), 300u);
}

TEST(Patterns, AllreduceDoubles) {
    const Pattern even = allreduce_doubling(16, 10);
    EXPECT_EQ(even.steps(), 4u);
    EXPECT_EQ(even.bytes(), 10u * 16 * 4);
    // 11 = 8 + 3: three ranks hand over their data before and get the result after.
    const Pattern odd = allreduce_doubling(11, 10);
    EXPECT_EQ(odd.steps(), 5u);
    EXPECT_EQ(odd.bytes(), 10u * (3 + 8 * 3 + 3));
    EXPECT_EQ(odd.ranks[10][0].sends[0].peer, 2u);
    EXPECT_TRUE(odd.ranks[10][2].sends.empty());
    EXPECT_EQ(odd.ranks[10][4].receives[0].peer, 2u);
}

TEST(Patterns, OneToAllAndBackWithBarriers) {
    // A barrier follows when a rank has received more than 128 messages: after 129 rounds of
    // onetoall, after 3 rounds of alltoone with 64 ranks.
    const std::uint64_t barrier = 64 * log2_up(64);
    const Pattern out = onetoall(64, 1, 130);
    EXPECT_EQ(out.bytes(), 130u * 63);
    EXPECT_EQ(out.messages(), 130u * 63 + barrier);
    EXPECT_EQ(out.steps(), 130u + log2_up(64));
    EXPECT_EQ(onetoall(64, 1, 128).messages(), 128u * 63);
    const Pattern in = alltoone(64, 1, 7);
    EXPECT_EQ(in.messages(), 7u * 63 + 2 * barrier);
    EXPECT_EQ(in.ranks[0][0].receives.size(), 63u);
    const Pattern both = repeat(64, 1, 7);
    EXPECT_EQ(both.messages(), 5 * (onetoall(64, 1, 7).messages() + in.messages()));
}

TEST(Patterns, PingPongAndStreams) {
    const Pattern there = ping_pong(8, 5);
    EXPECT_EQ(problem_of(there), "");
    EXPECT_EQ(there.messages(), 10u);
    EXPECT_EQ(there.ranks[1][1].sends[0].peer, 0u);
    for (const bool both : {false, true}) {
        const Pattern pattern = stream(1000, 64, 3, both);
        EXPECT_EQ(problem_of(pattern), "");
        EXPECT_EQ(pattern.bytes(), (both ? 2u : 1u) * 3 * (64'000 + 4));
        EXPECT_EQ(pattern.ranks[1][2].receives.size(), 64u);
    }
}

TEST(Patterns, ProblemsAreFound) {
    Pattern pattern = displaced_ring(4, 8);
    pattern.ranks[2][1].receives.clear();
    EXPECT_EQ(problem_of(pattern), "rank 0, step 1: sends what is not received");
    pattern = displaced_ring(4, 8);
    pattern.ranks[0][1].sends.clear();
    EXPECT_EQ(problem_of(pattern), "rank 2, step 1: receives what is not sent");
    pattern = displaced_ring(4, 8);
    pattern.ranks[1][0].sends[0].bytes = 9;
    EXPECT_EQ(problem_of(pattern), "rank 1, step 0: sends what is not received");
    pattern = displaced_ring(4, 8);
    pattern.ranks[3].pop_back();
    EXPECT_EQ(problem_of(pattern), "rank 3, step 0: not as many steps as rank 0");
    pattern = displaced_ring(4, 8);
    pattern.ranks[3][2].sends[0].peer = 3;
    EXPECT_EQ(problem_of(pattern), "rank 3, step 2: sends to a rank that is none");
}

} // namespace
} // namespace adaptib::study
