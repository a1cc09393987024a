// SPDX-License-Identifier: BSD-3-Clause
// Topology files of the virtual adapter: what they say, every complaint, broken files at random.
#include "simulator/adapter/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "unit/adapter/text_topology.h"
#include "unit/sim/spoiled_text.h"

namespace adaptib::hca {
namespace {

const char* const kHosts = R"(# two hosts of InfiniBand
host a
    device v0 max_inline=64 max_srq=0 in_order=0 scrambled_writes=1
        port lid=4 lmc=2 pkeys=0x8001,0xffff
        port lid=8 mtu=2048 active_mtu=1024 rate=200
host b # with a remark
    device v0
        port lid=12

host e
    device r0
        port link=ethernet gid=10.0.0.1 gid=fd00::7
)";

Topology parsed(const std::string& text) { return parse_topology(TextTopology(text).path()); }

// Complaint about a text, without the file's path; empty: it is a topology.
std::string complaint(const std::string& text) {
    const TextTopology file(text);
    try {
        parse_topology(file.path());
    } catch (const TopologyError& error) {
        const std::string what = error.what();
        EXPECT_EQ(what.find(file.path()), 0u) << what;
        return what.substr(std::min(file.path().size(), what.size()));
    }
    return "";
}

TEST(AdapterTopology, HostsAndDevices) {
    const Topology topology = parsed(kHosts);
    EXPECT_EQ(topology.hosts, (std::vector<std::string>{"a", "b", "e"}));
    ASSERT_EQ(topology.devices.size(), 3u);
    EXPECT_EQ(topology.device("b", "v0"), 1);
    EXPECT_EQ(topology.device("b", "r0"), -1);
    EXPECT_EQ(topology.device("nobody", "v0"), -1);
    EXPECT_EQ(topology.host("e"), 2);
    EXPECT_NE(topology.devices[0].guid, topology.devices[1].guid);
}

TEST(AdapterTopology, SettingsOfADevice) {
    const Topology topology = parsed(kHosts);
    const DeviceDescription& set = topology.devices[0];
    EXPECT_EQ(set.rule(Rule::max_inline), 64);
    EXPECT_EQ(set.rule(Rule::max_srq), 0);
    EXPECT_FALSE(set.data_in_order);
    EXPECT_EQ(set.scrambled_writes, 1u);
    const DeviceDescription& usual = topology.devices[1];
    EXPECT_EQ(usual.rule(Rule::max_inline), 256);
    EXPECT_TRUE(usual.data_in_order);
    EXPECT_EQ(usual.scrambled_writes, 0u);
}

TEST(AdapterTopology, SettingsOfAPort) {
    const Topology topology = parsed(kHosts);
    ASSERT_EQ(topology.ports.size(), 4u);
    const PortDescription& first = *topology.ports[0];
    EXPECT_EQ(first.lid, 4u);
    EXPECT_EQ(first.lmc, 2u);
    EXPECT_EQ(first.pkeys, (std::vector<std::uint16_t>{0x8001, 0xffff})) << "in their order";
    EXPECT_EQ(first.active_mtu, 4096u);
    const PortDescription& second = *topology.ports[1];
    EXPECT_EQ(second.index, 2u);
    EXPECT_EQ(second.max_mtu, 2048u);
    EXPECT_EQ(second.active_mtu, 1024u);
    EXPECT_EQ(second.gigabits, 200u);
    EXPECT_EQ(second.pkeys, (std::vector<std::uint16_t>{0xffff}));
    const PortDescription& ethernet = *topology.ports[3];
    EXPECT_TRUE(ethernet.ethernet);
    ASSERT_EQ(ethernet.gids.size(), 3u) << "the link-local one, too";
    EXPECT_EQ(ethernet.gids[0][0], 0xfe);
    EXPECT_EQ(ethernet.gids[1][15], 1);
    EXPECT_EQ(ethernet.gids[2][15], 7);
}

TEST(AdapterTopology, VlansOfGids) {
    const Topology topology = parsed("host a\n device r0\n port link=ethernet "
                                     "gid=10.0.1.1%5 gid=10.0.0.1\n");
    const PortDescription& port = *topology.ports[0];
    EXPECT_EQ(port.vlans, (std::vector<std::uint16_t>{0, 5, 0})) << "the link-local one first";
    EXPECT_EQ(port.gid_index(port.gids[2]), 2);
    EXPECT_EQ(port.gid_index(Gid{}), -1);
}

TEST(AdapterTopology, OrderOfMtuAndActiveMtuIsFree) {
    const Topology topology =
        parsed(sim::replaced(kHosts, "mtu=2048 active_mtu=1024", "active_mtu=1024 mtu=2048"));
    EXPECT_EQ(topology.ports[1]->max_mtu, 2048u);
    EXPECT_EQ(topology.ports[1]->active_mtu, 1024u);
}

TEST(AdapterTopology, Addresses) {
    const Topology topology = parsed(kHosts);
    for (std::uint16_t lid = 4; lid < 8; ++lid) {
        EXPECT_EQ(topology.by_lid(lid), topology.ports[0]) << "path " << lid;
    }
    EXPECT_EQ(topology.by_lid(8), topology.ports[1]);
    EXPECT_EQ(topology.by_lid(9), nullptr);
    EXPECT_EQ(topology.by_lid(0), nullptr) << "not an Ethernet port's";
    const auto moved = [](const PortDescription& port) {
        return static_cast<std::uint16_t>(port.lid + 100);
    };
    EXPECT_EQ(topology.by_lid(108, moved), topology.ports[1]);
    EXPECT_EQ(topology.by_lid(8, moved), nullptr);
    EXPECT_EQ(topology.by_gid(topology.ports[3]->gids[1]), topology.ports[3]);
    EXPECT_EQ(topology.by_gid(Gid{}), nullptr);
}

TEST(AdapterTopology, Complaints) {
    const char* const order =
        "host NAME, device NAME or port is expected, in this order, or link NAME, or route "
        "PORT LID";
    struct {
        const char* what; // text of kHosts, at its first occurrence
        const char* with;
        std::string complaint;
    } const cases[] = {
        {"host a\n", "", std::string(":2: ") + order},
        {"host a", "host", std::string(":2: ") + order},
        {"host a", "hosts a", std::string(":2: ") + order},
        {"host a", "host a b", ":2: b is no key=value"},
        {"host a", "host a lid=4", ":2: no setting of a host: lid"},
        {"host b", "host a", ":6: host a is described twice"},
        {"device v0\n", "\n", std::string(":8: ") + order},
        {"        port lid=8", "    device v0\n port lid=8",
         ":5: device v0 of host a is described twice"},
        {"        port lid=12\n", "", ":7: device v0 has no port"},
        {"max_inline=64", "max_inline", ":3: max_inline is no key=value"},
        {"max_inline=64", "max_inlin=64", ":3: no setting of a device: max_inlin"},
        {"max_inline=64", "max_inline=", ":3: \"\" is no number from 0 to 16777216"},
        {"max_inline=64", "max_inline=6x", ":3: \"6x\" is no number from 0 to 16777216"},
        {"max_inline=64", "max_inline=-1", ":3: \"-1\" is no number from 0 to 16777216"},
        {"max_inline=64", "max_inline=99999999999999999999",
         ":3: \"99999999999999999999\" is no number from 0 to 16777216"},
        {"max_inline=64", "max_sge=0", ":3: \"0\" is no number from 1 to 16777216"},
        {"max_inline=64", "max_qp=0", ":3: \"0\" is no number from 1 to 16777216"},
        {"in_order=0", "in_order=2", ":3: \"2\" is no number from 0 to 1"},
        {"lid=4", "lid=0xc000", ":4: \"0xc000\" is no number from 0 to 49151"},
        {"lid=4", "lid=6", ":4: an InfiniBand port needs lid=, a multiple of 2^lmc"},
        {"lid=4", "sl=4", ":4: an InfiniBand port needs lid=, a multiple of 2^lmc"},
        {"lid=8", "lid=7", ":5: LID 7 is given twice"},
        {"lid=12", "lid=4 lmc=2", ":8: LID 4 is given twice"},
        {"lmc=2", "lmc=8", ":4: \"8\" is no number from 0 to 7"},
        {"lmc=2", "sl=16", ":4: \"16\" is no number from 0 to 15"},
        {"mtu=2048", "mtu=1000", ":5: 1000 is no MTU: 256, 512, 1024, 2048 or 4096"},
        {"mtu=2048", "mtu=8192", ":5: \"8192\" is no number from 0 to 4096"},
        {"mtu=2048", "mtu=512", ":5: active_mtu is above mtu"},
        {"rate=200", "rate=0", ":5: \"0\" is no number from 1 to 1000"},
        {"0x8001,0xffff", "0x8001,", ":4: \"\" is no number from 0 to 65535"},
        {"0x8001,0xffff", "0x18001", ":4: \"0x18001\" is no number from 0 to 65535"},
        {"link=ethernet", "link=token", ":12: no setting of a port: link=token"},
        {"link=ethernet", "link=ethernet lid=16", ":12: an Ethernet port has no lid= and no lmc="},
        {"gid=10.0.0.1", "gid=10.0.0", ":12: 10.0.0 is no GID"},
        {"gid=fd00::7", "gid=10.0.0.1", ":12: a GID is given twice"},
    };
    for (const auto& one : cases) {
        EXPECT_EQ(complaint(sim::replaced(kHosts, one.what, one.with)), one.complaint);
    }
}

TEST(AdapterTopology, ComplaintsAboutTheWhole) {
    EXPECT_EQ(complaint(""), ": no host is described");
    EXPECT_EQ(complaint("# nothing\n\n"), ": no host is described");
    EXPECT_EQ(complaint("host a\n"), "") << "a host may have no device";
    EXPECT_THROW(parse_topology("/nowhere/hosts"), TopologyError);
    EXPECT_THROW(parse_topology("/"), TopologyError) << "a folder";
    const std::string name(64, 'v');
    EXPECT_EQ(complaint("host a\ndevice " + name + "\nport lid=4\n"),
              ":2: a device's name has at most 63 characters");
}

// More would lie behind the end of the shared state.
TEST(AdapterTopology, NumberOfPorts) {
    std::string text = "host a\n";
    for (unsigned port = 0; port < kPorts; ++port) {
        text += (port % 2 == 0 ? "device v" + std::to_string(port) + "\n" : "") +
                "port lid=" + std::to_string(port + 1) + "\n";
    }
    EXPECT_EQ(parsed(text).ports.size(), kPorts);
    EXPECT_EQ(complaint(text + "port lid=4000\n"),
              ":770: at most 512 ports are possible, and 254 of a device");
    std::string one_device = "host a\ndevice v0\n";
    for (unsigned port = 1; port <= 255; ++port) {
        one_device += "port lid=" + std::to_string(port) + "\n";
    }
    EXPECT_EQ(complaint(one_device), ":257: at most 512 ports are possible, and 254 of a device");
}

// A broken file yields a topology, or a complaint with a reason.
TEST(AdapterTopology, BrokenAtRandom) {
    Random random(38);
    unsigned refused = 0;
    for (int round = 0; round < 3000; ++round) {
        const std::string text = sim::spoiled(kHosts, random);
        const TextTopology file(text);
        try {
            const Topology topology = parse_topology(file.path());
            for (const PortDescription* port : topology.ports) {
                EXPECT_FALSE(port->pkeys.empty()) << text;
                EXPECT_LE(port->active_mtu, port->max_mtu) << text;
                EXPECT_LT(port->device, topology.devices.size()) << text;
                EXPECT_TRUE(port->ethernet || topology.by_lid(port->lid) == port) << text;
            }
        } catch (const TopologyError& error) {
            ++refused;
            EXPECT_GT(std::string(error.what()).size(), file.path().size() + 2) << text;
        }
    }
    EXPECT_GT(refused, 300u);
    EXPECT_LT(refused, 2990u);
}

const char* const kRoutes = R"(link up rate=100
link down
route a/v0:1 13 over=up,down
route b/v0:1 4
)";
const char* const kRoutedHosts = R"(host a
    device v0
        port lid=4
host b
    device v0
        port lid=12 lmc=1
)";

TEST(AdapterTopology, RoutesPassLinks) {
    const Topology topology = parsed(std::string(kRoutes) + kRoutedHosts);
    ASSERT_EQ(topology.links.size(), 2u);
    EXPECT_EQ(topology.links[0].rate, 100u);
    EXPECT_EQ(topology.links[1].rate, 0u);
    EXPECT_EQ(topology.link("down"), 1);
    EXPECT_EQ(topology.link("none"), -1);
    EXPECT_EQ(topology.port("b/v0:1"), 1);
    EXPECT_EQ(topology.port("b/v0:2"), -1);
    EXPECT_EQ(topology.port("b"), -1);
    ASSERT_EQ(topology.routes.size(), 2u);
    EXPECT_EQ(topology.routes.at({0, 1, 1}), (std::vector<unsigned>{0, 1}));
    EXPECT_TRUE(topology.routes.at({1, 0, 0}).empty());
}

TEST(AdapterTopology, ComplaintsAboutRoutes) {
    const std::string hosts = kRoutedHosts;
    EXPECT_EQ(complaint(hosts + "link x\nlink x\n"), ":8: link x is described twice");
    EXPECT_EQ(complaint(hosts + "link x rate=0\n"), ":7: \"0\" is no number from 1 to 1048576");
    EXPECT_EQ(complaint(hosts + "link x speed=1\n"), ":7: no setting of a link: speed");
    EXPECT_EQ(complaint(hosts + "route a/v0:1\n"),
              ":7: route HOST/DEVICE:PORT LID over=LINK,LINK... is expected");
    EXPECT_EQ(complaint(hosts + "route a/v0:1 14 over=x\n"), ":7: LID 14 is nobody's");
    EXPECT_EQ(complaint(hosts + "route a/v1:1 4\n"), ":7: there is no port a/v1:1");
    EXPECT_EQ(complaint(hosts + "route a/v0:1 12 over=x\n"), ":7: there is no link x");
    EXPECT_EQ(complaint(hosts + "route a/v0:1 12 via=x\n"), ":7: no setting of a route: via");
    EXPECT_EQ(complaint(hosts + "route a/v0:1 12\nroute a/v0:1 12\n"),
              ":8: the route is given twice");
}

} // namespace
} // namespace adaptib::hca
