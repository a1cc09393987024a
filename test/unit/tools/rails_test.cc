// SPDX-License-Identifier: BSD-3-Clause
// adaptib_rails as a user runs it: its refusals, its output and its exit status, for the rails of
// fabrics in this process, which see what it changes.
#include "tools/rails.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "fabric/shm/shm_fabric.h"
#include "unit/tools/text_file.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kJob = 0x7e57;
constexpr int kDone = 0;
constexpr int kNothingFound = 1;
constexpr int kWrongArguments = 2;

ToolResult run(const std::vector<std::string>& arguments) {
    return run_tool("adaptib_rails", arguments, run_rails);
}

// Runs the tool for this process alone.
ToolResult run_here(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--pid", std::to_string(getpid())});
    return run(arguments);
}

// A process of a job, with rails over shared memory.
struct Process {
    explicit Process(std::uint32_t rails, std::uint64_t job = kJob) {
        ShmOptions options;
        options.rails = rails;
        options.job_key = job;
        options.clock = &clock;
        options.descriptor_server = false;
        std::string text;
        EXPECT_TRUE(open_shm_fabric(options, fabric, text).ok()) << text;
    }
    // The fabric looks at its rails when it is asked for events.
    std::vector<PortState> states() {
        Event event;
        while (fabric->poll_event(event)) {
        }
        std::vector<PortState> all;
        for (const auto& rail : fabric->rails()) {
            all.push_back(rail->state());
        }
        return all;
    }

    MonotonicClock clock;
    std::unique_ptr<Fabric> fabric;
};

// The line that `list` prints of a rail.
std::string line(std::uint32_t rail, const std::string& state, std::uint64_t job = kJob) {
    char text[128];
    std::snprintf(text, sizeof text, "pid %d  job %llx  shm%u  %s\n", static_cast<int>(getpid()),
                  static_cast<unsigned long long>(job), rail, state.c_str());
    return text;
}

constexpr PortState kActive = PortState::active;
constexpr PortState kDown = PortState::down;
using States = std::vector<PortState>;

TEST(RailsTool, TellsItsOptions) {
    const ToolResult result = run({"--help"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.out.rfind("usage: adaptib_rails", 0), 0u) << result.out;
    EXPECT_TRUE(result.complaints.empty());
}

TEST(RailsTool, WrongArgumentsAreRefusedWithTheReasonAndTheUsage) {
    struct Case {
        std::vector<std::string> arguments;
        std::string reason;
    };
    const Case cases[] = {
        {{}, "what?"},
        {{"--pid", "7"}, "what?"},
        {{"up-and-down"}, "'up-and-down' is not a command"},
        {{""}, "'' is not a command"},
        {{"list", "shm0"}, "'list' takes no argument(s)"},
        {{"down"}, "'down' takes one argument(s)"},
        {{"up", "shm0", "shm1"}, "'up' takes one argument(s)"},
        {{"slow", "shm0"}, "'slow' takes two argument(s)"},
        {{"slow", "shm0", "1MB", "2MB"}, "'slow' takes two argument(s)"},
        {{"down", "shm"}, "'shm' is not a rail"},
        {{"down", "0"}, "'0' is not a rail"},
        {{"down", "shm16"}, "'shm16' is not a rail"},
        {{"down", "shm-1"}, "'shm-1' is not a rail"},
        {{"down", "shm1x"}, "'shm1x' is not a rail"},
        {{"down", "shm99999999999999999999"}, "'shm99999999999999999999' is not a rail"},
        {{"slow", "shm0", "fast"}, "'fast' is not a rate"},
        {{"slow", "shm0", ""}, "'' is not a rate"},
        {{"slow", "shm0", "0"}, "'0' is not a rate"},
        {{"slow", "shm0", "0.9"}, "'0.9' is not a rate"},
        {{"slow", "shm0", "-5MB"}, "'-5MB' is not a rate"},
        {{"slow", "shm0", "5mb"}, "'5mb' is not a rate"},
        {{"slow", "shm0", "5 MB"}, "'5 MB' is not a rate"},
        {{"slow", "shm0", "nan"}, "'nan' is not a rate"},
        {{"slow", "shm0", "inf"}, "'inf' is not a rate"},
        {{"slow", "shm0", "281475GB"}, "'281475GB' is not a rate"}, // more than 48 bits
        {{"list", "--pid"}, "--pid needs a number"},
        {{"list", "--pid", "ab"}, "--pid needs a number"},
        {{"list", "--pid", "12x"}, "--pid needs a number"},
        {{"list", "--pid", "-1"}, "--pid needs a number"},
        {{"list", "--pid", ""}, "--pid needs a number"},
        {{"list", "--pid", "99999999999999999999"}, "--pid needs a number"},
        {{"list", "--pid", std::to_string((std::uint64_t{1} << 32) + 1)}, "--pid needs a number"},
        {{"list", "--job"}, "--job needs a number"},
        {{"list", "--job", "xyz"}, "--job needs a number"},
    };
    for (const Case& each : cases) {
        const ToolResult result = run(each.arguments);
        EXPECT_EQ(result.status, kWrongArguments) << each.reason;
        EXPECT_EQ(result.out, "");
        EXPECT_EQ(
            result.complaints.find("adaptib_rails: " + each.reason + "\nusage: adaptib_rails list"),
            0u)
            << each.reason << " became:\n"
            << result.complaints;
    }
}

TEST(RailsTool, WithoutAProcessItSaysSo) {
    for (const std::string verb : {"list", "down", "up"}) {
        std::vector<std::string> arguments{verb};
        if (verb != "list") {
            arguments.emplace_back("all");
        }
        const ToolResult result = run_here(arguments);
        EXPECT_EQ(result.status, kNothingFound);
        EXPECT_EQ(result.out, "");
        EXPECT_EQ(result.complaints,
                  "adaptib_rails: no process with adaptib's shared-memory rails was found\n");
    }
}

TEST(RailsTool, ListShowsEachRailOnALine) {
    const Process process(3);
    const ToolResult result = run_here({"list"});
    EXPECT_EQ(result.status, kDone);
    EXPECT_EQ(result.out, line(0, "active") + line(1, "active") + line(2, "active"));
    EXPECT_EQ(result.complaints, "");
    const ToolResult all = run({"list"});
    EXPECT_EQ(all.status, kDone);
    EXPECT_NE(all.out.find(line(2, "active")), std::string::npos) << "without --pid, every process";
}

TEST(RailsTool, OptionsMayStandAnywhere) {
    const Process process(1);
    const std::string pid = std::to_string(getpid());
    EXPECT_EQ(run({"--pid", pid, "list", "--job", "7e57"}).out, line(0, "active"));
    EXPECT_EQ(run({"--job", "0x7E57", "--pid", pid, "list"}).out, line(0, "active"));
}

TEST(RailsTool, DownAndUpChangeTheRailThatTheyName) {
    Process process(3);
    ASSERT_EQ(process.states(), (States{kActive, kActive, kActive}));
    const ToolResult down = run_here({"down", "shm1"});
    EXPECT_EQ(down.status, kDone);
    EXPECT_EQ(down.out + down.complaints, "");
    EXPECT_EQ(process.states(), (States{kActive, kDown, kActive}));
    EXPECT_EQ(run_here({"list"}).out, line(0, "active") + line(1, "down") + line(2, "active"));
    EXPECT_EQ(run_here({"down", "shm1"}).status, kDone) << "it is down already";
    EXPECT_EQ(run_here({"up", "shm0"}).status, kDone) << "it has been up";
    EXPECT_EQ(process.states(), (States{kActive, kDown, kActive}));
    EXPECT_EQ(run_here({"up", "shm1"}).status, kDone);
    EXPECT_EQ(process.states(), (States{kActive, kActive, kActive}));
}

TEST(RailsTool, AllChangesEachRail) {
    Process process(3);
    EXPECT_EQ(run_here({"down", "all"}).status, kDone);
    EXPECT_EQ(process.states(), (States{kDown, kDown, kDown}));
    EXPECT_EQ(run_here({"up", "all"}).status, kDone);
    EXPECT_EQ(process.states(), (States{kActive, kActive, kActive}));
}

TEST(RailsTool, SlowTakesARateWithItsUnit) {
    Process process(2);
    const std::pair<std::string, std::string> rates[] = {
        {"2000000", "2.000"},   {"2500000B", "2.500"},
        {"3kB", "0.003"},       {"3KB", "0.003"},
        {"1.5MB", "1.500"},     {"2e1MB", "20.000"},
        {"0.25GB", "250.000"},  {"281474GB", "281474000.000"},
        {"1999999.9", "2.000"}, // whole bytes
    };
    for (const auto& [rate, shown] : rates) {
        EXPECT_EQ(run_here({"slow", "shm1", rate}).status, kDone) << rate;
        EXPECT_EQ(run_here({"list"}).out,
                  line(0, "active") + line(1, "active  slowed to " + shown + " MB/s"))
            << rate;
    }
    EXPECT_EQ(process.states(), (States{kActive, kActive}));
    EXPECT_EQ(run_here({"up", "shm1"}).status, kDone);
    EXPECT_EQ(run_here({"list"}).out, line(0, "active") + line(1, "active"));
}

TEST(RailsTool, SlowBringsARailBackAndDownKeepsItsRate) {
    Process process(1);
    EXPECT_EQ(run_here({"down", "shm0"}).status, kDone);
    EXPECT_EQ(run_here({"slow", "shm0", "5MB"}).status, kDone);
    EXPECT_EQ(process.states(), States{kActive});
    EXPECT_EQ(run_here({"down", "shm0"}).status, kDone);
    EXPECT_EQ(process.states(), States{kDown});
    EXPECT_EQ(run_here({"list"}).out, line(0, "down  slowed to 5.000 MB/s"));
}

TEST(RailsTool, ARailThatNoProcessHasIsNotFound) {
    Process process(2);
    const ToolResult result = run_here({"down", "shm2"});
    EXPECT_EQ(result.status, kNothingFound);
    EXPECT_EQ(result.complaints,
              "adaptib_rails: no process has that rail; see adaptib_rails list\n");
    EXPECT_EQ(process.states(), (States{kActive, kActive}));
}

TEST(RailsTool, TheJobChoosesAmongProcesses) {
    Process one(1);
    Process other(2, 0xabc);
    const ToolResult list = run_here({"list", "--job", "abc"});
    EXPECT_EQ(list.status, kDone);
    EXPECT_EQ(list.out, line(0, "active", 0xabc) + line(1, "active", 0xabc));
    EXPECT_EQ(run_here({"down", "all", "--job", "abc"}).status, kDone);
    EXPECT_EQ(one.states(), States{kActive});
    EXPECT_EQ(other.states(), (States{kDown, kDown}));
    EXPECT_EQ(run_here({"down", "shm0", "--job", "abcd"}).status, kNothingFound);
    EXPECT_EQ(run_here({"down", "shm1"}).status, kDone) << "one of the two has it";
}

// Root may look into the files of all users.
TEST(RailsTool, AStrangersRailsAreLeftAloneUnlessItIsNamed) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root sees strangers' files";
    }
    int ready[2];
    int hold[2];
    ASSERT_EQ(pipe(ready), 0);
    ASSERT_EQ(pipe(hold), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(hold[1]);
        const bool changed = setgid(65534) == 0 && setuid(65534) == 0;
        const Process process(1, 0x57a);
        char byte = changed ? 1 : 0;
        static_cast<void>(!write(ready[1], &byte, 1));
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    close(hold[0]);
    char changed = 0;
    EXPECT_EQ(read(ready[0], &changed, 1), 1);
    EXPECT_EQ(changed, 1);
    EXPECT_EQ(run({"down", "all", "--job", "57a"}).status, kNothingFound);
    EXPECT_EQ(run({"down", "all", "--job", "57a", "--pid", std::to_string(child)}).status, kDone);
    close(hold[1]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    close(ready[0]);
    close(ready[1]);
}

// A child holds its parent's segment, too, but the rails are the parent's.
TEST(RailsTool, AForkedChildHasNoRailsOfItsOwn) {
    Process process(1);
    int hold[2];
    ASSERT_EQ(pipe(hold), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(hold[1]);
        char none = 0;
        _exit(read(hold[0], &none, 1) == 0 ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    close(hold[0]);
    const ToolResult result = run({"down", "all", "--pid", std::to_string(child)});
    EXPECT_EQ(result.status, kNothingFound);
    EXPECT_EQ(process.states(), States{kActive});
    close(hold[1]);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(RailsTool, AProcessThatEndedIsNotFound) {
    { const Process process(1); }
    EXPECT_EQ(run_here({"list"}).status, kNothingFound);
}

} // namespace
} // namespace adaptib::test
