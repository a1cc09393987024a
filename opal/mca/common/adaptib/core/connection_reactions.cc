// SPDX-License-Identifier: BSD-3-Clause
#include "core/connection_reactions.h"

#include <algorithm>
#include <chrono>

#include "core/derived_options.h"
#include "core/peer_text.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kReportRepairs{1'000'000'000}; // at most one notice per this time
// A path does not carry a connection if so many queue pairs in a row have failed on it and carried
// nothing.
constexpr std::uint32_t kVain = 2;

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
    give_up_if_in_vain(peer);
    // Blocks of a message that has begun ask for no connection by themselves.
    if (peer.session.is_idle() && !peer.connection.wanted_link.linked() &&
        parts_->protocol.waits_for_connection(peer)) {
        parts_->connections.limit().wait(peer, peer.connection.without.until);
    }
}

// Adds the error text of the first rail that has one.
void ConnectionReactions::on_connect_failed(Peer& peer, Status status, const std::string& what) {
    note(TraceKind::connect_end, peer, peer.contact.name);
    if (peer.ending.failure.empty() && parts_->protocol.leaves(peer)) {
        peer.session.forget_loss();
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
    parts_->protocol.lost().lose(peer, what + " (" + reason_text(status.reason()) + ")" + why);
    parts_->protocol.end_lost_peers(); // before the peer is told, which it would drop
}

bool ConnectionReactions::is_good(const Peer& peer, std::size_t pair) const {
    return parts_->paths.usable(peer, pair) && !UnconnectedPaths::has(peer, pair);
}

// Without any good path, failed ones are tried again, unless their queue pairs carry nothing.
bool ConnectionReactions::is_usable(const Peer& peer, std::size_t pair) {
    bool any = false;
    for (std::size_t i = 0; i < peer.contact.route.count && !any; ++i) {
        any = is_good(peer, i);
    }
    return any ? is_good(peer, pair)
               : !parts_->paths.rail_down(peer.contact.route.pairs[pair].local) &&
                     parts_->paths.vain(peer, pair) < kVain;
}

// Rails of separate networks look alike if the networks have equal prefixes: then no path of the
// pairs chosen works, and the peer is heard over another pair.
bool ConnectionReactions::choose_pairs(Peer& peer) {
    if (peer.connection.activity.refusals > 0) { // perhaps since each side does without another one
        UnconnectedPaths::forget(peer);
    }
    const PeerRoute& route = peer.contact.route;
    const auto works = [&](std::size_t pair) {
        return parts_->paths.state(peer, pair) == PathState::up && is_good(peer, pair);
    };
    std::size_t heard = route.total;
    for (std::size_t i = 0; i < route.total; ++i) {
        if (i < route.count && works(i)) {
            return false;
        }
        const bool over =
            peer.contact.datagram.heard.count() > 0 && DatagramPaths::heard_over(peer, i);
        heard = i >= route.count && works(i) && over ? i : heard;
    }
    if (heard == route.total || !parts_->paths.watches(peer)) {
        return false;
    }
    std::vector<std::uint8_t> order{static_cast<std::uint8_t>(heard)};
    for (const bool working : {true, false}) {
        for (std::uint8_t i = 0; i < route.total; ++i) {
            if (works(i) == working) {
                order.push_back(i);
            }
        }
    }
    const std::string before = parts_->paths.path_text(peer, 0);
    if (!pair_anew(peer, order)) {
        return false;
    }
    if (!pairs_reported_) {
        pairs_reported_ = true;
        message_(Severity::notice,
                 "No path such as " + before + " works, but " + parts_->paths.path_text(peer, 0) +
                     " does: connections now join these rails. If nothing is wrong with the "
                     "others, they are in different networks that look alike, and the first "
                     "contact with each process takes longer for that: give each InfiniBand "
                     "network a subnet prefix of its own (opensm: subnet_prefix).");
    }
    return true;
}

bool ConnectionReactions::take_pairs(Peer& peer, const ConnectBody& request) {
    const PeerRoute& route = peer.contact.route;
    std::vector<std::uint8_t> order;
    for (std::uint32_t i = 0; i < request.subchannel_count; ++i) {
        const ConnectSubchannel& each = request.subchannels[i];
        const auto* const end = route.pairs.begin() + route.total;
        const auto* const pair =
            std::find(route.pairs.begin(), end, PeerRoute::Pair{each.to, each.rail, each.path});
        if (pair != end) {
            order.push_back(static_cast<std::uint8_t>(pair - route.pairs.begin()));
        }
    }
    for (std::uint8_t i = 0; i < route.total; ++i) {
        order.push_back(i);
    }
    return pair_anew(peer, order);
}

bool ConnectionReactions::pair_anew(Peer& peer, const std::vector<std::uint8_t>& order) {
    if (!parts_->paths.pair_anew(peer, order)) {
        return false;
    }
    UnconnectedPaths::forget(peer);
    return true;
}

// The first rest is as long as a path's whose queue pair has carried nothing. They double, but not
// beyond partition_timeout: operations may wait that need a connection.
Nanoseconds ConnectionReactions::rest_after(std::uint32_t attempts) const {
    constexpr std::uint32_t kDoublings = 6;
    return std::min(UnconnectedPaths::kForgiveAfter * (1 << std::min(attempts, kDoublings)),
                    std::max(UnconnectedPaths::kForgiveAfter, liveness_.patience()));
}

// Returns the sum of the rests that are over, each of which an attempt in vain has followed.
Nanoseconds ConnectionReactions::rested(const Peer& peer) const {
    Nanoseconds sum{0};
    for (std::uint32_t i = 0; i + 1 < peer.connection.without.times; ++i) {
        sum += rest_after(i);
    }
    return sum;
}

// Puts, gets and blocks of messages that are not contiguous need a connection: what still waits for
// one has no other way. A peer that was not to be connected for partition_timeout is given up then.
void ConnectionReactions::give_up_if_in_vain(Peer& peer) {
    if (clock_.now() >= peer.connection.without.until ||
        !parts_->protocol.waits_for_connection(peer)) {
        return;
    }
    const Nanoseconds lasted = rested(peer);
    if (lasted < liveness_.patience()) {
        return;
    }
    parts_->protocol.lost().lose(
        peer, "datagrams to it pass, but its queue pairs have carried nothing for more than " +
                  whole_seconds_text(lasted) + " (" + parts_->paths.path_text(peer, 0) + ": " +
                  peer.health.paths->records[0].last_error +
                  "), and a put, a get or a message that is not contiguous needs them; check the "
                  "MTU of links and switches, partition, service level and traffic class, and "
                  "filters between these ports; opal_common_adaptib_partition_timeout sets how "
                  "long adaptib waits");
    parts_->protocol.lost().report(peer);
}

// Each rest is twice as long as the last one, unless connections have worked for longer than that.
bool ConnectionReactions::goes_without(Peer& peer, bool told) {
    constexpr Nanoseconds kCommonBy{1'000'000'000}; // since a repair began
    const Nanoseconds now = clock_.now();
    if (now < peer.connection.without.until) {
        return true;
    }
    const PeerRoute& route = peer.contact.route;
    // The two sides may do without different paths, and so have none in common: a repair has asked
    // in vain.
    const Repair& repair = peer.interruption.repair;
    const bool none_in_common =
        repair.active && repair.ask_at.count() > 0 && now - repair.began > kCommonBy;
    bool again = false; // that was so before
    for (std::size_t i = 0; none_in_common && i < route.count; ++i) {
        again = again || parts_->paths.vain(peer, i) >= 2 * kVain;
    }
    if (none_in_common && !again) {
        UnconnectedPaths::forget(peer);
        parts_->paths.end_rests(peer);
    }
    bool passes = false; // what datagrams are
    bool dead = false;
    bool good = false;
    for (std::size_t i = 0; i < route.total; ++i) {
        passes = passes || (parts_->paths.state(peer, i) == PathState::up &&
                            (i < route.count || DatagramPaths::heard_over(peer, i)));
        good = good || (i < route.count && is_good(peer, i) && !again);
        dead = dead || (i < route.count && parts_->paths.vain(peer, i) >= kVain);
    }
    if (!told && (good || !dead || !passes)) {
        return false;
    }
    WithoutConnection& without = peer.connection.without;
    if (now - without.until > rest_after(without.times)) {
        without.times = 0;
    }
    const Nanoseconds rest = rest_after(without.times++);
    without.until = now + rest;
    if (!told) {
        message_(
            Severity::notice,
            "Datagrams to " + peer_text(peer.contact.name, peer.contact.address.host) +
                " pass, but its queue pairs carry nothing (" + parts_->paths.path_text(peer, 0) +
                ": " + peer.health.paths->records[0].last_error +
                "). Its messages go as datagrams, which is slower; one-sided operations wait; a "
                "connection is tried again after " +
                whole_seconds_text(rest) +
                ". Check the MTU of links and switches, partition, service level and traffic "
                "class, and filters between these ports.");
    }
    return true;
}

// Does without the path for a while, if there is another one: a retry interrupts the connection.
void ConnectionReactions::on_path_unconnected(Peer& peer, std::size_t pair,
                                              const std::string& why) {
    parts_->progress.timers().unconnected().add(peer, pair, clock_.now());
    parts_->paths.report_suspect(peer, pair, why);
}

// Does without paths whose queue pairs carry nothing, as without those that are not connected.
void ConnectionReactions::on_interrupted(Peer& peer) {
    for (std::size_t i = 0; i < peer.contact.route.count; ++i) {
        if (parts_->paths.vain(peer, i) >= kVain) {
            parts_->progress.timers().unconnected().add(peer, i, clock_.now());
        }
    }
    note(TraceKind::repair, peer, repair_id(peer));
    note(IncidentKind::repair, peer);
    static_cast<void>(parts_->protocol.leaves(peer));
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
        // One whose last queue pair carried nothing has to carry something first.
        if (peer.lanes.subchannels[i].qp != nullptr && parts_->paths.vain(peer, i) == 0) {
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

} // namespace adaptib
