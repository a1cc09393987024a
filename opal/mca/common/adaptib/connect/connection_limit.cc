// SPDX-License-Identifier: BSD-3-Clause
#include "connect/connection_limit.h"

#include <algorithm>
#include <string>

#include "connect/need.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kLookEvery{1'000'000};
constexpr Nanoseconds kIdleTime{1'000'000};  // minimum, of a connection that is closed
constexpr Nanoseconds kPatience{10'000'000}; // with a waiting peer that does nothing; with closing
constexpr Nanoseconds kDeviceFull{100'000'000}; // after that the device is tried again
// After this time a connection in use is closed for one that is needed: opening one takes a tenth
// of that.
constexpr Nanoseconds kTurn{5'000'000};

} // namespace

std::uint64_t ConnectionLimit::room() const {
    const std::uint64_t most =
        context_.options.connect_max == 0 ? ~std::uint64_t{0} : context_.options.connect_max;
    return std::min(most, device_max_);
}

bool ConnectionLimit::no_room_says(Status status) {
    if (!status.wants_room()) {
        return false;
    }
    device_max_ = own();
    device_full_until_ = context_.options.clock->now() + kDeviceFull;
    if (!device_full_reported_) {
        device_full_reported_ = true;
        context_.options.message(
            Severity::notice,
            "There is no room for another connection beside " + std::to_string(own()) +
                ": idle connections are closed to make room for new ones; until then messages go "
                "through the shared queue, which is slower. opal_common_adaptib_connect_max limits "
                "connections from the start.");
    }
    return true;
}

bool ConnectionLimit::goes_behind(const Peer& peer) const {
    return !needs(peer) && somebody_waits() && who_waits(context_.options.clock->now()).needs;
}

// Called before the first peer waits.
void ConnectionLimit::begin_to_look(Nanoseconds now) {
    if (!somebody_waits()) {
        look_at_ = now + kLookEvery;
    }
}

void ConnectionLimit::wait(Peer& peer, Nanoseconds not_before) {
    const Nanoseconds now = context_.options.clock->now();
    peer.connection.activity.ask_at = peer.connection.activity.urgent_at = not_before;
    peer.connection.activity.messages = peer.messages();
    peer.connection.activity.active = now;
    begin_to_look(now);
    wanted_.push_back(peer);
}

void ConnectionLimit::wait_with_self() {
    const Nanoseconds now = context_.options.clock->now();
    begin_to_look(now);
    self_waits_until_ = now + kPatience;
}

void ConnectionLimit::look(Peer& peer, Nanoseconds now) {
    if (const std::uint32_t messages = peer.messages();
        messages != peer.connection.activity.messages) {
        peer.connection.activity.messages = messages;
        peer.connection.activity.active = now;
    }
}

void ConnectionLimit::note_activity() {
    if (context_.options.connect_max == 0 && !somebody_waits()) {
        return;
    }
    const Nanoseconds now = context_.options.clock->now();
    for (Peer* peer = slots_.front(); peer != nullptr; peer = slots_.next(*peer)) {
        look(*peer, now);
    }
}

void ConnectionLimit::serve(const Ask& ask) {
    if (!somebody_waits()) {
        return;
    }
    const Nanoseconds now = context_.options.clock->now();
    if (now < look_at_) {
        return;
    }
    if (now >= self_waits_until_) {
        self_waits_until_ = Nanoseconds{0};
    }
    look_at_ = now + kLookEvery;
    if (now >= device_full_until_) {
        device_max_ = ~std::uint64_t{0};
    }
    note_activity();
    serve_some(now, true, ask);
    serve_some(now, false, ask);
    if (somebody_waits()) {
        make_room(now);
    }
    last_look_ = now;
}

// A peer that was active since the last check, however long ago that was, has its turn.
bool ConnectionLimit::still_wanted(const Peer& peer, Nanoseconds now) const {
    return peer.transfers.users > 0 || now - peer.connection.activity.active < kPatience ||
           peer.connection.activity.active >= last_look_;
}

// Serves waiting peers: with `first` those that are chosen or cannot do without, otherwise the
// others.
void ConnectionLimit::serve_some(Nanoseconds now, bool first, const Ask& ask) {
    for (std::size_t left = wanted_.size(); left > 0 && !wanted_.empty(); --left) {
        Peer& peer = *wanted_.pop_front();
        look(peer, now);
        if ((peer.connection.activity.chosen || needs(peer)) != first) {
            wanted_.push_back(peer);
        } else if (peer.session.state == ConnectState::open && peer.connection.shared &&
                   peer.connection.activity.preference == SharingPreference::own &&
                   still_wanted(peer, now)) {
            if (has_room() && is_unused(peer)) {
                closings_.start(peer); // after that it is requested
            } else {
                wanted_.push_back(peer);
            }
        } else if (peer.session.state != ConnectState::idle || !still_wanted(peer, now)) {
            peer.flow.messages_sent = 0;
            peer.connection.activity.required = false;
        } else if (!may_ask(peer, now) || !has_room() || !ask(peer)) {
            wanted_.push_back(peer);
        }
    }
}

bool ConnectionLimit::may_be_closed(const Peer& peer, Nanoseconds now, Waiting who) const {
    if (peer.session.state != ConnectState::open || !is_unused(peer)) {
        return false;
    }
    const Nanoseconds idle = now - peer.connection.activity.active;
    if (peer.connection.activity.chosen) {
        return idle >= (who.needs ? kIdleTime : context_.options.chosen_idle);
    }
    return who.chosen || idle >= kIdleTime;
}

ConnectionLimit::Waiting ConnectionLimit::who_waits(Nanoseconds now) const {
    Waiting who;
    who.needs = self_waits();
    for (Peer* peer = wanted_.front(); peer != nullptr; peer = wanted_.next(*peer)) {
        if (may_ask(*peer, now)) {
            who.chosen = who.chosen || peer->connection.activity.chosen;
            who.needs = who.needs || needs(*peer);
        }
    }
    return who;
}

// Returns the peer that was idle longest; null: none may be closed.
Peer* ConnectionLimit::to_be_closed(Nanoseconds now) const {
    const Waiting who = who_waits(now);
    Peer* longest = nullptr;
    for (Peer* peer = slots_.front(); peer != nullptr; peer = slots_.next(*peer)) {
        if (takes_room(*peer) && may_be_closed(*peer, now, who) &&
            (longest == nullptr ||
             peer->connection.activity.active < longest->connection.activity.active)) {
            longest = peer;
        }
    }
    return longest;
}

// Closes one connection for each waiting peer; one whose peer does not answer does not count.
void ConnectionLimit::make_room(Nanoseconds now) {
    if (has_room()) {
        return; // the waiting peers may not ask yet
    }
    std::size_t coming = closings_.begun_after(now - kPatience);
    std::size_t waiting = self_waits() ? 1 : 0;
    for (const Peer* peer = wanted_.front(); peer != nullptr; peer = wanted_.next(*peer)) {
        waiting += may_ask(*peer, now + kPatience) ? 1 : 0; // others rest for long
    }
    for (; coming < waiting; ++coming) {
        Peer* peer = to_be_closed(now);
        if (peer == nullptr) {
            ask_to_yield(now);
            return;
        }
        closings_.start(*peer);
    }
}

// Makes the connection that was open longest yield, if a waiting peer cannot do without one.
void ConnectionLimit::ask_to_yield(Nanoseconds now) {
    if (yielding_.active() || !who_waits(now).needs) {
        return;
    }
    Peer* longest = nullptr;
    for (Peer* peer = slots_.front(); peer != nullptr; peer = slots_.next(*peer)) {
        if (takes_room(*peer) && peer->session.state == ConnectState::open &&
            now - peer->connection.activity.turn_began >= kTurn &&
            (longest == nullptr ||
             peer->connection.activity.turn_began < longest->connection.activity.turn_began)) {
            longest = peer;
        }
    }
    if (longest != nullptr) {
        yielding_.begin(*longest);
    }
}

void ConnectionLimit::enter(Peer& peer) {
    slots_.push_back(peer);
    shared_slots_ += peer.connection.shared ? 1 : 0;
    context_.counters.connections_shared = shared_slots_;
}

void ConnectionLimit::leave(Peer& peer) {
    slots_.remove(peer);
    shared_slots_ -= peer.connection.shared ? 1 : 0;
    context_.counters.connections_shared = shared_slots_;
    look_at_ = Nanoseconds{0}; // there may be room now
}

void ConnectionLimit::stop_waiting(Peer& peer) {
    if (peer.connection.wanted_link.linked()) {
        wanted_.remove(peer);
    }
}

} // namespace adaptib
