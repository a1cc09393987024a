// SPDX-License-Identifier: BSD-3-Clause
// Programs over processes with several endpoints: names, and which operation goes where.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "simulator/torture/endpoints.h"
#include "simulator/torture/program.h"
#include "simulator/torture/run.h"
#include "simulator/torture/shrink.h"
#include "simulator/torture/spread.h"

namespace adaptib::torture {
namespace {

TEST(Endpoints, RanksOfAProcessFollowEachOther) {
    const sim::Endpoints endpoints(7, {2, 1, 4});
    EXPECT_EQ(endpoints.processes(), 3u);
    EXPECT_EQ(endpoints.rank(2, 3), 6u);
    EXPECT_EQ(endpoints.rank(0, 3), 1u) << "the number goes modulo how many there are";
    for (std::uint32_t rank = 0; rank < 7; ++rank) {
        EXPECT_EQ(endpoints.rank_named(endpoints.name(rank)), rank);
        EXPECT_EQ(endpoints.rank(endpoints.process(rank), endpoints.index(rank)), rank);
    }
    EXPECT_EQ(endpoint_of(endpoints.name(6)), 3u);
    EXPECT_EQ(process_of(endpoints.name(6)), endpoints.name(3));
}

TEST(Endpoints, EachRankIsAProcessUnlessToldOtherwise) {
    const sim::Endpoints endpoints(3);
    EXPECT_EQ(endpoints.processes(), 3u);
    EXPECT_EQ(endpoints.name(2), std::uint64_t{1} << 32 | 2);
}

bool is_message(const Operation& operation) { return operation.verb <= Verb::claim; }

// Both sides of a message have to choose alike, and a receive with wildcards has to see all of the
// messages that fit it.
TEST(Spread, BothSidesOfAContextUseItsEndpoint) {
    std::size_t spread = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        const Program program = random_program(seed);
        if (program.endpoints.empty()) {
            continue;
        }
        ++spread;
        const sim::Endpoints endpoints(program.ranks, program.endpoints);
        std::map<std::uint32_t, std::set<std::uint32_t>> numbers; // that fit all its operations
        const auto fits = [&](std::uint32_t rank, std::uint32_t number) {
            return endpoints.rank(endpoints.process(rank), number) == rank;
        };
        std::map<std::uint32_t, std::uint32_t> rank_of_operation;
        for (const Operation& operation : program.operations) {
            if (operation.verb == Verb::wait || operation.verb == Verb::cancel) {
                const auto began = rank_of_operation.find(operation.id);
                if (began != rank_of_operation.end()) { // else left out, since a process ends
                    EXPECT_EQ(began->second, operation.rank);
                }
            } else {
                rank_of_operation.try_emplace(operation.id, operation.rank);
            }
            if (!is_message(operation)) {
                continue;
            }
            auto& left = numbers.try_emplace(operation.context, std::set<std::uint32_t>{0, 1, 2, 3})
                             .first->second;
            std::erase_if(left, [&](std::uint32_t number) {
                return !fits(operation.rank, number) ||
                       (operation.peer >= 0 &&
                        !fits(static_cast<std::uint32_t>(operation.peer), number));
            });
            EXPECT_FALSE(left.empty()) << "seed " << seed << ", operation " << operation.id;
        }
    }
    EXPECT_GT(spread, 30u);
    EXPECT_LT(spread, 120u);
}

TEST(Spread, ProcessesHaveDifferentNumbersOfEndpoints) {
    std::set<std::uint32_t> counts;
    bool differ = false;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        const Program program = random_program(seed);
        counts.insert(program.endpoints.begin(), program.endpoints.end());
        differ = differ || std::set(program.endpoints.begin(), program.endpoints.end()).size() == 3;
    }
    EXPECT_EQ(counts, (std::set<std::uint32_t>{1, 2, 4}));
    EXPECT_TRUE(differ);
}

TEST(Spread, TheTextNamesTheEndpoints) {
    Program program;
    std::string problem;
    ASSERT_TRUE(read("ranks 3\nendpoints 2 1\n", program, problem)) << problem;
    EXPECT_EQ(program.endpoints, (std::vector<std::uint32_t>{2, 1}));
    EXPECT_NE(print(program).find("endpoints 2 1\n"), std::string::npos);
    EXPECT_FALSE(read("ranks 3\nendpoints 2 2\n", program, problem));
    EXPECT_FALSE(read("ranks 3\nendpoints 3 0\n", program, problem));
    EXPECT_FALSE(read("ranks 3\nendpoints 2 x\n", program, problem));
}

// Ranks that do nothing go, and with them their endpoints.
TEST(Spread, ShrinkingLeavesEndpointsOut) {
    Program program;
    std::string problem;
    ASSERT_TRUE(read("ranks 7\n"
                     "endpoints 2 1 4\n"
                     "1 send id=1 peer=5\n"
                     "5 receive id=2 peer=1\n",
                     program, problem))
        << problem;
    const auto has_both = [](const Program& smaller) { return smaller.operations.size() == 2; };
    const auto keeps_names = [&](const Program& smaller) {
        return has_both(smaller) && !smaller.endpoints.empty();
    };
    const Program named = shrink(program, keeps_names, 1000);
    EXPECT_EQ(named.ranks, 2u);
    EXPECT_EQ(named.endpoints, (std::vector<std::uint32_t>{1, 1}));
    EXPECT_TRUE(shrink(program, has_both, 1000).endpoints.empty());
}

TEST(Spread, EndpointsOfDifferentNumbersTalk) {
    Program program;
    std::string problem;
    ASSERT_TRUE(read("ranks 6\n"
                     "endpoints 2 4\n"
                     "parameter connect static\n"
                     "1 send id=1 peer=3 bytes=100\n"
                     "1 send id=2 peer=5 bytes=200000\n"
                     "3 receive id=3 peer=-1 bytes=100\n"
                     "5 receive id=4 peer=1 bytes=200000\n"
                     "0 put id=5 peer=1 bytes=100\n",
                     program, problem))
        << problem;
    for (const bool network : {false, true}) {
        if (network) {
            program.world = {{"machine", "connect-ib"}};
        }
        const Outcome outcome = run(program, open(program, problem));
        EXPECT_TRUE(outcome.problems.empty()) << outcome.problems.front();
        EXPECT_EQ(outcome.messages, 2u);
    }
}

} // namespace
} // namespace adaptib::torture
