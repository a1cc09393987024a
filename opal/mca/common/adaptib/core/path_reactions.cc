// SPDX-License-Identifier: BSD-3-Clause
#include "core/path_reactions.h"

#include <algorithm>

namespace adaptib {

namespace {

TraceKind kind_of(PathState state) {
    return state == PathState::up       ? TraceKind::path_up
           : state == PathState::failed ? TraceKind::path_failed
                                        : TraceKind::path_suspect;
}

IncidentKind incident_of(PathState state) {
    return state == PathState::up       ? IncidentKind::path_up
           : state == PathState::failed ? IncidentKind::path_failed
                                        : IncidentKind::path_suspect;
}

// Returns true for changes that are news. Those of paths that go down, and are tried again, with
// their rail are none: the rail's own incident says so, and there may be thousands.
bool is_incident(PathState was, PathState now, bool rail_down) {
    return !rail_down && !(was == PathState::failed && now == PathState::suspect);
}

} // namespace

// A queue pair is in the error state, by a completion or an event. A shared one fails for all peers
// that use it, but the failed request is one peer's; the others' connections are made anew.
void PathReactions::on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status,
                                   std::uint64_t wr_id) {
    const WorkTarget* owner = nullptr;
    if (parts_->shared != nullptr) {
        if (SharedInitiator* initiator = parts_->shared->find(rail, qp_number);
            initiator != nullptr) {
            owner = initiator->owner_of(wr_id);
            initiator->fail();
        }
    }
    const auto look = [&](Peer& peer) {
        for (std::size_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
            if (!peer.lanes.subchannels[i].has(rail, qp_number)) {
                continue;
            }
            if (parts_->connections.renew_shared(peer, peer.lanes.subchannels[i]) ||
                parts_->departures.takes(peer)) {
                return;
            }
            const bool own = !peer.connection.shared || owner == &peer.connection.quiet_work;
            const bool refused =
                peer.lanes.subchannels[i].refused; // its operation has ended already
            if (peer.session.repairable && (is_path_failure(status) || !own || refused)) {
                if (is_path_failure(status) && status != WorkStatus::flushed && own) {
                    parts_->paths.report_queue_pair_failure(
                        peer, i, work_status_text(status),
                        peer.lanes.subchannels[i].completions > 0,
                        parts_->datagram_paths.reports_paths(peer));
                }
                parts_->connections.repairs().begin(peer);
            } else if (parts_->paths.on() && is_path_failure(status) &&
                       peer.session.in_handshake()) {
                parts_->connections.repairs().begin(peer); // when it is open
            } else if (!peer.in.teardown_pending) {
                // A peer that is disconnected, and takes its end down, does not use the connection
                // any more.
                parts_->protocol.lost().lose(peer, std::string(work_status_text(status)) +
                                                       " on rail " +
                                                       parts_->rails[rail]->info().name);
            }
            return;
        }
    };
    for (Peer* peer : parts_->connections.queue_pairs().owners().find(rail, qp_number)) {
        look(*peer);
    }
    parts_->peers.for_each_loopback(look);
}

// Takes a path that is up again into the connection. Repairs the connection without a path that has
// failed, unless the adapter itself migrates to another path. Queue pairs that are not connected
// yet are looked at when the connection opens.
void PathReactions::on_path_changed(Peer& peer, std::size_t pair, PathState was, PathState now,
                                    const std::string&) {
    if (peer.session.lost()) {
        return;
    }
    const auto rail = static_cast<std::uint8_t>(peer.contact.route.pairs[pair].local);
    note_event(parts_->counters.trace, kind_of(now), {.peer = peer.contact.name, .rail = rail});
    if (is_incident(was, now, parts_->paths.rail_down(rail))) {
        note_incident(parts_->counters,
                      {.peer = peer.contact.name, .kind = incident_of(now), .rail = rail});
    }
    parts_->datagram_paths.on_path_changed(peer, pair, now);
    if (now == PathState::failed) {
        const bool used =
            pair < peer.lanes.subchannels.size() && peer.lanes.subchannels[pair].qp != nullptr;
        if (used && (peer.session.repairable || peer.session.is_answered()) &&
            !rides_out(peer, pair, peer.contact.route.pairs[pair].local)) {
            parts_->connections.repairs().begin(peer);
        }
    } else if (now == PathState::up) {
        parts_->connections.repairs().improve(peer);
    }
}

void PathReactions::on_path_line(const std::string& line) { message_(Severity::notice, line); }

// The peer repairs the connection, too. It may have asked for that before this side knew the new
// address: then the queue pairs just connected have the old one, and would wait for answers until
// their last retry. Those of a request are connected when it is answered.
void PathReactions::on_address_moved(Peer& peer, std::uint32_t remote_rail) {
    const PeerSession& session = peer.session;
    const bool connected = session.is_answered() || (session.connected() && session.repairable);
    const auto& all = peer.lanes.subchannels;
    const auto leads_there = [&](const Subchannel& subchannel) {
        return subchannel.qp != nullptr && subchannel.remote_rail == remote_rail;
    };
    if (parts_->paths.on() && connected && std::any_of(all.begin(), all.end(), leads_there)) {
        parts_->connections.repairs().begin(peer);
    }
}

} // namespace adaptib
