// SPDX-License-Identifier: BSD-3-Clause
// Departures: peers that are gone, or have disconnected.
//
// Purpose: a peer is gone once it has closed its fabric, as MPI_Finalize does, or its process has
// ended. There are four sources of that news: the fabric, by an event, for peers of this host; the
// peer's own message (Disconnects::leave), for peers of other hosts; the operating system, for
// peers that something waits for (core/process_watch.h); and the runtime, for any peer. All of them
// lead to end(). What the peer had sent is received first. A peer that nothing
// is wanted of any more has then left: its connection, ring and mapping are released, and no path
// counts as failed. A peer that something is wanted of is lost, which is an error; so is one whose
// process has ended without having said so, if the user of active messages may wait for it.
// Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "connect/connection_manager.h"
#include "core/attached_fabric.h"
#include "core/peer_directory.h"
#include "core/ring_poller.h"
#include "peer/peer_events.h"
#include "protocol/protocol.h"
#include "recovery/path_repository.h"

namespace adaptib {

class Departures {
public:
    Departures(std::vector<AttachedFabric>& fabrics, PeerDirectory& peers, PathRepository& paths,
               ConnectionManager& connections, Protocol& protocol, RingPoller& rings)
        : fabrics_(fabrics), peers_(peers), paths_(paths), connections_(connections),
          protocol_(protocol), rings_(rings), reported_(protocol.events()) {}

    // A fabric reports that some of its peers have gone, or refuse this process.
    void on_peers_changed();
    // Ends peers that are gone. Receives first what they sent before they went: that still counts.
    void end(const std::vector<Peer*>& gone);
    // Returns true if the peer is gone: then it leaves, or what waits for it ends with the reason,
    // at the end of this progress.
    bool takes(Peer& peer);
    // Acts on what PeerEvents has: ends peers that have said that they are gone, releases those
    // that have left, and takes down the connections of those that have disconnected. Such a peer
    // keeps its record, so that its sequence numbers continue should it come back.
    void tear_down_peers();

private:
    void on_refused(Peer& peer, Status status, std::string text);
    void release_left_peers();

    std::vector<AttachedFabric>& fabrics_;
    PeerDirectory& peers_;
    PathRepository& paths_;
    ConnectionManager& connections_;
    Protocol& protocol_;
    RingPoller& rings_;
    PeerEvents& reported_;
};

} // namespace adaptib
