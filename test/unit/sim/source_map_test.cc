// SPDX-License-Identifier: BSD-3-Clause
// A core's map of sources: how much each sent in which part of a run.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

RanksOptions three_ranks() {
    RanksOptions options;
    options.ranks = 3;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(3, {}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    return options;
}

void send(Ranks& ranks, std::size_t from, std::size_t to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        carry(ranks, from, to, 8);
    }
}

// Lets time pass, and wakes the ranks, since sleeping ranks do not notice time.
void pass(Ranks& ranks, Nanoseconds time) {
    Nanoseconds until{0};
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        until = std::max(until, ranks.now(rank) + time);
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        ranks.wake(rank, until);
    }
    ASSERT_TRUE(ranks.run_until([&] { return ranks.now(0) >= until; }, 2 * time));
}

struct Line {
    std::uint64_t unit = 0;
    std::uint64_t source = 0;
    std::uint64_t messages = 0;
};

std::vector<Line> lines_of(const std::string& map, std::uint64_t receiver) {
    std::istringstream text(map);
    std::string word;
    for (int i = 0; i < 5; ++i) {
        std::getline(text, word);
        EXPECT_EQ(word.front(), '#');
        EXPECT_TRUE(i != 1 || word == "# receiver " + std::to_string(receiver)) << word;
    }
    std::vector<Line> lines;
    for (Line line; text >> line.unit >> line.source >> line.messages;) {
        lines.push_back(line);
    }
    EXPECT_TRUE(text.eof());
    return lines;
}

std::uint64_t messages_of(const std::vector<Line>& lines, std::uint64_t source) {
    std::uint64_t sum = 0;
    for (const Line& line : lines) {
        sum += line.source == source ? line.messages : 0;
    }
    return sum;
}

// A rank that sleeps, as here, updates its map when it is asked.
TEST(SourceMapOfACore, SaysWhoSentHowMuchWhen) {
    RanksOptions options = three_ranks();
    options.maps_sources = true;
    const auto ranks = make(std::move(options));
    send(*ranks, 1, 0, 50);
    EXPECT_EQ(messages_of(lines_of(ranks->core(0).source_map(), 0), 1), 50u);
    pass(*ranks, 20ms);
    send(*ranks, 2, 0, 300); // more than connect_threshold: two channels carry them
    send(*ranks, 0, 1, 4);
    pass(*ranks, 20ms);
    EXPECT_EQ(messages_of(lines_of(ranks->core(0).source_map(), 0), 2), 300u);
    pass(*ranks, 20ms);
    send(*ranks, 1, 0, 100);
    const std::vector<Line> lines = lines_of(ranks->core(0).source_map(), 0);
    ASSERT_GE(lines.size(), 3u);
    EXPECT_EQ(messages_of(lines, 1), 150u);
    EXPECT_EQ(messages_of(lines, 2), 300u);
    EXPECT_EQ(lines.front().source, 1u);
    EXPECT_EQ(lines.front().unit, 0u);
    EXPECT_EQ(lines.front().messages, 50u);
    EXPECT_EQ(lines.back().source, 1u);
    EXPECT_GE(lines.back().unit, 60u);
    for (const Line& line : lines) {
        EXPECT_TRUE(line.source != 2 || (line.unit >= 20 && line.unit < 50)) << line.unit;
    }
    EXPECT_EQ(messages_of(lines_of(ranks->core(1).source_map(), 1), 0), 4u);
    EXPECT_TRUE(lines_of(ranks->core(2).source_map(), 2).empty());
    nothing_bad(*ranks);
}

TEST(SourceMapOfACore, IsThereOnRequestOnly) {
    const auto ranks = make(three_ranks());
    send(*ranks, 1, 0, 5);
    EXPECT_EQ(ranks->core(0).source_map(), "");
}

} // namespace
} // namespace adaptib::sim
