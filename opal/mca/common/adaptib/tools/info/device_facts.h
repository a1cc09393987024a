// SPDX-License-Identifier: BSD-3-Clause
// DeviceFacts: the RDMA devices of this host and their ports, with the reason why adaptib would or
// would not use each.
//
// Threads: one at a time.
// May touch: base/, fabric/, libibverbs (not in this header).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/capability.h"
#include "fabric/verbs/verbs_fabric.h"

namespace adaptib {

struct PortFacts {
    std::string name; // "mlx5_0:1"
    bool active = false;
    std::string link_layer;              // "InfiniBand", "Ethernet"
    std::uint64_t rate = 0;              // bytes of data a second; 0: unknown
    std::uint32_t mtu = 0;               // bytes, active
    std::uint32_t lid = 0;               // InfiniBand
    std::uint32_t paths = 1;             // local addresses: 2^LMC on InfiniBand
    std::vector<std::string> gids;       // "3 RoCE v2 ::ffff:10.0.0.1"
    std::vector<std::string> partitions; // "0xffff full", in the order of the table
    bool used = false;
    std::string why_not;            // if not used
    std::vector<std::string> notes; // if used: shortcomings
};

struct DeviceFacts {
    std::string name;
    int numa_node = -1;  // -1: unknown
    std::string problem; // why the device cannot be opened; empty: it can
    std::vector<PortFacts> ports;
};

// What the rail lacks that other devices have, and what that means for a user.
std::vector<std::string> shortcomings(const RailInfo& info);

// Lists all devices, whatever `options` choose. `problem`: why there are none, or why the options
// are wrong; empty otherwise.
std::vector<DeviceFacts> read_devices(const VerbsOptions& options, std::string& problem);

} // namespace adaptib
