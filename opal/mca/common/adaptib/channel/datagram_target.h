// SPDX-License-Identifier: BSD-3-Clause
// DatagramTarget: destination of the datagrams to one peer.
//
// Purpose: holds what a channel needs to reach the peer, and what it knows of the path.
// Ownership: owned by the peer; must not move in memory once it has a link.
// Threads: one at a time.
// May touch: base/, fabric/, channel/datagram_link.h.
#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "channel/datagram_link.h"
#include "fabric/address_handle.h"

namespace adaptib {

struct DatagramTarget {
    std::unique_ptr<AddressHandle> handle;
    std::uint32_t qp = 0;
    std::uint64_t key = 0; // the key that the target published
    std::uint64_t name = 0;
    std::unique_ptr<DatagramLink> link; // if datagrams are numbered; made with the first one
    bool numbered = false; // both ways: they may be lost, or move. Both ends conclude it alike.
    Bytes shorter = 0;     // than the channel's capacity: what a datagram carries
    std::uint8_t port = 0; // of the channel; `handle` is of its rail
    std::uint8_t pair = 0; // the owner's number of the path, which it chooses
    // Origin and time of the target's last datagram, if they are numbered: port of this process,
    // rail of the target.
    std::uint8_t heard_port = 0;
    std::uint8_t heard_rail = 0;
    // doubted: the owner was asked for another path. moves: number of moves since something was
    // acknowledged.
    bool doubted = false;
    bool coming = false; // no handle yet, but the owner tries for one: messages wait
    std::uint32_t moves = 0;
    Nanoseconds heard{0};
};

} // namespace adaptib
