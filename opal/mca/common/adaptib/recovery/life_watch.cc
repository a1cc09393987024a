// SPDX-License-Identifier: BSD-3-Clause
// Asks peers whether they are alive (recovery/life_watch.h).
#include "recovery/life_watch.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

bool LifeWatch::has_responder(const Peer& peer) const {
    for (std::size_t pair = 0; pair < peer.contact.route.total; ++pair) {
        if (asker_.has_responder(peer, pair)) {
            return true;
        }
    }
    return false;
}

void LifeWatch::want(Peer& peer) {
    if (peer.health.life_link.linked() || !has_responder(peer)) {
        return;
    }
    peer.health.life.ask_at = clock_.now();
    peer.health.life.interval = kFirst;
    watched_.push_back(peer);
}

void LifeWatch::look(Peer& peer, Nanoseconds every) {
    PeerLife& life = peer.health.life;
    const Nanoseconds now = clock_.now();
    const bool answered = life.silence.since == Nanoseconds::max();
    const Nanoseconds due = answered ? Liveness::last(peer) + every : Nanoseconds{0};
    if (!peer.health.life_link.linked() && now >= std::max(life.ask_at, due) &&
        has_responder(peer)) {
        life.silence.since = std::min(life.silence.since, now);
        ask(peer, now);
    }
}

void LifeWatch::forget(Peer& peer) {
    peer.health.life.silence = {};
    if (peer.health.life_link.linked()) {
        watched_.remove(peer);
    }
}

Nanoseconds LifeWatch::deadline() const {
    Nanoseconds next = Nanoseconds::max();
    for (const Peer* peer = watched_.front(); peer != nullptr; peer = watched_.next(*peer)) {
        next = std::min(next, peer->health.life.ask_at);
    }
    return next;
}

void LifeWatch::run_timers() {
    const Nanoseconds now = clock_.now();
    for (std::size_t left = watched_.size(); left > 0 && !watched_.empty(); --left) {
        Peer& peer = *watched_.pop_front();
        if (peer.session.lost() || peer.contact.datagram.handle == nullptr ||
            !asker_.is_awaited(peer)) {
            continue;
        }
        watched_.push_back(peer);
        if (now >= peer.health.life.ask_at) {
            ask(peer, now);
        }
    }
}

// Asks over the path of the peer's datagrams; and, as long as that path does not answer, over
// another one, in turn.
void LifeWatch::ask(Peer& peer, Nanoseconds now) {
    PeerLife& life = peer.health.life;
    ++life.silence.questions;
    life.interval = std::clamp(life.interval, kFirst, most_);
    life.ask_at = now + life.interval +
                  std::chrono::duration_cast<Nanoseconds>(life.interval / 8 * random_.unit());
    life.interval *= 2;
    const std::size_t first = peer.contact.datagram.pair;
    const bool silent = life.questions.empty() || life.questions[first].sequence != 0;
    static_cast<void>(ask(peer, first));
    for (std::size_t step = 1; silent && step < peer.contact.route.total; ++step) {
        life.turn = static_cast<std::uint32_t>((life.turn + 1) % peer.contact.route.total);
        if (life.turn != first && ask(peer, life.turn)) {
            return;
        }
    }
}

bool LifeWatch::ask(Peer& peer, std::size_t pair) {
    if (!asker_.has_responder(peer, pair)) {
        return false;
    }
    PeerLife& life = peer.health.life;
    if (life.questions.empty()) {
        life.questions.resize(peer.contact.route.total);
        life.sequence = static_cast<std::uint32_t>(random_.next() >> 32);
    }
    ADAPTIB_INVARIANT(life.questions.size() == peer.contact.route.total,
                      "a peer has a question for each of its paths", life.questions.size(),
                      peer.contact.route.total);
    LifeBody body{};
    body.sequence = ++life.sequence != 0 ? life.sequence : ++life.sequence;
    body.path = peer.contact.route.pairs[pair].path;
    if (!asker_.send_question(peer, pair, body)) {
        return false;
    }
    PathQuestion& question = life.questions[pair];
    question.sequence = body.sequence;
    question.asked = clock_.now();
    ADAPTIB_INVARIANT(question.answered <= question.asked, "a question is asked after those before",
                      pair, question.answered, question.asked);
    life.silence.since = std::min(life.silence.since, question.asked);
    ++counters_.life_questions;
    return true;
}

bool LifeWatch::on_answer(Peer& peer, std::size_t pair, const LifeBody& body) {
    PeerLife& life = peer.health.life;
    if (life.questions.empty() || life.questions[pair].sequence != body.sequence) {
        return false;
    }
    PathQuestion& question = life.questions[pair];
    question.sequence = 0;
    question.answered = question.asked;
    life.silence = {};
    ++counters_.life_answers;
    Liveness::note(life, Evidence::responder, clock_.now());
    const bool called = life.responded && life.beats != body.beats;
    life.calls = called || !life.responded; // the first answer does not tell
    life.responded = true;
    life.beats = body.beats;
    if (called) {
        asker_.on_present(peer);
    }
    return true;
}

// Considers only a question asked later than `since`: what was sent before that took the same path.
bool LifeWatch::answers(const Peer& peer, std::size_t pair, Nanoseconds since) const {
    if (peer.health.life.questions.empty()) {
        return false;
    }
    const PathQuestion& question = peer.health.life.questions[pair];
    return question.answered > since &&
           (question.sequence == 0 || clock_.now() - question.asked < kLate);
}

} // namespace adaptib
