// SPDX-License-Identifier: BSD-3-Clause
// Counts puts, gets and atomics by kind, whichever way they take, and by peer.
// May touch: base/, fabric/work.h, peer/, stats/.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "base/wire.h"
#include "fabric/work.h"
#include "peer/peer.h"
#include "stats/counters.h"

namespace adaptib {

inline void count_rma(Counters& counters, Opcode opcode, Bytes length) {
    switch (opcode) {
    case Opcode::read:
        ++counters.rdma_read;
        counters.rdma_read_bytes += length;
        break;
    case Opcode::write:
        ++counters.rdma_write;
        counters.rdma_write_bytes += length;
        break;
    default: ++counters.rdma_atomic; break;
    }
}

inline void count_rma(Counters& counters, Peer& peer, Opcode opcode, Bytes length) {
    RmaTraffic& executed = peer.transfers.executed;
    switch (opcode) {
    case Opcode::read:
        ++counters.rdma_read;
        counters.rdma_read_bytes += length;
        executed.reads.add(length);
        break;
    case Opcode::write:
        ++counters.rdma_write;
        counters.rdma_write_bytes += length;
        executed.writes.add(length);
        break;
    default:
        ++counters.rdma_atomic;
        ++executed.atomics;
        break;
    }
}

// Same for one that goes over a rail.
inline void count_rma(Counters& counters, Peer& peer, Opcode opcode, Bytes length,
                      std::uint32_t rail) {
    static_assert(kRailBytes.size() == kMaxRails);
    count_rma(counters, peer, opcode, length);
    counters.*kRailBytes[rail] += length;
}

} // namespace adaptib
