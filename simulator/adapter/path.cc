// SPDX-License-Identifier: BSD-3-Clause
// Addresses of packets, checks on arrival, path migration (IBA vol. 1, 17.2.8).
#include <cstring>

#include "engine.h"

namespace adaptib::hca {
namespace {

bool same_partition(std::uint16_t a, std::uint16_t b) {
    return (a & 0x7fff) == (b & 0x7fff) && (a & 0x7fff) != 0 && ((a | b) & 0x8000) != 0;
}

void fill_grh(PacketHeader& header, const ibv_global_route& route, const Gid& source) {
    const std::uint32_t words =
        6U << 28 | std::uint32_t{route.traffic_class} << 20 | (route.flow_label & 0xfffff);
    for (int byte = 0; byte < 4; ++byte) {
        header.grh[byte] = static_cast<std::uint8_t>(words >> (24 - 8 * byte));
    }
    header.grh[6] = 0x1b;
    header.grh[7] = route.hop_limit;
    std::memcpy(&header.grh[8], source.data(), source.size());
    std::memcpy(&header.grh[24], route.dgid.raw, sizeof route.dgid.raw);
    header.flags |= kGlobal;
}

} // namespace

const PortDescription& QueuePair::port(std::uint8_t index) const {
    return context().device->description->ports[index - 1U];
}

bool QueuePair::uses(unsigned port_number) const {
    return (attributes.port_num != 0 && port(attributes.port_num).number == port_number) ||
           (attributes.alt_port_num != 0 && port(attributes.alt_port_num).number == port_number);
}

// false: no port has the address, so that the packet goes nowhere.
bool QueuePair::address_packet(PacketHeader& header, const ibv_ah_attr& path,
                               const EthernetPath& ethernet, std::uint8_t port_index,
                               std::uint16_t pkey_index) const {
    const PortDescription& from = port(port_index);
    header.source_port = static_cast<std::uint16_t>(from.number);
    header.pkey = from.pkeys[pkey_index < from.pkeys.size() ? pkey_index : 0];
    header.sl = path.sl;
    header.source_qpn = ex.qp_base.qp_num;
    header.target_mac = ethernet.mac;
    header.udp_port = ethernet.udp_port;
    const PortDescription* to = nullptr;
    if (path.is_global) {
        Gid target;
        std::memcpy(target.data(), path.grh.dgid.raw, target.size());
        to = engine_.topology.by_gid(target);
        const unsigned index = path.grh.sgid_index < from.gids.size() ? path.grh.sgid_index : 0;
        fill_grh(header, path.grh, from.gids[index]);
        if (to != nullptr &&
            to->vlans[static_cast<std::size_t>(to->gid_index(target))] != from.vlans[index]) {
            return false;
        }
    }
    if (!from.ethernet) {
        header.source_lid = static_cast<std::uint16_t>(
            engine_.lid(from) + (path.src_path_bits & ((1U << from.lmc) - 1)));
        header.target_lid = path.dlid;
        to = engine_.by_lid(path.dlid);
    }
    if (to == nullptr || to->ethernet != from.ethernet) {
        return false;
    }
    header.target_port = static_cast<std::uint16_t>(to->number);
    return true;
}

bool QueuePair::transmit(PacketHeader& header, const std::uint8_t* payload) {
    header.target_qpn = attributes.dest_qp_num;
    if (attributes.path_mig_state == IBV_MIG_MIGRATED) {
        header.flags |= kMigrated;
    }
    return !address_packet(header, attributes.ah_attr, ethernet_, attributes.port_num,
                           attributes.pkey_index) ||
           engine_.transmit(header, payload);
}

bool QueuePair::accepts(const PacketHeader& packet) const {
    const auto shares = [&](std::uint8_t port_index, std::uint16_t pkey_index) {
        if (port_index == 0 || port(port_index).number != packet.target_port) {
            return false;
        }
        const auto& pkeys = port(port_index).pkeys;
        return pkey_index < pkeys.size() && same_partition(pkeys[pkey_index], packet.pkey);
    };
    return shares(attributes.port_num, attributes.pkey_index) ||
           shares(attributes.alt_port_num, attributes.alt_pkey_index);
}

// The peer's MigReq bit arms this end, or makes it follow.
void QueuePair::follow_migration(const PacketHeader& packet) {
    if (!packet.has(kMigrated) && attributes.path_mig_state == IBV_MIG_REARM) {
        attributes.path_mig_state = IBV_MIG_ARMED;
        announce_migration();
    } else if (packet.has(kMigrated) && attributes.path_mig_state == IBV_MIG_ARMED) {
        migrate();
    }
}

void QueuePair::announce_migration() {
    PacketHeader header;
    header.kind = PacketKind::migration;
    transmit(header, nullptr);
}

// Makes the alternate path the primary one. false: none is armed.
bool QueuePair::migrate() {
    if (attributes.path_mig_state != IBV_MIG_ARMED || attributes.alt_port_num == 0) {
        return false;
    }
    attributes.ah_attr = attributes.alt_ah_attr;
    attributes.ah_attr.port_num = attributes.alt_port_num;
    attributes.port_num = attributes.alt_port_num;
    attributes.pkey_index = attributes.alt_pkey_index;
    attributes.timeout = attributes.alt_timeout;
    attributes.path_mig_state = IBV_MIG_MIGRATED;
    raise(IBV_EVENT_PATH_MIG);
    announce_migration();
    return true;
}

} // namespace adaptib::hca
