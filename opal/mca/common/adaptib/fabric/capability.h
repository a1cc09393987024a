// SPDX-License-Identifier: BSD-3-Clause
// Capabilities and properties of a rail.
//
// Purpose: what the core asks of a rail (RailInfo::has) where devices differ.
// Threads: value types.
// May touch: base/.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace adaptib {

enum class Capability : std::uint32_t {
    rc = 1u << 0,  // reliable connected queue pairs
    ud = 1u << 1,  // datagrams
    dc = 1u << 2,  // dynamically connected initiators and targets (not without srq)
    srq = 1u << 3, // shared receive queues
    rdma_read = 1u << 4,
    rdma_write = 1u << 5,
    write_imm = 1u << 6,   // write with immediate
    atomic64 = 1u << 7,    // 64-bit compare-and-swap and fetch-and-add
    migration = 1u << 8,   // automatic path migration
    reliable_ud = 1u << 9, // datagrams of one sender are not lost, duplicated or reordered
    direct = 1u << 10,     // peers can map memory of Rail::allocate (QueuePair::map)
    // One region can cover all memory that the process has or will have (register_memory of
    // kWholeMemory at null, without kRemoteAtomic). Nothing is pinned; an access to an unmapped
    // address ends as remote_access_error.
    whole_memory = 1u << 11,
    // Connected queue pairs come up by QueuePair::cm_connect(); modify() only connects one with
    // itself.
    cm_connects = 1u << 12,
    sees_regions = 1u << 13, // the initiator can look up the target's regions (QueuePair::find_key)
};

constexpr Bytes kWholeMemory = Bytes{1} << 62;

enum class LinkLayer : std::uint8_t { infiniband, ethernet, memory, simulated };
enum class PortState : std::uint8_t { down, active };

struct RailInfo {
    std::string name; // "mlx5_0:1", "shm0"; unique within the fabric
    LinkLayer link_layer = LinkLayer::memory;
    std::uint32_t capabilities = 0;
    BytesPerSecond rate{}; // nominal, one direction; 0 = unknown
    int numa_node = -1;    // -1 = unknown
    // Distance from the process in hwloc's units (10: its own NUMA node); 10 also if unknown.
    std::uint32_t distance = 10;
    std::uint32_t paths = 1;     // 2^LMC on InfiniBand; flow labels on RoCE
    std::string adapter;         // device that the rail is a port of; empty: the rail is no port
    std::uint8_t port = 0;       // port number on that device, from 1
    Bytes datagram_bytes = 0;    // payload of one datagram
    Bytes max_message_bytes = 0; // of one RC work request
    Bytes inline_bytes = 0;
    std::uint32_t max_gather = 1;     // scatter/gather entries of one work request
    std::uint32_t max_send_depth = 0; // work requests outstanding on one queue pair
    std::uint32_t max_cq_depth = 0;
    std::uint32_t max_queue_pairs = 0; // per process; 0 = unknown
    std::uint32_t max_reads = 0;       // outstanding RDMA reads and atomics of one queue pair
    bool synchronous_rma = false;      // false: QueuePair::rma_now never executes anything
    // fork gives the child copies of registered pages. False: the child has none of these pages, or
    // the parent may lose those that its adapter knows.
    bool copies_at_fork = true;
    // The packets of one write become visible in the order of their addresses. False: only the
    // bytes of one packet (Rail::datagram_bytes_to) do, so a process that polls for the end of a
    // longer write may see it before the rest.
    bool places_in_order = true;
    bool target_places_in_order = true; // the same of its DC targets
    bool relaxes_order = false;         // writes to memory without kOrdered pass each other
    // Carries nothing while a rail that is no standby connects the same two processes.
    bool standby = false;
    // Longest time that a packet spends in the network, as the network's manager says.
    Nanoseconds packet_life{1'073'741'824};
    // Capability::dc: time to switch an initiator to another target; 0 = unknown.
    Nanoseconds target_change{0};

    bool has(Capability c) const { return (capabilities & static_cast<std::uint32_t>(c)) != 0; }
};

} // namespace adaptib
