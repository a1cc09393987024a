// SPDX-License-Identifier: BSD-3-Clause
// A peer that cannot be reached, not yet or never, though it has sent to this process.
//
// Receiving a message needs no path back to its sender: eager messages are matched and complete in
// any case. Answers, and what this process sends on its own, wait in the peer's queue of pending
// messages (a connection request of the peer beside it) while the core retries the path at growing
// intervals; other peers are not held up. A path is given up if the operating system denies it
// (permission), or once something has waited for it as long as `partition_timeout`. Then the peer
// fails here, with one message, and its process is told by means that need no path to it
// (Rail::refuse), so that this process fails there, too. RDMA devices may need a while to learn how
// to reach a port, so with them no refusal is final.
//
// May touch: the same as core/core.h.
#include <algorithm>
#include <utility>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kFirstPause{1'000'000};
constexpr Nanoseconds kMostPause{256'000'000};
constexpr Nanoseconds kReportAfter{1'000'000'000}; // time that something has waited

bool is_waited_for(const Peer& peer) {
    return peer.has_pending() || peer.early_request != nullptr || peer.users > 0;
}

} // namespace

// True if the system lacks something that it may have later.
bool Core::may_be_reached(const Peer& peer, Status status) const {
    return !datagram_paths_->reports_paths(peer) && (status.is_again() || status.wants_room());
}

// A process that has ended does not matter as long as nothing that it has sent needs an answer.
void Core::await_contact(Peer& peer, Status status) {
    if (status.reason() == Reason::peer_gone) {
        return;
    }
    const Nanoseconds now = environment_.clock->now();
    peer.datagram.coming = true;
    Contact contact{&peer, now, now, kFirstPause};
    if (!put_off(contact, status, now)) {
        contacts_.push_back(contact);
    }
}

Nanoseconds Core::contact_deadline() const {
    Nanoseconds next = Nanoseconds::max();
    for (const Contact& contact : contacts_) {
        next = std::min(next, contact.next);
    }
    return next;
}

void Core::try_contacts(Nanoseconds now) {
    for (std::size_t i = 0; i < contacts_.size();) {
        Contact contact = contacts_[i];
        if (now < contact.next) {
            ++i;
            continue;
        }
        if (!try_contact(contact, now)) {
            contacts_[i++] = contact;
            continue;
        }
        contacts_[i] = contacts_.back();
        contacts_.pop_back();
    }
    contact_reported_ = contact_reported_ && !contacts_.empty();
}

// Returns true if the contact is settled, for better or worse.
bool Core::try_contact(Contact& contact, Nanoseconds now) {
    Peer& peer = *contact.peer;
    if (peer.state == ConnectState::failed) {
        peer.datagram.coming = false;
        return true;
    }
    std::size_t pair = 0;
    const Status status = datagram_paths_->open(peer, pair);
    if (!status.ok() && status.reason() != Reason::peer_gone) {
        return put_off(contact, status, now);
    }
    peer.datagram.coming = false;
    if (!status.ok()) {
        if (is_waited_for(peer)) {
            protocol_->on_peer_failed(peer, reason_text(status.reason()));
        }
        return true;
    }
    if (const auto early = std::move(peer.early_request); early != nullptr) {
        connections_->on_early_request(peer, *early);
    }
    return true;
}

// Returns true if the contact is given up, false if it is tried again later.
bool Core::put_off(Contact& contact, Status status, Nanoseconds now) {
    Peer& peer = *contact.peer;
    if (!is_waited_for(peer)) {
        contact.since = now;
    }
    const Nanoseconds lasted = now - contact.since;
    const bool final = !datagram_paths_->reports_paths(peer) && !may_be_reached(peer, status);
    if (final || lasted >= liveness_.patience()) {
        refuse_sender(peer, status, lasted);
        return true;
    }
    if (lasted >= kReportAfter && !contact_reported_) {
        contact_reported_ = true; // one notice stands for all such peers
        environment_.message(Severity::notice,
                             peer_text(peer.name, peer.address.host) +
                                 " cannot be reached yet, and an operation waits for it: " +
                                 why_unreached(peer, status) + " Attempts go on; " +
                                 give_up_text());
    }
    contact.next = now + contact.pause;
    contact.pause = std::min(2 * contact.pause, kMostPause);
    return false;
}

std::string Core::give_up_text() const {
    return liveness_.patience() == Nanoseconds::max()
               ? "they never end, because opal_common_adaptib_partition_timeout is 0."
               : "after " + whole_seconds_text(liveness_.patience()) +
                     " (opal_common_adaptib_partition_timeout) the process is given up.";
}

// REQUIRES: the peer's rails were just tried.
std::string Core::why_unreached(const Peer& peer, Status status) const {
    const Rail& rail = *rails_[peer.route.local.first];
    const std::string more = rail.last_error_text();
    return "rail " + rail.info().name + ": " +
           (more.empty() ? reason_text(status.reason()) : more) + ". " + advice(status.reason());
}

void Core::refuse_sender(Peer& peer, Status status, Nanoseconds lasted) {
    peer.datagram.coming = false;
    const AddressRail& remote = peer.address.rails[peer.route.remote.first];
    rails_[peer.route.local.first]->refuse({remote.size, remote.bytes}, status.reason());
    protocol_->on_peer_failed(
        peer,
        "this process cannot reach it" +
            (may_be_reached(peer, status) ? ", for " + whole_seconds_text(lasted) : std::string()) +
            ": " + why_unreached(peer, status) +
            " Its messages are dropped, and a receive from any source may wait for one for ever");
    protocol_->report_peer_failure(peer);
}

// The peer cannot reach this process, and has reported that.
void Core::on_refused(Peer& peer, Status status, std::string text) {
    text = text.empty() ? reason_text(status.reason()) : text;
    protocol_->on_peer_failed(peer, "that process cannot reach this one to answer: " + text + " (" +
                                        advice(status.reason()) + ")");
    protocol_->report_peer_failure(peer);
}

} // namespace adaptib
