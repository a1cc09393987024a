// SPDX-License-Identifier: BSD-3-Clause
// adaptib_info as a user runs it, on a host with the devices of the stand-in.
#include "tools/info.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tools/info/reach.h"
#include "unit/tools/text_file.h"
#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

constexpr int kDone = 0;
constexpr int kWrong = 1;
constexpr int kWrongArguments = 2;

class Info : public VerbsTest {
protected:
    int run(const std::vector<std::string>& arguments) {
        InfoSettings settings;
        settings.options = options_;
        settings.options_problem = options_problem_;
        const ToolResult result =
            run_tool("adaptib_info", arguments,
                     [&](int argc, const char* const* argv, auto* out, auto* err) {
                         return run_info(argc, argv, settings, out, err);
                     });
        out_ = result.out;
        complaints_ = result.complaints;
        return result.status;
    }
    bool says(const std::string& text) const { return out_.find(text) != std::string::npos; }
    bool complains(const std::string& text) const {
        return complaints_.find(text) != std::string::npos;
    }
    // Checks this host against a description in a file.
    int check_with(const std::string& description) {
        const std::string path = testing::TempDir() + "adaptib_info_description";
        std::ofstream(path) << description;
        const int status = run({"--check-with", path});
        std::remove(path.c_str());
        return status;
    }

    std::string options_problem_;
    std::string out_;
    std::string complaints_;
};

TEST_F(Info, SaysOfEachPortWhetherItIsUsedAndWhy) {
    lib_.devices = {ib_device("mlx5_0", 3, 2), roce_device("rxe0")};
    lib_.devices[0].ports[1].attributes.state = IBV_PORT_DOWN;
    options_.if_exclude = "mlx5_0:3";
    EXPECT_EQ(run({}), kDone) << out_ << complaints_;
    EXPECT_TRUE(says("port mlx5_0:1: InfiniBand, active")) << out_;
    EXPECT_TRUE(says("LID 16 with 4 paths")) << out_;
    EXPECT_TRUE(says("not used: it is down")) << out_;
    EXPECT_TRUE(says("not used: if_include or if_exclude leaves it out")) << out_;
    EXPECT_TRUE(says("port rxe0:1: Ethernet, active")) << out_;
    EXPECT_TRUE(says("3 RoCE v2 ::ffff:10.0.0.1")) << out_;
    EXPECT_TRUE(says("partitions: 0xffff full")) << out_;
    EXPECT_TRUE(says("RDMA ports: 2 are used")) << out_;
}

TEST_F(Info, SaysWhatAPortLacksAndWhatThatMeans) {
    lib_.devices = {roce_device("rxe0"), ib_device("hfi1_0", 1, 0)};
    lib_.devices[0].limits.atomic_cap = IBV_ATOMIC_NONE;
    lib_.devices[0].ports[0].attributes.active_mtu = IBV_MTU_1024;
    lib_.devices[1].no_inline = true;
    lib_.devices[1].limits.max_srq = 0;
    EXPECT_EQ(run({}), kDone) << out_;
    EXPECT_TRUE(says("note: no atomics: the target's process executes them")) << out_;
    EXPECT_TRUE(says("note: MTU 1024: ")) << out_;
    EXPECT_TRUE(says("note: no inline data: ")) << out_;
    EXPECT_TRUE(says("note: no shared receive queues, ")) << out_;
    EXPECT_EQ(run({"--json"}), kDone);
    EXPECT_TRUE(says("no inline data: ")) << out_;
}

TEST_F(Info, APortThatGivesNoQueuePairIsNotUsed) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].rc = lib_.devices[0].ud = false;
    EXPECT_EQ(run({}), kWrong) << out_;
    EXPECT_TRUE(says("cannot create a queue pair")) << out_;
}

TEST_F(Info, APortWithoutDatagramsIsNotUsed) {
    lib_.devices = {roce_device("hns_0")};
    lib_.devices[0].ud = false;
    EXPECT_EQ(run({}), kWrong) << out_;
    EXPECT_TRUE(says("has no datagrams (UD)")) << out_;
}

TEST_F(Info, JsonHasTheSame) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].ports[0].pkeys = {0x7fff};
    EXPECT_EQ(run({"--json"}), kDone) << complaints_;
    EXPECT_TRUE(says("\"schema\": \"adaptib-info\"")) << out_;
    EXPECT_TRUE(says("\"name\": \"rxe0:1\"")) << out_;
    EXPECT_TRUE(says("\"0x7fff limited\"")) << out_;
    EXPECT_TRUE(says("\"used\": true")) << out_;
}

TEST_F(Info, AHostWithoutDevicesIsNoProblemOfItsOwn) {
    EXPECT_EQ(run({}), kDone) << out_;
    EXPECT_TRUE(says("this machine has no RDMA device")) << out_;
}

TEST_F(Info, TellsItsOptions) {
    EXPECT_EQ(run({"--help"}), kDone);
    EXPECT_EQ(out_.rfind("usage: adaptib_info", 0), 0u) << out_;
    EXPECT_TRUE(complaints_.empty());
}

TEST_F(Info, PortsThatAreAllUnusableAreAProblem) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].ports[0].gids.clear();
    EXPECT_EQ(run({}), kWrong) << out_;
    EXPECT_TRUE(says("not used: it has no usable GID")) << out_;
}

TEST_F(Info, DescribesItselfAndReachesItself) {
    lib_.devices = {ib_device("mlx5_0", 1, 1), roce_device("rxe0")};
    ASSERT_EQ(run({"--describe"}), kDone) << complaints_;
    ASSERT_EQ(check_with("Welcome!\n" + out_), kDone) << out_ << complaints_;
    EXPECT_TRUE(says("mlx5_0:1: 2 paths")) << out_;
    EXPECT_TRUE(says("rxe0:1: 16 paths")) << out_;
    EXPECT_TRUE(says("one end is InfiniBand, the other Ethernet") || says("another kind")) << out_;
    EXPECT_TRUE(says("can be reached")) << out_;
}

TEST_F(Info, SaysWhyNoRailReachesTheOtherHost) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].ports[0].pkeys = {0x8001};
    ASSERT_EQ(run({"--describe"}), kDone) << complaints_;
    const std::string other = out_;
    lib_.devices[0].ports[0].pkeys = {0x8002};
    EXPECT_EQ(check_with(other), kWrong);
    EXPECT_TRUE(says("partition")) << out_;
    EXPECT_TRUE(says("PROBLEM  no rail of this host reaches")) << out_;
}

TEST_F(Info, RefusesBadDescriptions) {
    lib_.devices = {roce_device("rxe0")};
    EXPECT_EQ(check_with(""), kWrong);
    EXPECT_TRUE(complains("there is no line")) << complaints_;
    EXPECT_EQ(check_with("adaptib-info 1\nhost a\nwire 1\n"), kWrong);
    EXPECT_TRUE(complains("not complete")) << complaints_;
    EXPECT_EQ(check_with("adaptib-info 1\nhost a\nrail x 0g\nend\n"), kWrong);
    EXPECT_TRUE(complains("malformed: rail x 0g")) << complaints_;
    EXPECT_EQ(check_with("adaptib-info 1\nend\n"), kWrong);
    EXPECT_TRUE(complains("names no host")) << complaints_;
    EXPECT_EQ(check_with("adaptib-info 1\nhost a\nwire 1\nend\n"), kWrong);
    EXPECT_TRUE(says("install the same adaptib on both")) << out_;
}

TEST_F(Info, TheShellFetchesTheDescription) {
    lib_.devices = {roce_device("rxe0")};
    EXPECT_EQ(run({"--check", "nowhere", "--shell", "false"}), kWrong);
    EXPECT_TRUE(complains("\"false 'nowhere' adaptib_info --describe\" failed")) << complaints_;
    EXPECT_EQ(run({"--check", "it's; exit 1", "--shell", "printf '%s\\n'"}), kWrong);
    EXPECT_TRUE(complains("there is no line")) << "the name was quoted: " << complaints_;
}

TEST_F(Info, RefusesWrongArguments) {
    for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--what"},
                                                  {"--check"},
                                                  {"--json", "--describe"},
                                                  {"--shell", "ssh"},
                                                  {"host"}}) {
        EXPECT_EQ(run(wrong), kWrongArguments);
        EXPECT_TRUE(complains("usage: adaptib_info")) << complaints_;
    }
    options_problem_ = "X is \"y\", which is no number";
    EXPECT_EQ(run({}), kWrongArguments);
    EXPECT_TRUE(complains("no number"));
}

} // namespace
} // namespace adaptib::test
