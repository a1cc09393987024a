// SPDX-License-Identifier: BSD-3-Clause
// Checks whether awaited peers live (recovery/liveness.h), and fails those that do not.
//
// For a process of this host the operating system knows. While it runs, its silence means nothing;
// once it has ended, it is given up within kWatchEvery, as soon as everything that it left behind
// has been taken. A process of another host is asked, and its responder answers
// (recovery/life_watch.h); if it has none, only its datagrams tell. The runtime that started the
// job may report the end of any process; that counts as well.
//
// May touch: the same as core/core.h.
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kWatchEvery{250'000'000};

} // namespace

// True if some work can continue only if the peer does something. Receives that wait for its
// messages are not counted.
bool Core::is_awaited(const Peer& peer) const {
    const DatagramLink* link = peer.datagram.link.get();
    return peer.has_pending() || peer.users > 0 || peer.one_sided > 0 || peer.connecting() ||
           peer.repair.active || (link != nullptr && link->unacknowledged());
}

void Core::open_responder(AttachedFabric& attached, const ProcessAddress& address) {
    const auto& rails = attached.fabric->rails();
    if (rails[0]->info().link_layer == LinkLayer::memory) {
        return; // the operating system says whether processes of this host live
    }
    auto answerer = std::make_unique<LifeAnswerer>(address.name, address.key, attached.rails.first);
    for (std::uint32_t i = 0; i < attached.rails.count; ++i) {
        answerer->set_address(i, rails[i]->address());
    }
    if (attached.fabric->respond(*answerer, address.key).ok()) {
        attached.answerer = std::move(answerer);
    }
}

bool Core::has_responder(const Peer& peer, std::size_t pair) const {
    const PeerRoute::Pair& rails = peer.route.pairs[pair];
    return datagram_paths_->has_datagrams(peer, pair) &&
           peer.address.rails[rails.remote].responder_qp != 0;
}

bool Core::send_question(Peer& peer, std::size_t pair, const LifeBody& body) {
    if (paths_->rail_down(peer.route.pairs[pair].local)) {
        return false;
    }
    MessageHeader header;
    header.type = MessageType::life_question;
    header.length = sizeof body;
    LifeBody full = body;
    const RailAddress at = rails_[peer.route.pairs[pair].local]->address();
    full.size = at.size;
    full.bytes = at.bytes;
    const std::uint32_t qp = peer.address.rails[peer.route.pairs[pair].remote].responder_qp;
    return datagram_paths_->send_aside(peer, pair, qp, header, &full);
}

void Core::on_present(Peer& peer) { peer.datagrams.listens(peer.datagram); }

void Core::on_life_answer(Peer& peer, std::size_t pair, const LifeBody& body) {
    if (life_->on_answer(peer, pair, body) && paths_->watches(peer)) {
        probes_->on_answer(peer, pair, body);
    }
}

// That the process runs is no evidence of life if its rail, or ours, is known to be down: nothing
// that it sends gets here.
Reach Core::look_for(Peer& peer) {
    const Reach reach = datagram_paths_->reach_of(peer);
    if (reach == Reach::good) {
        Liveness::note(peer.life, Evidence::process, attended_.now());
    }
    return reach;
}

bool Core::may_live(Peer& peer, Nanoseconds since) {
    if (look_for(peer) == Reach::ended) {
        return true; // watch_processes() ends it at its time
    }
    return attended_.now() < liveness_.ends_at(peer, since);
}

DatagramChannel::Standing Core::standing_of(Peer& peer, Nanoseconds since) {
    using Standing = DatagramChannel::Standing;
    switch (look_for(peer)) {
    case Reach::good:
    case Reach::ended: return Standing::absent;
    case Reach::cut_off: return Standing::doubtful;
    case Reach::unknown: break;
    }
    if (attended_.now() >= liveness_.ends_at(peer, since)) {
        return Standing::lost;
    }
    life_->want(peer);
    if (life_->answers(peer, peer.datagram.pair, since)) {
        return peer.life.calls ? Standing::present : Standing::absent;
    }
    return Standing::doubtful;
}

// An ended process that is contacted later, for the first time or again, is unreachable
// (Core::reach).
void Core::take_ended_processes() {
    std::vector<Peer*> gone;
    ended_.take([&](std::uint64_t name) {
        for (Peer* peer : {peers_->find(name), peers_->find_amo_peer(name)}) {
            if (peer == nullptr) {
                continue;
            }
            peer->life.ended = true;
            if (peer->datagram.handle != nullptr) {
                gone.push_back(peer);
            }
        }
    });
    end_peers(gone);
}

// Processes that nothing waits for, and peers that have begun to disconnect, may end unnoticed. A
// user of active messages may wait for any peer that it has exchanged some with, and the core does
// not know.
void Core::watch_processes() {
    watch_at_ = environment_.clock->now() + kWatchEvery;
    std::unordered_set<const Peer*> awaited;
    std::vector<Peer*> ended;
    protocol_->for_each_awaited([&](const Peer& peer) { awaited.insert(&peer); });
    peers_->for_each([&](Peer& peer) {
        if (peer.state == ConnectState::failed || peer.disconnect_received) {
            return;
        }
        const bool message = awaited.contains(&peer);
        if (!message && !is_awaited(peer)) {
            if (protocol_->may_await_active(peer) && datagram_paths_->reports_paths(peer)) {
                attend(peer);
            }
            return;
        }
        if (look_for(peer) == Reach::ended) {
            ended.push_back(&peer);
        } else if (message && datagram_paths_->reports_paths(peer) &&
                   peer.state == ConnectState::idle) {
            ask_for(peer, Nanoseconds{0});
        }
    });
    end_peers(ended);
}

void Core::watch_silence() {
    silence_->begin_look(unsignaled_posts());
    connections_->for_each_connected([this](Peer& peer) {
        if (datagram_paths_->reports_paths(peer)) {
            silence_->look_at(peer);
        }
    });
    silence_->end_look();
}

// Asks a peer that has been silent for a part of the time after which it is given up: seldom, since
// a process may have many such peers. What comes over queue pairs is no datagram, and tells as
// much.
void Core::attend(Peer& peer) {
    constexpr std::int64_t kQuestions = 4; // in the time after which the peer is given up
    std::uint64_t traffic = peer.next_receive;
    for (const Subchannel& subchannel : peer.subchannels) {
        traffic += subchannel.completions;
    }
    if (std::exchange(peer.life.traffic, traffic) != traffic) {
        Liveness::note(peer.life, Evidence::traffic, attended_.now());
    }
    ask_for(peer, liveness_.patience() / kQuestions);
}

// Asks a peer of which a message is awaited, or may be, while nothing shows whether it lives: no
// work of ours is under way that it would answer.
void Core::ask_for(Peer& peer, Nanoseconds every) {
    if (peer.datagram.handle == nullptr) {
        return;
    }
    life_->look(peer, every);
    const Nanoseconds since = peer.life.silent_since;
    if (attended_.now() >= liveness_.ends_at(peer, since)) {
        datagram_paths_->on_partition(peer,
                                      attended_.now() - std::max(since, Liveness::last(peer)));
    }
}

} // namespace adaptib
