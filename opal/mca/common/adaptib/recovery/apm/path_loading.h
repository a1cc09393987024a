// SPDX-License-Identifier: BSD-3-Clause
// Path loading request and path migration request: the two calls of automatic path migration.
//
// Purpose: performs these requests on one queue pair, with the masks of ibv_modify_qp(3). An event
// reports the outcome: `armed` once both ends have loaded a path, `path_migrated` at both ends of a
// migration.
// Threads: functions without state.
// Source: Vishnu, 9.2.2, 9.2.3; InfiniBand Architecture, vol. 1, 17.2.8.
// May touch: base/, fabric/.
#pragma once

#include "fabric/queue_pair.h"

namespace adaptib {

// Loads the path in the same call as another transition, RTR to RTS; returns what to add to its
// mask.
inline std::uint32_t add_alternate(const PathSpec& path, QpAttributes& attributes) {
    attributes.alternate_path = path;
    attributes.migration = MigrationState::rearm;
    return kQpAlternatePath | kQpMigration;
}

// REQUIRES: the queue pair is in RTS; MIGRATED or REARM.
inline Status load_alternate(QueuePair& qp, const PathSpec& path) {
    QpAttributes attributes;
    const std::uint32_t mask = add_alternate(path, attributes);
    return qp.modify(attributes, mask);
}

// Migrates to the alternate path without a fault. Errors: bad_state (not ARMED).
inline Status migrate_now(QueuePair& qp) {
    QpAttributes attributes;
    attributes.migration = MigrationState::migrated;
    return qp.modify(attributes, kQpMigration);
}

} // namespace adaptib
