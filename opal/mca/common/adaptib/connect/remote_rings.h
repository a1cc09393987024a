// SPDX-License-Identifier: BSD-3-Clause
// RemoteRings: rings in peers' memory that this process writes its messages into.
//
// Purpose: notes where the ring is that a peer offers in its request or reply, opens a RingWriter
// for it over the control lane, and moves that to another control lane. Maps the memory behind the
// ring that answers of target-assisted operations take, where the processor stores into it.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, peer/.
#pragma once

#include <cstdint>

#include "connect/connect_context.h"
#include "connect/connection_pool.h"
#include "connect/control_lanes.h"

namespace adaptib {

class RemoteRings {
public:
    RemoteRings(const ConnectContext& context, ControlLanes& lanes, ConnectionPool& pool)
        : context_(context), lanes_(lanes), pool_(pool) {}

    // Notes where the peer's ring is; open() starts to use it. Before that the other side may not
    // be ready, and a path may still drop out.
    static void note(Peer& peer, const ConnectBody& body);
    // Opens the ring to the peer. Without memory to write into it from, the shared queue serves
    // instead. Destroys kept resources of closed connections to make room if need be.
    // REQUIRES: the peer offers a ring.
    void open(Peer& peer);
    // Continues over that subchannel. REQUIRES: open; nothing written over the old one is under
    // way.
    void migrate(Peer& peer, Subchannel& subchannel);

private:
    void set_destination(Peer& peer, Subchannel& subchannel);
    Bytes longest_write(const Peer& peer) const;
    static void map_answers(Peer& peer, Subchannel& subchannel);

    const ConnectContext& context_;
    ControlLanes& lanes_;
    ConnectionPool& pool_;
};

} // namespace adaptib
