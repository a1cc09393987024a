// SPDX-License-Identifier: BSD-3-Clause
// Repairs: makes a connection of which a path has failed anew over the paths that are left, and one
// that lacks a restored path over all (recovery/README.md explains why nothing is lost or done
// twice).
//
//     open --a path fails, or the peer asks for a repair--> repairing
//     repairing --fenced; the peer has requested--> answered
//     repairing --fenced; there is a path--> requested
//     requested --refuse: no path--> repairing
//
// While repairing, nothing is posted, and messages wait behind a barrier. All queue pairs go to the
// error state. Once all transfers have completed, this side takes what its ring holds, keeps what
// its writes into the peer's ring may have lost, and destroys the queue pairs. From then on nothing
// of the old connection can touch memory of this side: it is fenced. The request reports that, and
// the reply reports the same of the other side; only then rings and transfers are used again.
//
// A queue pair of its own can be moved to the error state, or destroyed: then none of its work is
// under way. A shared one is drained instead (connect/shared_draining.h). If it does not complete
// its work in time, or if it has failed, all its users give it up, and each has its connection made
// anew. A healthy shared queue pair is never failed for a repair that the other side wants, so that
// failures do not spread.
//
// Purpose: decides when a repair begins, when its next step is due, and when the peer is given up;
// takes the steps, but for the answer to the other side's request, which is the handshake's. After
// a step that reports an event (connection_events.h) the next one waits until that is handled.
// Invariant: a peer is in the list while a repair is wanted or under way.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, memory/, peer/, recovery/, stats/.
#pragma once

#include <cstdint>
#include <memory>

#include "base/intrusive_list.h"
#include "base/wire_connect.h"
#include "connect/closings.h"
#include "connect/connect_context.h"
#include "connect/connection_resources.h"
#include "connect/handshake_messages.h"
#include "connect/lane_migrations.h"
#include "connect/offered_rings.h"
#include "connect/path_measurement.h"
#include "connect/queue_pairs.h"
#include "connect/shared_draining.h"

namespace adaptib {

class Repairs {
public:
    struct Parts {
        QueuePairs& queue_pairs;
        OfferedRings& offered_rings;
        ConnectionResources& resources;
        HandshakeMessages& messages;
        Closings& closings;
        LaneMigrations& lane_migrations;
        SharedDraining& draining;
        PathMeasurement& measurement;
    };
    Repairs(const ConnectContext& context, const Parts& parts) : context_(context), parts_(parts) {}

    // Returns true if begin() leads to a repair: now, or once the connection is open.
    bool may_begin(const Peer& peer) const {
        return peer.session.repairable ||
               (context_.options.fault_tolerance && peer.session.in_handshake());
    }
    // Called when a path of the connection has failed, or the peer says so: makes the connection
    // anew, if the peer has one, as soon as progress is made. REQUIRES: peer.session.repairable, or
    // the state is not open.
    void begin(Peer& peer);
    // Same as begin() if there is a path that the connection lacks, once the work under way is
    // over.
    void improve(Peer& peer);
    // Same as begin() for the others that use a shared queue pair of the peer that has failed: none
    // of their own work may be on it, and then no completion tells them.
    void begin_for_sharers(Peer& peer);
    void leave(Peer& peer);
    // Returns true if advance() is to be called again and again.
    bool active() const { return !repairing_.empty(); }
    void advance();
    // Goes on with a repair that has waited for that. Returns the other side's request for the
    // connection, if this side is fenced and has taken what its ring held: it can be accepted now.
    std::unique_ptr<ConnectBody> on_events_handled(Peer& peer, ConnectEventSet handled);
    // Returns when advance() has something to do; max: nothing.
    Nanoseconds deadline() const { return active() ? next_step() : Nanoseconds::max(); }
    bool uses_failed_path(const Peer& peer) const;

    // Waits for a path: no path is usable for both sides; each looks for one independently.
    void wait_for_path(Peer& peer);
    // Takes the other side's word that it is fenced, and lacks this side's messages from `expected`
    // on. REQUIRES: the repair is active; the other side has fenced; what it had stored in the ring
    // is taken.
    void take_over(Peer& peer, std::uint32_t expected);
    // Destroys the queue pairs of the peer, which do not complete their work. Called from
    // ConnectionEventHandler::on_abandoned, since completions from before must not be taken, nor
    // any other event handled, in between.
    void abandon(Peer& peer);
    // Called when the connection is open again.
    void end(Peer& peer);

private:
    void want(Peer& peer);
    void begin_if_wanted(Peer& peer);
    void abandon_if_late(Peer& peer);
    void fence_if_quiet(Peer& peer);
    void renew_if_due(Peer& peer);
    void interrupt(Peer& peer);
    void fence(Peer& peer);
    void drop_ring_writer(Peer& peer);
    void renew(Peer& peer);
    void destroy_initiators(Peer& peer);
    Nanoseconds abandon_at(const Peer& peer) const;
    Nanoseconds next_step() const;
    Nanoseconds give_up_at(const Peer& peer) const;
    bool is_waited_for(Peer& peer);

    IntrusiveList<Peer, &Peer::interruption, &PeerInterruption::repair_link> repairing_;
    const ConnectContext& context_;
    const Parts parts_;
};

} // namespace adaptib
