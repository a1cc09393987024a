// SPDX-License-Identifier: BSD-3-Clause
// ConnectionResources: the queue pairs of a connection, and the ring in this process's memory that
// belongs to it.
//
// Purpose: makes both before the handshake, counts the connection (connection_limit.h) from then
// on, and takes the queue pairs away again. A connection is of one kind: over queue pairs of its
// own, or over those that many peers share (channel/shared_queue_pairs.h). The latter need no queue
// pair of their own, and `connect_max` does not count them. All else is as with other connections:
// the handshake, rings, transfers.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, memory/, peer/, stats/.
#pragma once

#include "base/status.h"
#include "connect/cm_connects.h"
#include "connect/connect_context.h"
#include "connect/connection_limit.h"
#include "connect/connection_pool.h"
#include "connect/offered_rings.h"
#include "connect/queue_pairs.h"

namespace adaptib {

class ConnectionResources {
public:
    struct Parts {
        ConnectionPool& pool;
        QueuePairs& queue_pairs;
        OfferedRings& offered_rings;
        CmConnects& cm_connects;
        ConnectionLimit& limit;
    };
    ConnectionResources(const ConnectContext& context, const Parts& parts)
        : context_(context), parts_(parts) {}

    // Makes queue pairs in the state INIT and a ring for the peer to write into, unless they exist
    // already.
    Status make(Peer& peer);
    // Sets the kind of the next connection; drops the resources of the other kind, which are not in
    // use.
    void set_kind(Peer& peer, bool shared);
    // Destroys the queue pairs; their paths may get others.
    void drop_queue_pairs(Peer& peer);
    // Same, and destroys those kept in the pool.
    void drop_all_queue_pairs(Peer& peer);
    // Destroys the queue pairs and forgets the paths: the connection no longer counts.
    void drop(Peer& peer);

private:
    const ConnectContext& context_;
    const Parts parts_;
};

} // namespace adaptib
