// SPDX-License-Identifier: BSD-3-Clause
// The verbs fabric: rails are the active ports of RDMA devices, over libibverbs.
//
// Purpose: InfiniBand and RoCE, hardware or soft-RoCE. See fabric/README.md for what it keeps, rail.h
// for what is thin about it. Of the system it needs no more than locked memory.
// This header names nothing of libibverbs, so who chooses a fabric may include it in any build.
// Ownership: the caller's.
// Threads: a fabric and all its objects by one thread at a time.
// May touch: base/, fabric/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/units.h"
#include "fabric/fabric.h"

namespace adaptib {

namespace verbs {
struct Calls;
struct Mlx5Calls;
struct RdmaCmCalls;
} // namespace verbs

struct VerbsOptions {
    // Devices or ports, as "mlx5_0,mlx5_1:2"; empty = all; not both. Rails come in the order of
    // if_include, without it the nearest to the processors of this process first, and then by name.
    std::string if_include;
    std::string if_exclude;
    int gid_index = -1;             // RoCE; -1 = RoCE v2, IPv4 before global before link-local IPv6
    std::uint16_t partition = 0;    // P_Key, either membership; 0 = the first of the port's table
    std::uint8_t service_level = 0; // for paths that name none
    std::uint8_t traffic_class = 0; // RoCE
    bool fork_support = true;       // a child process may run while memory is registered
    Bytes locked_bytes = 0; // what will be registered at least; more than the limit is an error
    const verbs::Calls* calls = nullptr;         // null = libibverbs
    const verbs::RdmaCmCalls* rdma_cm = nullptr; // connections are made by it; null = not
    const verbs::Mlx5Calls* mlx5 = nullptr;      // null = libmlx5, none beside other `calls`
    // How far a NUMA node (-1: unknown) is; empty = what hwloc says (near.h).
    std::function<std::uint64_t(int numa_node)> distance;
};

// ok; bad_argument (contradictory, an unknown device or port, no such GID or partition), no_device,
// no_permission, locked_memory, no_memory: error_text says for a person why.
Status open_verbs_fabric(const VerbsOptions& options, std::unique_ptr<Fabric>& out,
                         std::string& error_text);

// librdmacm, for VerbsOptions::rdma_cm. Null: it was not there when this was built.
const verbs::RdmaCmCalls* rdma_cm_library();

// libmlx5, as the driver of devices that libibverbs has listed. Null: there is no such device, or mlx5dv was not there
// when this was built.
const verbs::Mlx5Calls* mlx5_library();

// Says that `needed` bytes of locked memory are more than is allowed, and where to allow more.
std::string verbs_memlock_text(Bytes needed);

} // namespace adaptib
