// SPDX-License-Identifier: BSD-3-Clause
// PeerContact: the part of a Peer that says which process it is, and how datagrams reach it.
//
// Ownership: the part belongs to the Peer; the channel is the core's. Threads: one at a time.
// May touch: base/, channel/, peer/.
#pragma once

#include <cstdint>

#include "base/address.h"
#include "base/traffic_count.h"
#include "channel/datagram.h"
#include "peer/route.h"

namespace adaptib {

struct PeerContact {
    PeerContact(const ProcessAddress& process, const PeerRoute& way, DatagramChannel& queue)
        : channel(queue), name(process.name), route(way), address(process) {}

    // Bytes of body and payload that one datagram carries to this peer.
    Bytes datagram_capacity() const { return channel.capacity() - datagram.shorter; }

    DatagramTarget datagram;
    TrafficCount datagrams_sent;
    TrafficCount rings_sent;  // by ring writers that are gone
    DatagramChannel& channel; // of the route's fabric
    std::uint64_t name;
    void* user_data = nullptr; // of the process (interface/user_data.h), once it has been asked for
    const PeerRoute route;
    ProcessAddress address;
};

} // namespace adaptib
