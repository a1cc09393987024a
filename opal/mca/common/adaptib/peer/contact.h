// SPDX-License-Identifier: BSD-3-Clause
// PeerContact: the part of a Peer that says which process it is, and how datagrams reach it.
//
// Ownership: the part belongs to the Peer; the channel is the core's. Threads: one at a time.
// May touch: base/, channel/, peer/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address.h"
#include "base/traffic_count.h"
#include "channel/datagram.h"
#include "peer/route.h"

namespace adaptib {

// A message that arrives in slices (SliceBody).
struct SlicedMessage {
    MessageHeader header;
    std::vector<std::byte> body;
    Bytes arrived = 0;
};

struct PeerContact {
    PeerContact(const ProcessAddress& process, const PeerRoute& way, DatagramChannel& queue)
        : channel(queue), name(process.name), route(way), address(process) {
        datagram.numbered = queue.linked() || datagram_ports() > 1;
    }

    // Bytes of body and payload that one datagram carries to this peer.
    Bytes datagram_capacity() const { return channel.capacity() - datagram.shorter; }

    // Returns how many of the peer's rails on the route take datagrams, as it has published.
    std::ptrdiff_t datagram_ports() const {
        const auto first = address.rails.begin() + route.remote.first;
        return std::count_if(first, first + route.remote.count,
                             [](const AddressRail& rail) { return rail.datagram_qp != 0; });
    }

    DatagramTarget datagram;
    TrafficCount datagrams_sent;
    std::uint32_t wraps = 0;  // of session.next_send, as far as no ring writer has noted them
    Bytes rings_sent = 0;     // by ring writers that are gone
    DatagramChannel& channel; // of the route's fabric
    std::uint64_t name;
    void* user_data = nullptr; // of the process (interface/user_data.h), once it has been asked for
    PeerRoute route;           // its pairs change by PathRepository::pair_anew alone
    ProcessAddress address;
    std::vector<SlicedMessage> sliced; // of which slices are missing
};

} // namespace adaptib
