// SPDX-License-Identifier: BSD-3-Clause
// Limits: decide which peers get a connection when there may not be one for each.
//
// A peer that is to be connected while there is no room waits in a list, and communicates by
// datagrams. While any peer waits, the connections are checked every millisecond; the one that was
// idle longest is closed (closing.cc), if it was idle for a millisecond at least: otherwise
// connections would only be passed around.
// Peers that are chosen as the busiest (core/channel_selection.h) are served first, and for them a
// connection that is not chosen is closed even if it is not idle. Chosen connections count as idle
// only after 100 ms (or a period), unless a one-sided operation waits, which cannot do without a
// connection.
// For a peer that cannot do without, a connection that has had its turn is closed although it is in
// use: both sides *yield*. They put nothing new on it, and close it when the work under way has
// completed. Messages go as datagrams meanwhile, puts and gets wait for the next turn. So a process
// that reads a word of another one again and again until it changes does not keep the connection
// from the process that is to change it.
// A peer without any message sent or received meanwhile stops waiting. A process that wants its
// loopback connection cannot do without, either.
#include <algorithm>
#include <string>

#include "connect/connection_manager.h"

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

std::uint64_t ConnectionManager::room() const {
    const std::uint64_t most = options_.connect_max == 0 ? ~std::uint64_t{0} : options_.connect_max;
    return std::min(most, device_max_);
}

bool ConnectionManager::has_room() const { return own_slots() < room(); }

// Returns true if there is merely no room for one more queue pair or ring: closing others may make
// some.
bool ConnectionManager::no_room_says(Status status) {
    if (!status.wants_room()) {
        return false;
    }
    device_max_ = own_slots();
    device_full_until_ = options_.clock->now() + kDeviceFull;
    if (!device_full_reported_) {
        device_full_reported_ = true;
        listener_.on_notice(
            "There is no room for another connection beside " + std::to_string(own_slots()) +
            ": idle connections are closed to make room for new ones; until then messages go "
            "through the shared queue, which is slower. opal_common_adaptib_connect_max limits "
            "connections from the start.");
    }
    return true;
}

// Returns false if there is no room, or no way to the peer yet.
bool ConnectionManager::ask(Peer& peer) {
    if (peer.datagram.coming) {
        return false;
    }
    const bool shared = chooses_shared(peer);
    if (!shared && (!has_room() || goes_behind(peer))) {
        return false;
    }
    set_kind(peer, shared);
    const Status status = prepare(peer);
    if (no_room_says(status)) {
        return false;
    }
    if (peer.wanted_link.linked()) {
        wanted_.remove(peer);
    }
    ++peer.connection;
    if (!status.ok()) {
        fail(peer, status, "the queue pairs of the connection could not be made");
        return true;
    }
    peer.state = ConnectState::requested;
    peer.activity.asked = options_.clock->now();
    ++counters_.connections_requested;
    counters_.connections_retried += peer.activity.refusals > 0 ? 1 : 0;
    static_cast<void>(send(peer, MessageType::connect_request));
    return true;
}

void ConnectionManager::ask_or_wait(Peer& peer) {
    if (!ask(peer) && !peer.wanted_link.linked()) {
        wait_for_room(peer, Nanoseconds{0});
    }
}

// Returns false for a peer that was to be connected from the start, and has not communicated since:
// it can do without.
bool ConnectionManager::is_needed(const Peer& peer) {
    return peer.users > 0 || peer.messages() > 0;
}

// Returns true if others wait that cannot do without, and this peer can.
bool ConnectionManager::goes_behind(const Peer& peer) const {
    return !needs(peer) && somebody_waits() && who_waits(options_.clock->now()).needs;
}

// Called before the first peer waits.
void ConnectionManager::begin_to_look(Nanoseconds now) {
    if (!somebody_waits()) {
        look_at_ = now + kLookEvery;
    }
}

void ConnectionManager::wait_for_room(Peer& peer, Nanoseconds not_before) {
    const Nanoseconds now = options_.clock->now();
    peer.activity.ask_at = peer.activity.urgent_at = not_before;
    peer.activity.messages = peer.messages();
    peer.activity.active = now;
    begin_to_look(now);
    wanted_.push_back(peer);
}

// Waits for room for the loopback. The process requests it again, or no longer waits.
void ConnectionManager::wait_with_self() {
    const Nanoseconds now = options_.clock->now();
    begin_to_look(now);
    self_waits_until_ = now + kPatience;
}

void ConnectionManager::look(Peer& peer, Nanoseconds now) {
    if (const std::uint32_t messages = peer.messages(); messages != peer.activity.messages) {
        peer.activity.messages = messages;
        peer.activity.active = now;
    }
}

void ConnectionManager::note_activity() {
    if (options_.connect_max == 0 && !somebody_waits()) {
        return;
    }
    const Nanoseconds now = options_.clock->now();
    for (Peer* peer = slots_.front(); peer != nullptr; peer = slots_.next(*peer)) {
        look(*peer, now);
    }
}

void ConnectionManager::run_timers() {
    if (!somebody_waits()) {
        return;
    }
    const Nanoseconds now = options_.clock->now();
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
    serve_waiting(now, true);
    serve_waiting(now, false);
    if (somebody_waits()) {
        make_room(now);
    }
    last_look_ = now;
}

// A peer that was active since the last check, however long ago that was, has its turn.
bool ConnectionManager::still_wanted(const Peer& peer, Nanoseconds now) const {
    return peer.users > 0 || now - peer.activity.active < kPatience ||
           peer.activity.active >= last_look_;
}

bool ConnectionManager::may_ask(const Peer& peer, Nanoseconds now) {
    return now >= (needs(peer) ? peer.activity.urgent_at : peer.activity.ask_at);
}

// Serves waiting peers: with `first` those that are chosen or cannot do without, otherwise the
// others.
void ConnectionManager::serve_waiting(Nanoseconds now, bool first) {
    for (std::size_t left = wanted_.size(); left > 0 && !wanted_.empty(); --left) {
        Peer& peer = *wanted_.pop_front();
        look(peer, now);
        if ((peer.activity.chosen || needs(peer)) != first) {
            wanted_.push_back(peer);
        } else if (peer.state == ConnectState::open && peer.shared &&
                   peer.activity.preference == SharingPreference::own && still_wanted(peer, now)) {
            if (has_room() && is_unused(peer)) {
                start_closing(peer); // after that it is requested
            } else {
                wanted_.push_back(peer);
            }
        } else if (peer.state != ConnectState::idle || !still_wanted(peer, now)) {
            peer.messages_sent = 0;
            peer.activity.required = false;
        } else if (!may_ask(peer, now) || !has_room() || !ask(peer)) {
            wanted_.push_back(peer);
        }
    }
}

bool ConnectionManager::may_be_closed(const Peer& peer, Nanoseconds now, Waiting who) const {
    if (peer.state != ConnectState::open || !is_unused(peer)) {
        return false;
    }
    const Nanoseconds idle = now - peer.activity.active;
    if (peer.activity.chosen) {
        return idle >= (who.needs ? kIdleTime : options_.chosen_idle);
    }
    return who.chosen || idle >= kIdleTime;
}

ConnectionManager::Waiting ConnectionManager::who_waits(Nanoseconds now) const {
    Waiting who;
    who.needs = self_waits();
    for (Peer* peer = wanted_.front(); peer != nullptr; peer = wanted_.next(*peer)) {
        if (may_ask(*peer, now)) {
            who.chosen = who.chosen || peer->activity.chosen;
            who.needs = who.needs || needs(*peer);
        }
    }
    return who;
}

// Returns the peer that was idle longest; null: none may be closed.
Peer* ConnectionManager::to_be_closed(Nanoseconds now) const {
    const Waiting who = who_waits(now);
    Peer* longest = nullptr;
    for (Peer* peer = slots_.front(); peer != nullptr; peer = slots_.next(*peer)) {
        if (takes_room(*peer) && may_be_closed(*peer, now, who) &&
            (longest == nullptr || peer->activity.active < longest->activity.active)) {
            longest = peer;
        }
    }
    return longest;
}

// Closes one connection for each waiting peer; one whose peer does not answer does not count.
void ConnectionManager::make_room(Nanoseconds now) {
    if (has_room()) {
        return; // the waiting peers may not ask yet
    }
    std::size_t coming = 0;
    for (Peer* peer = closing_.front(); peer != nullptr; peer = closing_.next(*peer)) {
        coming += now - peer->closing.began < kPatience ? 1 : 0;
    }
    const std::size_t waiting = wanted_.size() + (self_waits() ? 1 : 0);
    for (; coming < waiting; ++coming) {
        Peer* peer = to_be_closed(now);
        if (peer == nullptr) {
            ask_to_yield(now);
            return;
        }
        start_closing(*peer);
    }
}

// -------------------------------------------------------------------------------------------------
// Yielding

// Makes the connection that was open longest yield, if a waiting peer cannot do without one.
void ConnectionManager::ask_to_yield(Nanoseconds now) {
    if (!yielding_.empty() || !who_waits(now).needs) {
        return;
    }
    Peer* longest = nullptr;
    for (Peer* peer = slots_.front(); peer != nullptr; peer = slots_.next(*peer)) {
        if (takes_room(*peer) && peer->state == ConnectState::open &&
            now - peer->activity.turn_began >= kTurn &&
            (longest == nullptr || peer->activity.turn_began < longest->activity.turn_began)) {
            longest = peer;
        }
    }
    if (longest != nullptr) {
        begin_to_yield(*longest);
        static_cast<void>(send(*longest, MessageType::connect_yield));
    }
}

// REQUIRES: the peer is open, or closing.
void ConnectionManager::begin_to_yield(Peer& peer) {
    if (!peer.yields) {
        peer.yields = true;
        peer.activity.turn_began = options_.clock->now();
        yielding_.push_back(peer);
        ++counters_.connections_yielded;
    }
}

void ConnectionManager::on_yield(Peer& peer, const ConnectNote& note) {
    const bool up = peer.state == ConnectState::open || peer.state == ConnectState::closing;
    if (up && note.connection == peer.remote_connection && note.answers == peer.connection) {
        begin_to_yield(peer);
    }
}

void ConnectionManager::stop_yielding(Peer& peer) {
    if (peer.yields) {
        peer.yields = false;
        yielding_.remove(peer);
    }
}

// Advances yielding. A large message may take long to complete: the connection has another turn
// then.
void ConnectionManager::advance_yielding() {
    const Nanoseconds now = options_.clock->now();
    for (std::size_t left = yielding_.size(); left > 0 && !yielding_.empty(); --left) {
        Peer& peer = *yielding_.pop_front();
        yielding_.push_back(peer);
        if (peer.state != ConnectState::open) {
            continue; // closing: until that has ended
        }
        // The other side has just kept the connection, since it needed it.
        const bool kept = now - peer.closing.began < kLookEvery;
        if (now - peer.activity.turn_began >= kPatience) {
            peer.activity.turn_began = now;
            stop_yielding(peer);
        } else if (is_unused(peer) && !kept) {
            start_closing(peer);
        }
    }
}

} // namespace adaptib
