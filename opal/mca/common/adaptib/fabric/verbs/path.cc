// SPDX-License-Identifier: BSD-3-Clause
// Addresses of ports, and the paths between them.
#include <algorithm>
#include <cstring>

#include "fabric/verbs/port.h"

namespace adaptib::verbs {

namespace {

constexpr std::uint32_t kAddressMagic = 0xad1b7e01;
constexpr std::uint8_t kHopLimit = 64;
// Adapters make the UDP source port from the low 14 bits of a flow label, mixed with the 6 bits
// above. An odd factor keeps the labels of different paths apart, in bits of all positions.
constexpr std::uint32_t kFlowStep = 0x1e3b;
constexpr std::uint32_t kFlowMask = 0x3fff;

std::string mtu_text(std::uint8_t mtu) { return std::to_string(mtu_bytes(mtu)) + " bytes"; }

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

} // namespace

RailAddress encode_address(const Port& port, std::uint64_t owner, const WireCmAddress* at) {
    WireAddress wire{};
    wire.magic = kAddressMagic;
    wire.link_layer = port.attributes.link_layer;
    wire.mtu = static_cast<std::uint8_t>(port.attributes.active_mtu);
    wire.gid_type = static_cast<std::uint8_t>(port.gid.gid_type);
    wire.lmc = port.attributes.lmc;
    wire.lid = port.attributes.lid;
    wire.pkey = port.pkey;
    wire.grh = port.needs_grh() ? 1 : 0;
    std::memcpy(wire.gid, port.gid.gid.raw, sizeof wire.gid);
    wire.owner = owner;
    RailAddress out;
    out.size = sizeof wire;
    std::memcpy(out.bytes.data(), &wire, sizeof wire);
    if (at != nullptr) {
        std::memcpy(out.bytes.data() + sizeof wire, at, sizeof *at);
        out.size = sizeof wire + sizeof *at;
    }
    return out;
}

bool decode_address(const RailAddress& address, WireAddress& out) {
    WireCmAddress at{};
    if (address.size != sizeof out && !decode_cm_address(address, at)) {
        return false;
    }
    std::memcpy(&out, address.bytes.data(), sizeof out);
    return out.magic == kAddressMagic && mtu_bytes(out.mtu) != 0 && out.lmc <= 7;
}

bool decode_cm_address(const RailAddress& address, WireCmAddress& out) {
    if (address.size != sizeof(WireAddress) + sizeof out) {
        return false;
    }
    std::memcpy(&out, address.bytes.data() + sizeof(WireAddress), sizeof out);
    return (out.family == 4 || out.family == 6) && out.zero == 0 && out.port != 0;
}

Status check_peer(const Port& port, const WireAddress& remote, bool datagrams, std::string& why) {
    const auto refuse = [&why](std::string text) {
        why = std::move(text);
        return Status::error(Reason::unreachable);
    };
    if (remote.link_layer != port.attributes.link_layer) {
        return refuse("one end is InfiniBand, the other Ethernet");
    }
    if (((remote.pkey ^ port.pkey) & kPartitionMask) != 0) {
        return refuse("the partition keys differ: " + pkey_text(port.pkey) + " here, " +
                      pkey_text(remote.pkey) + " there");
    }
    if (((remote.pkey | port.pkey) & ~kPartitionMask) == 0) {
        return refuse("both ends are only limited members of partition " + pkey_text(port.pkey));
    }
    const char* text = port.ethernet() ? check_roce(port, remote) : check_infiniband(port, remote);
    if (text != nullptr) {
        return refuse(text);
    }
    const auto own_mtu = static_cast<std::uint8_t>(port.attributes.active_mtu);
    if (datagrams && remote.mtu != own_mtu) {
        return refuse("the MTUs differ: " + mtu_text(own_mtu) + " here, " + mtu_text(remote.mtu) +
                      " there");
    }
    return kOk;
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
        path.flow_label = index * kFlowStep & kFlowMask;
    } else {
        path.lid_offset = static_cast<std::uint8_t>(index % (1u << wire.lmc));
        path.source_path_bits = static_cast<std::uint8_t>(index % (1u << port.attributes.lmc));
    }
    return path;
}

Status address_vector(const Port& port, const PathSpec& path, const VerbsOptions& options,
                      bool datagrams, ibv_ah_attr& out, ibv_mtu& mtu, std::string& why) {
    WireAddress remote{};
    why.clear();
    if (!decode_address(path.remote, remote) || path.lid_offset >= 1u << remote.lmc ||
        path.source_path_bits >= 1u << port.attributes.lmc || path.service_level > 15) {
        why = "the path is malformed";
        return Status::error(Reason::bad_argument);
    }
    if (const Status status = check_peer(port, remote, datagrams, why); !status.ok()) {
        return status;
    }
    WireCmAddress at{};
    if (const bool by_rdma_cm = decode_cm_address(path.remote, at);
        by_rdma_cm != (options.rdma_cm != nullptr)) {
        why = std::string("connections are made by rdma_cm ") + (by_rdma_cm ? "there" : "here") +
              ", by datagrams " + (by_rdma_cm ? "here" : "there") +
              ": opal_common_adaptib_connect_method has to be the same for all";
        return Status::error(Reason::unreachable);
    }
    fill_vector(port, path, remote, options, out);
    mtu = static_cast<ibv_mtu>(
        std::min<std::uint8_t>(remote.mtu, static_cast<std::uint8_t>(port.attributes.active_mtu)));
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
        out.grh.traffic_class = options.traffic_class;
    }
}

} // namespace adaptib::verbs
