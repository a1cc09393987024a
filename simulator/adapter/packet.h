// SPDX-License-Identifier: BSD-3-Clause
// Packets between the adapters, as they lie in an inbox.
//
// Purpose: the fields of the headers LRH, GRH, BTH, RETH, AETH, AtomicETH, DETH and ImmDt (IBA
// vol. 1, ch. 5, 8, 9) that the model uses, unpacked. Processor's byte order but for the GRH and
// the immediate value.
// Threads: plain data.
#pragma once

#include <array>
#include <cstdint>

namespace adaptib::hca {

inline constexpr unsigned kMaxMtu = 4096;
inline constexpr unsigned kGrhBytes = 40;
inline constexpr std::uint32_t kPsnMask = 0xffffff;

enum class PacketKind : std::uint8_t {
    send,
    write,
    read_request,
    compare_swap,
    fetch_add,
    datagram,
    ack,
    read_response,
    atomic_response,
    migration,  // says only where its sender is with path migration
    disconnect, // a dynamically connected initiator leaves its target
};

// Syndromes of an acknowledgement (IBA 9.7.5.2.8).
enum class Syndrome : std::uint8_t {
    ack,
    rnr_nak,
    sequence_error,
    invalid_request,
    remote_access_error,
    remote_operational_error,
    busy, // CNAK of mlx5: a DC target serves as many initiators as it can; try again
};

enum PacketFlags : std::uint8_t {
    kFirst = 1,
    kLast = 2,
    kImmediate = 4,
    kSolicited = 8,
    kAckRequest = 16,
    kMigrated = 32, // MigReq of the BTH
    kGlobal = 64,   // has a GRH
    kDynamic = 128, // request of a dynamically connected initiator
};

struct PacketHeader {
    PacketKind kind = PacketKind::send;
    std::uint8_t flags = 0;
    Syndrome syndrome = Syndrome::ack;
    std::uint8_t rnr_timer = 0; // as verbs encode it
    std::uint8_t sl = 0;
    std::uint16_t pkey = 0;
    std::uint16_t source_port = 0; // numbers of the topology
    std::uint16_t target_port = 0;
    std::uint16_t source_lid = 0;
    std::uint16_t target_lid = 0;
    std::uint32_t target_mac = 0; // over Ethernet, as the next
    std::uint16_t udp_port = 0;   // source
    std::uint32_t source_qpn = 0;
    std::uint32_t target_qpn = 0;
    std::uint32_t psn = 0;
    std::uint32_t qkey = 0;
    std::uint32_t immediate = 0; // network's byte order
    std::uint32_t rkey = 0;
    std::uint32_t payload = 0; // bytes behind the header
    std::uint64_t address = 0;
    std::uint64_t length = 0; // of the whole read or write
    std::uint64_t swap_or_add = 0;
    std::uint64_t compare_or_old = 0;
    // Of kDynamic: key of the target, number of the connection among those of the initiator, and
    // the first packet number in it.
    std::uint64_t access_key = 0;
    std::uint32_t session = 0;
    std::uint32_t session_psn = 0;
    std::int64_t due = 0; // when the links of its route have carried it; 0: at once
    std::array<std::uint8_t, kGrhBytes> grh{};

    bool has(PacketFlags flag) const { return (flags & flag) != 0; }
};

// Distance from b to a on the circle of packet sequence numbers, negative where a is behind.
constexpr std::int32_t psn_distance(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>((a - b) << 8) >> 8;
}

} // namespace adaptib::hca
