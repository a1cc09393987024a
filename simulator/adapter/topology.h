// SPDX-License-Identifier: BSD-3-Clause
// Description of the virtual hosts, their devices and ports, read from a topology file.
//
// Purpose: says what README.md's "Topology file" describes. Every process reads the same file, so
// the number of a port (its place in the file) names it between processes.
// Errors: TopologyError with file, line and reason. What no single line shows (an address given
// twice, a device without a port) names the line of the second port, or of the device.
// Threads: constant after parse_topology().
// May touch: driver_rules.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver_rules.h"

namespace adaptib::hca {

inline constexpr unsigned kPorts = 512; // of all hosts
inline constexpr unsigned kLinks = 512;

using Gid = std::array<std::uint8_t, 16>;

struct TopologyError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct PortDescription {
    unsigned number = 1;    // place in the file, from 0, over all hosts
    unsigned device = 0;    // place of its device in the file
    unsigned line = 0;      // of the file
    std::uint8_t index = 1; // as programs name it, from 1
    bool ethernet = false;
    std::uint16_t lid = 0; // lowest of 2^lmc
    std::uint8_t lmc = 0;
    std::uint8_t sl = 0;
    unsigned max_mtu = 4096; // bytes
    unsigned active_mtu = 0; // bytes; the file's default is max_mtu
    unsigned gigabits = 100;
    std::uint64_t guid = 0;
    std::vector<std::uint16_t> pkeys;
    std::vector<Gid> gids;
    std::vector<std::uint16_t> vlans; // of the gids; 0: none
    std::vector<bool> first_version;  // of the gids: RoCE v1
    unsigned gid_entries = 0;         // of the table; behind the gids they are empty

    // Number of a GID in the port's table; -1 if it has none.
    int gid_index(const Gid& gid) const;
};

struct DeviceDescription {
    std::string name;
    unsigned host = 0;
    unsigned line = 0; // of the file
    std::uint64_t guid = 0;
    RuleValues rules = rules_of(Driver::none);
    bool dc = false;            // libmlx5 says that it drives the device
    unsigned dc_initiators = 0; // that a DC target serves at a time; 0: any number
    bool split_atomics = false; // atomics are not atomic with the processor
    bool reusable = true;       // an errored queue pair can be reset
    bool data_in_order = true;  // answer of ibv_query_qp_data_in_order
    // Writes that are placed after the one behind them: 1: those of one packet; 2: all; 0: none.
    unsigned scrambled_order = 0;
    bool relaxed_order = false;    // writes to regions that allow it are placed in any order
    unsigned scrambled_writes = 0; // number of the packet of a write that is placed last; 0: none
    std::vector<PortDescription> ports;

    std::int64_t rule(Rule which) const { return rules[static_cast<std::size_t>(which)]; }
    // A limit of a structure of libibverbs.
    int limit(Rule which) const { return static_cast<int>(std::min(rule(which), kAny)); }
};

struct LinkDescription {
    std::string name;
    unsigned rate = 0; // megabytes a second; 0: as fast as the processors
    bool cut = false;  // packets onto it vanish
};

struct Topology {
    std::vector<std::string> hosts;
    std::vector<DeviceDescription> devices;
    std::vector<const PortDescription*> ports; // by number
    std::vector<LinkDescription> links;
    // Links from a port to the LIDs of another one, both by number, and the LID by its place among
    // that port's. Where there is none, packets pass no link.
    std::map<std::array<unsigned, 3>, std::vector<unsigned>> routes;

    // Numbers of a name; -1 if there is none.
    int host(const std::string& name) const;
    int device(const std::string& host_name, const std::string& device_name) const;
    int port(const std::string& name) const; // HOST/DEVICE:PORT
    int link(const std::string& name) const;
    // Port that a destination LID or GID leads to from a port; null where there is no way: the
    // address is nobody's, or a port of another link layer. lid_of(port): the port's lowest LID,
    // the file's or a later one.
    template <typename LidOf>
    const PortDescription* by_lid(std::uint16_t lid, const LidOf& lid_of) const {
        for (const PortDescription* port : ports) {
            const unsigned first = lid_of(*port);
            if (!port->ethernet && lid >= first && lid < first + (1U << port->lmc)) {
                return port;
            }
        }
        return nullptr;
    }
    const PortDescription* by_lid(std::uint16_t lid) const {
        return by_lid(lid, [](const PortDescription& port) { return port.lid; });
    }
    const PortDescription* by_gid(const Gid& gid) const;
};

Topology parse_topology(const std::string& path);

} // namespace adaptib::hca
