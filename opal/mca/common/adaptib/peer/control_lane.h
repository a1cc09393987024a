// SPDX-License-Identifier: BSD-3-Clause
// PeerControlLane: the part of a Peer for its control lane, the subchannel that carries ring and
// credit: its choice, its measurement and its migration.
//
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include <cstdint>

#include "base/intrusive_list.h"
#include "base/wire.h"
#include "peer/connection.h"
#include "peer/subchannel.h"
#include "peer/work_targets.h"

namespace adaptib {

struct PeerControlLane {
    explicit PeerControlLane(Peer& peer) : migration_flush(peer, migration.flush) {}

    std::uint32_t lane = kNoControlLane; // its subchannel, once chosen
    LaneMigration migration;
    FlushWork migration_flush;
    ListLink<Peer> migration_link; // linked while the migration is active
    Measuring measuring;
    std::uint64_t measure_address = 0; // in the peer's memory; 0: none
    ListLink<Peer> measure_link;       // linked while its paths may be measured
};

} // namespace adaptib
