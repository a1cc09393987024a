// SPDX-License-Identifier: BSD-3-Clause
// SharedDraining: ends the work of a connection over shared queue pairs
// (channel/shared_queue_pairs.h).
//
// A queue pair of its own can be moved to the error state, or destroyed: then none of its work is
// under way. A shared one is drained instead: its work completes, which an empty write behind it
// signals. The target of the other side accepts late packets as well. So a connection whose
// initiator has failed is not fenced before its packets are gone. Nothing tells when that is: the
// initiator is gone, and packets of others may take other ways. So this side waits for as long as
// the network may keep a packet.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, peer/.
#pragma once

#include "connect/connect_context.h"
#include "connect/control_lanes.h"
#include "connect/queue_pair_owners.h"

namespace adaptib {

class SharedDraining {
public:
    SharedDraining(const ConnectContext& context, ControlLanes& lanes)
        : context_(context), lanes_(lanes) {}

    // Time after which all packets of a failed queue pair of the peer have been dropped or have
    // arrived: twice as long as they live, since a pause of the network may hold them up.
    Nanoseconds packets_gone(const Peer& peer) const;
    // Returns false if work of this side on shared queue pairs may be under way; finds out, so the
    // caller calls it again.
    bool drained(Peer& peer);
    // Returns true if none of this side's work on shared queue pairs is under way.
    static bool is_quiet(const Peer& peer);
    // Returns true if nothing of this side's connection can touch the other side's memory any more;
    // finds out, so the caller calls it again.
    bool may_fence(Peer& peer);
    // Same as drained() for a peer that has left: nothing can be written to it. Of two requests
    // over a queue pair the second completes last, so the empty write goes to another peer that
    // uses the queue pair. Returns true, too, if nobody else uses it, or if the work takes too long
    // and the others can be repaired.
    bool drained_by_others(Peer& left, QueuePairOwners& owners);
    // Same for a peer that has disconnected, and whose process may have ended since: an empty write
    // to it would then hold up, until its retries are over, all that others send over its queue
    // pairs. Only where no other can post one now does it go to the peer itself.
    bool drained_if_gone(Peer& peer, QueuePairOwners& owners);
    // Stops unfinished shared queue pairs for good, before memory that they may read is freed.
    // Others that use them have to be told (Repairs::begin_for_sharers).
    static void stop(Peer& peer);

private:
    // Others that use a peer's queue pairs tell about its work over them. none: there are none, or
    // the work is done, or has failed; not_now: they can post nothing at the moment; awaited: one
    // has posted a write whose completion tells.
    enum class Others : std::uint8_t { none, not_now, awaited };
    bool settle_transfers(Peer& peer);
    Others ask_others(Peer& peer, QueuePairOwners& owners);
    Others ask_others(Peer& left, const Subchannel& subchannel, QueuePairOwners& owners);

    const ConnectContext& context_;
    ControlLanes& lanes_;
};

} // namespace adaptib
