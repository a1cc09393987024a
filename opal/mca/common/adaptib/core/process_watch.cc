// SPDX-License-Identifier: BSD-3-Clause
#include "core/process_watch.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace adaptib {

// True if some work can continue only if the peer does something. Receives that wait for its
// messages are not counted.
bool ProcessWatch::is_awaited(const Peer& peer) const {
    const DatagramLink* link = peer.contact.datagram.link.get();
    return peer.out.has_pending() || peer.transfers.users > 0 || peer.transfers.one_sided > 0 ||
           peer.session.connecting() || peer.interruption.repair.active ||
           (link != nullptr && link->unacknowledged());
}

bool ProcessWatch::has_responder(const Peer& peer, std::size_t pair) const {
    const PeerRoute::Pair& rails = peer.contact.route.pairs[pair];
    return datagram_paths_.has_datagrams(peer, pair) &&
           peer.contact.address.rails[rails.remote].responder_qp != 0;
}

bool ProcessWatch::send_question(Peer& peer, std::size_t pair, const LifeBody& body) {
    if (paths_.rail_down(peer.contact.route.pairs[pair].local)) {
        return false;
    }
    MessageHeader header;
    header.type = MessageType::life_question;
    header.length = sizeof body;
    LifeBody full = body;
    const RailAddress at = rails_[peer.contact.route.pairs[pair].local]->address();
    full.size = static_cast<std::uint8_t>(at.size);
    full.changes = at.changes;
    full.bytes = at.bytes;
    const std::uint32_t qp =
        peer.contact.address.rails[peer.contact.route.pairs[pair].remote].responder_qp;
    return datagram_paths_.send_aside(peer, pair, qp, header, &full);
}

void ProcessWatch::on_present(Peer& peer) {
    peer.contact.channel.retransmitter().listens(peer.contact.datagram);
}

// That the process runs is no evidence of life if its rail, or ours, is known to be down: nothing
// that it sends gets here.
Reach ProcessWatch::look_for(Peer& peer) {
    const Reach reach = datagram_paths_.reach_of(peer);
    if (reach == Reach::good) {
        Liveness::note(peer.health.life, Evidence::process, options_.attended->now());
    }
    return reach;
}

bool ProcessWatch::may_live(Peer& peer, Nanoseconds since) {
    return look_for(peer) == Reach::ended || // find_ended() finds it at its time
           options_.attended->now() < options_.liveness->ends_at(peer, since);
}

DatagramChannel::Standing ProcessWatch::standing_of(Peer& peer, Nanoseconds since) {
    using Standing = DatagramChannel::Standing;
    switch (look_for(peer)) {
    case Reach::good:
    case Reach::ended: return Standing::absent;
    case Reach::cut_off: return Standing::doubtful;
    case Reach::unknown: break;
    }
    if (options_.attended->now() >= options_.liveness->ends_at(peer, since)) {
        return Standing::lost;
    }
    datagram_paths_.renew_handle(peer);
    life_.want(peer);
    if (life_.answers(peer, peer.contact.datagram.pair, since)) {
        return peer.health.life.calls ? Standing::present : Standing::absent;
    }
    return Standing::doubtful;
}

std::vector<Peer*> ProcessWatch::take_ended(const PeerDirectory& peers) {
    std::vector<Peer*> gone;
    ended_.take([&](std::uint64_t name) {
        for (Peer* peer : {peers.find(name), peers.find_amo_peer(name)}) {
            if (peer != nullptr) {
                peer->health.life.ended = true;
                if (peer->contact.datagram.handle != nullptr) {
                    gone.push_back(peer);
                }
            }
        }
    });
    return gone;
}

// Processes that nothing waits for may end unnoticed, and so may peers that have begun to
// disconnect and of which nothing but the end of that is wanted. A user of active messages may wait
// for any peer that it has exchanged some with, and the core does not know.
std::vector<Peer*> ProcessWatch::find_ended(const PeerDirectory& peers, const Protocol& protocol) {
    watch_at_ = options_.clock->now() + kEvery;
    std::unordered_set<const Peer*> awaited;
    std::vector<Peer*> ended;
    protocol.for_each_awaited([&](const Peer& peer) { awaited.insert(&peer); });
    peers.for_each([&](Peer& peer) {
        const bool has_requests = awaited.contains(&peer) || Protocol::has_work_of(peer);
        if (peer.session.lost() || (peer.ending.disconnect_received && !has_requests)) {
            return;
        }
        if (has_requests || is_awaited(peer)) {
            if (look_for(peer) == Reach::ended) {
                ended.push_back(&peer);
            } else if (datagram_paths_.reports_paths(peer) && !peer.takes_credit()) {
                ask_for(peer, Nanoseconds{0});
            }
        } else if (protocol.active().may_await(peer) && datagram_paths_.reports_paths(peer)) {
            attend(peer);
        } else {
            life_.forget(peer);
        }
    });
    return ended;
}

// Asks a peer that has been silent for a part of the time after which it is given up: seldom, since
// a process may have many such peers. What comes over queue pairs is no datagram, and tells as
// much.
void ProcessWatch::attend(Peer& peer) {
    std::uint64_t traffic = peer.in.next_receive;
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        traffic += subchannel.completions;
    }
    if (std::exchange(peer.health.life.traffic, traffic) != traffic) {
        Liveness::note(peer.health.life, Evidence::traffic, options_.attended->now());
    }
    ask_for(peer, options_.liveness->patience() / LifeWatch::kQuestions);
}

// Asks a peer of which a message is awaited, or may be, while nothing shows whether it lives: no
// work of ours is under way that it would answer. One question that is lost is no evidence: this
// process may have had no time to ask another one since.
void ProcessWatch::ask_for(Peer& peer, Nanoseconds every) {
    if (peer.contact.datagram.handle == nullptr) {
        return;
    }
    life_.look(peer, every);
    const Nanoseconds since = peer.health.life.silence.since;
    if (peer.health.life.silence.questions > LifeWatch::kQuestions / 2 &&
        options_.attended->now() >= options_.liveness->ends_at(peer, since)) {
        datagram_paths_.on_partition(peer, options_.attended->now() -
                                               std::max(since, Liveness::last(peer)));
    }
}

} // namespace adaptib
