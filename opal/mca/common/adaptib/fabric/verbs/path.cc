// SPDX-License-Identifier: BSD-3-Clause
// Addresses of ports, and the paths between them.
#include <algorithm>
#include <cstring>

#include "base/invariant.h"
#include "fabric/verbs/port.h"

namespace adaptib::verbs {

namespace {

constexpr std::uint32_t kAddressMagic = 0xad1b7e02;
constexpr std::uint8_t kHopLimit = 64;
// Adapters make the UDP source port from the low 14 bits of a flow label, mixed with the 6 bits
// above. An odd factor keeps the labels of different paths apart, in bits of all positions.
constexpr std::uint32_t kFlowStep = 0x1e3b;
constexpr std::uint32_t kFlowMask = 0x3fff;
constexpr std::uint32_t kFlowMark = 0x80000; // 0 would be no label

// REQUIRES: the address says that it has one, and is as long as it says.
bool read_cm_address(const RailAddress& address, WireCmAddress& out) {
    std::memcpy(&out, address.bytes.data() + sizeof(WireAddress), sizeof out);
    return (out.family == 4 || out.family == 6) && out.zero == 0 && out.port != 0;
}

// InfiniBand: ports of one subnet reach each other by LID.
const char* check_infiniband(const Port& port, const WireAddress& remote) {
    if (std::memcmp(port.gid.gid.raw, remote.gid, 8) != 0) {
        return "the peer is in another InfiniBand subnet";
    }
    return remote.lid == 0 && remote.grh == 0 ? "the peer has no LID: is there a subnet manager?"
                                              : nullptr;
}

const char* check_roce(const Port& port, const WireAddress& remote) {
    if (port.gid.gid_type != remote.gid_type) {
        return "one end speaks RoCE v1, the other RoCE v2; choose a GID index";
    }
    return is_ipv4(port.gid.gid.raw) != is_ipv4(remote.gid)
               ? "the GID of one end is IPv4, of the other IPv6; choose a GID index"
               : nullptr;
}

bool check_link(const Port& port, const WireAddress& remote, std::string& why) {
    const char* text = remote.link_layer != port.attributes.link_layer
                           ? "one end is InfiniBand, the other Ethernet"
                       : port.ethernet() ? check_roce(port, remote)
                                         : check_infiniband(port, remote);
    why = text != nullptr ? text : "";
    return text == nullptr;
}

bool check_method(bool by_rdma_cm, bool own, std::string& why) {
    if (by_rdma_cm == own) {
        return true;
    }
    why = std::string("connections are made by rdma_cm ") + (by_rdma_cm ? "there" : "here") +
          ", by datagrams " + (by_rdma_cm ? "here" : "there") +
          ": opal_common_adaptib_connect_method has to be the same for all";
    return false;
}

} // namespace

RailAddress encode_address(const Port& port, std::uint64_t owner, const WireCmAddress* at) {
    WireAddress wire{};
    wire.magic = kAddressMagic;
    wire.link_layer = port.attributes.link_layer;
    wire.mtu = static_cast<std::uint8_t>(port.attributes.active_mtu);
    wire.gid_type = static_cast<std::uint8_t>(port.gid.gid_type);
    wire.lmc = port.attributes.lmc;
    wire.lid = port.attributes.lid;
    wire.pkey = port.partitions.empty() ? 0 : port.partitions[0].pkey;
    wire.grh = port.needs_grh() ? 1 : 0;
    wire.cm = at != nullptr ? 1 : 0;
    const std::size_t keys_at = sizeof wire + (at != nullptr ? sizeof *at : 0);
    const std::size_t room = (RailAddress::kMaxBytes - keys_at) / sizeof(std::uint16_t);
    std::memcpy(wire.gid, port.gid.gid.raw, sizeof wire.gid);
    wire.owner = owner;
    RailAddress out;
    out.changes = port.changes;
    while (wire.more < room && wire.more + 1u < port.partitions.size()) {
        const std::uint16_t pkey = port.partitions[wire.more + 1u].pkey;
        std::memcpy(out.bytes.data() + keys_at + wire.more * sizeof pkey, &pkey, sizeof pkey);
        ++wire.more;
    }
    out.size = static_cast<std::uint16_t>(keys_at + wire.more * sizeof(std::uint16_t));
    ADAPTIB_INVARIANT(out.size <= RailAddress::kMaxBytes, "an address has room for what it says",
                      out.size, wire.more);
    std::memcpy(out.bytes.data(), &wire, sizeof wire);
    if (at != nullptr) {
        std::memcpy(out.bytes.data() + sizeof wire, at, sizeof *at);
    }
    return out;
}

void renew_port(Port& port, const Port& read) {
    ADAPTIB_INVARIANT(port.number == read.number, "a port keeps its number", port.number,
                      read.number);
    Port renewed = read;
    renewed.standby = port.standby;
    renewed.flow = port.flow;
    renewed.changes = port.changes;
    const bool same = encode_address(renewed, 0, nullptr) == encode_address(port, 0, nullptr) &&
                      renewed.gid.gid_index == port.gid.gid_index;
    renewed.changes = static_cast<std::uint16_t>(port.changes + (same ? 0 : 1));
    port = renewed;
}

bool decode_address(const RailAddress& address, WireAddress& out) {
    if (address.size < sizeof out || address.size > RailAddress::kMaxBytes) {
        return false;
    }
    std::memcpy(&out, address.bytes.data(), sizeof out);
    const std::size_t size = sizeof out + (out.cm != 0 ? sizeof(WireCmAddress) : 0) +
                             std::size_t{out.more} * sizeof(std::uint16_t);
    WireCmAddress at{};
    return out.magic == kAddressMagic && mtu_bytes(out.mtu) != 0 && out.lmc <= 7 && out.cm <= 1 &&
           out.grh <= 1 && address.size == size && (out.cm == 0 || read_cm_address(address, at));
}

bool decode_cm_address(const RailAddress& address, WireCmAddress& out) {
    WireAddress wire{};
    return decode_address(address, wire) && wire.cm != 0 && read_cm_address(address, out);
}

Partitions decode_partitions(const RailAddress& address) {
    Partitions out;
    WireAddress wire{};
    if (!decode_address(address, wire)) {
        return out;
    }
    out.add({wire.pkey, 0});
    const std::byte* at =
        address.bytes.data() + sizeof wire + (wire.cm != 0 ? sizeof(WireCmAddress) : 0);
    for (std::uint16_t i = 0; i < wire.more; ++i) {
        std::uint16_t pkey = 0;
        std::memcpy(&pkey, at + i * sizeof pkey, sizeof pkey);
        out.add({pkey, 0});
    }
    return out;
}

std::uint32_t paths_to(const Port& port, const RailAddress& remote) {
    WireAddress wire{};
    if (!decode_address(remote, wire)) {
        return 1;
    }
    return port.ethernet() ? kRocePaths : 1u << std::max(port.attributes.lmc, wire.lmc);
}

PathSpec path_to(const Port& port, const RailAddress& remote, std::uint32_t index) {
    PathSpec path;
    path.remote = remote;
    WireAddress wire{};
    if (!decode_address(remote, wire)) {
        return path; // address_vector() reports the error
    }
    if (port.ethernet()) {
        path.flow_label = kFlowMark | ((port.flow + index * kFlowStep) & kFlowMask);
    } else {
        path.lid_offset = static_cast<std::uint8_t>(index % (1u << wire.lmc));
        path.source_path_bits = static_cast<std::uint8_t>(index % (1u << port.attributes.lmc));
    }
    return path;
}

std::uint8_t traffic_class_of(const Port& port, const VerbsOptions& options) {
    constexpr std::uint8_t kRoce = 106;
    return options.traffic_class >= 0 ? static_cast<std::uint8_t>(options.traffic_class)
           : port.ethernet() && port.gid.gid_type == IBV_GID_TYPE_ROCE_V2 ? kRoce
                                                                          : std::uint8_t{0};
}

Status path_vector(const Port& port, const PathSpec& path, const VerbsOptions& options,
                   Traffic traffic, PathVector& out, std::string& why) {
    WireAddress remote{};
    why.clear();
    if (!decode_address(path.remote, remote) || path.lid_offset >= 1u << remote.lmc ||
        path.source_path_bits >= 1u << port.attributes.lmc || path.service_level > 15) {
        why = "the path is malformed";
        return Status::error(Reason::bad_argument);
    }
    // A GID names one port, so a remote rail with this port's GID is on it: it has the LID that the
    // port has now, though its process may have told an earlier one.
    if (remote.lid != 0 && port.gid.gid.global.interface_id != 0 &&
        std::memcmp(remote.gid, port.gid.gid.raw, sizeof remote.gid) == 0) {
        remote.lid = port.attributes.lid;
    }
    Partition partition = port.partitions[0];
    const Partitions there = decode_partitions(path.remote);
    if (!check_link(port, remote, why) ||
        !(traffic == Traffic::datagrams
              ? check_datagrams(port.partitions, there, why)
              : choose_partition(port.partitions, there, partition, why)) ||
        !check_method(remote.cm != 0, options.rdma_cm != nullptr, why)) {
        return Status::error(Reason::unreachable);
    }
    fill_vector(port, path, remote, options, out.attributes);
    out.mtu = static_cast<ibv_mtu>(
        std::min<std::uint8_t>(remote.mtu, static_cast<std::uint8_t>(port.attributes.active_mtu)));
    out.pkey_index = partition.index;
    return kOk;
}

void fill_vector(const Port& port, const PathSpec& path, const WireAddress& remote,
                 const VerbsOptions& options, ibv_ah_attr& out) {
    out = {};
    out.port_num = port.number;
    out.sl = path.service_level != 0 ? path.service_level : options.service_level;
    if (!port.ethernet()) {
        out.dlid = static_cast<std::uint16_t>(remote.lid + path.lid_offset);
        out.src_path_bits = path.source_path_bits;
    }
    if (port.ethernet() || port.needs_grh() || remote.grh != 0) {
        out.is_global = 1;
        std::memcpy(out.grh.dgid.raw, remote.gid, sizeof remote.gid);
        out.grh.sgid_index =
            path.gid_index != 0 ? path.gid_index : static_cast<std::uint8_t>(port.gid.gid_index);
        out.grh.flow_label = path.flow_label & 0xfffff;
        out.grh.hop_limit = kHopLimit;
        out.grh.traffic_class = traffic_class_of(port, options);
    }
}

} // namespace adaptib::verbs
