// SPDX-License-Identifier: BSD-3-Clause
// OfferedRings: rings in this process's memory that peers write their messages into.
//
// Purpose: allocates and registers a ring (channel/ring_memory.h) for a peer that is to be
// connected, or reuses the one that the pool has kept; renews it for a repair; withdraws it. A ring
// is polled from the moment that it is offered.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, memory/, peer/, stats/.
#pragma once

#include "connect/connect_context.h"
#include "connect/connection_pool.h"

namespace adaptib {

class OfferedRings {
public:
    OfferedRings(const ConnectContext& context, ConnectionPool& pool)
        : context_(context), pool_(pool) {}

    // Offers no ring if there are enough of them, or no memory for one: then the peer continues
    // with datagrams. Errors: there is no memory for the credit either.
    Status offer(Peer& peer);
    // Renews the ring: the peer writes nothing more into it, and knows what has been taken.
    void renew(Peer& peer);
    // The ring is not polled any more. Its memory stays.
    void withdraw(Peer& peer);
    // Sets the first `used` bytes of the ring to zero, as begin() requires.
    static void clean(Peer& peer, Bytes used);

private:
    Status make(Peer& peer, bool lines);
    Status allocate(Peer& peer, Bytes lines_bytes);
    void begin(Peer& peer);

    const ConnectContext& context_;
    ConnectionPool& pool_;
    bool no_room_reported_ = false;
};

} // namespace adaptib
