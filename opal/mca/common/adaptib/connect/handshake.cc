// SPDX-License-Identifier: BSD-3-Clause
#include "connect/handshake.h"

#include <algorithm>
#include <utility>

#include "connect/need.h"
#include "stats/trace.h"

namespace adaptib {

namespace {

// Returns true if the devices of all paths are away, and may come back.
bool is_away(Status status) { return status.reason() == Reason::no_device; }

// Returns true if another attempt may find a path.
bool comes_again(const Peer& peer, Status status) {
    return status.is_again() || is_away(status) ||
           (peer.interruption.repair.active && status.reason() != Reason::peer_gone);
}

// Returns true if the other side repairs a connection that this side has taken down: both sides
// ended it before it broke. The other side may wait for the end of its repair with its answer to
// this side's disconnect.
bool repairs_what_is_gone(const Peer& peer, const ConnectBody& request) {
    const ConnectState state = peer.session.state;
    return request.replaces != 0 &&
           (state == ConnectState::idle ||
            (state == ConnectState::requested && !peer.interruption.repair.active));
}

// Returns true if the other side has fenced the connection that this side has.
bool replaces(const Peer& peer, const ConnectBody& request) {
    return request.replaces != 0 && request.replaces == peer.connection.remote_number;
}

} // namespace

// Returns false if there is no room, no way to the peer yet, or a disconnect to be finished first.
bool Handshake::ask(Peer& peer) {
    if (peer.contact.datagram.coming || rests(peer) || peer.disconnecting()) {
        return false;
    }
    if (context_.listener.choose_pairs(peer)) {
        parts_.resources.drop_all_queue_pairs(peer);
    }
    const bool shared = parts_.sharing.chooses(peer);
    if (!shared && (!parts_.limit.has_room() || parts_.limit.goes_behind(peer))) {
        return false;
    }
    parts_.resources.set_kind(peer, shared);
    const Status status = parts_.resources.make(peer);
    if (parts_.limit.no_room_says(status) || is_away(status)) {
        return false;
    }
    parts_.limit.stop_waiting(peer);
    ++peer.connection.number;
    if (!status.ok()) {
        parts_.teardown.fail(peer, status, "the queue pairs of the connection could not be made");
        return true;
    }
    peer.session.state = ConnectState::requested;
    peer.connection.activity.asked = context_.options.clock->now();
    ++context_.counters.connections_requested;
    note_event(context_.counters.trace, TraceKind::connect,
               {.peer = peer.contact.name, .id = peer.contact.name});
    context_.counters.connections_retried += peer.connection.activity.refusals > 0 ? 1 : 0;
    static_cast<void>(parts_.messages.send(peer, MessageType::connect_request));
    return true;
}

// A peer that goes without a connection waits for one only if it cannot.
void Handshake::ask_or_wait(Peer& peer) {
    const bool waits = !rests(peer) || needs(peer);
    if (!ask(peer) && waits && !peer.connection.wanted_link.linked()) {
        parts_.limit.wait(peer, peer.connection.without.until);
    }
}

void Handshake::on_message(Peer& peer, const MessageHeader& header, const std::byte* body) {
    const Need need{(header.flags & kConnectNeeded) != 0, (header.flags & kConnectAwaited) != 0,
                    (header.flags & kConnectRequired) != 0};
    // This process cannot reach the peer yet and has sent it nothing, so only a request can be
    // valid.
    if (peer.contact.datagram.coming) {
        if (header.type == MessageType::connect_request) {
            keep_for_later(peer, read_connect(header, body));
        }
        return;
    }
    switch (header.type) {
    case MessageType::connect_request: on_request(peer, read_connect(header, body), need); break;
    case MessageType::connect_reply: on_reply(peer, read_connect(header, body)); break;
    case MessageType::connect_confirm: on_confirm(peer, read_connect(header, body)); break;
    case MessageType::connect_refuse: on_refuse(peer, read_body<ConnectNote>(body)); break;
    default: ++context_.counters.bad_packets; break;
    }
}

// Keeps a request until this side is ready for it, for instance until it has finished the
// disconnect or closing as the peer has. Keeps the latest one: datagrams overtake each other.
void Handshake::keep_for_later(Peer& peer, const ConnectBody& request) {
    if (peer.connection.early_request == nullptr ||
        sequence_before(peer.connection.early_request->connection, request.connection)) {
        peer.connection.early_request = std::make_unique<ConnectBody>(request);
    }
}

// REQUIRES: the peer is idle.
void Handshake::on_first_request(Peer& peer, const ConnectBody& body, Need need) {
    if (peer.disconnecting()) {
        keep_for_later(peer, body); // the answer to this side's may still be on its way
        return;
    }
    ++peer.connection.number;
    accept(peer, body, need);
}

// The peer waits for the answer, also if this side has asked meanwhile: then one of both requests
// is to be answered, as if they had just crossed.
void Handshake::on_disconnect_revoked(Peer& peer) {
    if (peer.connection.early_request == nullptr || peer.contact.datagram.coming ||
        (peer.session.state != ConnectState::idle &&
         peer.session.state != ConnectState::requested)) {
        return;
    }
    const auto early = std::move(peer.connection.early_request);
    on_request(peer, *early, kNeeded);
}

void Handshake::on_request(Peer& peer, const ConnectBody& body, Need need) {
    const bool same = body.connection == peer.connection.remote_number;
    if (peer.connection.remote_number != 0 &&
        sequence_before(body.connection, peer.connection.remote_number)) {
        return; // of an earlier connection
    }
    if (!same && repairs_what_is_gone(peer, body)) {
        say_refused(peer, body, RefusalReason::no_room);
        return;
    }
    switch (peer.session.state) {
    case ConnectState::requested:
        ++context_.counters.connections_crossed;
        if (context_.options.self > peer.contact.name) {
            // The peer answers this side's request, or has refused it before it sent its own. The
            // answer may have overtaken this request, which the peer has thus given up.
            if (!same) {
                keep_for_later(peer, body);
            }
            return;
        }
        if (!same) {
            accept(peer, body, need);
        }
        return;
    case ConnectState::idle:
        if (!same) {
            on_first_request(peer, body, need);
        }
        return;
    case ConnectState::answered:
        if (!same && replaces(peer, body)) {
            open(peer); // the confirmation is late
            on_request(peer, body, need);
            return;
        }
        if (!same && body.replaces != 0) { // this side's reply came to nothing
            parts_.resources.drop_queue_pairs(peer);
            ++peer.connection.number;
            accept(peer, body, need);
            return;
        }
        // The peer has since refused this side's request, and has thereby given up its own.
        if (!same && !peer.interruption.repair.active) {
            parts_.teardown.close(peer, ConnectState::idle);
            on_request(peer, body, need);
            return;
        }
        [[fallthrough]];
    case ConnectState::open:
        if (same) {
            static_cast<void>(parts_.messages.send(peer, MessageType::connect_reply)); // doubled
        } else if (replaces(peer, body)) {
            keep_for_later(peer, body);
            parts_.repairs.begin(peer);
        } else if (peer.session.disconnect_sent) {
            keep_for_later(peer, body);
        } else {
            ++context_.counters.bad_packets;
        }
        return;
    case ConnectState::closing:
        if (!same && replaces(peer, body)) {
            keep_for_later(peer, body);
            parts_.repairs.begin(peer);
        } else if (!same) {
            // The peer has finished closing; its message about that is still on its way.
            keep_for_later(peer, body);
            peer.connection.closing.agreed = true;
        }
        return;
    case ConnectState::repairing:
        if (!same) {
            keep_for_later(peer, body);
            parts_.repairs.begin(peer);
        }
        return;
    case ConnectState::failed: say_refused(peer, body, RefusalReason::broken); return;
    }
}

// Returns true if the peer has finished the disconnect, and wants its next connection, while this
// side repairs the one before.
bool Handshake::is_behind(const Peer& peer, const ConnectBody& body) {
    return peer.interruption.repair.active && body.replaces == 0 && peer.disconnecting();
}

void Handshake::accept(Peer& peer, const ConnectBody& body, Need need) {
    if (is_behind(peer, body)) {
        keep_for_later(peer, body);
        parts_.repairs.take_over(peer, body.expected);
        parts_.teardown.close(peer, ConnectState::idle);
        context_.events.report(peer, ConnectEvent::unconnected);
        return;
    }
    if (context_.listener.goes_without(peer, body.subchannel_count == 0)) {
        go_without(peer, body);
        return;
    }
    const bool shared = body.access_key != 0;
    // One of its own has its place already, also while it is repaired; a shared one has none.
    const bool has_place = !peer.lanes.subchannels.empty() && !peer.connection.shared;
    const bool may_have =
        need.required || peer.interruption.repair.active || !parts_.limit.goes_behind(peer);
    const bool able =
        shared ? parts_.sharing.may_share(peer) && parts_.sharing.may_share_now(peer, need.awaited)
               : has_place || (parts_.limit.has_room() && may_have);
    if (!able) {
        refuse(peer, body, need);
        return;
    }
    parts_.resources.set_kind(peer, shared);
    if (context_.listener.take_pairs(peer, body)) {
        parts_.resources.drop_all_queue_pairs(peer);
    }
    if (peer.interruption.repair.active) {
        parts_.repairs.take_over(peer, body.expected);
    }
    const bool lacks = !peer.lanes.subchannels.empty() && peer.lanes.live_subchannels() == 0;
    Status status = lacks || peer.interruption.repair.active ? parts_.queue_pairs.make_all(peer)
                                                             : parts_.resources.make(peer);
    if (parts_.limit.no_room_says(status)) {
        refuse(peer, body, need);
        return;
    }
    if (status.ok()) {
        parts_.cm_connects.prepare(peer, body, false);
        status = connect_subchannels(peer, body);
    }
    if (status.ok() ? peer.lanes.live_subchannels() == 0 : comes_again(peer, status)) {
        refuse(peer, body, need);
        return;
    }
    if (!status.ok()) {
        lose(peer, body, status, "the connection that the peer requested could not be made");
        return;
    }
    parts_.limit.stop_waiting(peer);
    peer.connection.remote_number = body.connection;
    peer.session.state = ConnectState::answered;
    static_cast<void>(parts_.cm_connects.begin(peer));
    ++context_.counters.connections_accepted;
    static_cast<void>(parts_.messages.send(peer, MessageType::connect_reply));
}

void Handshake::say_refused(Peer& peer, const ConnectBody& body, RefusalReason reason) {
    peer.connection.remote_number = body.connection;
    say_refused(peer, reason);
}

// Same for the attempt of the peer's that was answered last.
void Handshake::say_refused(Peer& peer, RefusalReason reason) {
    peer.connection.refusal = static_cast<std::uint32_t>(reason);
    static_cast<void>(parts_.messages.send(peer, MessageType::connect_refuse));
}

// Gives the peer up, and tells it afterwards (on_events_handled), since giving up drops messages on
// their way to it.
void Handshake::lose(Peer& peer, const ConnectBody& body, Status status, const std::string& what) {
    parts_.teardown.fail(peer, status, what, ConnectEvent::failed_here);
    peer.connection.remote_number = body.connection;
}

// Refuses the request, since one of both sides goes on without a connection. A connection that is
// being repaired ends with that.
void Handshake::go_without(Peer& peer, const ConnectBody& body) {
    if (peer.interruption.repair.active) {
        parts_.repairs.take_over(peer, body.expected);
    }
    if (!peer.lanes.subchannels.empty() || peer.session.state != ConnectState::idle) {
        parts_.teardown.close(peer, ConnectState::idle);
        context_.events.report(peer, ConnectEvent::unconnected);
    }
    ++context_.counters.connections_refused;
    say_refused(peer, body, RefusalReason::no_room);
}

// Refuses the request. The peer asks again if it needs the connection; meanwhile this side looks
// for room, and asks itself when there is some. During a repair there is room, and this side waits
// for a path.
void Handshake::refuse(Peer& peer, const ConnectBody& body, Need need) {
    if (peer.interruption.repair.active) {
        say_refused(peer, body, RefusalReason::no_path);
        if (peer.session.state != ConnectState::failed) {
            parts_.repairs.wait_for_path(peer);
        }
        return;
    }
    if (!peer.lanes.subchannels.empty() || peer.session.state == ConnectState::requested) {
        parts_.teardown.close(peer, ConnectState::idle); // a request of this side's is given up
        context_.events.report(peer, ConnectEvent::unconnected);
    }
    ++context_.counters.connections_refused;
    if (body.access_key == 0) {
        peer.connection.activity.asks_itself = false; // it would be in vain
    }
    const bool comes_again = context_.options.sharing == Sharing::spare && body.access_key == 0 &&
                             parts_.sharing.may_share(peer) &&
                             (!parts_.sharing.limited() || need.awaited);
    if (need.any && !comes_again) {
        peer.connection.activity.required = need.required;
        peer.connection.activity.active = context_.options.clock->now();
        if (!peer.connection.wanted_link.linked()) {
            parts_.limit.wait(peer, Nanoseconds{0});
        }
    }
    say_refused(peer, body, RefusalReason::no_room);
}

void Handshake::on_refuse(Peer& peer, const ConnectNote& note) {
    const bool over = note.number == static_cast<std::uint32_t>(RefusalReason::over);
    const bool broken = note.number == static_cast<std::uint32_t>(RefusalReason::broken);
    const bool expected = (peer.session.state == ConnectState::requested && !over) ||
                          (peer.session.state == ConnectState::answered && (over || broken));
    if (!expected || note.answers != peer.connection.number) {
        return; // answered after all, by a request of the peer's own
    }
    if (broken) {
        parts_.teardown.fail(peer, Status::error(Reason::unreachable),
                             "the other side has given the connection up");
        return;
    }
    if (peer.interruption.repair.active) {
        parts_.repairs.take_over(peer, note.expected);
        if (note.number == static_cast<std::uint32_t>(RefusalReason::no_path)) {
            parts_.repairs.wait_for_path(peer);
            return;
        }
    }
    parts_.teardown.keep(peer);
    ++peer.connection.activity.refusals;
    if (const auto early = std::move(peer.connection.early_request); early != nullptr) {
        on_request(peer, *early, kNeeded);
        if (peer.session.state != ConnectState::idle) {
            return;
        }
    }
    const bool shares = !rests(peer) && context_.options.sharing == Sharing::spare &&
                        !peer.connection.shared && parts_.sharing.may_share(peer) &&
                        is_needed(peer) && parts_.sharing.shares_at_once(peer);
    if (shares) {
        peer.connection.activity.asks_itself = true;
        peer.connection.activity.preference = SharingPreference::shared;
        request(peer);
        if (peer.interruption.active) { // what waits behind it does not wait for the new one
            context_.events.report(peer, ConnectEvent::unconnected);
        }
        return;
    }
    if (!peer.connection.shared) {
        constexpr std::uint32_t kOwnDoublings = 6;
        const std::uint32_t doublings = std::min(peer.connection.activity.refusals, kOwnDoublings);
        peer.connection.activity.own_after =
            context_.options.clock->now() + context_.options.own_pause * (1u << doublings);
        peer.connection.activity.chosen = false; // no other connection is closed for it meanwhile
    }
    peer.connection.activity.preference = SharingPreference::any;
    ask_later(peer);
}

// Called when the peer's attempt has come to nothing. The pause grows to about a second. Each
// request makes a queue pair in vain; the refusing side asks, too, when there is room, though not
// if that takes long. One-sided operations have no other way.
void Handshake::ask_later(Peer& peer) {
    constexpr double kFirstPause = 100'000; // ns
    constexpr std::uint32_t kDoublings = 13;
    constexpr std::uint32_t kUrgentDoublings = 6;
    const double more = context_.options.random->unit();
    const auto later = [&](std::uint32_t doublings) {
        const double pauses =
            (1 + more) * (1u << std::min(peer.connection.activity.refusals, doublings));
        return context_.options.clock->now() +
               Nanoseconds{static_cast<std::int64_t>(pauses * kFirstPause)};
    };
    if (is_needed(peer) && !rests(peer) && !peer.connection.wanted_link.linked()) {
        parts_.limit.wait(peer, later(kDoublings));
        peer.connection.activity.urgent_at = later(kUrgentDoublings);
    }
    context_.events.report(peer, ConnectEvent::unconnected);
}

void Handshake::on_reply(Peer& peer, const ConnectBody& body) {
    if (body.answers != peer.connection.number) {
        const bool earlier = sequence_before(body.answers, peer.connection.number);
        context_.counters.bad_packets += earlier ? 0 : 1;
        // This side gave its request up when it refused one of the peer's, or with a disconnect.
        // The peer, which has answered it since, would wait for the confirmation, also if its own
        // request crossed that, and this side has answered it: the attempt is the same.
        if (earlier && peer.session.state == ConnectState::answered &&
            body.connection == peer.connection.remote_number) {
            parts_.teardown.close(peer, ConnectState::idle);
            context_.events.report(peer, ConnectEvent::unconnected);
        }
        if (earlier && peer.session.state == ConnectState::idle &&
            !sequence_before(body.connection, peer.connection.remote_number)) {
            say_refused(peer, body, RefusalReason::over);
        }
        return;
    }
    if (peer.session.state == ConnectState::open &&
        body.connection == peer.connection.remote_number) {
        static_cast<void>(parts_.messages.send(peer, MessageType::connect_confirm)); // doubled
        return;
    }
    if (peer.session.state == ConnectState::idle || peer.in.teardown_pending) {
        // Requested before a disconnect that is over: the request came to nothing here, which the
        // peer has to know.
        say_refused(peer, body, RefusalReason::over);
        return;
    }
    if (peer.session.state != ConnectState::requested || peer.connection.cm_connect_link.linked()) {
        return;
    }
    if ((body.access_key != 0) != peer.connection.shared) {
        ++context_.counters.bad_packets; // a reply must be of the kind that was requested
        return;
    }
    // The reply has the number of the peer's own request, if that crossed this side's: the peer has
    // given it up.
    const ConnectBody* const early = peer.connection.early_request.get();
    if (early != nullptr && !sequence_before(body.connection, early->connection)) {
        peer.connection.early_request.reset();
    }
    peer.connection.remote_number = body.connection;
    if (peer.interruption.repair.active) {
        parts_.repairs.take_over(peer, body.expected);
    }
    parts_.cm_connects.prepare(peer, body, true);
    if (const Status status = connect_subchannels(peer, body);
        !status.ok() || peer.lanes.live_subchannels() == 0) {
        if (!comes_again(peer, status)) {
            lose(peer, body, status, "the connection could not be completed");
        } else if (peer.interruption.repair.active) {
            parts_.repairs.wait_for_path(peer); // the next request tells that this came to nothing
        } else {
            parts_.teardown.close(peer, ConnectState::idle);
            ++peer.connection.activity.refusals;
            ask_later(peer);
            say_refused(peer, body, RefusalReason::over);
        }
        return;
    }
    if (!parts_.cm_connects.begin(peer)) {
        confirm(peer);
    }
}

// REQUIRES: requested; all queue pairs that are left are in RTS.
void Handshake::confirm(Peer& peer) {
    static_cast<void>(parts_.messages.send(peer, MessageType::connect_confirm));
    if (peer.session.state == ConnectState::requested && !ConnectionEvents::is_unsent(peer)) {
        const Nanoseconds took = context_.options.clock->now() - peer.connection.activity.asked;
        const auto nanoseconds = static_cast<std::uint64_t>(took.count());
        ++context_.counters.connections_timed;
        context_.counters.connect_nanoseconds += nanoseconds;
        context_.counters.connect_nanoseconds_most =
            std::max(context_.counters.connect_nanoseconds_most, nanoseconds);
        open(peer);
    }
}

// A peer that waits for the confirmation is not told: it finds that out by itself.
void Handshake::on_cm_connect_failed(Peer& peer, const std::string& what) {
    parts_.teardown.fail(peer, Status::error(Reason::unreachable), what,
                         peer.connection.cm_connect.initiates ? ConnectEvent::failed_here
                                                              : ConnectEvent::failed);
}

void Handshake::on_confirm(Peer& peer, const ConnectBody& body) {
    if (peer.session.state != ConnectState::answered) {
        return; // doubled
    }
    if (body.answers != peer.connection.number ||
        body.connection != peer.connection.remote_number) {
        // The confirmed attempt may be over by the time that the message finds room.
        const bool late = sequence_before(body.connection, peer.connection.remote_number) ||
                          sequence_before(body.answers, peer.connection.number);
        context_.counters.bad_packets += late ? 0 : 1;
        return;
    }
    for (Subchannel& subchannel : peer.lanes.subchannels) {
        if (find(body, subchannel) == nullptr) {
            parts_.queue_pairs.drop(peer, subchannel); // the other side could not connect it
        }
    }
    if (peer.lanes.live_subchannels() == 0) {
        ++context_.counters.bad_packets;
        parts_.teardown.fail(peer, Status::error(Reason::bad_wire),
                             "the other side confirms none of the paths");
        return;
    }
    open(peer);
}

// Returns the other side's description of that subchannel; null: none.
const ConnectSubchannel* Handshake::find(const ConnectBody& body, const Subchannel& subchannel) {
    const ConnectSubchannel* const end = body.subchannels + body.subchannel_count;
    const ConnectSubchannel* const found =
        std::find_if(body.subchannels, end, [&](const ConnectSubchannel& each) {
            return each.rail == subchannel.remote_rail && each.to == subchannel.local_rail &&
                   each.path == subchannel.path;
        });
    return found == end ? nullptr : found;
}

// Connects the subchannels that both sides can use; drops the others. Errors: of the first failure,
// if all failed; `again`: another attempt may succeed.
Status Handshake::connect_subchannels(Peer& peer, const ConnectBody& body) {
    Status first = parts_.queue_pairs.prepare(peer);
    if (!first.ok()) {
        return first;
    }
    peer.connection.access_key = body.access_key;
    peer.connection.key_epoch = static_cast<std::uint8_t>(body.key_epoch);
    for (Subchannel& subchannel : peer.lanes.subchannels) {
        const ConnectSubchannel* const remote = find(body, subchannel);
        if (remote == nullptr) {
            parts_.queue_pairs.drop(peer, subchannel);
        } else if (subchannel.qp != nullptr) {
            const Status status = parts_.queue_pairs.connect(peer, subchannel, *remote);
            if (!status.ok()) {
                first = first.ok() ? status : first;
                parts_.queue_pairs.lose_path(peer, subchannel, status);
            }
        }
    }
    RemoteRings::note(peer, body);
    return peer.lanes.live_subchannels() > 0 ? kOk : first;
}

void Handshake::open(Peer& peer) {
    parts_.cm_connects.leave(peer);
    peer.session.state = ConnectState::open;
    ++context_.counters.connections_open;
    context_.counters.connections_most =
        std::max(context_.counters.connections_most, context_.counters.connections_open);
    context_.counters.connections_reused +=
        std::exchange(peer.connection.kept.reused, false) ? 1 : 0;
    peer.connection.early_request.reset();
    peer.connection.closing = {};
    peer.connection.activity.preference = SharingPreference::any;
    if (!peer.connection.shared) { // otherwise what was refused are still queue pairs of its own
        peer.connection.activity.refusals = 0;
        peer.connection.activity.own_after = Nanoseconds{0};
        peer.connection.activity.asks_itself = false;
    }
    peer.connection.activity.active = peer.connection.activity.turn_began =
        context_.options.clock->now();
    peer.connection.activity.required = false;
    if (peer.connection.remote_ring.units > 0) {
        parts_.remote_rings.open(peer);
    }
    peer.session.repairable =
        context_.options.fault_tolerance && peer.contact.name != context_.options.self;
    if (peer.session.repairable &&
        (peer.interruption.repair.wanted || parts_.repairs.uses_failed_path(peer))) {
        parts_.repairs.begin(peer); // one has failed meanwhile
        return;
    }
    peer.interruption.repair.wanted = false;
    if (peer.interruption.repair.active) {
        parts_.repairs.end(peer);
    }
    parts_.measurement.add(peer);
    context_.events.report(peer, ConnectEvent::connected);
}

void Handshake::on_events_handled(Peer& peer, ConnectEventSet handled) {
    if (handled.has(ConnectEvent::connected) &&
        std::exchange(peer.interruption.repair.improve, false)) {
        parts_.repairs.improve(peer);
    }
    if (handled.has(ConnectEvent::failed_here)) {
        say_refused(peer, RefusalReason::broken);
    }
}

void Handshake::on_kept_request(Peer& peer, const ConnectBody& request) {
    ++peer.connection.number;
    accept(peer, request, kNeeded);
}

void Handshake::on_closing_agreed(Peer& peer) {
    constexpr Nanoseconds kAfterYielding{1'000'000}; // before the connection is requested again
    const bool yielded = peer.transfers.yields;
    parts_.teardown.keep(peer);
    ++context_.counters.connections_closed;
    peer.connection.activity.asks_itself = false;
    peer.flow.messages_sent = 0;
    if (yielded &&
        !peer.connection.wanted_link.linked()) { // others first, at the other end as well
        parts_.limit.wait(peer, context_.options.clock->now() + kAfterYielding);
    }
    parts_.limit.serve_soon(); // waiting peers have their turn at once
    if (const auto early = std::move(peer.connection.early_request); early != nullptr) {
        on_request(peer, *early, kNeeded);
    }
    grant_preference(peer);
    context_.events.report(peer, ConnectEvent::unconnected);
}

// Called when the connection is closed: requests the preferred kind.
void Handshake::grant_preference(Peer& peer) {
    if (peer.session.state == ConnectState::idle &&
        peer.connection.activity.preference != SharingPreference::any) {
        request(peer);
    }
}

bool Handshake::renew_shared(Peer& peer, Subchannel& subchannel) {
    if (!peer.connection.shared || !peer.session.in_handshake()) {
        return false;
    }
    std::unique_ptr<QueuePair> old = std::move(subchannel.qp);
    peer.in.credit_work.begin();
    if (const Status status = parts_.queue_pairs.make_shared(peer, subchannel); !status.ok()) {
        if (parts_.repairs.may_begin(peer)) { // repairs as usual, once both sides have agreed
            subchannel.qp = std::move(old);
            parts_.repairs.begin(peer);
        } else {
            parts_.teardown.fail(peer, status,
                                 "the shared queue pair of the connection could not be replaced");
        }
        return true;
    }
    peer.shared_queue_pair(subchannel)->take_destination(static_cast<SharedQueuePair&>(*old));
    return true;
}

} // namespace adaptib
