// SPDX-License-Identifier: BSD-3-Clause
// Handlers of arriving handshake messages (connect/connection_manager.h has the state diagram).
#include <algorithm>
#include <utility>

#include "connect/connection_manager.h"

namespace adaptib {

namespace {

// Returns true if another attempt may find a path.
bool comes_again(const Peer& peer, Status status) {
    return peer.interruption.repair.active && status.reason() != Reason::peer_gone;
}

// Returns true if the other side has fenced the connection that this side has.
bool replaces(const Peer& peer, const ConnectBody& request) {
    return request.replaces != 0 && request.replaces == peer.connection.remote_number;
}

} // namespace

// Returns false if there is no room, or no way to the peer yet.
bool ConnectionManager::ask(Peer& peer) {
    if (peer.contact.datagram.coming) {
        return false;
    }
    const bool shared = sharing_.chooses(peer);
    if (!shared && (!limit_.has_room() || limit_.goes_behind(peer))) {
        return false;
    }
    set_kind(peer, shared);
    const Status status = prepare(peer);
    if (limit_.no_room_says(status)) {
        return false;
    }
    limit_.stop_waiting(peer);
    ++peer.connection.number;
    if (!status.ok()) {
        fail(peer, status, "the queue pairs of the connection could not be made");
        return true;
    }
    peer.session.state = ConnectState::requested;
    peer.connection.activity.asked = context_.options.clock->now();
    ++context_.counters.connections_requested;
    context_.counters.connections_retried += peer.connection.activity.refusals > 0 ? 1 : 0;
    static_cast<void>(messages_.send(peer, MessageType::connect_request));
    return true;
}

void ConnectionManager::ask_or_wait(Peer& peer) {
    if (!ask(peer) && !peer.connection.wanted_link.linked()) {
        limit_.wait(peer, Nanoseconds{0});
    }
}

void ConnectionManager::on_handshake(Peer& peer, const MessageHeader& header,
                                     const std::byte* body) {
    const Need need{(header.flags & kConnectNeeded) != 0, (header.flags & kConnectAwaited) != 0,
                    (header.flags & kConnectRequired) != 0};
    // Only the peer's own request can be meant: the peer has heard nothing.
    if (peer.contact.datagram.coming) {
        if (header.type == MessageType::connect_request) {
            keep_for_later(peer, read_body<ConnectBody>(body));
        }
        return;
    }
    switch (header.type) {
    case MessageType::connect_request: on_request(peer, read_body<ConnectBody>(body), need); break;
    case MessageType::connect_reply: on_reply(peer, read_body<ConnectBody>(body)); break;
    case MessageType::connect_confirm: on_confirm(peer, read_body<ConnectBody>(body)); break;
    case MessageType::connect_refuse: on_refuse(peer, read_body<ConnectNote>(body)); break;
    case MessageType::connect_close: closings_.on_close(peer, read_body<ConnectNote>(body)); break;
    case MessageType::connect_keep: closings_.on_keep(peer, read_body<ConnectNote>(body)); break;
    case MessageType::connect_yield: yielding_.on_yield(peer, read_body<ConnectNote>(body)); break;
    default: ++context_.counters.bad_packets; break;
    }
}

// Keeps a request until this side is ready for it, for instance until it has finished the
// disconnect or closing as the peer has. Keeps the latest one: datagrams overtake each other.
void ConnectionManager::keep_for_later(Peer& peer, const ConnectBody& request) {
    if (peer.connection.early_request == nullptr ||
        sequence_before(peer.connection.early_request->connection, request.connection)) {
        peer.connection.early_request = std::make_unique<ConnectBody>(request);
    }
}

// REQUIRES: the peer is idle.
void ConnectionManager::on_first_request(Peer& peer, const ConnectBody& body, Need need) {
    if (peer.session.disconnect_sent && peer.ending.disconnect_received) {
        keep_for_later(peer, body); // the answer to this side's may still be on its way
        return;
    }
    if (body.replaces != 0) { // both sides ended the connection before it broke
        say_refused(peer, body, RefusalReason::no_room);
        return;
    }
    ++peer.connection.number;
    accept(peer, body, need);
}

void ConnectionManager::on_request(Peer& peer, const ConnectBody& body, Need need) {
    const bool same = body.connection == peer.connection.remote_number;
    if (peer.connection.remote_number != 0 &&
        sequence_before(body.connection, peer.connection.remote_number)) {
        return; // of an earlier connection
    }
    switch (peer.session.state) {
    case ConnectState::requested:
        ++context_.counters.connections_crossed;
        if (context_.options.self > peer.contact.name) {
            // The peer answers this side's request, or has refused it before it sent its own.
            keep_for_later(peer, body);
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
            drop_queue_pairs_of(peer);
            ++peer.connection.number;
            accept(peer, body, need);
            return;
        }
        // The peer has since refused this side's request, and has thereby given up its own.
        if (!same && !peer.interruption.repair.active) {
            close(peer, ConnectState::idle);
            on_request(peer, body, need);
            return;
        }
        [[fallthrough]];
    case ConnectState::open:
        if (same) {
            static_cast<void>(messages_.send(peer, MessageType::connect_reply)); // doubled
        } else if (replaces(peer, body)) {
            keep_for_later(peer, body);
            repairs_.begin(peer);
        } else if (peer.session.disconnect_sent) {
            keep_for_later(peer, body);
        } else {
            ++context_.counters.bad_packets;
        }
        return;
    case ConnectState::closing:
        if (!same && replaces(peer, body)) {
            keep_for_later(peer, body);
            repairs_.begin(peer);
        } else if (!same) {
            // The peer has finished closing; its message about that is still on its way.
            keep_for_later(peer, body);
            peer.connection.closing.agreed = true;
        }
        return;
    case ConnectState::repairing:
        if (!same) {
            keep_for_later(peer, body);
            repairs_.begin(peer);
        }
        return;
    case ConnectState::failed: say_refused(peer, body, RefusalReason::broken); return;
    }
}

void ConnectionManager::accept(Peer& peer, const ConnectBody& body, Need need) {
    const bool shared = body.access_key != 0;
    const bool able = shared
                          ? sharing_.may_share(peer) && sharing_.may_share_now(peer, need.awaited)
                          : !peer.lanes.subchannels.empty() ||
                                (limit_.has_room() && (need.required || !limit_.goes_behind(peer)));
    if (!able) {
        refuse(peer, body, need);
        return;
    }
    set_kind(peer, shared);
    if (peer.interruption.repair.active && !take_over(peer, body.expected)) {
        return;
    }
    Status status = peer.interruption.repair.active ? queue_pairs_.make_all(peer) : prepare(peer);
    if (limit_.no_room_says(status)) {
        refuse(peer, body, need);
        return;
    }
    if (status.ok()) {
        cm_connects_.prepare(peer, body, false);
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
    limit_.stop_waiting(peer);
    peer.connection.remote_number = body.connection;
    peer.session.state = ConnectState::answered;
    static_cast<void>(cm_connects_.begin(peer));
    ++context_.counters.connections_accepted;
    static_cast<void>(messages_.send(peer, MessageType::connect_reply));
}

void ConnectionManager::say_refused(Peer& peer, const ConnectBody& body, RefusalReason reason) {
    peer.connection.remote_number = body.connection;
    say_refused(peer, reason);
}

// Same for the attempt of the peer's that was answered last.
void ConnectionManager::say_refused(Peer& peer, RefusalReason reason) {
    peer.connection.refusal = static_cast<std::uint32_t>(reason);
    static_cast<void>(messages_.send(peer, MessageType::connect_refuse));
}

// Gives the peer up, and tells it. In this order, since giving up drops messages on their way to
// it.
void ConnectionManager::lose(Peer& peer, const ConnectBody& body, Status status,
                             const std::string& what) {
    fail(peer, status, what);
    say_refused(peer, body, RefusalReason::broken);
}

// Refuses the request. The peer asks again if it needs the connection; meanwhile this side looks
// for room, and asks itself when there is some. During a repair there is room, and this side waits
// for a path.
void ConnectionManager::refuse(Peer& peer, const ConnectBody& body, Need need) {
    if (peer.interruption.repair.active) {
        say_refused(peer, body, RefusalReason::no_path);
        if (peer.session.state != ConnectState::failed) {
            wait_for_path(peer);
        }
        return;
    }
    if (!peer.lanes.subchannels.empty()) {
        close(peer, ConnectState::idle);
    }
    ++context_.counters.connections_refused;
    if (body.access_key == 0) {
        peer.connection.activity.asks_itself = false; // it would be in vain
    }
    const bool comes_again = context_.options.sharing == Sharing::spare && body.access_key == 0 &&
                             sharing_.may_share(peer) && (!sharing_.limited() || need.awaited);
    if (need.any && !comes_again) {
        peer.connection.activity.required = need.required;
        peer.connection.activity.active = context_.options.clock->now();
        if (!peer.connection.wanted_link.linked()) {
            limit_.wait(peer, Nanoseconds{0});
        }
    }
    say_refused(peer, body, RefusalReason::no_room);
}

void ConnectionManager::on_refuse(Peer& peer, const ConnectNote& note) {
    const bool over = note.number == static_cast<std::uint32_t>(RefusalReason::over);
    const bool broken = note.number == static_cast<std::uint32_t>(RefusalReason::broken);
    const bool expected = (peer.session.state == ConnectState::requested && !over) ||
                          (peer.session.state == ConnectState::answered && (over || broken));
    if (!expected || note.answers != peer.connection.number) {
        return; // answered after all, by a request of the peer's own
    }
    if (broken) {
        fail(peer, Status::error(Reason::unreachable),
             "the other side has given the connection up");
        return;
    }
    if (peer.interruption.repair.active) {
        if (!take_over(peer, note.expected)) {
            return;
        }
        if (note.number == static_cast<std::uint32_t>(RefusalReason::no_path)) {
            wait_for_path(peer);
            return;
        }
    }
    keep(peer);
    ++peer.connection.activity.refusals;
    if (const auto early = std::move(peer.connection.early_request); early != nullptr) {
        on_request(peer, *early, kNeeded);
        if (peer.session.state != ConnectState::idle) {
            return;
        }
    }
    const bool shares = context_.options.sharing == Sharing::spare && !peer.connection.shared &&
                        sharing_.may_share(peer) && is_needed(peer) &&
                        sharing_.shares_at_once(peer);
    if (shares) {
        peer.connection.activity.asks_itself = true;
        peer.connection.activity.preference = SharingPreference::shared;
        request(peer);
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
    // The pause grows to about a second. Each request makes a queue pair in vain; the refusing side
    // asks, too, when there is room, though not if that takes long. One-sided operations have no
    // other way.
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
    if (is_needed(peer) && !peer.connection.wanted_link.linked()) {
        limit_.wait(peer, later(kDoublings));
        peer.connection.activity.urgent_at = later(kUrgentDoublings);
    }
    context_.listener.on_unconnected(peer);
}

void ConnectionManager::on_reply(Peer& peer, const ConnectBody& body) {
    if (body.answers != peer.connection.number) {
        context_.counters.bad_packets +=
            sequence_before(body.answers, peer.connection.number) ? 0 : 1;
        return;
    }
    if (peer.session.state == ConnectState::open &&
        body.connection == peer.connection.remote_number) {
        static_cast<void>(messages_.send(peer, MessageType::connect_confirm)); // doubled
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
    if (peer.interruption.repair.active && !take_over(peer, body.expected)) {
        return;
    }
    cm_connects_.prepare(peer, body, true);
    if (const Status status = connect_subchannels(peer, body);
        !status.ok() || peer.lanes.live_subchannels() == 0) {
        if (comes_again(peer, status)) {
            wait_for_path(peer); // the next request tells that this one came to nothing
        } else {
            lose(peer, body, status, "the connection could not be completed");
        }
        return;
    }
    peer.connection.remote_number = body.connection;
    if (!cm_connects_.begin(peer)) {
        confirm(peer);
    }
}

// REQUIRES: requested; all queue pairs that are left are in RTS.
void ConnectionManager::confirm(Peer& peer) {
    static_cast<void>(messages_.send(peer, MessageType::connect_confirm));
    if (peer.session.state == ConnectState::requested) {
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
void ConnectionManager::on_cm_connect_failed(Peer& peer, const std::string& what) {
    const bool asks = peer.connection.cm_connect.asks;
    fail(peer, Status::error(Reason::unreachable), what);
    if (asks) {
        say_refused(peer, RefusalReason::broken); // in this order: see lose()
    }
}

void ConnectionManager::on_confirm(Peer& peer, const ConnectBody& body) {
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
            queue_pairs_.drop(peer, subchannel); // the other side could not connect it
        }
    }
    if (peer.lanes.live_subchannels() == 0) {
        ++context_.counters.bad_packets;
        fail(peer, Status::error(Reason::bad_wire), "the other side confirms none of the paths");
        return;
    }
    open(peer);
}

// Returns the other side's description of that subchannel; null: none.
const ConnectSubchannel* ConnectionManager::find(const ConnectBody& body,
                                                 const Subchannel& subchannel) {
    const ConnectSubchannel* const end = body.subchannels + body.subchannel_count;
    const ConnectSubchannel* const found =
        std::find_if(body.subchannels, end, [&](const ConnectSubchannel& each) {
            return each.rail == subchannel.remote_rail && each.path == subchannel.path;
        });
    return found == end ? nullptr : found;
}

// Connects the subchannels that both sides can use; drops the others. Errors: of the first failure,
// if all failed.
Status ConnectionManager::connect_subchannels(Peer& peer, const ConnectBody& body) {
    Status first = kOk;
    peer.connection.access_key = body.access_key;
    for (Subchannel& subchannel : peer.lanes.subchannels) {
        const ConnectSubchannel* const remote = find(body, subchannel);
        if (remote == nullptr) {
            queue_pairs_.drop(peer, subchannel);
        } else if (subchannel.qp != nullptr) {
            const Status status = queue_pairs_.connect(peer, subchannel, *remote);
            if (!status.ok()) {
                first = first.ok() ? status : first;
                queue_pairs_.lose_path(peer, subchannel, status);
            }
        }
    }
    RemoteRings::note(peer, body);
    return peer.lanes.live_subchannels() > 0 ? kOk : first;
}

void ConnectionManager::open(Peer& peer) {
    cm_connects_.leave(peer);
    peer.session.state = ConnectState::open;
    ++context_.counters.connections_open;
    context_.counters.connections_most =
        std::max(context_.counters.connections_most, context_.counters.connections_open);
    context_.counters.connections_reused += std::exchange(peer.connection.reuses, false) ? 1 : 0;
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
        remote_rings_.open(peer);
    }
    peer.session.repairable =
        context_.options.fault_tolerance && peer.contact.name != context_.options.self;
    if (peer.session.repairable &&
        (peer.interruption.repair.wanted || repairs_.uses_failed_path(peer))) {
        repairs_.begin(peer); // one has failed meanwhile
        return;
    }
    peer.interruption.repair.wanted = false;
    if (peer.interruption.repair.active) {
        end_repair(peer);
    }
    measurement_.add(peer);
    context_.listener.on_connected(peer);
    if (std::exchange(peer.interruption.repair.improve, false)) {
        repairs_.improve(peer);
    }
}

} // namespace adaptib
