// SPDX-License-Identifier: BSD-3-Clause
// adaptib_top as a user runs it: it reads the counters of this process, which changes them.
#include "tools/top.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/process_name.h"
#include "stats/live_counters.h"
#include "unit/tools/text_file.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kName = (std::uint64_t{1} << 32u) + 7;

ToolResult run(const std::vector<std::string>& arguments) {
    return run_tool("adaptib_top", arguments, run_top);
}

class Top : public testing::Test {
protected:
    void SetUp() override {
        process_counters() = {};
        process_counters().ring_sent = 12;
        ASSERT_TRUE(share_counters(kName));
        process_counters().ring_sent = 12; // shared before: another test has done it
    }
    static ToolResult run_here(std::vector<std::string> arguments) {
        arguments.insert(arguments.end(), {"--pid", std::to_string(getpid())});
        return run(arguments);
    }
};

TEST_F(Top, ShowsTheCountersAsTheyAre) {
    endpoint_counters(3).ring_sent = 30;
    endpoint_counters(3).path_weight_2 = 5;
    process_counters().path_weight_2 = 9;
    const ToolResult result = run_here({"--json"});
    EXPECT_EQ(result.status, 0);
    for (const char* part : {"\"schema\": \"adaptib-top\"", "\"rank\": 7", "\"ring_sent\": 42",
                             "\"path_weight_2\": 9"}) { // a sum, and a largest value
        EXPECT_NE(result.out.find(part), std::string::npos) << part << result.out;
    }
    endpoint_counters(3) = {};
}

TEST_F(Top, ShowsWhatHappensInASecond) {
    std::atomic<bool> stop{false};
    std::thread works([&] {
        while (!stop) {
            std::atomic_ref(process_counters().ring_sent).fetch_add(1000);
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
    });
    const ToolResult lines = run_here({"--interval", "0.1", "--count", "2"});
    const ToolResult changes = run_here({"--interval", "0.1", "--count", "1", "--counters"});
    stop = true;
    works.join();
    EXPECT_EQ(lines.status, 0);
    EXPECT_NE(lines.out.find("rank 7"), std::string::npos) << lines.out;
    std::size_t heads = 0;
    for (std::size_t at = lines.out.find("sent/s"); at != std::string::npos;
         at = lines.out.find("sent/s", at + 1)) {
        ++heads;
    }
    EXPECT_EQ(heads, 2u) << lines.out;
    EXPECT_EQ(lines.out.find("        0          0        0.0        0.0"), std::string::npos)
        << "something is sent: " << lines.out;
    EXPECT_NE(changes.out.find("ring_sent"), std::string::npos) << changes.out;
    EXPECT_EQ(changes.out.find("ring_received"), std::string::npos) << "it has not changed";
}

TEST_F(Top, AForkedChildIsNoProcessOfTheJob) {
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    const ToolResult result = run({"--json", "--pid", std::to_string(child)});
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.complaints.find("no process of yours"), std::string::npos);
}

TEST_F(Top, TellsItsOptions) {
    for (const char* help : {"--help", "-h"}) {
        const ToolResult result = run({"--count", help});
        EXPECT_EQ(result.status, 0);
        EXPECT_EQ(result.out.rfind("usage: adaptib_top", 0), 0u) << result.out;
        EXPECT_TRUE(result.complaints.empty());
    }
}

TEST_F(Top, WrongArgumentsAreRefused) {
    for (const std::vector<std::string>& wrong :
         std::vector<std::vector<std::string>>{{"--what"},
                                               {"--pid"},
                                               {"--pid", "x"},
                                               {"--interval", "0"},
                                               {"--interval", "-1"},
                                               {"--count", "0"},
                                               {"list"}}) {
        const ToolResult result = run(wrong);
        EXPECT_EQ(result.status, 2) << wrong[0];
        EXPECT_NE(result.complaints.find("usage: adaptib_top"), std::string::npos);
    }
}

} // namespace
} // namespace adaptib::test
