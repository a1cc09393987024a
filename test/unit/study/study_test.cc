// SPDX-License-Identifier: BSD-3-Clause
// The frame of studies: how bounds set the exit status, repetitions, and the picture's data.
#include "simulator/studies/study.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace adaptib::study {
namespace {

void parse(Study& study, std::vector<std::string> arguments) {
    std::vector<char*> argv;
    arguments.insert(arguments.begin(), "study");
    for (std::string& argument : arguments) {
        argv.push_back(argument.data());
    }
    study.parse(static_cast<int>(argv.size()), argv.data());
}

TEST(Study, NumbersHaveFourDigits) {
    EXPECT_EQ(number_text(0), "0");
    EXPECT_EQ(number_text(1723.44), "1723");
    EXPECT_EQ(number_text(-6.0271), "-6.027");
    EXPECT_EQ(number_text(0.5), "0.5000");
}

TEST(Study, ChecksBoundsOnlyWhenAsked) {
    for (const bool check : {false, true}) {
        for (const double value : {0.9, 1.0, 2.0, 2.1}) {
            Study study("test", "A test", "none");
            parse(study, check ? std::vector<std::string>{"--check"} : std::vector<std::string>{});
            study.row("inside", "", 1.5, 1.4, Bound{1, 2});
            study.row("this", "", value, {}, Bound{1, 2});
            const bool broken = value < 1 || value > 2;
            EXPECT_EQ(study.finish("key"), check && broken ? 1 : 0) << value;
        }
    }
}

TEST(Study, RefusesBoundsWithOneEnd) {
    constexpr double kEndless = std::numeric_limits<double>::infinity();
    Study study("test", "A test", "none");
    for (const Bound bound : {Bound{1, kEndless}, Bound{-kEndless, 1}, Bound{2, 1}}) {
        EXPECT_EXIT(study.row("this", "", 1, {}, bound), testing::ExitedWithCode(2), "is no range");
    }
    const Bound near = around(-20, 0.05);
    EXPECT_DOUBLE_EQ(near.low, -21);
    EXPECT_DOUBLE_EQ(near.high, -19);
}

TEST(Study, RepeatsWithSeedsOfItsOwn) {
    Study study("test", "A test", "none");
    parse(study, {"--seed", "40", "--quick"});
    EXPECT_TRUE(study.quick());
    std::vector<std::uint64_t> seeds;
    const Spread spread = study.repeat(3, [&](std::uint64_t seed) {
        seeds.push_back(seed);
        return seed == 40 ? 9.0 : static_cast<double>(seed) - 40;
    });
    EXPECT_EQ(seeds, (std::vector<std::uint64_t>{40, 41, 42}));
    EXPECT_EQ(spread.median, 2);
    EXPECT_EQ(spread.low, 1);
    EXPECT_EQ(spread.high, 9);
}

TEST(Study, TakesOptionsOfItsOwnAndRefusesOthers) {
    Study study("test", "A test", "none");
    std::string pattern = "ring";
    std::uint64_t ranks = 8;
    study.option("--pattern", pattern, "which");
    study.option("--ranks", ranks, "how many");
    parse(study, {"--ranks", "24", "--pattern", "alltoall"});
    EXPECT_EQ(pattern, "alltoall");
    EXPECT_EQ(ranks, 24u);
    EXPECT_EXIT(parse(study, {"--ranks", "24x"}), testing::ExitedWithCode(2), "--ranks");
    EXPECT_EXIT(parse(study, {"--ranks"}), testing::ExitedWithCode(2), "--ranks");
    EXPECT_EXIT(parse(study, {"--nothing", "1"}), testing::ExitedWithCode(2), "--nothing");
    EXPECT_EXIT(study.fail("no such thing"), testing::ExitedWithCode(2), "test: no such thing");
}

TEST(Study, WritesThePictureAsJson) {
    const std::string path = testing::TempDir() + "adaptib_study_test." + std::to_string(getpid());
    Study study("test", "A \"test\"", "none");
    parse(study, {"--output", path});
    Panel curves;
    curves.title = "Latency";
    curves.unit = "us";
    curves["one"].points.emplace_back(8, 1.5);
    curves["two"].points.emplace_back(8, 2);
    curves["one"].points.emplace_back(64, 2.5);
    study.panel(curves);
    EXPECT_EQ(study.finish("key"), 0);
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(text, "{\"title\": \"A \\\"test\\\"\",\n \"machine\": \"none\",\n \"panels\": "
                    "[{\"title\": \"Latency\", \"unit\": \"us\", \"log\": true, \"bytes\": true, "
                    "\"labels\": [],\n  \"series\": [{\"name\": \"one\", \"points\": "
                    "[[8, 1.5], [64, 2.5]]}, {\"name\": \"two\", \"points\": [[8, 2]]}]}]}\n");
    std::remove(path.c_str());
    parse(study, {"--output", "/nowhere/at/all.json"});
    EXPECT_EXIT(static_cast<void>(study.finish("key")), testing::ExitedWithCode(2), "cannot write");
}

} // namespace
} // namespace adaptib::study
