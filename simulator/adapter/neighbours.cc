// SPDX-License-Identifier: BSD-3-Clause
#include "neighbours.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "engine.h"

namespace adaptib::hca {
namespace {

// rdma_addr_find_l2_eth_by_grh() waits so long, and a neighbour is asked again only after that.
constexpr std::chrono::seconds kArpWait{1};

} // namespace

int resolve(const Device& device, std::uint8_t port_index, const ibv_ah_attr& path,
            EthernetPath& out) {
    const auto& ports = device.description->ports;
    if (port_index == 0 || port_index > ports.size() || !path.is_global) {
        return 0;
    }
    const PortDescription& from = ports[port_index - 1U];
    if (!from.ethernet || path.grh.sgid_index >= from.gids.size()) {
        return 0;
    }
    const Engine& engine = *Engine::get();
    Gid gid;
    std::memcpy(gid.data(), path.grh.dgid.raw, gid.size());
    const PortDescription* const to = engine.topology.by_gid(gid);
    const bool near =
        to != nullptr && to->ethernet &&
        to->vlans[static_cast<std::size_t>(to->gid_index(gid))] == from.vlans[path.grh.sgid_index];
    if (device.description->rule(Rule::arp) == 0) {
        return 0;
    }
    if (!near ||
        (to != &from && (engine.port_down(from.number) || !engine.answers_arp(to->number)))) {
        std::this_thread::sleep_for(kArpWait);
        return ETIMEDOUT;
    }
    out.mac = engine.mac(to->number);
    return 0;
}

std::uint16_t udp_port_of(std::uint32_t flow_label) {
    const std::uint32_t low = (flow_label & 0x3fff) ^ ((flow_label & 0xfc000) >> 14);
    return static_cast<std::uint16_t>(low | 0xc000);
}

std::uint16_t udp_port_of(std::uint32_t local, std::uint32_t remote) {
    std::uint64_t value = std::uint64_t{local} * remote;
    value ^= value >> 20;
    value ^= value >> 40;
    return udp_port_of(static_cast<std::uint32_t>(value & 0xfffff));
}

std::uint16_t udp_port_of_handle(const Device& device) {
    static std::atomic<std::uint32_t> count{std::random_device{}()};
    return device.description->rule(Rule::udp_port) == 0
               ? udp_port_of(0)
               : udp_port_of(static_cast<std::uint32_t>(std::minstd_rand(++count)() >> 4));
}

} // namespace adaptib::hca
