// SPDX-License-Identifier: BSD-3-Clause
// Routes of OpenSM: those in simulator/torture/routes, which OpenSM made for the switch of 144
// ports; every complaint; broken files at random.
#include "simulator/network/opensm_routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "simulator/network/topology_file.h"
#include "simulator/torture/stored_routes.h"
#include "unit/sim/spoiled_text.h"

namespace adaptib::sim {
namespace {

// Returns a file of simulator/torture/routes.
std::string stored(const std::string& name) {
    std::string text = stored_routes_file(name);
    EXPECT_NE(text, "") << name;
    return text;
}

// The switch of 144 ports: hosts H000 to H143, twelve on each leaf.
struct Switch144 {
    explicit Switch144(const std::string& routes_name, bool generated = false) {
        std::string error;
        if (generated) {
            topology = fat_tree(12, 12, 12, {}, {});
        } else {
            EXPECT_TRUE(parse_topology(stored("fat_tree_12x12x12.topology"), "topology", {}, 0,
                                       topology, error))
                << error;
        }
        EXPECT_TRUE(parse_opensm_routes(stored(routes_name), routes_name, topology, routes, error))
            << error;
        ports.resize(144, kNoIndex);
        for (PortIndex p = 0; p < topology.ports.size(); ++p) {
            ports.at(std::stoul(topology.nodes[topology.ports[p].adapter].name.substr(1))) = p;
        }
    }
    std::vector<LinkIndex> path(std::uint32_t from, std::uint32_t to, Lid k) const {
        std::vector<LinkIndex> links;
        EXPECT_TRUE(routes.path(topology, ports[from], topology.ports[ports[to]].lid + k, links));
        return links;
    }
    // Returns the flows on the fullest link if each host sends to the one `step` further.
    std::size_t hot_spot(std::uint32_t step) const {
        std::vector<std::size_t> flows(topology.links.size(), 0);
        for (std::uint32_t i = 0; i < 144; ++i) {
            for (const LinkIndex link : path(i, (i + step) % 144, 0)) {
                ++flows[link];
            }
        }
        return *std::max_element(flows.begin(), flows.end());
    }

    Topology topology;
    Routes routes;
    std::vector<PortIndex> ports; // of each host
};

TEST(OpensmRoutes, PathsOfAPairTakeDifferentSpines) {
    for (const std::string order : {"compact", "random"}) {
        for (const std::uint32_t lmc : {0u, 2u, 3u, 4u}) {
            const Switch144 w("fat_tree_12x12x12_lmc" + std::to_string(lmc) + "_" + order +
                              ".lfts");
            ASSERT_EQ(w.topology.lmc, lmc);
            for (std::uint32_t from = 0; from < 144; ++from) {
                for (std::uint32_t to = 0; to < 144; ++to) {
                    std::set<NodeIndex> spines;
                    for (Lid k = 0; k < 1u << lmc; ++k) {
                        const std::vector<LinkIndex> links = w.path(from, to, k);
                        ASSERT_EQ(links.size(), from == to ? 0u : from / 12 == to / 12 ? 2u : 4u);
                        if (links.size() == 4) {
                            spines.insert(w.topology.links[links[1]].to);
                        }
                    }
                    if (from / 12 != to / 12) {
                        ASSERT_EQ(spines.size(), std::min(1u << lmc, 12u)) << from << " to " << to;
                    }
                }
            }
        }
    }
}

// With routing leaf by leaf, hosts in a ring share no link, as with routes from Routes::compute;
// with routing in another order, they do.
TEST(OpensmRoutes, HotSpotsComeWithTheOrder) {
    const Switch144 compact("fat_tree_12x12x12_lmc0_compact.lfts", true);
    const Switch144 random("fat_tree_12x12x12_lmc0_random.lfts", true);
    Switch144 ours = compact;
    std::string error;
    ASSERT_TRUE(Routes::compute(ours.topology, ours.routes, error)) << error;
    std::size_t fullest = 0;
    for (std::uint32_t step = 1; step < 144; ++step) {
        EXPECT_EQ(compact.hot_spot(step), 1u) << step;
        EXPECT_EQ(ours.hot_spot(step), 1u) << step;
        fullest = std::max(fullest, random.hot_spot(step));
    }
    EXPECT_GE(fullest, 4u);
}

// Routes::compute makes the routes that OpenSM's minhop makes by itself: spine for spine.
TEST(OpensmRoutes, ComputedOnesAreTheSame) {
    for (const std::uint32_t lmc : {0u, 2u, 3u, 4u}) {
        const std::string name = "fat_tree_12x12x12_lmc" + std::to_string(lmc) + "_compact.lfts";
        const Switch144 opensm(name, true);
        Switch144 ours = opensm;
        ours.topology.assign_lids(lmc);
        std::string error;
        ASSERT_TRUE(Routes::compute(ours.topology, ours.routes, error)) << error;
        for (std::uint32_t from = 0; from < 144; ++from) {
            for (std::uint32_t to = 0; to < 144; ++to) {
                for (Lid k = 0; k < 1u << lmc; ++k) {
                    ASSERT_EQ(opensm.path(from, to, k), ours.path(from, to, k));
                }
            }
        }
    }
}

// Two switches with two cables between them, two hosts with two ports each (ibsim's
// net.2sw2path4hca2port) at LMC 1.
const char* const kTopology = R"(
Switch	8 "Switch1"
[1]	"Hca1"[1]
[2]	"Hca1"[2]
[3]	"Switch2"[3]
[5]	"Switch2"[5]

switchguid=0x200001
Switch 8 "Switch2"
[1]	"Hca2"[1]
[2]	"Hca2"[2]
[3]	"Switch1"[3]
[5]	"Switch1"[5]

Hca	2 "Hca1"
[1]	"Switch1"[1]
[2]	"Switch1"[2]

Hca	2 "Hca2"
[1]	"Switch2"[1]
[2]	"Switch2"[2]
)";

const char* const kRoutes = R"(# made by hand
Unicast lids [0-11] of switch Lid 4 guid 0x0000000000200000 ('Switch1'):
0x0002 001 # Channel Adapter portguid 0x0000000000100001: 'Hca1'
0x0003 001 # Channel Adapter portguid 0x0000000000100001: 'Hca1'
0x0004 000 # Switch portguid 0x0000000000200000: 'Switch1'
0x0005 003 # Switch portguid 0x0000000000200001: 'Switch2'
0x0006 002 # Channel Adapter portguid 0x0000000000100002: 'Hca1'
0x0007 002 # Channel Adapter portguid 0x0000000000100002: 'Hca1'
0x0008 003 # Channel Adapter portguid 0x0000000000100004: 'Hca2'
0x0009 005 # Channel Adapter portguid 0x0000000000100004: 'Hca2'
0x000a 005 # Channel Adapter portguid 0x0000000000100005: 'Hca2'
0x000b 003 # Channel Adapter portguid 0x0000000000100005: 'Hca2'
10 lids dumped
Unicast lids [0-11] of switch Lid 5 guid 0x0000000000200001 ('of another name'):
0x0002 003
0x0003 005
0x0004 003
0x0005 000
0x0006 005
0x0007 003
0x0008 001 # Channel Adapter portguid 0x0000000000100004: 'Hca2'
0x0009 001 # Channel Adapter portguid 0x0000000000100004: 'Hca2'
0x000a 002 # Channel Adapter portguid 0x0000000000100005: 'Hca2'
0x000b 002 # Channel Adapter portguid 0x0000000000100005: 'Hca2'
10 lids dumped
)";

Topology small() {
    Topology topology;
    std::string error;
    EXPECT_TRUE(parse_topology(kTopology, "net", {}, 0, topology, error)) << error;
    return topology;
}

TEST(OpensmRoutes, SeveralPortsOfAHost) {
    Topology topology = small();
    Routes routes;
    std::string error;
    ASSERT_TRUE(parse_opensm_routes(kRoutes, "lfts", topology, routes, error)) << error;
    EXPECT_EQ(topology.lmc, 1u);
    EXPECT_EQ(topology.nodes[1].lid, 5u);
    ASSERT_EQ(topology.ports.size(), 4u);
    EXPECT_EQ(topology.ports[1].lid, 6u) << "port 2 of Hca1";
    EXPECT_EQ(topology.port_of(9), 2u);
    EXPECT_EQ(topology.port_of(5), kNoIndex);
    std::vector<LinkIndex> links;
    ASSERT_TRUE(routes.path(topology, 1, 9, links));
    ASSERT_EQ(links.size(), 3u);
    EXPECT_EQ(topology.links[links[1]].from_port, 5u);
}

TEST(OpensmRoutes, Complaints) {
    struct {
        const char* what; // text of kRoutes, at its first occurrence
        const char* with;
        const char* error;
    } const cases[] = {
        {"# made by hand", "0x0002 001",
         "lfts:1: outside of a table; \"Unicast lids [...] of switch ...\" is expected"},
        {"[0-11] of", "[0-11 of",
         "lfts:2: not understood; \"Unicast lids [0-N] of switch Lid N guid 0xN ('name'):\" is "
         "expected"},
        {"[0-11]", "[0-60000]",
         "lfts:2: not understood; \"Unicast lids [0-N] of switch Lid N guid 0xN ('name'):\" is "
         "expected"},
        {"'Switch1'", "'Switch3'",
         "lfts:2: the topology has no switch with this GUID or the name 'Switch3'"},
        {"guid 0x0000000000200001 ('of another name')", "guid 0 ('Switch1')",
         "lfts:14: there is a table of switch Switch1 in line 2 already"},
        {"0x0002 001", "x", "lfts:3: a LID and a port are expected"},
        {"0x0002 001", "0x0002 999", "lfts:3: a LID and a port are expected"},
        {"0x0002 001", "0x0000 001", "lfts:3: the LID is not between 1 and 11"},
        {"0x000b 003", "0x000c 003", "lfts:12: the LID is not between 1 and 11"},
        {"0x0002 001", "0x0002 004", "lfts:3: switch Switch1 has no cable at port 4"},
        {"0x0002 001", "0x0002 200", "lfts:3: switch Switch1 has no cable at port 200"},
        {"0x0003 001", "0x0002 001", "lfts:4: the LID is in this table already"},
        {"0x0003 001 # Channel Adapter portguid 0x0000000000100001: 'Hca1'", "0x0003 001 # 'Hca2'",
         "lfts:4: the LID is that of 'Hca2', but the cable leads to Hca1 port 1"},
        {"0x0002 003", "0x0002 001",
         "lfts:15: the LID goes to Hca2 port 1, and to Hca1 port 1 in line 3"},
        {"10 lids dumped\n", "",
         "lfts:13: the table before ends without its last line, \"... lids dumped\""},
        {"0x0006 002", "0x0006 001", "lfts:7: the LIDs of Hca1 port 1 are not in a row"},
        {"0x0008 003", "0x0008 255",
         "lfts:2: the route from switch Switch1 to LID 8 (Hca2 port 1) ends at Switch1, which has "
         "no entry for it"},
        {"0x0002 003\n", "",
         "lfts:14: the route from switch Switch2 to LID 2 (Hca1 port 1) ends at Switch2, which "
         "has no entry for it"},
    };
    for (const auto& one : cases) {
        const std::string text = replaced(kRoutes, one.what, one.with);
        Topology topology = small();
        Routes routes;
        std::string error;
        EXPECT_FALSE(parse_opensm_routes(text, "lfts", topology, routes, error)) << one.error;
        EXPECT_EQ(error, one.error);
        EXPECT_EQ(topology.lmc, 0u) << "nothing has changed";
        EXPECT_TRUE(routes.table(0).empty());
    }
}

std::string error_of(const std::string& text) {
    Topology topology = small();
    Routes routes;
    std::string error;
    EXPECT_FALSE(parse_opensm_routes(text, "lfts", topology, routes, error));
    return error;
}

TEST(OpensmRoutes, ComplaintsAboutTheWhole) {
    const std::string whole = kRoutes;
    EXPECT_EQ(error_of(""), "lfts:1: there is no table of switch Switch1");
    EXPECT_EQ(error_of(whole.substr(0, whole.find("Unicast lids", 50))),
              "lfts:13: there is no table of switch Switch2");
    EXPECT_EQ(error_of(whole.substr(0, whole.size() - 20)),
              "lfts:24: the table ends before its last line, \"... lids dumped\"");
    EXPECT_EQ(
        error_of("Unicast lids [0-11] of switch Lid 4 guid 0x1 ('Switch1'):\n0 lids dumped\n"
                 "Unicast lids [0-11] of switch Lid 5 guid 0x2 ('Switch2'):\n0 lids dumped\n"),
        "lfts:4: Hca1 port 1 has no LID: no table delivers one to it");

    // Port 2 of Hca1 has only one LID, the other ports have two.
    std::string uneven = whole;
    uneven.replace(uneven.find("0x0007 002"), 10, "0x0007 000");
    EXPECT_EQ(error_of(uneven),
              "lfts:7: Hca1 port 2 has 1 LIDs from 6 on, Hca1 port 1 has 2; 2^LMC (0 "
              "to 7) from a multiple of that on are expected");

    // LID 1, of host 0, leads to a spine that sends it back to the leaf of host 2.
    Topology tree = fat_tree(2, 2, 2, {}, {});
    Routes routes;
    std::string error;
    const std::string loop =
        "Unicast lids [0-4] of switch Lid 5 guid 0 ('leaf0'):\n0x1 1\n0x2 2\n0x3 3\n0x4 4\n4 lids "
        "dumped\n"
        "Unicast lids [0-4] of switch Lid 6 guid 0 ('leaf1'):\n0x1 3\n0x2 4\n0x3 1\n0x4 2\n4 lids "
        "dumped\n"
        "Unicast lids [0-4] of switch Lid 7 guid 0 ('spine0'):\n0x1 2\n0x2 1\n0x3 2\n0x4 2\n4 "
        "lids dumped\n"
        "Unicast lids [0-4] of switch Lid 8 guid 0 ('spine1'):\n0x1 1\n0x2 1\n0x3 2\n0x4 2\n4 "
        "lids dumped\n";
    EXPECT_FALSE(parse_opensm_routes(loop, "lfts", tree, routes, error));
    EXPECT_EQ(error, "lfts:7: the route from switch leaf1 to LID 1 (H000 port 1) loops at leaf1");
}

TEST(OpensmRoutes, FromADisk) {
    Topology topology = small();
    Routes routes;
    std::string error;
    EXPECT_FALSE(read_opensm_routes("/nowhere/lfts", topology, routes, error));
    EXPECT_EQ(error, "/nowhere/lfts: No such file or directory");
}

// Any file is read or refused; a file that is read passes the check of all routes.
TEST(OpensmRoutes, BrokenAtRandom) {
    int read = 0;
    int refused = 0;
    const Topology right = small();
    for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
        Random random(seed);
        const std::string text = spoiled(kRoutes, random);
        Topology topology = right;
        Routes routes;
        std::string error;
        if (parse_opensm_routes(text, "lfts", topology, routes, error)) {
            ++read;
            EXPECT_TRUE(routes.check(topology, error)) << error << " seed " << seed;
            std::vector<LinkIndex> links;
            EXPECT_TRUE(routes.path(topology, 0, topology.ports[3].lid, links));
        } else {
            ++refused;
            EXPECT_TRUE(error.starts_with("lfts:")) << error;
        }
    }
    EXPECT_GT(read, 100);
    EXPECT_GT(refused, 500);
}

} // namespace
} // namespace adaptib::sim
