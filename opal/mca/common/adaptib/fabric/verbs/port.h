// SPDX-License-Identifier: BSD-3-Clause
// A port: its attributes, GID and partition key, its address on the wire, and the path from it to a
// peer's port.
// Ownership: value types.  Threads: functions without state.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "fabric/rail_address.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/partition.h"

namespace adaptib::verbs {

struct Port {
    std::uint8_t number = 0;
    bool standby = false; // as the user wishes (RailInfo::standby)
    ibv_port_attr attributes{};
    ibv_gid_entry gid{};
    Partitions partitions;     // at least one if active
    std::uint16_t flow = 0;    // RoCE: where the flow labels of its paths begin
    std::uint16_t changes = 0; // RailAddress::changes

    // Table index of the P_Key that datagrams and DC queue pairs use.
    std::uint16_t pkey_index() const { return partitions[0].index; }
    bool ethernet() const { return attributes.link_layer == IBV_LINK_LAYER_ETHERNET; }
    bool active() const {
        return attributes.state == IBV_PORT_ACTIVE || attributes.state == IBV_PORT_ACTIVE_DEFER;
    }
    // InfiniBand: packets carry a GRH even within the subnet.
    bool needs_grh() const { return (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0; }
};

// Reads the tables of a port whose number and attributes are known: entries that can be read and
// are not empty. `error`: the number of the last error; 0: none.
std::vector<ibv_gid_entry> read_gids(const Device& device, const Port& port);
std::vector<Partition> read_pkeys(const Device& device, const Port& port, int& error);

const char* gid_type_text(const ibv_gid_entry& entry); // "RoCE v2"
std::string gid_address_text(const ibv_gid& gid);      // "::ffff:10.0.0.1"
bool is_ipv4(const std::uint8_t* gid);                 // 16 bytes: ::ffff:a.b.c.d

// Reads all fields. An inactive port is ok; its GID and partition are not read.
// Errors: no_device (no usable GID, no reply), bad_argument (the port lacks the GID or partition of
// the options), not_supported (link layer); `why` explains.
Status read_port(const Device& device, std::uint8_t number, const VerbsOptions& options, Port& out,
                 std::string& why);

// Gives a port what was read of it again, and counts a change of its address: also of its GID's
// index, by which queue pairs and handles name the GID.
void renew_port(Port& port, const Port& read);

Bytes mtu_bytes(std::uint32_t mtu);                        // of an ibv_mtu; 0: not a valid one
BytesPerSecond port_rate(const ibv_port_attr& attributes); // of data; 0 = unknown
// Longest time that a packet spends in the network: as the subnet manager says (subnet_timeout), or
// its usual value where there is none, and for less. Bounded, since connections wait for it.
Nanoseconds packet_life(const ibv_port_attr& attributes);

// Contents of a RailAddress of this fabric, in host byte order; another byte order fails at
// `magic`.
struct WireAddress {
    std::uint32_t magic;
    std::uint8_t link_layer; // as in ibv_port_attr
    std::uint8_t mtu;        // ibv_mtu
    std::uint8_t gid_type;   // ibv_gid_type
    std::uint8_t lmc;
    std::uint16_t lid;
    std::uint16_t pkey; // that of datagrams
    std::uint8_t grh;   // the port requires a GRH
    std::uint8_t cm;    // a WireCmAddress follows
    std::uint16_t more; // P_Keys, 2 bytes each, at the end of the address
    std::uint8_t gid[16];
    std::uint64_t owner; // distinguishes the fabrics of one port
};
static_assert(sizeof(WireAddress) == 40 && sizeof(WireAddress) <= RailAddress::kMaxBytes);

// Address of a rail's rdma_cm service; follows the WireAddress of a rail that has one. Such a rail
// publishes fewer P_Keys: rdma_cm chooses that of a connection.
struct WireCmAddress {
    std::uint8_t family; // IP version, 4 or 6
    std::uint8_t zero;
    std::uint16_t port;  // network byte order
    std::uint8_t ip[16]; // an IPv4 address is in the first 4 bytes
};
static_assert(sizeof(WireCmAddress) == 20 &&
              sizeof(WireAddress) + sizeof(WireCmAddress) <= RailAddress::kMaxBytes);
static_assert(sizeof(WireAddress) + 2 * (Partitions::kMost - 1) <= RailAddress::kMaxBytes);

// `at`: null if there is no rdma_cm service.
RailAddress encode_address(const Port& port, std::uint64_t owner, const WireCmAddress* at);
// False if the address is not of this fabric.
bool decode_address(const RailAddress& address, WireAddress& out);
// False if there is none. REQUIRES: decode_address accepted the address.
bool decode_cm_address(const RailAddress& address, WireCmAddress& out);
// The P_Keys of the port, without their table indexes. REQUIRES: as above.
Partitions decode_partitions(const RailAddress& address);

// Kind of traffic on a path: they differ in P_Key.
enum class Traffic : std::uint8_t { connection, datagrams };

// Attributes with which a queue pair or an address handle takes a path.
struct PathVector {
    ibv_ah_attr attributes{};
    ibv_mtu mtu{};                // the smaller one of both ends
    std::uint16_t pkey_index = 0; // in this port's table
};

// Number of paths to a remote port, and the path of an index (Rail::path_to).
//   InfiniBand: paths use the LIDs of the local port, the remote port or both, where their LMC is
//   not 0. Path j leads from the j-th local LID to the j-th remote LID; the port with fewer LIDs
//   starts again at its first.
//   RoCE: flow labels. Adapters derive the UDP source port from it, by which routers choose among
//   equal routes. Without a label, the adapter chooses another source port for each queue pair and
//   handle, so that a probe would not take the route of the queue pair that it is about.
constexpr std::uint32_t kRocePaths = 16;
std::uint32_t paths_to(const Port& port, const RailAddress& remote);
PathSpec path_to(const Port& port, const RailAddress& remote, std::uint32_t index);

// Errors: bad_argument (malformed address, path bits beyond LMC), unreachable (the two ports cannot
// communicate); `why` explains.
Status path_vector(const Port& port, const PathSpec& path, const VerbsOptions& options,
                   Traffic traffic, PathVector& out, std::string& why);
// As above, without the checks.
void fill_vector(const Port& port, const PathSpec& path, const WireAddress& remote,
                 const VerbsOptions& options, ibv_ah_attr& out);

// Traffic class of packets: that of the options. By default that is, for RoCE v2, the one that UCX
// takes, too: DSCP 26, which networks that are set up for RoCE carry without loss, and ECN.
std::uint8_t traffic_class_of(const Port& port, const VerbsOptions& options);

} // namespace adaptib::verbs
