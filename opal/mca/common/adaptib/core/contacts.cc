// SPDX-License-Identifier: BSD-3-Clause
#include "core/contacts.h"

#include <algorithm>
#include <utility>

#include "core/peer_text.h"

namespace adaptib {

namespace {

bool is_waited_for(const Peer& peer) {
    return peer.out.has_pending() || peer.connection.early_request != nullptr ||
           peer.transfers.users > 0;
}

} // namespace

void Contacts::add(Peer& peer, Status status) {
    if (status.reason() == Reason::peer_gone) {
        return;
    }
    const Nanoseconds now = clock_.now();
    peer.contact.datagram.coming = true;
    Contact contact{&peer, now, now, status == kNotYet ? kFirstPauseOfHandle : kFirstPause};
    if (!put_off(contact, status, now)) {
        contacts_.push_back(contact);
    }
}

Nanoseconds Contacts::deadline() const {
    Nanoseconds next = Nanoseconds::max();
    for (const Contact& contact : contacts_) {
        next = std::min(next, contact.next);
    }
    return next;
}

void Contacts::retry(Nanoseconds now) {
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
    reported_ = reported_ && !contacts_.empty();
}

// Returns true if the contact is settled, for better or worse.
bool Contacts::try_contact(Contact& contact, Nanoseconds now) {
    Peer& peer = *contact.peer;
    if (peer.session.lost()) {
        peer.contact.datagram.coming = false;
        return true;
    }
    std::size_t pair = 0;
    const Status status = paths_.open(peer, pair);
    if (!status.ok() && status.reason() != Reason::peer_gone) {
        return put_off(contact, status, now);
    }
    peer.contact.datagram.coming = false;
    if (!status.ok()) {
        if (is_waited_for(peer)) {
            lost_.lose(peer, reason_text(status.reason()));
        }
        return true;
    }
    if (peer.connection.early_request != nullptr) {
        events_.report(peer, PeerEvent::reachable);
    }
    return true;
}

// Returns true if the contact is given up, false if it is tried again later.
bool Contacts::put_off(Contact& contact, Status status, Nanoseconds now) {
    Peer& peer = *contact.peer;
    if (!is_waited_for(peer) || status == kNotYet) {
        contact.since = now;
    }
    const Nanoseconds lasted = now - contact.since;
    const bool final = !paths_.reports_paths(peer) && !may_be_reached(status);
    if (final || lasted >= liveness_.patience()) {
        refuse_sender(peer, status, lasted);
        return true;
    }
    if (lasted >= kReportAfter && !reported_) {
        reported_ = true; // one notice stands for all such peers
        message_(Severity::notice, peer_text(peer.contact.name, peer.contact.address.host) +
                                       " cannot be reached yet, and an operation waits for it: " +
                                       why_unreached(peer, status) + " Attempts go on; " +
                                       give_up_text());
    }
    contact.next = now + contact.pause;
    contact.pause =
        std::min(2 * contact.pause, status == kNotYet ? kMostPauseOfHandle : kMostPause);
    return false;
}

std::string Contacts::give_up_text() const {
    return liveness_.patience() == Nanoseconds::max()
               ? "they never end, because opal_common_adaptib_partition_timeout is 0."
               : "after " + whole_seconds_text(liveness_.patience()) +
                     " (opal_common_adaptib_partition_timeout) the process is given up.";
}

std::string Contacts::why_unreached(const Peer& peer, Status status) const {
    const Rail& rail = *rails_[peer.contact.route.local.first];
    const std::string more = rail.last_error_text();
    return "rail " + rail.info().name + ": " +
           (more.empty() ? reason_text(status.reason()) : more) + ". " + advice(status.reason());
}

void Contacts::refuse_sender(Peer& peer, Status status, Nanoseconds lasted) {
    peer.contact.datagram.coming = false;
    const AddressRail& remote = peer.contact.address.rails[peer.contact.route.remote.first];
    rails_[peer.contact.route.local.first]->refuse({remote.size, remote.bytes}, status.reason());
    lost_.lose(
        peer,
        "this process cannot reach it" +
            (may_be_reached(status) ? ", for " + whole_seconds_text(lasted) : std::string()) +
            ": " + why_unreached(peer, status) +
            " Its messages are dropped, and a receive from any source may wait for one for ever");
    lost_.report(peer);
}

} // namespace adaptib
