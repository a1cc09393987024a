// SPDX-License-Identifier: BSD-3-Clause
// PeerTraffic: the traffic between this process and one other over one fabric, by carrier, for the
// report.
//
// Purpose: messages count where they are sent, without those to the process itself that need no
// fabric. Reads, writes and atomics count where they are executed: the bytes of a read come from
// the peer.
// Threads: value types.
// May touch: base/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/traffic_count.h"

namespace adaptib {

// Reads and writes: of long messages, puts and gets. They are RDMA, or within a host copies.
struct RmaTraffic {
    void add(const RmaTraffic& other) {
        reads.add(other.reads);
        writes.add(other.writes);
        atomics += other.atomics;
    }

    TrafficCount reads;
    TrafficCount writes;
    std::uint64_t atomics = 0;
};

struct PeerTraffic {
    bool empty() const {
        return ring.number + datagrams.number + rma.reads.number + rma.writes.number +
                   rma.atomics ==
               0;
    }

    std::uint64_t process = 0; // name of the other (base/process_name.h), endpoint 0
    std::string host;          // of the other
    std::string fabric;        // shm or verbs, as in the parameter `fabric`
    TrafficCount ring;         // messages sent into the other's ring
    TrafficCount datagrams;    // messages sent into the other's shared queue
    RmaTraffic rma;
};

// Adds the row to that of the same process and fabric, or as a new one. An empty row adds nothing.
void merge_traffic(std::vector<PeerTraffic>& rows, const PeerTraffic& row);
// Puts the rows in the order of their processes and fabrics.
void sort_traffic(std::vector<PeerTraffic>& rows);

} // namespace adaptib
