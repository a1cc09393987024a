// SPDX-License-Identifier: BSD-3-Clause
// MAC addresses of RoCE destinations.
//
// Purpose: what Linux does for ibv_create_ah() and the move to RTR (core/verbs.c,
// ib_resolve_unicast_gid_dmac; core/addr.c, rdma_addr_find_l2_eth_by_grh, rdma_resolve_ip): it asks
// for the address by ARP, waits for at most one second, and keeps no failure.
// Threads: without the engine's lock, since it blocks.
// May touch: topology.h.
#pragma once

#include <cstdint>

struct ibv_ah_attr;

namespace adaptib::hca {

struct Device;

// Part of a path over Ethernet that is decided once, for as long as its handle or queue pair lives.
struct EthernetPath {
    std::uint32_t mac = 0;      // number of the destination's MAC address
    std::uint16_t udp_port = 0; // source port of RoCE v2, by which switches choose among ways
};

// Resolves the destination of a path from a port of the device. Result: 0 or ETIMEDOUT. A path that
// is wrong in itself or not over Ethernet has no MAC address, which is no error here.
int resolve(const Device& device, std::uint8_t port_index, const ibv_ah_attr& path,
            EthernetPath& out);

// Source port of a flow label (rdma-core, ibv_flow_label_to_udp_sport), of two queue pairs that
// have none (Linux, rdma_calc_flow_label), and of a handle that has none.
std::uint16_t udp_port_of(std::uint32_t flow_label);
std::uint16_t udp_port_of(std::uint32_t local, std::uint32_t remote);
std::uint16_t udp_port_of_handle(const Device& device);

} // namespace adaptib::hca
