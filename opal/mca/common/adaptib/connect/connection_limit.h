// SPDX-License-Identifier: BSD-3-Clause
// ConnectionLimit: decides which peers get a connection when there may not be one for each.
//
// A peer that is to be connected while there is no room waits in a list, and communicates by
// datagrams. While any peer waits, the connections are checked every millisecond; the one that was
// idle longest is closed (closings.h), if it was idle for a millisecond at least: otherwise
// connections would only be passed around.
// Peers that are chosen as the busiest (core/channel_selection.h) are served first, and for them a
// connection that is not chosen is closed even if it is not idle. Chosen connections count as idle
// only after 100 ms (or a period), unless a one-sided operation waits, which cannot do without a
// connection.
// For a peer that cannot do without, a connection that has had its turn is closed although it is in
// use (yielding.h).
// A peer without any message sent or received meanwhile stops waiting. A process that wants its
// loopback connection cannot do without, either.
// Threads: one at a time.
// May touch: base/, peer/, stats/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/intrusive_list.h"
#include "base/status.h"
#include "connect/closings.h"
#include "connect/connect_context.h"
#include "connect/yielding.h"

namespace adaptib {

class ConnectionLimit {
public:
    // Requests the connection of a peer that has waited for room, of which there is some. Returns
    // false if the peer still waits.
    using Ask = std::function<bool(Peer& peer)>;

    ConnectionLimit(const ConnectContext& context, Closings& closings, Yielding& yielding)
        : context_(context), closings_(closings), yielding_(yielding) {}

    // Counts the connection of a peer that gets queue pairs, until leave().
    void enter(Peer& peer);
    void leave(Peer& peer);
    // Visits the peers whose connections are counted. `f` may take them down.
    template <typename F> void for_each(F&& f) {
        for (Peer* peer = slots_.front(); peer != nullptr;) {
            Peer* const next = slots_.next(*peer);
            f(*peer);
            peer = next;
        }
    }
    // Maximum number of connections with queue pairs of their own, as far as is known; the number
    // of further ones; false if there is none.
    std::uint64_t room() const;
    std::uint64_t free_room() const { return room() - std::min<std::uint64_t>(room(), own()); }
    bool has_room() const { return own() < room(); }
    // Number of connections over shared queue pairs.
    std::size_t shared() const { return shared_slots_; }
    // Returns true if there is merely no room for one more queue pair or ring: closing others may
    // make some. Then the device is taken to be full for a while.
    bool no_room_says(Status status);

    // Makes the peer wait for room, and request nothing before that time. REQUIRES: it does not
    // wait.
    void wait(Peer& peer, Nanoseconds not_before);
    void stop_waiting(Peer& peer);
    // Waits for room for the loopback. The process requests it again, or no longer waits.
    void wait_with_self();
    // Returns true if others wait that cannot do without, and this peer can.
    bool goes_behind(const Peer& peer) const;
    // Records the peers' activity, for the choice of the connection to close. Called now and then.
    void note_activity();
    // Looks for room for waiting peers. deadline(): when that is next; max: none waits.
    void serve(const Ask& ask);
    Nanoseconds deadline() const { return somebody_waits() ? look_at_ : Nanoseconds::max(); }
    // Waiting peers have their turn at once: there may be room.
    void serve_soon() { look_at_ = Nanoseconds{0}; }

private:
    struct Waiting {
        bool chosen = false; // one that is chosen as the busiest
        bool needs = false;  // one that cannot do without
    };
    std::size_t own() const { return slots_.size() - shared_slots_; }
    bool self_waits() const { return self_waits_until_.count() > 0; }
    bool somebody_waits() const { return !wanted_.empty() || self_waits(); }
    void begin_to_look(Nanoseconds now);
    void look(Peer& peer, Nanoseconds now);
    bool still_wanted(const Peer& peer, Nanoseconds now) const;
    void serve_some(Nanoseconds now, bool first, const Ask& ask);
    void make_room(Nanoseconds now);
    Peer* to_be_closed(Nanoseconds now) const;
    Waiting who_waits(Nanoseconds now) const;
    bool may_be_closed(const Peer& peer, Nanoseconds now, Waiting who) const;
    bool takes_room(const Peer& peer) const {
        return !peer.connection.shared || context_.options.sharing == Sharing::all;
    }
    void ask_to_yield(Nanoseconds now);

    const ConnectContext& context_;
    Closings& closings_;
    Yielding& yielding_;
    IntrusiveList<Peer, &Peer::connection, &PeerConnection::slot_link> slots_;
    std::size_t shared_slots_ = 0; // slots of connections over shared queue pairs
    IntrusiveList<Peer, &Peer::connection, &PeerConnection::wanted_link> wanted_;
    Nanoseconds look_at_{0};
    Nanoseconds self_waits_until_{0}; // for its loopback, requested repeatedly; 0: no wait
    Nanoseconds last_look_{0};
    std::uint64_t device_max_ = ~std::uint64_t{0}; // connections when the device took no more ...
    Nanoseconds device_full_until_{0};             // ... assumed to be the limit until then
    bool device_full_reported_ = false;
};

} // namespace adaptib
