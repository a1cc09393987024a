// SPDX-License-Identifier: BSD-3-Clause
#include "core/connection_reactions.h"

#include <algorithm>
#include <chrono>

#include "core/derived_options.h"
#include "core/peer_text.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kReportRepairs{1'000'000'000}; // at most one notice per this time

// Tells a repair apart from others, in a trace: it may be interrupted several times.
std::uint64_t repair_id(const Peer& peer) {
    return peer.contact.name ^ static_cast<std::uint64_t>(peer.interruption.repair.began.count());
}

} // namespace

void ConnectionReactions::on_ring_offered(Peer& peer) { parts_->progress.heat(peer); }

void ConnectionReactions::on_ring_final(Peer& peer) { parts_->progress.rings().empty(peer); }

void ConnectionReactions::on_ring_withdrawn(Peer& peer) { parts_->progress.rings().remove(peer); }

void ConnectionReactions::on_connected(Peer& peer) {
    note(TraceKind::connect_end, peer, peer.contact.name); // if this process has requested it
    note(TraceKind::connected, peer);
    note_standby(peer);
    parts_->protocol.on_connected(peer);
}

void ConnectionReactions::on_unconnected(Peer& peer) {
    note(TraceKind::connect_end, peer, peer.contact.name);
    note(TraceKind::unconnected, peer);
    parts_->protocol.on_unconnected(peer);
}

// Adds the error text of the first rail that has one.
void ConnectionReactions::on_connect_failed(Peer& peer, Status status, const std::string& what) {
    note(TraceKind::connect_end, peer, peer.contact.name);
    if (parts_->progress.departures().leaves(peer)) {
        peer.session.state =
            peer.session.state == ConnectState::failed ? ConnectState::idle : peer.session.state;
        return;
    }
    std::string why;
    for (std::uint32_t i = peer.contact.route.local.first;
         i < peer.contact.route.local.end() && why.empty(); ++i) {
        why = parts_->rails[i]->last_error_text();
        if (what.find(why) != std::string::npos) {
            why.clear();
        }
        if (!why.empty()) {
            why.insert(0, "; rail " + parts_->rails[i]->info().name + ": ");
        }
    }
    parts_->protocol.failures().fail(peer, what + " (" + reason_text(status.reason()) + ")" + why);
}

void ConnectionReactions::on_notice(const std::string& text) { message_(Severity::notice, text); }

bool ConnectionReactions::is_usable(const Peer& peer, std::size_t pair) {
    const auto good = [&](std::size_t i) {
        return parts_->paths.usable(peer, i) && !UnconnectedPaths::has(peer, i);
    };
    bool any = false; // without any good one, failed paths are tried again
    for (std::size_t i = 0; i < peer.contact.route.count && !any; ++i) {
        any = good(i);
    }
    return any ? good(pair) : !parts_->paths.rail_down(peer.contact.route.pairs[pair].local);
}

// Does without the path for a while, if there is another one: a retry interrupts the connection.
void ConnectionReactions::on_path_unconnected(Peer& peer, std::size_t pair,
                                              const std::string& why) {
    parts_->progress.timers().unconnected().add(peer, pair, clock_.now());
    parts_->paths.report_suspect(peer, pair, why);
}

void ConnectionReactions::on_interrupted(Peer& peer) {
    note(TraceKind::repair, peer, repair_id(peer));
    note(IncidentKind::repair, peer);
    static_cast<void>(parts_->progress.departures().leaves(peer));
    parts_->protocol.on_interrupted(peer);
    parts_->watch.life().want(peer); // the repair needs an answer of the peer
}

// Destroyed queue pairs complete nothing any more; completions from before do not count. Takes them
// until there are none. Their handling may cause further ones, so the number is bounded by what the
// queues can hold.
void ConnectionReactions::on_abandoned(Peer& peer) {
    parts_->connections.abandon(peer);
    peer.interruption.abandoned = true;
    for (std::size_t left =
             kCompletionDepth * (parts_->rails.size() + parts_->counters.queue_pairs);
         left > 0;) {
        const std::size_t taken = parts_->progress.poll_completions();
        left = taken == 0 ? 0 : left - std::min(left, taken);
    }
    peer.interruption.abandoned = false;
    parts_->protocol.transfers().abandon(peer);
}

void ConnectionReactions::on_fenced(Peer& peer) { parts_->protocol.flow().on_fenced(peer); }

// The path repository reports what failed, path by path; this notice is for close observers.
void ConnectionReactions::on_repaired(Peer& peer, Nanoseconds took) {
    note(TraceKind::repair_end, peer, repair_id(peer));
    note(IncidentKind::repaired, peer, took);
    for (std::size_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        if (peer.lanes.subchannels[i].qp != nullptr) {
            parts_->paths.report_success(peer, i, parts_->datagram_paths.reports_paths(peer));
        }
    }
    const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    const Nanoseconds now = clock_.now();
    if (now - repair_reported_ < kReportRepairs && repair_reported_.count() > 0) {
        return;
    }
    repair_reported_ = now;
    message_(Severity::notice,
             "The connection to " + peer_text(peer.contact.name, peer.contact.address.host) +
                 " was made anew over " + std::to_string(peer.lanes.live_subchannels()) + " of " +
                 std::to_string(peer.lanes.subchannels.size()) + " paths; it took " +
                 std::to_string(microseconds) + " us.");
}

// Notes when a connection begins, and ceases, to have standby rails only.
void ConnectionReactions::note_standby(Peer& peer) const {
    const bool only = peer.lanes.only_standbys();
    if (only == peer.interruption.on_standby) {
        return;
    }
    peer.interruption.on_standby = only;
    const auto kind = only ? IncidentKind::standby_used : IncidentKind::standby_over;
    const Subchannel* const first = peer.lanes.first_standby();
    const std::uint8_t rail =
        first != nullptr ? static_cast<std::uint8_t>(first->local_rail) : Incident::kNoRail;
    note_incident(parts_->counters, {.peer = peer.contact.name, .kind = kind, .rail = rail});
}

void ConnectionReactions::on_partition(Peer& peer, Nanoseconds lasted) {
    note(TraceKind::unreachable, peer, 0, lasted);
    note(IncidentKind::unreachable, peer, lasted);
    parts_->datagram_paths.on_partition(peer, lasted);
}

bool ConnectionReactions::connect_at_start(std::uint64_t name, const Peer*& asked) {
    Peer* peer = nullptr;
    if (!parts_->peers.find_or_make(name, peer, PeerDirectory::Why::user).ok()) {
        return false;
    }
    if (peer->contact.datagram.coming) {
        parts_->connections.handshake().request(*peer); // is made once the peer is reached
    } else if (peer->contact.datagram.handle != nullptr &&
               !peer->ending.released) { // else contacted and released since
        parts_->connections.handshake().request_if_room(*peer);
        asked = peer;
    }
    return true;
}

std::uint32_t ConnectionReactions::endpoints_of(std::uint64_t process) {
    return parts_->peers.endpoints_of(process);
}

} // namespace adaptib
