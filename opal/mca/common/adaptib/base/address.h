// SPDX-License-Identifier: BSD-3-Clause
// The address that a process publishes and its peers look up.
//
// Purpose: one flat blob, the same for every fabric. It holds the process's name and key, its wire
// version, and for each rail an address and a datagram queue pair.
// Errors: decode() tells a blob of another wire version (Reason::version, with the version found)
//   from a malformed one (Reason::bad_wire).
// May touch: base/ only (a rail's address is opaque bytes here).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/wire.h"

namespace adaptib {

struct AddressRail {
    std::uint16_t size = 0;            // of `bytes`, the part in use
    std::array<std::byte, 64> bytes{}; // a RailAddress
    std::uint32_t datagram_qp = 0;
    std::uint32_t responder_qp = 0; // QP that answers liveness questions at any time; 0: none
    std::uint8_t paths = 1;         // most paths between this rail and another, 1..kMaxSubchannels
    std::uint8_t adapter = 0;       // index of the first rail that is a port of the same adapter
    std::uint8_t flags = 0;         // kRail...
    std::uint8_t max_reads = 0;     // reads and atomics of one queue pair that it serves at a time
    std::uint32_t rate = 0;         // nominal, MB/s; 0: unknown
    std::string name{};             // for people; the first kMaxRailName characters
    std::uint16_t changes = 0;      // of `bytes` since it was published (RailAddress::changes)
};
constexpr std::size_t kMaxRailName = 31;

constexpr std::uint8_t kRailMigrates = 1; // its queue pairs use automatic path migration
constexpr std::uint8_t kRailShares = 2;   // it has a DC target, which many peers may write over

struct ProcessAddress {
    std::uint16_t version = kWireVersion;
    std::uint64_t name = 0;
    std::uint64_t key = 0; // random; datagrams to this process carry it
    std::string host;
    std::vector<AddressRail> rails; // at most kMaxRails
};

std::vector<std::byte> encode(const ProcessAddress& address);
// `version`: the wire version of this process.
Status decode(const void* blob, std::size_t size, ProcessAddress& out,
              std::uint16_t version = kWireVersion);

} // namespace adaptib
