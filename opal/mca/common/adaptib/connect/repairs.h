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
// Purpose: decides when a repair begins, when its next step is due, and when the peer is given up;
// the listener takes the steps. After a step that reports an event (connection_events.h) the next
// one waits until that is handled.
// Invariant: a peer is in the list while a repair is wanted or under way.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, peer/, recovery/.
#pragma once

#include "base/intrusive_list.h"
#include "connect/connect_context.h"
#include "connect/queue_pairs.h"
#include "connect/shared_draining.h"

namespace adaptib {

// Takes the steps of a repair.
class RepairListener {
public:
    // Nothing may be posted from now on. REQUIRES: the peer is open or closing.
    virtual void on_repair_begins(Peer& peer) = 0;
    // Work under way does not complete: its queue pairs are to be destroyed, and the work to be
    // ended, both in the handling of an event.
    virtual void on_repair_late(Peer& peer) = 0;
    // Nothing of the connection is under way: it can be fenced.
    virtual void on_repair_quiet(Peer& peer) = 0;
    // The events of fencing it have been handled: it is fenced.
    virtual void on_repair_fenced(Peer& peer) = 0;
    // The connection is fenced, and may be requested anew.
    virtual void on_repair_ready(Peer& peer) = 0;

protected:
    ~RepairListener() = default;
};

class Repairs {
public:
    Repairs(const ConnectContext& context, QueuePairs& queue_pairs, SharedDraining& draining,
            RepairListener& listener)
        : context_(context), queue_pairs_(queue_pairs), draining_(draining), listener_(listener) {}

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
    // Goes on with a repair that has waited for that.
    void on_events_handled(Peer& peer, ConnectEventSet handled);
    // Returns when advance() has something to do; max: nothing.
    Nanoseconds deadline() const { return active() ? next_step() : Nanoseconds::max(); }
    bool uses_failed_path(const Peer& peer) const;

private:
    void want(Peer& peer);
    void begin_if_wanted(Peer& peer);
    void abandon_if_late(Peer& peer);
    void fence_if_quiet(Peer& peer);
    void renew_if_due(Peer& peer);
    Nanoseconds abandon_at(const Peer& peer) const;
    Nanoseconds next_step() const;
    Nanoseconds give_up_at(const Peer& peer) const;
    bool is_waited_for(Peer& peer);

    IntrusiveList<Peer, &Peer::interruption, &PeerInterruption::repair_link> repairing_;
    const ConnectContext& context_;
    QueuePairs& queue_pairs_;
    SharedDraining& draining_;
    RepairListener& listener_;
};

} // namespace adaptib
