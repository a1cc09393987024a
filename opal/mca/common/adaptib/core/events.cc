// SPDX-License-Identifier: BSD-3-Clause
// Events that connections, paths and transfers report to the core, and the core's reactions.
//
// May touch: the same as core/core.h.
#include <algorithm>
#include <utility>

#include "core/core.h"
#include "core/peer_text.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kReportRepairs{1'000'000'000};       // at most one notice per this time
constexpr Nanoseconds kForgiveUnconnected{30'000'000'000}; // until unconnected paths are retried

} // namespace

void Core::on_ring_offered(Peer& peer) { rings_->heat(peer, tick_); }

void Core::on_ring_final(Peer& peer) { rings_->empty(peer); }

void Core::on_ring_withdrawn(Peer& peer) { rings_->remove(peer); }

void Core::on_connected(Peer& peer) { protocol_->on_connected(peer); }

void Core::on_unconnected(Peer& peer) { protocol_->on_unconnected(peer); }

// Adds the error text of the first rail that has one.
void Core::on_connect_failed(Peer& peer, Status status, const std::string& what) {
    if (departures_->leaves(peer)) {
        peer.session.state =
            peer.session.state == ConnectState::failed ? ConnectState::idle : peer.session.state;
        return;
    }
    std::string why;
    for (std::uint32_t i = peer.contact.route.local.first;
         i < peer.contact.route.local.end() && why.empty(); ++i) {
        why = rails_[i]->last_error_text();
        if (what.find(why) != std::string::npos) {
            why.clear();
        }
        if (!why.empty()) {
            why.insert(0, "; rail " + rails_[i]->info().name + ": ");
        }
    }
    protocol_->on_peer_failed(peer, what + " (" + reason_text(status.reason()) + ")" + why);
}

void Core::on_notice(const std::string& text) { environment_.message(Severity::notice, text); }

bool Core::is_usable(const Peer& peer, std::size_t pair) {
    const auto good = [&](std::size_t i) {
        return paths_->usable(peer, i) && (peer.health.unconnected_paths & (1u << i)) == 0;
    };
    bool any = false; // without any good one, failed paths are tried again
    for (std::size_t i = 0; i < peer.contact.route.count && !any; ++i) {
        any = good(i);
    }
    return any ? good(pair) : !paths_->rail_down(peer.contact.route.pairs[pair].local);
}

// Does without the path for a while, if there is another one: a retry interrupts the connection.
void Core::on_path_unconnected(Peer& peer, std::size_t pair, const std::string& why) {
    peer.health.unconnected_paths |= 1u << pair;
    forgive_unconnected_at_ =
        std::min(forgive_unconnected_at_, environment_.clock->now() + kForgiveUnconnected);
    paths_->report_suspect(peer, pair, why);
}

void Core::on_interrupted(Peer& peer) {
    static_cast<void>(departures_->leaves(peer));
    protocol_->on_interrupted(peer);
    watch_->life().want(peer); // the repair needs an answer of the peer
}

// Destroyed queue pairs complete nothing any more; completions from before do not count. Takes them
// until there are none. Their handling may cause further ones, so the number is bounded by what the
// queues can hold.
void Core::on_abandoned(Peer& peer) {
    connections_->abandon(peer);
    peer.interruption.abandoned = true;
    for (std::size_t left = kCompletionDepth * (rails_.size() + counters_.queue_pairs); left > 0;) {
        const std::size_t taken = poll_completions();
        left = taken == 0 ? 0 : left - std::min(left, taken);
    }
    peer.interruption.abandoned = false;
    protocol_->transfers().abandon(peer);
}

void Core::on_fenced(Peer& peer) { protocol_->flow().on_fenced(peer); }

// The path repository reports what failed, path by path; this notice is for close observers.
void Core::on_repaired(Peer& peer, Nanoseconds took) {
    for (std::size_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        if (peer.lanes.subchannels[i].qp != nullptr) {
            paths_->report_success(peer, i, datagram_paths_->reports_paths(peer));
        }
    }
    const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    const Nanoseconds now = environment_.clock->now();
    if (now - repair_reported_ < kReportRepairs && repair_reported_.count() > 0) {
        return;
    }
    repair_reported_ = now;
    environment_.message(
        Severity::notice,
        "The connection to " + peer_text(peer.contact.name, peer.contact.address.host) +
            " was made anew over " + std::to_string(peer.lanes.live_subchannels()) + " of " +
            std::to_string(peer.lanes.subchannels.size()) + " paths; it took " +
            std::to_string(microseconds) + " us.");
}

// A queue pair is in the error state, by a completion or an event. A shared one fails for all peers
// that use it, but the failed request is one peer's; the others' connections are made anew.
void Core::on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status,
                          std::uint64_t wr_id) {
    const WorkTarget* owner = nullptr;
    if (shared_ != nullptr) {
        if (SharedInitiator* initiator = shared_->find(rail, qp_number); initiator != nullptr) {
            owner = initiator->owner_of(wr_id);
            initiator->fail();
        }
    }
    const auto look = [&](Peer& peer) {
        for (std::size_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
            if (!peer.lanes.subchannels[i].has(rail, qp_number)) {
                continue;
            }
            if (connections_->renew_shared(peer, peer.lanes.subchannels[i]) ||
                departures_->leaves(peer)) {
                return;
            }
            const bool own = !peer.connection.shared || owner == &peer.connection.quiet_work;
            const bool refused =
                peer.lanes.subchannels[i].refused; // its operation has ended already
            if (peer.session.repairable && (is_path_failure(status) || !own || refused)) {
                if (is_path_failure(status) && status != WorkStatus::flushed && own) {
                    paths_->report_failure(peer, i, work_status_text(status),
                                           datagram_paths_->reports_paths(peer));
                }
                connections_->repairs().begin(peer);
            } else if (!peer.in.teardown_pending) {
                // A peer that is disconnected, and takes its end down, does not use the connection
                // any more.
                protocol_->on_peer_failed(peer, std::string(work_status_text(status)) +
                                                    " on rail " + rails_[rail]->info().name);
            }
            return;
        }
    };
    peers_->for_each(look);
    peers_->for_each_loopback(look);
}

// Takes a path that is up again into the connection. Repairs the connection without a path that has
// failed, unless the adapter itself migrates to another path. A peer that is not repairable yet is
// checked when its connection opens.
void Core::on_path_changed(Peer& peer, std::size_t pair, PathState, PathState now,
                           const std::string&) {
    if (peer.session.state == ConnectState::failed) {
        return;
    }
    datagram_paths_->on_path_changed(peer, pair, now);
    if (now == PathState::failed) {
        const bool used =
            pair < peer.lanes.subchannels.size() && peer.lanes.subchannels[pair].qp != nullptr;
        if (used && peer.session.repairable &&
            !rides_out(peer, pair, peer.contact.route.pairs[pair].local)) {
            connections_->repairs().begin(peer);
        }
    } else if (now == PathState::up) {
        connections_->repairs().improve(peer);
    }
}

void Core::on_path_line(const std::string& line) { environment_.message(Severity::notice, line); }

void Core::on_partition(Peer& peer, Nanoseconds lasted) {
    datagram_paths_->on_partition(peer, lasted);
}

void Core::on_peer_failed(Peer& peer, const std::string& why) {
    protocol_->on_peer_failed(peer, why);
}

void Core::report_peer_failure(Peer& peer) { protocol_->report_peer_failure(peer); }

void Core::on_early_request(Peer& peer, const ConnectBody& body) {
    connections_->on_early_request(peer, body);
}

bool Core::connect_at_start(std::uint64_t name, const Peer*& asked) {
    Peer* peer = nullptr;
    if (!peers_->find_or_make(name, peer, PeerDirectory::Why::user).ok()) {
        return false;
    }
    if (peer->contact.datagram.handle != nullptr &&
        !peer->ending.released) { // else contacted and released since
        connections_->handshake().request_if_room(*peer);
        asked = peer;
    }
    return true;
}

void Core::on_failure(const std::string& text) { environment_.message(Severity::failure, text); }

void Core::on_broken(Peer& peer) { broken_.add(peer); }

void Core::on_peer_disconnected(Peer& peer) { departures_->add_disconnected(peer); }

bool Core::leaves(Peer& peer) { return departures_->leaves(peer); }

} // namespace adaptib
