// SPDX-License-Identifier: BSD-3-Clause
// Neighbours of a program, and what happens once in a world.
#include "simulator/torture/neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulator/torture/program.h"
#include "simulator/torture/run.h"

namespace adaptib::torture {
namespace {

constexpr const char* kExchange = "ranks 2\n"
                                  "schedule 4\n"
                                  "parameter connect_threshold 1\n"
                                  "world machine connect-ib\n"
                                  "world hosts 2\n"
                                  "world datagram_loss 0\n"
                                  "0 send id=1 peer=1 bytes=100\n"
                                  "1 receive id=2 bytes=100\n"
                                  "1 wait id=2 amount=1000\n"
                                  "1 send id=3 bytes=100\n"
                                  "0 receive id=4 peer=1 bytes=100\n";

Program program_of(const std::string& text) {
    Program program;
    std::string problem;
    EXPECT_TRUE(read(text, program, problem)) << problem;
    return program;
}

Outcome run_it(const Program& program) {
    std::string problem;
    std::unique_ptr<Driver> driver = open(program, problem);
    EXPECT_NE(driver, nullptr) << problem;
    return driver == nullptr ? Outcome{} : run(program, std::move(driver));
}

Outcome with(const std::string& lines) { return run_it(program_of(kExchange + lines)); }

TEST(Happenings, EachIsAFaultOfTheWorldAndOnlyTheOneThatIsNamed) {
    const Outcome plain = with("");
    EXPECT_EQ(plain.problems, std::vector<std::string>{});
    EXPECT_EQ(plain.faults, 0u);
    ASSERT_GT(plain.datagrams, 3u);
    for (const char* line : {"world lost_2 1\n", "world late_2 64000\n", "world twice_2 64000\n",
                             "world outage_0 20000\n", "world silence_1 20000\n"}) {
        const Outcome outcome = with(line);
        EXPECT_EQ(outcome.problems, std::vector<std::string>{}) << line;
        EXPECT_GT(outcome.faults, 0u) << line;
    }
    const Outcome none = with("world lost_" + std::to_string(plain.datagrams + 1000) + " 1\n");
    EXPECT_EQ(none.faults, 0u);
    EXPECT_EQ(none.course, plain.course);
}

TEST(Happenings, ALostDatagramIsSentAgain) {
    const Outcome plain = with("");
    const Outcome lost = with("world lost_1 1\n");
    EXPECT_GT(lost.datagrams, plain.datagrams);
    EXPECT_GT(lost.time, plain.time);
}

TEST(Happenings, APauseHoldsUpWhatItsRankDoes) {
    const Outcome paused = with("world pause_1 1000\nworld pause_lasts 7000000\n");
    EXPECT_EQ(paused.problems, std::vector<std::string>{});
    EXPECT_GE(paused.time, std::chrono::milliseconds{7});
}

// The other rank is told, so that what it wants of the dead ends with an error.
TEST(Happenings, ADeathEndsWhatTheOthersWant) {
    const Outcome plain = with("");
    const Outcome dead = with("world told_death_1 1\n");
    EXPECT_EQ(dead.problems, std::vector<std::string>{});
    EXPECT_LT(dead.messages, plain.messages) << "the dead send none, and theirs are not judged";
}

TEST(Happenings, AFaultHappensOnceToOneRank) {
    const Outcome once = with("fault send_refused_nth 1 1\n");
    EXPECT_EQ(once.problems, std::vector<std::string>{});
    EXPECT_EQ(once.faults, 1u);
}

TEST(Neighbours, DifferInOneThingOrInAPairOfTheKindsThatAreNamed) {
    Program program = program_of(kExchange + std::string("around create_qp_fails lost\n"));
    program = Neighbours::prepared(program);
    const Outcome outcome = run_it(program);
    const Neighbours neighbours(program, outcome);
    const std::string base = print(program);
    std::set<std::string> all;
    std::size_t pairs = 0;
    const auto lines = [](const std::string& text) {
        return std::count(text.begin(), text.end(), '\n');
    };
    for (std::uint64_t i = 0; i < neighbours.count(); ++i) {
        const std::string text = print(neighbours.at(i));
        EXPECT_TRUE(all.insert(text).second) << text;
        const bool kills = text.find("death_") != std::string::npos; // with its own patience
        const auto more = lines(text) - lines(base) - (kills ? 1 : 0);
        ASSERT_GE(more, 1);
        pairs += more == 2 ? 1 : 0;
        if (more == 2) {
            EXPECT_NE(text.find("fault create_qp_fails_nth "), std::string::npos);
            EXPECT_NE(text.find("world lost_"), std::string::npos);
        }
    }
    EXPECT_EQ(pairs, 10 * program.ranks * outcome.datagrams);
    EXPECT_EQ(print(neighbours.pair(7)), print(neighbours.pair(7)));
    EXPECT_NE(print(neighbours.pair(7)), print(neighbours.pair(8)));
}

// Acknowledged datagrams do not overtake each other, and nothing fails there.
TEST(Neighbours, OfReliableDatagramsAreOnlySlower) {
    Program program = program_of(kExchange);
    std::erase_if(program.world, [](const Setting& each) { return each.name == "datagram_loss"; });
    const Neighbours neighbours(Neighbours::prepared(program), run_it(program));
    ASSERT_GT(neighbours.count(), 0u);
    for (std::uint64_t i = 0; i < neighbours.count(); ++i) {
        const std::string text = print(neighbours.at(i));
        for (const char* kind : {"lost_", "late_", "request_fails", "create_qp", "outage_"}) {
            EXPECT_EQ(text.find(kind), std::string::npos) << text;
        }
    }
}

} // namespace
} // namespace adaptib::torture
