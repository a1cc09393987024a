// SPDX-License-Identifier: BSD-3-Clause
// LaneMigrations: moves a connection's control lane (ring and credit) to another of its
// subchannels, while the job runs, because its lane was found to be slow (schedule/control_lane.h).
//
// Each side migrates its own control lane, and tells nobody: a ring and a credit are memory of the
// other side, which all subchannels reach, each with the key from the handshake. Writes over two
// queue pairs have no order, so nothing is written over the new one before all that was written
// over the old one has arrived: the ring takes no messages, and credit waits, until an empty write
// behind them is complete, which takes a round trip. The empty write would wait for transfers
// posted before, too: so a migration begins when none is under way over the old one, or after a
// while. Transfers stay on their subchannels. A connection is not closed during a migration; one
// that breaks is repaired, and chooses its control lane anew.
// Invariant: a peer is in the list exactly while peer.control.migration is active.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, peer/, stats/.
#pragma once

#include <cstdint>

#include "base/intrusive_list.h"
#include "connect/connect_context.h"
#include "connect/control_lanes.h"
#include "connect/remote_rings.h"

namespace adaptib {

class LaneMigrations {
public:
    LaneMigrations(const ConnectContext& context, ControlLanes& lanes, RemoteRings& rings)
        : context_(context), lanes_(lanes), rings_(rings) {}

    // Migrates the control lane to that subchannel, as soon as work under way allows. Does nothing
    // if the subchannel cannot carry it now, or a migration is under way.
    void begin(Peer& peer, std::uint32_t to);
    // Returns true if advance() is to be called again and again.
    bool active() const { return !migrating_.empty(); }
    void advance();
    // Ends the peer's migration, if there is one; the control lane continues where it is now.
    void stop(Peer& peer);

private:
    bool pause(Peer& peer);
    void complete(Peer& peer);

    IntrusiveList<Peer, &Peer::control, &PeerControlLane::migration_link> migrating_;
    const ConnectContext& context_;
    ControlLanes& lanes_;
    RemoteRings& rings_;
};

} // namespace adaptib
