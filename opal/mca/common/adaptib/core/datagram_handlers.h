// SPDX-License-Identifier: BSD-3-Clause
// DatagramHandlers: takes what the fabrics' datagram channels report, and hands it to the parts of
// the core that it concerns.
//
// Purpose: a message goes to the protocol if it has a number, else to the connections; a probe to
// the peer's path or process; a failed or a working path to the repository. A datagram of an
// unknown process makes its peer.
// Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/wire.h"
#include "connect/connection_manager.h"
#include "core/attached_fabric.h"
#include "core/datagram_paths.h"
#include "core/delivery.h"
#include "core/departures.h"
#include "core/peer_directory.h"
#include "core/process_watch.h"
#include "core/ring_poller.h"
#include "protocol/protocol.h"
#include "recovery/path_probes.h"
#include "recovery/path_repository.h"
#include "stats/counters.h"

namespace adaptib {

class DatagramHandlers {
public:
    // The parts of the core that datagrams concern.
    struct Parts {
        std::vector<AttachedFabric>& fabrics;
        AttendedClock& attended;
        PeerDirectory& peers;
        PathRepository& paths;
        DatagramPaths& datagram_paths;
        ProcessWatch& watch;
        PathProbes& probes;
        ConnectionManager& connections;
        Protocol& protocol;
        Delivery& delivery;
        RingPoller& rings;
        Departures& departures;
        Counters& counters;
    };
    // `failure_timeout`: until silence counts as the failure of a path.
    DatagramHandlers(Nanoseconds failure_timeout, const Parts& parts)
        : failure_timeout_(failure_timeout), parts_(parts) {}
    DatagramHandlers(const DatagramHandlers&) = delete;
    DatagramHandlers& operator=(const DatagramHandlers&) = delete;

    // Sets the handlers of the fabrics, which keep a pointer to this object.
    void listen();

private:
    void listen(std::uint32_t fabric);
    void tolerate_faults(std::uint32_t fabric);
    void on_datagram(std::uint32_t fabric, const DatagramArrival& arrival);
    void hand_over(Peer& peer, const MessageHeader& header, const std::byte* body);
    void on_probe(std::uint32_t fabric, std::uint64_t from, std::uint64_t key, std::uint32_t port,
                  std::uint8_t rail, const MessageHeader& header, const std::byte* body);
    void on_slice(Peer& peer, const MessageHeader& header, const std::byte* body);
    void on_life_answer(Peer& peer, std::size_t pair, const LifeBody& body);

    Nanoseconds failure_timeout_;
    Parts parts_;
};

} // namespace adaptib
