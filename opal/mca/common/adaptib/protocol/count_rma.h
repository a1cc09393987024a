// SPDX-License-Identifier: BSD-3-Clause
// Counts puts, gets and atomics by kind, whichever way they take, and by peer.
// May touch: base/, fabric/work.h, peer/, stats/.
#pragma once

#include "base/units.h"
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

} // namespace adaptib
