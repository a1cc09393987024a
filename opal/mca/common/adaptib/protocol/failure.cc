// SPDX-License-Identifier: BSD-3-Clause
// Loss of a peer, and all that waits for it.
#include "protocol/protocol.h"

namespace adaptib {

// Ends everything that waits for the peer. Work that is outstanding at a queue pair completes as
// flushed, and ends its transfer then.
void Protocol::on_peer_failed(Peer& peer, const std::string& what) {
    if (!peer.ending.failure.empty()) {
        return;
    }
    peer.ending.failure = "The connection to process " +
                          std::to_string(peer.contact.name & 0xffffffffu) + " on host " +
                          peer.contact.address.host + " is broken: " + what +
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
    fail_pending(peer);
    fail_transfers(peer);
    fail_receives(peer);
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

void Protocol::on_send_lost(SendRequest& request) {
    if (request.id == 0 && request.transfer == nullptr) { // else it ends with those
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
    }
}

void Protocol::fail_pending(Peer& peer) {
    back_pressure_.forget(peer);
    peer.allow(Allowance::all);
    flow_.fail(peer);
    std::vector<SendRequest*> unanswered;
    waiting_acks_.for_each([&](SendRequest* request) {
        if (request->peer == &peer) {
            unanswered.push_back(request);
        }
    });
    for (SendRequest* request : unanswered) {
        waiting_acks_.remove(request->id);
        completions_.complete(*request->user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
    }
}

// Ends posted receives whose sender is known to be this peer.
void Protocol::fail_receives(Peer& peer) {
    std::vector<ReceiveRequest*> lost;
    matcher_.for_each_posted([&](PostedReceive& posted) {
        auto& request = static_cast<ReceiveRequest&>(posted);
        if (request.from == &peer) {
            lost.push_back(&request);
        }
    });
    for (ReceiveRequest* request : lost) {
        matcher_.cancel(*request);
        completions_.complete(request->user(), OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
    }
}

void Protocol::fail_transfers(Peer& peer) {
    one_sided_.atomics().fail(peer);
    transfers_.fail_waiting(peer);
    rendezvous_.fail(peer);
}

void Protocol::drop_receives() {
    std::vector<PostedReceive*> posted;
    matcher_.for_each_posted([&](PostedReceive& receive) { posted.push_back(&receive); });
    for (PostedReceive* receive : posted) {
        matcher_.cancel(*receive);
    }
}

bool Protocol::has_messages_of(const Peer& peer) const {
    const auto has_requests = [](const PendingQueue& queue) {
        const PendingSend* each = queue.front();
        while (each != nullptr &&
               (each->kind != PendingSend::Kind::request ||
                static_cast<const SendRequest*>(each)->type == MessageType::active)) {
            each = each->next;
        }
        return each != nullptr;
    };
    bool found = has_requests(peer.out.pending) || has_requests(peer.interruption.in_doubt) ||
                 has_requests(peer.ending.queued);
    rendezvous_.for_each_peer([&](const Peer& each) { found = found || &each == &peer; });
    waiting_acks_.for_each([&](SendRequest* each) { found = found || each->peer == &peer; });
    return found;
}

void Protocol::for_each_awaited(const std::function<void(const Peer&)>& f) const {
    matcher_.for_each_posted([&](PostedReceive& posted) {
        if (const Peer* from = static_cast<ReceiveRequest&>(posted).from; from != nullptr) {
            f(*from);
        }
    });
    rendezvous_.for_each_peer(f);
    waiting_acks_.for_each([&](SendRequest* request) { f(*request->peer); });
    one_sided_.atomics().for_each_peer(f);
}

bool Protocol::has_business_with(const Peer& peer) const {
    bool found = false;
    matcher_.for_each_unexpected([&](UnexpectedMessage& message) {
        found = found || static_cast<InboundMessage&>(message).peer == &peer;
    });
    for_each_awaited([&](const Peer& awaited) { found = found || &awaited == &peer; });
    return found;
}

} // namespace adaptib
