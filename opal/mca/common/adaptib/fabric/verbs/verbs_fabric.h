// SPDX-License-Identifier: BSD-3-Clause
// The verbs fabric: rails are the active ports of RDMA devices, over libibverbs.
//
// Purpose: InfiniBand and RoCE, hardware or soft-RoCE. fabric/README.md says what a fabric
// guarantees; rail.h says what this fabric adds to libibverbs. Of the system it needs only locked
// memory.
// This header names nothing of libibverbs, so that code which chooses a fabric may include it in
// any build.
// Ownership: the caller's.
// Threads: one thread at a time uses a fabric and all its objects; the responder has a thread of
// its own.
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

// Memory that a process registers for itself, with some to spare: the first 320 slots of the
// datagram queue, of 4 KiB. With a lower limit it is pointless to begin.
constexpr Bytes kVerbsDatagramMemory = 2 * kMiB;

struct VerbsOptions {
    // Devices or ports, as "mlx5_0,mlx5_1:2"; empty = all; not both lists. Rails come in the order
    // of if_include; without it, devices nearest to the processors of this process come first, then
    // by name.
    std::string if_include;
    std::string if_exclude;
    // Devices or ports whose rails are standbys (RailInfo::standby). A device that is named as a
    // whole comes behind the others.
    std::string if_standby;
    // RoCE; -1 = RoCE v2: an address of this process's host or container before others, IPv4 before
    // global before link-local IPv6.
    int gid_index = -1;
    std::uint16_t partition = 0;    // P_Key, either membership; 0 = as partition.h says
    std::uint8_t service_level = 0; // for paths that name none
    int traffic_class = -1;         // of global headers; -1 = traffic_class_of() says (port.h)
    bool relaxed_ordering = false;  // memory without kOrdered is registered for it
    bool fork_support = true;       // a child process may run while memory is registered
    // Bytes that will be registered at least; an error if they exceed the limit.
    Bytes locked_bytes = 0;
    const verbs::Calls* calls = nullptr;         // null = libibverbs
    const verbs::RdmaCmCalls* rdma_cm = nullptr; // makes connections; null = datagrams do
    const verbs::Mlx5Calls* mlx5 = nullptr;      // null = libmlx5, or none if `calls` is set
    // Distance of a NUMA node (-1: unknown); empty = as hwloc says (locality.h).
    std::function<std::uint64_t(int numa_node)> distance;
};

// ok; bad_argument (contradictory options, an unknown device or port, no such GID or partition),
// no_device, no_permission, locked_memory, no_memory. error_text explains an error to a person.
Status open_verbs_fabric(const VerbsOptions& options, std::unique_ptr<Fabric>& out,
                         std::string& error_text);

// librdmacm, for VerbsOptions::rdma_cm. Null: this build has none.
const verbs::RdmaCmCalls* rdma_cm_library();

// libmlx5, as the driver of devices that libibverbs has listed. Null: there is no such device, or
// this build has no mlx5dv.
const verbs::Mlx5Calls* mlx5_library();

// Text for a person: `needed` bytes of locked memory exceed the limit, and where to raise it.
std::string verbs_memlock_text(Bytes needed);

} // namespace adaptib
