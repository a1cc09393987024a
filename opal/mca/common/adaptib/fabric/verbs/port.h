// SPDX-License-Identifier: BSD-3-Clause
// A port: its attributes, the GID and the partition key that it speaks with, its address on the wire,
// and the way from it to a peer's.
// Ownership: value types.  Threads: functions without state.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/verbs/device.h"

namespace adaptib::verbs {

struct Port {
    std::uint8_t number = 0;
    ibv_port_attr attributes{};
    ibv_gid_entry gid{};
    std::uint16_t pkey_index = 0;
    std::uint16_t pkey = 0;

    bool ethernet() const { return attributes.link_layer == IBV_LINK_LAYER_ETHERNET; }
    bool active() const {
        return attributes.state == IBV_PORT_ACTIVE || attributes.state == IBV_PORT_ACTIVE_DEFER;
    }
    // InfiniBand: packets carry a GRH even within the subnet.
    bool needs_grh() const { return (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0; }
};

constexpr std::uint16_t kPartitionMask = 0x7fff; // of a P_Key; the highest bit is full membership
std::string pkey_text(std::uint16_t pkey);       // "0xffff"
bool is_ipv4(const std::uint8_t* gid);           // 16 bytes: ::ffff:a.b.c.d

// Reads all of it. A port that is not active is ok, with GID and partition not looked at.
// Errors: no_device (no usable GID, no answer), bad_argument (the GID or partition of the options is
// not there), not_supported (link layer); `why` says it.
Status read_port(const Device& device, std::uint8_t number, const VerbsOptions& options, Port& out,
                 std::string& why);

Bytes mtu_bytes(std::uint32_t mtu);                        // of an ibv_mtu; 0: it is none
BytesPerSecond port_rate(const ibv_port_attr& attributes); // of data; 0 = unknown

// What a RailAddress of this fabric holds. Byte order: the host's; another one fails at the magic.
struct WireAddress {
    std::uint32_t magic;
    std::uint8_t link_layer; // as ibv_port_attr has it
    std::uint8_t mtu;        // ibv_mtu
    std::uint8_t gid_type;   // ibv_gid_type
    std::uint8_t lmc;
    std::uint16_t lid;
    std::uint16_t pkey;
    std::uint32_t grh; // the port wants a GRH
    std::uint8_t gid[16];
    std::uint64_t owner; // tells the fabrics of one port apart
};
static_assert(sizeof(WireAddress) == 40 && sizeof(WireAddress) <= RailAddress::kMaxBytes);

// Where a rail's meeting point listens; follows the WireAddress of a rail that has one.
struct WireMeetingPoint {
    std::uint8_t family; // 4 or 6, of IP
    std::uint8_t zero;
    std::uint16_t port;  // network's byte order
    std::uint8_t ip[16]; // an IPv4 address is the first 4
};
static_assert(sizeof(WireMeetingPoint) == 20 &&
              sizeof(WireAddress) + sizeof(WireMeetingPoint) <= RailAddress::kMaxBytes);

// `at`: null, there is none.
RailAddress encode_address(const Port& port, std::uint64_t owner, const WireMeetingPoint* at);
// False when it is not one of this fabric's.
bool decode_address(const RailAddress& address, WireAddress& out);
// False when there is none. REQUIRES: decode_address accepted it.
bool decode_meeting_point(const RailAddress& address, WireMeetingPoint& out);

// Whether the two understand each other; `datagrams`: also with datagrams of full length.
// Errors: unreachable; `why` says it.
Status check_peer(const Port& port, const WireAddress& remote, bool datagrams, std::string& why);

// Paths to a remote port, and the one of an index (Rail::path_to).
//   InfiniBand: the LIDs of one port, or of both, where their LMC is not 0. Path j leads to the j-th LID there
//   from the j-th here; who has fewer begins anew.
//   RoCE: flow labels, from which adapters make the UDP source port, by which routers choose among equal
//   routes. Path 0 leaves that to the adapter.
constexpr std::uint32_t kRocePaths = 16;
std::uint32_t paths_to(const Port& port, const RailAddress& remote);
PathSpec path_to(const Port& port, const RailAddress& remote, std::uint32_t index);

// The address vector of a path. Errors: bad_argument (malformed address, path bits beyond LMC), those
// of check_peer.
Status address_vector(const Port& port, const PathSpec& path, const VerbsOptions& options,
                      bool datagrams, ibv_ah_attr& out, ibv_mtu& mtu, std::string& why);
// The same without a check.
void fill_vector(const Port& port, const PathSpec& path, const WireAddress& remote,
                 const VerbsOptions& options, ibv_ah_attr& out);

} // namespace adaptib::verbs
