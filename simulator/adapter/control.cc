// SPDX-License-Identifier: BSD-3-Clause
// Command: faults and events from outside while programs run. README.md, "Faults".
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "shared.h"
#include "topology.h"

namespace adaptib::hca {
namespace {

struct EventName {
    const char* name;
    ibv_event_type type;
};
constexpr EventName kEventNames[] = {
    {"lid", IBV_EVENT_LID_CHANGE},
    {"gid", IBV_EVENT_GID_CHANGE},
    {"pkey", IBV_EVENT_PKEY_CHANGE},
    {"sm", IBV_EVENT_SM_CHANGE},
    {"reregister", IBV_EVENT_CLIENT_REREGISTER},
    {"fatal", IBV_EVENT_DEVICE_FATAL},
};

int usage() {
    std::fprintf(stderr,
                 "usage: adaptib_hca_control HOST/DEVICE:PORT "
                 "down|up|silent|loss MILLIONTHS|delay MICROSECONDS [PATH]|lid LID|event NAME|"
                 "mac|silent_arp|lose_arp COUNT|lose_flows MILLIONTHS|remove|return\n"
                 "       adaptib_hca_control rules\n"
                 "       adaptib_hca_control link NAME down|up\n"
                 "       adaptib_hca_control links\n");
    return 2;
}

// Number in an argument, or a default where there is none.
std::uint32_t number(const char* argument, std::uint32_t none = 0) {
    return argument == nullptr ? none
                               : static_cast<std::uint32_t>(std::strtoul(argument, nullptr, 10));
}

// Delays the packets to one of the port's LIDs, or to all.
int set_delay(PortState& state, const char* microseconds, const char* path) {
    const std::uint32_t first = number(path);
    if (first >= kPortPaths) {
        return usage();
    }
    const std::uint32_t end = path == nullptr ? kPortPaths : first + 1;
    for (std::uint32_t each = first; each < end; ++each) {
        state.delay[each] = number(microseconds);
    }
    return 0;
}

// Gives a port another lowest LID, as a subnet manager does, and reports it.
int set_lid(Shared& shared, const Topology& topology, const PortDescription& port,
            std::uint32_t lid) {
    const std::uint32_t count = 1U << port.lmc;
    if (port.ethernet || lid == 0 || lid % count != 0 || lid + count > 0xc000) {
        std::fprintf(stderr, "a LID is a multiple of 2^lmc below 0xc000, of an InfiniBand port\n");
        return 1;
    }
    const auto lid_of = [&shared](const PortDescription& each) { return shared.lid(each); };
    for (std::uint32_t each = lid; each < lid + count; ++each) {
        const auto* const owner = topology.by_lid(static_cast<std::uint16_t>(each), lid_of);
        if (owner != nullptr && owner != &port) {
            std::fprintf(stderr, "another port has LID %u\n", static_cast<unsigned>(each));
            return 1;
        }
    }
    shared.state().ports[port.number].lid = static_cast<std::uint16_t>(lid);
    shared.raise(port.number, IBV_EVENT_LID_CHANGE);
    return 0;
}

// Takes a device from its host, or gives it back.
int set_presence(Shared& shared, const Topology& topology, const PortDescription& port,
                 bool present) {
    const PortDescription& first = topology.devices[port.device].ports.front();
    std::atomic<std::uint32_t>& removals = shared.state().ports[first.number].removals;
    if ((removals.load() % 2 == 0) == present) {
        std::fprintf(stderr, "the device is %s already\n", present ? "there" : "away");
        return 1;
    }
    ++removals;
    if (!present) {
        shared.raise(first.number, IBV_EVENT_DEVICE_FATAL);
    }
    return 0;
}

int act(Shared& shared, const Topology& topology, unsigned port, const std::string& what,
        const char* argument, const char* second) {
    PortState& state = shared.state().ports[port];
    if (what == "down" || what == "up") {
        state.down = what == "down" ? 1 : 0;
        state.silent = state.silent_arp = 0;
        shared.raise(port, what == "down" ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
        return 0;
    }
    if (what == "silent") {
        state.silent = 1;
        return 0;
    }
    if (what == "mac") {
        ++state.mac;
        return 0;
    }
    if (what == "remove" || what == "return") {
        return set_presence(shared, topology, *topology.ports[port], what == "return");
    }
    if (what == "silent_arp") {
        state.silent_arp = 1;
        return 0;
    }
    if (argument == nullptr) {
        return usage();
    }
    if (what == "lose_arp") {
        state.arp_lost = number(argument);
        return 0;
    }
    if (what == "lose_flows") {
        state.lost_flows = number(argument);
        return 0;
    }
    if (what == "loss") {
        state.loss = number(argument);
        return 0;
    }
    if (what == "delay") {
        return set_delay(state, argument, second);
    }
    if (what == "lid") {
        return set_lid(shared, topology, *topology.ports[port], number(argument));
    }
    for (const EventName& event : kEventNames) {
        if (what == "event" && std::strcmp(argument, event.name) == 0) {
            shared.raise(port, event.type);
            return 0;
        }
    }
    return usage();
}

// Name, packets and bytes of each link, and whether it is up.
int print_links(Shared& shared, const Topology& topology) {
    for (std::size_t link = 0; link < topology.links.size(); ++link) {
        const LinkState& state = shared.state().links[link];
        std::printf("%s %llu %llu %s\n", topology.links[link].name.c_str(),
                    static_cast<unsigned long long>(state.packets.load()),
                    static_cast<unsigned long long>(state.bytes.load()),
                    state.down.load() != 0 ? "down" : "up");
    }
    return 0;
}

int set_link(Shared& shared, const Topology& topology, const char* name, const std::string& what) {
    const int link = topology.link(name);
    if (link < 0) {
        std::fprintf(stderr, "there is no link %s\n", name);
        return 1;
    }
    if (what != "down" && what != "up") {
        return usage();
    }
    shared.state().links[static_cast<std::size_t>(link)].down = what == "down" ? 1 : 0;
    return 0;
}

int control(int argc, char** argv) {
    const char* const path = std::getenv("ADAPTIB_HCA_TOPOLOGY");
    const std::string first = argc < 2 ? "" : argv[1];
    if (first == "rules") {
        std::fputs(rules_page().c_str(), stdout);
        return 0;
    }
    if (path == nullptr || argc < (first == "links" ? 2 : first == "link" ? 4 : 3)) {
        return usage();
    }
    const Topology topology = parse_topology(path);
    Shared shared(shared_path(path));
    if (first == "links") {
        return print_links(shared, topology);
    }
    if (first == "link") {
        return set_link(shared, topology, argv[2], argv[3]);
    }
    const int port = topology.port(first);
    if (port < 0) {
        std::fprintf(stderr, "%s: no port %s\n", path, argv[1]);
        return 1;
    }
    return act(shared, topology, static_cast<unsigned>(port), argv[2], argc > 3 ? argv[3] : nullptr,
               argc > 4 ? argv[4] : nullptr);
}

} // namespace
} // namespace adaptib::hca

int main(int argc, char** argv) {
    try {
        return adaptib::hca::control(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "adaptib_hca_control: %s\n", error.what());
        return 1;
    }
}
