// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/peer_failures.h"

#include "base/process_name.h"

namespace adaptib {

void PeerFailures::fail(Peer& peer, const std::string& what) {
    if (!peer.ending.failure.empty()) {
        return;
    }
    if (expects_all_ && peer.transfers.one_sided == 0) {
        expect(peer);
    }
    peer.ending.failure = "The connection to process " + rank_text(peer.contact.name) +
                          " on host " + peer.contact.address.host + " is broken: " + what +
                          ". Its requests end with an error.";
    note_event(parts_.counters.trace, TraceKind::peer_lost, {.peer = peer.contact.name});
    peer.in.unheard = true;
    // A peer that has sent its disconnect may be gone before this side's answer or disconnect
    // arrives.
    const bool waits =
        peer.ending.disconnect_received
            ? SendFlow::has_more_than_disconnects(peer)
            : peer.has_waiting() || peer.flow.any_gathered() || peer.interruption.work_failed;
    if (waits || parts_.active.may_await(peer) || parts_.receives.keeps_messages_of(peer) ||
        is_awaited(peer)) {
        report(peer);
    }
    parts_.connections.break_off(peer);
    parts_.sends.fail(peer);
    parts_.one_sided.atomics().fail(peer);
    parts_.one_sided.fail_asking(peer);
    parts_.transfers.fail_waiting(peer);
    parts_.rendezvous.fail(peer);
    parts_.receives.fail(peer);
}

// A connection that breaks while nothing waits for it, nor may wait (processes end one after
// another), is not reported until the user wants to use it.
void PeerFailures::report(Peer& peer) {
    if (!peer.ending.failure_reported) {
        peer.ending.failure_reported = true;
        note_incident(parts_.counters,
                      {.peer = peer.contact.name, .kind = IncidentKind::peer_lost});
        parts_.listener.on_broken(peer);
    }
}

bool PeerFailures::is_lost(Peer& peer) {
    if (peer.session.state != ConnectState::failed) [[likely]] {
        return false;
    }
    report(peer);
    return true;
}

bool PeerFailures::needs(const Peer& peer) const {
    return peer.transfers.users > 0 || peer.transfers.one_sided > 0 ||
           !peer.ending.queued.empty() || peer.flow.any_gathered() ||
           SendFlow::has_more_than_disconnects(peer) || is_awaited(peer);
}

void PeerFailures::for_each_awaited(const std::function<void(const Peer&)>& f) const {
    parts_.receives.for_each_sender(f);
    parts_.rendezvous.for_each_peer(f);
    parts_.sends.for_each_waiting_ack(f);
    parts_.one_sided.atomics().for_each_peer(f);
    parts_.one_sided.for_each_asked(f);
}

bool PeerFailures::is_awaited(const Peer& peer) const {
    bool found = false;
    for_each_awaited([&](const Peer& awaited) { found = found || &awaited == &peer; });
    return found;
}

} // namespace adaptib
