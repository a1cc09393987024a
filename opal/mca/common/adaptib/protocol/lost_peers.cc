// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/lost_peers.h"

#include "base/process_name.h"
#include "stats/run_history.h"
#include "stats/trace.h"

namespace adaptib {

void LostPeers::lose(Peer& peer, const std::string& what) {
    if (!peer.ending.failure.empty()) {
        return;
    }
    if (expects_all_ && peer.transfers.one_sided == 0) {
        peer.ending.failure_reported = true;
    }
    peer.ending.failure = "The connection to process " + rank_text(peer.contact.name) +
                          " on host " + peer.contact.address.host + " is broken: " + what +
                          ". Its requests end with an error.";
    note_event(counters_.trace, TraceKind::peer_lost, {.peer = peer.contact.name});
    peer.session.lose(counters_);
    peer.in.unheard = true;
    events_.report(peer, PeerEvent::lost);
}

// A connection that breaks while nothing waits for it, nor may wait (processes end one after
// another), is not reported until the user wants to use it.
void LostPeers::report(Peer& peer) {
    if (peer.ending.failure.empty()) { // its connection failed, and the core does not know yet
        const ConnectFailure* const failure = peer.connection.events.failure.get();
        lose(peer, failure != nullptr
                       ? failure->what + " (" + reason_text(failure->status.reason()) + ")"
                       : "it was not connected");
    }
    if (peer.ending.failure_reported) {
        return;
    }
    peer.ending.failure_reported = true;
    note_incident(counters_, {.peer = peer.contact.name, .kind = IncidentKind::peer_lost});
    if (!is_news_ || is_news_(process_of(peer.contact.name))) {
        message_(Severity::failure, peer.ending.failure);
    }
    untold_.push_back(peer.contact.name);
}

} // namespace adaptib
