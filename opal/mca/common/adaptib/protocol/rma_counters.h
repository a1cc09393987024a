// SPDX-License-Identifier: BSD-3-Clause
// Counts of RMA operations, be they executed by the fabric or by this process.
// Threads: one at a time (the core's lock).
// May touch: fabric/, stats/.
#pragma once

#include "base/units.h"
#include "fabric/fabric.h"
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

} // namespace adaptib
