// SPDX-License-Identifier: BSD-3-Clause
// Path probes (recovery/path_probes.h).
#include "recovery/path_probes.h"

#include <algorithm>
#include <vector>

#include "base/invariant.h"

namespace adaptib {

namespace {

constexpr std::int64_t kSuspectEvery = 20; // in the maximum time of a failure
constexpr std::uint32_t kSuspectTimes =
    2 * PathProbes::kIgnored; // after that the path is asked ever more seldom

// Returns true if the peer is lost, or was released.
bool rests(const Peer& peer) {
    return peer.session.lost() || peer.contact.datagram.handle == nullptr;
}

} // namespace

// A path over a local rail that is down is not worth a question.
bool PathProbes::is_asked(const Peer& peer, std::size_t pair) const {
    const PathRecord& record = peer.health.paths->records[pair];
    return record.state != PathState::up && record.worked &&
           !paths_.rail_down(peer.contact.route.pairs[pair].local);
}

bool PathProbes::is_announced(const Peer& peer, std::size_t pair) const {
    return peer.health.paths->records[pair].unannounced() &&
           !paths_.rail_down(peer.contact.route.pairs[pair].local);
}

// Nobody waits for a sign of life of a process that has ended; what waits for it ends elsewhere.
Nanoseconds PathProbes::lost_at(const Peer& peer) const {
    Nanoseconds since{0};
    return !peer.health.life.is_over() && paths_.without_path(peer, since)
               ? options_.liveness->ends_at(peer, since)
               : Nanoseconds::max();
}

// Returns false if the peer has been given up.
bool PathProbes::goes_on(Peer& peer, Nanoseconds now) {
    Nanoseconds since{0};
    if (now < lost_at(peer) || !paths_.without_path(peer, since) ||
        options_.witness->may_live(peer, since)) {
        return true;
    }
    sender_.on_partition(peer, now - std::max(since, Liveness::last(peer)));
    return false;
}

void PathProbes::run_timers() {
    if (paths_.all_well()) {
        return;
    }
    const Nanoseconds now = options_.clock->now();
    paths_.for_each_troubled([&](Peer& peer) {
        if (rests(peer)) {
            return;
        }
        if (!goes_on(peer, now)) {
            return;
        }
        for (std::size_t pair = 0; pair < peer.contact.route.total; ++pair) {
            if (is_asked(peer, pair) && now >= peer.health.paths->records[pair].ask_at) {
                ask(peer, pair, now);
            }
            if (is_announced(peer, pair) && now >= peer.health.paths->records[pair].announce_at) {
                announce(peer, pair, now);
            }
        }
    });
}

Nanoseconds PathProbes::deadline() {
    Nanoseconds next = Nanoseconds::max();
    paths_.for_each_troubled([&](Peer& peer) {
        if (rests(peer)) {
            return;
        }
        next = std::min(next, lost_at(peer));
        for (std::size_t pair = 0; pair < peer.contact.route.total; ++pair) {
            if (is_asked(peer, pair)) {
                next = std::min(next, peer.health.paths->records[pair].ask_at);
            }
            if (is_announced(peer, pair)) {
                next = std::min(next, peer.health.paths->records[pair].announce_at);
            }
        }
    });
    return next;
}

void PathProbes::ask(Peer& peer, std::size_t pair, Nanoseconds now) {
    PathRecord& record = peer.health.paths->records[pair];
    ADAPTIB_INVARIANT(record.state != PathState::up && record.worked,
                      "a path that is asked worked, and is not up", peer.contact.name, pair);
    if (!sender_.can_ask(peer, pair)) {
        paths_.report_success(peer, pair);
        return;
    }
    const Reach reach = sender_.reach(peer, pair);
    if (reach == Reach::good) {
        paths_.report_success(peer, pair);
        return;
    }
    if (reach == Reach::cut_off && record.state != PathState::failed) {
        cut_off(peer, pair);
        return;
    }
    if (is_ignored(peer, record)) {
        paths_.report_failure(peer, pair,
                              "the peer answers over other paths but not over this one");
        return;
    }
    const bool suspect = record.state == PathState::suspect;
    if (record.interval.count() == 0) {
        record.interval = suspect ? options_.timeout / kSuspectEvery : kFirst;
    } else if (!suspect || record.asked >= kSuspectTimes) {
        record.interval = std::min(record.interval * 2, kMost);
    }
    ADAPTIB_INVARIANT(record.interval.count() > 0, "a path is asked again later", peer.contact.name,
                      pair, record.interval);
    record.ask_at =
        now + record.interval +
        std::chrono::duration_cast<Nanoseconds>(record.interval / 8 * options_.random->unit());
    if (!send_question(peer, pair)) {
        return; // the next time
    }
    ++record.asked;
    record.asked_at = now;
    record.unjudged = true;
    if (const std::size_t other = other_path(peer, pair); suspect && other != pair) {
        static_cast<void>(send_question(peer, other));
    }
}

// Fails all paths that share the rail which is down, the local one or the peer's.
void PathProbes::cut_off(Peer& peer, std::size_t pair) {
    for (std::size_t other = 0; other < peer.contact.route.total; ++other) {
        const PeerRoute::Pair& shares = peer.contact.route.pairs[other];
        const bool same = shares.local == peer.contact.route.pairs[pair].local ||
                          shares.remote == peer.contact.route.pairs[pair].remote;
        if (other == pair ||
            (same && peer.health.paths->records[other].state != PathState::failed &&
             sender_.reach(peer, other) == Reach::cut_off)) {
            paths_.report_failure(peer, other, "the peer's rail is down");
        }
    }
}

// Returns another path over which the peer may be heard; `pair` itself if there is none.
std::size_t PathProbes::other_path(const Peer& peer, std::size_t pair) const {
    if (peer.contact.datagram.pair != pair) {
        return peer.contact.datagram.pair;
    }
    for (std::size_t step = 1; step < peer.contact.route.total; ++step) {
        const std::size_t other = (pair + step) % peer.contact.route.total;
        if (paths_.state(peer, other) != PathState::failed && sender_.can_ask(peer, other)) {
            return other;
        }
    }
    return pair;
}

// Counts the last question as ignored if the peer was heard since, without an answer to it. Each
// question counts once: the next one may have to wait, since the peer takes nothing.
bool PathProbes::is_ignored(const Peer& peer, PathRecord& record) const {
    if (record.state != PathState::suspect || !record.unjudged) {
        return false;
    }
    record.unjudged = false;
    ADAPTIB_INVARIANT(record.asked > record.ignored, "a question is asked before it is ignored",
                      record.asked, record.ignored);
    record.ignored = Liveness::last(peer) > record.asked_at ? record.ignored + 1 : 0;
    return record.ignored >= kIgnored;
}

bool PathProbes::send_question(Peer& peer, std::size_t pair) {
    if (options_.life->ask(peer, pair)) {
        ++counters_.path_probes;
        return true;
    }
    return send_probe(peer, pair);
}

bool PathProbes::send_probe(Peer& peer, std::size_t pair) {
    PathRecord& record = peer.health.paths->records[pair];
    if (record.nonce == 0) {
        record.nonce = static_cast<std::uint32_t>(options_.random->next() >> 32) | 1;
    }
    ProbeBody body{};
    body.nonce = record.nonce;
    const bool sent = sender_.send_probe(peer, pair, MessageType::probe, body);
    counters_.path_probes += sent ? 1 : 0;
    return sent;
}

void PathProbes::announce(Peer& peer, std::size_t pair, Nanoseconds now) {
    PathRecord& record = peer.health.paths->records[pair];
    if (!sender_.can_ask(peer, pair)) {
        paths_.report_announced(peer, pair); // no message tells an address
        return;
    }
    record.announce_at = now + record.announce_every;
    record.announce_every = std::min(record.announce_every * 2, kMost);
    static_cast<void>(send_probe(peer, pair)); // else the next time
}

// Takes an address that is newer than the known one: a message that comes late has an older one.
// `datagram_qp`: 0: the message tells no numbers of queue pairs. They may follow later.
void PathProbes::learn_address(Peer& peer, std::size_t pair, const RailAddress& now,
                               std::uint32_t datagram_qp, std::uint32_t responder_qp) {
    AddressRail& remote = peer.contact.address.rails[peer.contact.route.pairs[pair].remote];
    const auto newer = static_cast<std::int16_t>(now.changes - remote.changes);
    const bool numbers = datagram_qp != 0 &&
                         (remote.datagram_qp != datagram_qp || remote.responder_qp != responder_qp);
    if (newer < 0 || (newer == 0 && !numbers) ||
        !paths_.is_reachable(peer.contact.route.pairs[pair].local, now)) {
        return;
    }
    const bool moved = remote.size != now.size || remote.bytes != now.bytes ||
                       (numbers && remote.datagram_qp != datagram_qp);
    if (numbers) {
        remote.datagram_qp = datagram_qp;
        remote.responder_qp = responder_qp;
    }
    remote.size = now.size;
    remote.bytes = now.bytes;
    remote.changes = now.changes;
    if (moved) {
        sender_.on_address_moved(peer, pair);
    }
}

// The other side may not know that the path works; its own question tells it.
void PathProbes::on_answer(Peer& peer, std::size_t pair, const LifeBody& body) {
    if (body.size > 0) {
        learn_address(peer, pair, {body.size, body.bytes, body.changes}, 0, 0);
    }
    if (paths_.state(peer, pair) != PathState::up) {
        ProbeBody thanks{};
        thanks.nonce = body.sequence;
        static_cast<void>(sender_.send_probe(peer, pair, MessageType::probe_thanks, thanks));
        paths_.report_success(peer, pair);
    }
}

void PathProbes::on_probe(Peer& peer, std::size_t pair, MessageType type, const ProbeBody& body) {
    learn_address(peer, pair, {body.size, body.bytes, body.changes}, body.datagram_qp,
                  body.responder_qp);
    peer.contact.datagram.heard = options_.clock->now();
    ProbeBody back{};
    back.nonce = body.nonce;
    PathRecord* record = peer.health.paths == nullptr ? nullptr : &peer.health.paths->records[pair];
    switch (type) {
    case MessageType::probe:
        if (sender_.send_probe(peer, pair, MessageType::probe_answer, back)) {
            ++counters_.path_probes_answered;
            if (record != nullptr) {
                record->answered = body.nonce;
            }
        }
        break;
    case MessageType::probe_answer:
        if (record != nullptr && record->nonce == body.nonce) {
            static_cast<void>(sender_.send_probe(peer, pair, MessageType::probe_thanks, back));
            record->nonce = 0;
            paths_.report_announced(peer, pair);
            paths_.report_success(peer, pair);
        }
        break;
    default: // thanks
        if (record != nullptr && record->answered == body.nonce) {
            record->answered = 0;
            paths_.report_success(peer, pair);
        } else if (record != nullptr && options_.clock->now() - record->asked_at >= kFirst) {
            record->ask_at = std::min(record->ask_at, options_.clock->now());
        }
        break;
    }
}

} // namespace adaptib
