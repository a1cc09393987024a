// SPDX-License-Identifier: BSD-3-Clause
// RailAddress and PathSpec: where a rail is, and one route to it.
// Threads: value types.
// May touch: nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace adaptib {

// Address of a rail. Rail::address makes it; the peer receives it unchanged.
struct RailAddress {
    static constexpr std::size_t kMaxBytes = 64;
    std::uint16_t size = 0;
    std::array<std::byte, kMaxBytes> bytes{};
    // Counts the changes of the rail's address, also those that its bytes do not show, such as of a
    // GID's place in its table. Tells which of two addresses of a rail is newer.
    std::uint16_t changes = 0;

    friend bool operator==(const RailAddress&, const RailAddress&) = default;
};

// One route from this rail to a remote one (architecture: path).
struct PathSpec {
    RailAddress remote;
    std::uint8_t source_path_bits = 0; // InfiniBand: LMC path, source
    std::uint8_t lid_offset = 0;       // InfiniBand: LMC path, destination
    std::uint8_t gid_index = 0;        // RoCE
    std::uint32_t flow_label = 0;      // RoCE
    std::uint8_t service_level = 0;
    // Alternate paths: the port of the adapter to send from; 0: the rail's own.
    std::uint8_t source_port = 0;
};

} // namespace adaptib
