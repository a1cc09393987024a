// SPDX-License-Identifier: BSD-3-Clause
// Loss of a peer, and all that waits for it.
#include "protocol/protocol.h"

#include "base/process_name.h"

namespace adaptib {

// Ends everything that waits for the peer. Work that is outstanding at a queue pair completes as
// flushed, and ends its transfer then.
void Protocol::on_peer_failed(Peer& peer, const std::string& what) {
    if (!peer.ending.failure.empty()) {
        return;
    }
    peer.ending.failure = "The connection to process " + rank_text(peer.contact.name) +
                          " on host " + peer.contact.address.host + " is broken: " + what +
                          ". Its requests end with an error.";
    peer.in.unheard = true;
    // A peer that has sent its disconnect may be gone before this side's answer or disconnect
    // arrives.
    const bool waits = peer.ending.disconnect_received
                           ? SendFlow::has_more_than_disconnects(peer)
                           : peer.has_waiting() || peer.interruption.work_failed;
    if (waits || active_.may_await(peer) || has_business_with(peer)) {
        report_peer_failure(peer);
    }
    connections_.break_off(peer);
    sends_.fail(peer);
    fail_transfers(peer);
    receives_.fail(peer);
}

bool Protocol::needs(const Peer& peer) const {
    bool found = peer.transfers.users > 0 || peer.transfers.one_sided > 0 ||
                 !peer.ending.queued.empty() || SendFlow::has_more_than_disconnects(peer);
    for_each_awaited([&](const Peer& awaited) { found = found || &awaited == &peer; });
    return found;
}

// A connection that breaks while nothing waits for it, nor may wait (processes end one after
// another), is not reported until the user wants to use it.
void Protocol::report_peer_failure(Peer& peer) {
    if (!peer.ending.failure_reported) {
        peer.ending.failure_reported = true;
        listener_.on_failure(peer.ending.failure);
        listener_.on_broken(peer);
    }
}

bool Protocol::is_lost(Peer& peer) {
    if (peer.session.state != ConnectState::failed) [[likely]] {
        return false;
    }
    report_peer_failure(peer);
    return true;
}

void Protocol::fail_transfers(Peer& peer) {
    one_sided_.atomics().fail(peer);
    transfers_.fail_waiting(peer);
    rendezvous_.fail(peer);
}

void Protocol::for_each_awaited(const std::function<void(const Peer&)>& f) const {
    receives_.for_each_sender(f);
    rendezvous_.for_each_peer(f);
    sends_.for_each_waiting_ack(f);
    one_sided_.atomics().for_each_peer(f);
}

bool Protocol::has_business_with(const Peer& peer) const {
    bool found = receives_.keeps_messages_of(peer);
    for_each_awaited([&](const Peer& awaited) { found = found || &awaited == &peer; });
    return found;
}

} // namespace adaptib
