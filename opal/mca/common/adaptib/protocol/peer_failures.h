// SPDX-License-Identifier: BSD-3-Clause
// PeerFailures: the loss of a peer, and all that waits for it.
//
// Purpose: when a peer is lost, ends everything that waits for it, and reports the loss to the user
// at the right time: at once if something waits or may wait, else when the user wants to use the
// peer. Knows which peers something waits for.
//
// Invariants
//   1. A peer fails once, and is reported at most once.
// Ownership: owns nothing; refers to the parts of the protocol.
// Threads: one at a time (the core's lock).
// May touch: base/, connect/, peer/, protocol/.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "connect/connection_manager.h"
#include "peer/peer.h"
#include "protocol/active_messages.h"
#include "protocol/message_sends.h"
#include "protocol/one_sided_operations.h"
#include "protocol/protocol_listener.h"
#include "protocol/rendezvous.h"
#include "protocol/tagged_receives.h"
#include "protocol/transfer_engine.h"
#include "stats/counters.h"
#include "stats/run_history.h"
#include "stats/trace.h"

namespace adaptib {

class PeerFailures final {
public:
    // All are used by calls only, and need not be constructed yet.
    struct Parts {
        ConnectionManager& connections;
        TaggedReceives& receives;
        MessageSends& sends;
        ActiveMessages& active;
        OneSidedOperations& one_sided;
        TransferEngine& transfers;
        Rendezvous& rendezvous;
        ProtocolListener& listener;
        const Counters& counters;
    };

    explicit PeerFailures(const Parts& parts) : parts_(parts) {}

    // The peer may fail without a report.
    static void expect(Peer& peer) { peer.ending.failure_reported = true; }
    // This process is about to finalize MPI: messages that nobody has received are nobody's
    // failure, so that peers of which no one-sided operation wants anything fail without a report.
    // Until a process has ended without finalizing.
    void expect_all(bool on) { expects_all_ = on; }
    // Ends everything that waits for the peer. Work that is outstanding at a queue pair completes
    // as flushed, and ends its transfer then. Does nothing if the peer has failed before.
    void fail(Peer& peer, const std::string& what);
    // Reports the failure to the user, once. REQUIRES: the peer has failed.
    void report(Peer& peer);
    // Returns true if the peer is lost: nothing will come from it any more. The first such call
    // reports the failure, unless that was done before.
    bool is_lost(Peer& peer);

    // Returns true if something of this process waits for the peer, besides disconnect messages.
    bool needs(const Peer& peer) const;
    // Drops disconnect messages to a peer that is gone. REQUIRES: !needs(peer).
    void drop_disconnects(Peer& peer) { parts_.sends.fail(peer); }
    // Calls f for each peer that an operation waits for: for a reply, or for a message from that
    // source. May visit a peer more than once.
    void for_each_awaited(const std::function<void(const Peer&)>& f) const;
    // Bound on the number of requests that for_each_awaited() looks at.
    std::size_t awaited() const {
        return parts_.receives.posted() + parts_.rendezvous.sends() + parts_.rendezvous.receives() +
               parts_.sends.waiting_acks() + parts_.one_sided.atomics().under_way() +
               parts_.one_sided.asking();
    }

private:
    bool is_awaited(const Peer& peer) const;

    const Parts parts_;
    bool expects_all_ = false;
};

} // namespace adaptib
