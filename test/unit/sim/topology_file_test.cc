// SPDX-License-Identifier: BSD-3-Clause
// Topology files: ibsim's input, ibnetdiscover's output; every complaint; broken files at random.
#include "simulator/network/topology_file.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>

#include "base/random.h"
#include "simulator/network/routes.h"
#include "simulator/network/text_file.h"
#include "unit/sim/spoiled_text.h"

namespace adaptib::sim {
namespace {

constexpr LinkModel kModel{.host_rate = {7}, .switch_rate = {9}, .cable = Nanoseconds{3}};

// Two switches, two cables between them; Hca1's second port has none.
const char* const kIbsim = R"(# an example
Switch	8 "Switch1"
[1]	"Hca1"[1]
[3]	"Switch2"[3]
[5]	"Switch2"[5]

Switch 8 "Switch2"
[1]	"Hca2"[1]
[2]	"Hca2"[2]
[3]	"Switch1"[3]
[5]	"Switch1"[5]

Hca	2 "Hca1"
[1]	"Switch1"[1]

Hca	2 "Hca2"
[1]	"Switch2"[1]
[2]	"Switch2"[2]
)";

const char* const kIbnetdiscover = R"(#
# Initiated from node 0000000000100000 port 0000000000100001

vendid=0x0
devid=0x0
sysimgguid=0x200001
switchguid=0x200001(200001)
Switch	36 "S-0000000000200001"		# "leaf one" base port 0 lid 9 lmc 0
[1]	"H-0000000000100003"[1](100004) 		# "node3 HCA-1" lid 16 4xQDR
[2]	"H-0000000000100013"[1](100014) 		# "node3 HCA-2" lid 20 4xFDR10
[7]	"H-0000000000100023"[1](100024) 		# "other" lid 24 1xSDR

vendid=0x0
caguid=0x100003
Ca	2 "H-0000000000100003"		# "node3 HCA-1"
[1](100004) 	"S-0000000000200001"[1]		# lid 16 lmc 2 "leaf one" lid 9 4xQDR

Ca	1 "H-0000000000100013"		# "node3 HCA-2"
[1](100014) 	"S-0000000000200001"[2]		# lid 20 lmc 2 "leaf one" lid 9 4xFDR10

caguid=0x100023
Ca	1 "H-0000000000100023"		# "other"
[1](100024) 	"S-0000000000200001"[7]		# lid 24 lmc 2 "leaf one" lid 9 1xSDR
)";

TEST(TopologyFile, Ibsim) {
    Topology topology;
    std::string error;
    ASSERT_TRUE(parse_topology(kIbsim, "net", kModel, 2, topology, error)) << error;
    ASSERT_EQ(topology.nodes.size(), 4u);
    EXPECT_EQ(topology.links.size(), 2u * 5);
    EXPECT_EQ(topology.nodes[1].name, "Switch2");
    EXPECT_EQ(topology.nodes[1].latency, kModel.switch_latency);
    ASSERT_EQ(topology.hosts.size(), 2u);
    EXPECT_EQ(topology.hosts[1].name, "Hca2");
    ASSERT_EQ(topology.ports.size(), 3u) << "the port without a cable is none";
    EXPECT_EQ(topology.ports[2].number, 2u);
    EXPECT_EQ(topology.ports[2].lid, 12u);
    const Link& host = topology.links[topology.ports[2].link];
    EXPECT_EQ(host.to, 1u);
    EXPECT_EQ(host.to_port, 2u);
    EXPECT_EQ(host.rate, kModel.host_rate);
    EXPECT_EQ(host.latency, kModel.cable);
    EXPECT_EQ(topology.links[topology.nodes[0].out[2]].rate, kModel.switch_rate);

    Routes routes;
    ASSERT_TRUE(Routes::compute(topology, routes, error)) << error;
    std::vector<LinkIndex> first;
    std::vector<LinkIndex> second;
    EXPECT_TRUE(routes.path(topology, 0, topology.ports[1].lid, first));
    EXPECT_TRUE(routes.path(topology, 0, topology.ports[1].lid + 1, second));
    EXPECT_NE(first, second) << "the two cables";
}

TEST(TopologyFile, Ibnetdiscover) {
    Topology topology;
    std::string error;
    ASSERT_TRUE(parse_topology(kIbnetdiscover, "net", kModel, 0, topology, error)) << error;
    ASSERT_EQ(topology.nodes.size(), 4u);
    EXPECT_EQ(topology.nodes[0].name, "leaf one");
    EXPECT_EQ(topology.nodes[0].guid, 0x200001u);
    EXPECT_EQ(topology.nodes[2].guid, 0x100013u) << "of its id";
    ASSERT_EQ(topology.hosts.size(), 2u) << "two adapters of node3";
    EXPECT_EQ(topology.hosts[0].name, "node3");
    EXPECT_EQ(topology.hosts[0].adapters, (std::vector<NodeIndex>{1, 2}));
    EXPECT_EQ(topology.nodes[2].host, 0u);
    EXPECT_EQ(topology.hosts[1].name, "other");
    EXPECT_EQ(topology.links[topology.ports[0].link].rate, BytesPerSecond{4'000'000'000});
    EXPECT_EQ(topology.links[topology.ports[1].link].rate, BytesPerSecond{5'000'000'000});
    EXPECT_EQ(topology.links[topology.ports[2].link].rate, BytesPerSecond{250'000'000});
}

TEST(TopologyFile, Complaints) {
    struct {
        const char* what; // text of kIbsim, at its first occurrence
        const char* with;
        const char* error;
    } const cases[] = {
        {"Switch\t8", "Router 8",
         "net:2: neither a switch or adapter nor a port: \"Router 8 \"Switch1\"\""},
        {"Switch\t8", "Switch\t0",
         "net:2: a number of ports (1 to 254) and a name in quotes are expected"},
        {"Switch\t8", "Switch\t255",
         "net:2: a number of ports (1 to 254) and a name in quotes are expected"},
        {"8 \"Switch1\"", "8 \"Switch1",
         "net:2: a number of ports (1 to 254) and a name in quotes are expected"},
        {"8 \"Switch1\"", "8 \"Switch1\" x", "net:2: not understood: \"x\""},
        {"Switch 8 \"Switch2\"", "Switch 8 \"Switch1\"", "net:7: \"Switch1\" is in line 2 already"},
        {"# an example", "[1]\t\"Hca1\"[1]", "net:1: a port before the first switch or adapter"},
        {"# an example", "caguid=", "net:1: a GUID is expected behind caguid="},
        {"[1]\t\"Hca1\"[1]", "[1]\t\"Hca1\"[",
         "net:3: a port is expected as [port] \"node\"[port]"},
        {"[1]\t\"Hca1\"[1]", "[1\t\"Hca1\"[1]",
         "net:3: a port is expected as [port] \"node\"[port]"},
        {"[1]\t\"Hca1\"[1]", "[1]\t\"Hca1\"[999999999999999999999]",
         "net:3: a port is expected as [port] \"node\"[port]"},
        {"[1]\t\"Hca1\"[1]", "[1]\t\"Hca1\"[1] w=4", "net:3: not understood: \"w=4\""},
        {"[1]\t\"Hca1\"[1]", "[9]\t\"Hca1\"[1]", "net:3: there is no port 9 of 8"},
        {"[1]\t\"Hca1\"[1]", "[0]\t\"Hca1\"[1]", "net:3: there is no port 0 of 8"},
        {"[5]\t\"Switch2\"", "[3]\t\"Switch2\"", "net:5: port 3 is in line 4 already"},
        {"[1]\t\"Hca1\"", "[1]\t\"Hca3\"", "net:3: there is no node \"Hca3\""},
        {"[1]\t\"Hca1\"[1]", "[1]\t\"Hca1\"[3]", "net:3: there is no port 3 of \"Hca1\""},
        {"[1]\t\"Hca1\"[1]", "[1]\t\"Hca1\"[2]",
         "net:3: the cable has one end: port 2 of \"Hca1\" is not in the file"},
        {"[1]\t\"Hca1\"[1]\n", "",
         "net:13: the cable has one end: port 1 of \"Switch1\" is not in the file"},
        {"[3]\t\"Switch2\"[3]", "[3]\t\"Switch2\"[5]",
         "net:4: the cable leads to port 5 of \"Switch2\", which is plugged elsewhere in line 11"},
        {"[5]\t\"Switch2\"[5]", "[5]\t\"Switch1\"[5]", "net:5: the port is plugged into itself"},
    };
    for (const auto& one : cases) {
        Topology topology;
        topology.lmc = 5;
        std::string error;
        EXPECT_FALSE(
            parse_topology(replaced(kIbsim, one.what, one.with), "net", kModel, 0, topology, error))
            << one.error;
        EXPECT_EQ(error, one.error);
        EXPECT_EQ(topology.lmc, 5u) << "nothing has changed";
    }
}

std::string error_of(const std::string& text) {
    Topology topology;
    std::string error;
    EXPECT_FALSE(parse_topology(text, "net", kModel, 0, topology, error));
    return error;
}

TEST(TopologyFile, ComplaintsAboutTheWhole) {
    EXPECT_EQ(error_of(""), "net:1: there is no switch and no adapter in it");
    EXPECT_EQ(error_of("# nothing\n\n"), "net:2: there is no switch and no adapter in it");
    EXPECT_EQ(error_of(replaced(kIbnetdiscover, "4xQDR", "4xDDR")),
              "net:9: the cable has another speed in line 16");
    EXPECT_EQ(error_of(replaced(kIbnetdiscover, "caguid=0x100023", "caguid=0x100003")),
              "net:22: \"H-0000000000100023\" has the GUID of the node in line 15");
    std::string large;
    for (std::uint32_t i = 0; i < kTopologyFilePorts / 254 + 1; ++i) {
        large += "Switch 254 \"" + std::to_string(i) + "\"\n";
    }
    EXPECT_EQ(error_of(large), "net:8257: more than 131072 nodes or 2097152 ports");
}

TEST(TopologyFile, FromADisk) {
    Topology topology;
    std::string error;
    EXPECT_FALSE(read_topology("/nowhere/net", kModel, 0, topology, error));
    EXPECT_EQ(error, "/nowhere/net: No such file or directory");
    EXPECT_FALSE(read_topology("/", kModel, 0, topology, error));
    EXPECT_EQ(error, "/: Is a directory");
    const std::string path = ::testing::TempDir() + "adaptib_net." + std::to_string(::getpid());
    std::FILE* file = std::fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs(kIbsim, file);
    std::fclose(file);
    EXPECT_TRUE(read_topology(path, kModel, 0, topology, error)) << error;
    std::string text;
    EXPECT_FALSE(read_text_file(path, 100, text, error));
    EXPECT_EQ(error, path + ": longer than 100 bytes");
    std::remove(path.c_str());
    EXPECT_EQ(topology.nodes.size(), 4u);
}

// Any file is read or refused; a topology that is read can be routed.
TEST(TopologyFile, BrokenAtRandom) {
    int read = 0;
    int refused = 0;
    for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
        Random random(seed);
        const std::string right = random.below(2) == 0 ? kIbsim : kIbnetdiscover;
        const std::string text = spoiled(right, random);
        Topology topology;
        Routes routes;
        std::string error;
        if (parse_topology(text, "net", kModel, 3, topology, error)) {
            ++read;
            EXPECT_TRUE(Routes::compute(topology, routes, error)) << error << " seed " << seed;
        } else {
            ++refused;
            EXPECT_TRUE(error.starts_with("net:")) << error;
        }
    }
    EXPECT_GT(read, 100);
    EXPECT_GT(refused, 1000);
}

} // namespace
} // namespace adaptib::sim
