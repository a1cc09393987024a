// SPDX-License-Identifier: BSD-3-Clause
// Teardown: ends connections, in good order or because something has failed.
//
// Purpose: takes a peer out of all that is under way with its connection (each class of connect/
// has a list of its own), and its queue pairs and rings away; keeps those of a connection that was
// closed in good order, as far as the pool has room.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, memory/, peer/, stats/.
#pragma once

#include <string>

#include "base/status.h"
#include "connect/closings.h"
#include "connect/cm_connects.h"
#include "connect/connect_context.h"
#include "connect/connection_limit.h"
#include "connect/connection_pool.h"
#include "connect/connection_resources.h"
#include "connect/handshake_messages.h"
#include "connect/lane_migrations.h"
#include "connect/offered_rings.h"
#include "connect/path_measurement.h"
#include "connect/queue_pairs.h"
#include "connect/repairs.h"
#include "connect/yielding.h"

namespace adaptib {

class Teardown {
public:
    struct Parts {
        ConnectionPool& pool;
        QueuePairs& queue_pairs;
        OfferedRings& offered_rings;
        ConnectionResources& resources;
        HandshakeMessages& messages;
        Closings& closings;
        Yielding& yielding;
        LaneMigrations& lane_migrations;
        Repairs& repairs;
        CmConnects& cm_connects;
        PathMeasurement& measurement;
        ConnectionLimit& limit;
    };
    Teardown(const ConnectContext& context, const Parts& parts)
        : context_(context), parts_(parts) {}

    // Takes the peer's queue pairs and rings down; its state becomes `state`.
    void close(Peer& peer, ConnectState state);
    // Replaces close(): the pool keeps what it may. REQUIRES: nothing is under way on either side.
    void keep(Peer& peer);
    // Breaks the connection off: queue pairs go to the error state, so that outstanding work
    // completes as flushed; the rings are not used any more. The peer's state becomes failed.
    void break_off(Peer& peer);
    // Gives the peer up, and reports that. `kind`: ConnectEvent::failed, or failed_here if the
    // other side has to be told.
    void fail(Peer& peer, Status status, const std::string& what,
              ConnectEvent kind = ConnectEvent::failed);

private:
    void leave(Peer& peer, ConnectState state);
    void stop_sharing(Peer& peer);

    const ConnectContext& context_;
    const Parts parts_;
};

} // namespace adaptib
