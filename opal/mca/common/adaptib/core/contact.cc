// SPDX-License-Identifier: BSD-3-Clause
// A peer cannot be reached: not yet, or never, though it has sent to this process.
//
// Taking a message needs no way back to its sender: eager messages are matched and complete
// whatever is the matter. Answers, and what this process sends by itself, wait in the peer's queue
// of pending messages, a connection request of the peer's beside it, while the core tries for the
// way by time, ever more rarely; all other peers go on meanwhile. A way that the system will not
// give (permission), or one that something has waited for as long as `partition_timeout` says, is
// given up: the peer fails here, with one message, and its process is told by means that need no
// way to it (Rail::refuse), so that this process fails there, too. Of RDMA devices no refusal of a
// sender is the last word: the way to a port may take a while to be known.
//
// May touch: what core/core.h may.
#include <algorithm>
#include <utility>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kFirstPause{1'000'000};
constexpr Nanoseconds kMostPause{256'000'000};
constexpr Nanoseconds kTellAfter{1'000'000'000}; // something waits for so long

bool is_waited_for(const Peer& peer) {
    return peer.has_pending() || peer.early_request != nullptr || peer.users > 0;
}

} // namespace

// The system lacks something that it may have later.
bool Core::may_be_reached(const Peer& peer, Status status) const {
    return !tells_paths(peer) && (status.is_again() || status.wants_room());
}

// A process that has ended troubles nobody as long as nothing that it has sent asks for an answer.
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
    contact_told_ = contact_told_ && !contacts_.empty();
}

// True: it is over, one way or the other.
bool Core::try_contact(Contact& contact, Nanoseconds now) {
    Peer& peer = *contact.peer;
    if (peer.state == ConnectState::failed) {
        peer.datagram.coming = false;
        return true;
    }
    std::size_t pair = 0;
    const Status status = reach(peer, pair);
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

// True: it is not tried any more.
bool Core::put_off(Contact& contact, Status status, Nanoseconds now) {
    Peer& peer = *contact.peer;
    if (!is_waited_for(peer)) {
        contact.since = now;
    }
    const Nanoseconds lasted = now - contact.since;
    const bool final = !tells_paths(peer) && !may_be_reached(peer, status);
    if (final || lasted >= liveness_.patience()) {
        refuse_sender(peer, status, lasted);
        return true;
    }
    if (lasted >= kTellAfter && !contact_told_) {
        contact_told_ = true; // once: of the others the same is true
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

// REQUIRES: its rails were just tried.
std::string Core::why_unreached(const Peer& peer, Status status) const {
    const Rail& rail = *rails_[peer.route.local.first];
    const std::string more = rail.trouble();
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
    protocol_->tell_failure(peer);
}

// The peer cannot reach this process, and has found a way to say so.
void Core::on_refused(Peer& peer, Status status, std::string text) {
    text = text.empty() ? reason_text(status.reason()) : text;
    protocol_->on_peer_failed(peer, "that process cannot reach this one to answer: " + text + " (" +
                                        advice(status.reason()) + ")");
    protocol_->tell_failure(peer);
}

} // namespace adaptib
