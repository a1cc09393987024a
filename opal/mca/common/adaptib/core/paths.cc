// SPDX-License-Identifier: BSD-3-Clause
// The choice of the path for a peer's datagrams (channel/datagram.h, recovery/path_repository.h).
//
// Datagrams begin on the first path that is up. They move when it fails, or when no answer comes
// over it, to the first of these that exists: a path that is up and over which the peer was heard
// last, the next path that is up, a suspect path, a failed path whose local rail is up. They return
// once an earlier path is up again, since the first paths join rails that belong together.
#include <algorithm>
#include <utility>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr std::size_t kNoPair = ~std::size_t{0};
constexpr std::int64_t kLooks = 8; // polls, at least, before a timeout counts as a failure

} // namespace

void Core::tolerate_faults(std::uint32_t fabric) {
    const auto find = [this, fabric](std::uint64_t name) -> DatagramTarget* {
        Peer* peer = find_peer(name, fabric);
        return peer == nullptr || peer->datagram.handle == nullptr ? nullptr : &peer->datagram;
    };
    const auto path_failed = [this, fabric](DatagramTarget& target,
                                            DatagramChannel::PathFailure failure,
                                            WorkStatus status) {
        if (Peer* peer = find_peer(target.name, fabric); peer != nullptr) {
            on_datagram_path_failure(*peer, failure, status);
        }
    };
    const auto answered = [this, fabric](DatagramTarget& target) {
        Peer* peer = find_peer(target.name, fabric);
        if (peer != nullptr &&
            heard_over(*peer, target.pair)) { // else the answer is for an earlier path
            paths_->report_success(*peer, target.pair);
        }
    };
    if (fabrics_[fabric].datagrams->linked()) { // else lost datagrams stay lost
        attended_.at_most(failure_timeout_ / kLooks);
        fabrics_[fabric].datagrams->retransmitter().tolerate(failure_timeout_, find, path_failed,
                                                             answered);
    }
}

// A life_question does not belong here: it goes to a responder.
void Core::on_probe(std::uint32_t fabric, std::uint64_t from, std::uint64_t key, std::uint32_t port,
                    std::uint8_t rail, const MessageHeader& header, const std::byte* body) {
    Peer* peer = sender_of(fabric, from, key);
    if (peer == nullptr || peer->state == ConnectState::failed) {
        return;
    }
    if (header.type == MessageType::life_question) {
        ++counters_.bad_packets;
        return;
    }
    const bool asked = header.type == MessageType::life_answer;
    const std::uint16_t path =
        asked ? read_body<LifeBody>(body).path : read_body<ProbeBody>(body).path;
    const PeerRoute::Pair rails{static_cast<std::uint8_t>(fabrics_[fabric].rails.first + port),
                                rail, static_cast<std::uint8_t>(path)};
    const auto end = peer->route.pairs.begin() + peer->route.total;
    const auto pair = std::find(peer->route.pairs.begin(), end, rails);
    if (pair == end) {
        ++counters_.bad_packets;
        return;
    }
    const auto number = static_cast<std::size_t>(pair - peer->route.pairs.begin());
    if (asked) {
        on_life_answer(*peer, number, read_body<LifeBody>(body));
    } else if (paths_->watches(*peer)) {
        probes_->on_probe(*peer, number, header.type, read_body<ProbeBody>(body));
    }
}

Reach Core::reach(const Peer& peer, std::size_t pair) {
    std::unique_ptr<AddressHandle> handle;
    if (reports_paths(peer) || !handle_for(peer, pair, handle).ok()) {
        return Reach::unknown;
    }
    return rails_[peer.route.pairs[pair].local]->reach(*handle);
}

bool Core::can_ask(const Peer& peer, std::size_t pair) const { return has_datagrams(peer, pair); }

// Sends a message without a number to a datagram queue pair of the peer's rail.
bool Core::send_aside(Peer& peer, std::size_t pair, std::uint32_t qp, const MessageHeader& header,
                      const void* body) {
    std::unique_ptr<AddressHandle> handle;
    if (!has_datagrams(peer, pair) || peer.datagram.handle == nullptr ||
        !handle_for(peer, pair, handle).ok()) {
        return false;
    }
    const std::uint32_t port = peer.route.pairs[pair].local - peer.route.local.first;
    return peer.datagrams.send_probe(peer.datagram, port, std::move(handle), qp, header, body);
}

bool Core::send_probe(Peer& peer, std::size_t pair, MessageType type, const ProbeBody& body) {
    const PeerRoute::Pair& rails = peer.route.pairs[pair];
    ProbeBody full = body;
    const RailAddress at = rails_[rails.local]->address();
    full.size = at.size;
    full.path = rails.path;
    full.bytes = at.bytes;
    MessageHeader header;
    header.type = type;
    header.length = sizeof full;
    return send_aside(peer, pair, peer.address.rails[rails.remote].datagram_qp, header, &full);
}

void Core::on_address_moved(Peer& peer, std::size_t pair) {
    const std::size_t used = peer.datagram.pair;
    if (peer.route.pairs[used].remote == peer.route.pairs[pair].remote) {
        static_cast<void>(move_datagrams(peer, used));
    }
}

void Core::on_partition(Peer& peer, Nanoseconds lasted) {
    std::string paths;
    for (std::size_t pair = 0; pair < peer.route.count; ++pair) {
        const std::string why =
            peer.paths == nullptr ? std::string() : peer.paths->records[pair].last_error;
        paths += (pair == 0 ? "" : "; ") + paths_->path_text(peer, pair) +
                 (why.empty() ? "" : ": " + why);
    }
    protocol_->on_peer_failed(peer, "no path to it has worked for " + whole_seconds_text(lasted) +
                                        " (" + paths + ")" + silence_text(peer, lasted));
}

bool Core::has_datagrams(const Peer& peer, std::size_t pair) const {
    const PeerRoute::Pair& rails = peer.route.pairs[pair];
    return rails.local - peer.route.local.first < peer.datagrams.ports() &&
           peer.address.rails[rails.remote].datagram_qp != 0;
}

// True if the last datagram came over this pair.
bool Core::heard_over(const Peer& peer, std::size_t pair) {
    const PeerRoute::Pair& rails = peer.route.pairs[pair];
    return peer.datagram.heard_rail == rails.remote &&
           peer.datagram.heard_port == rails.local - peer.route.local.first;
}

// Returns the pair to move to from the present one; kNoPair: there is no other.
std::size_t Core::next_pair(const Peer& peer) const {
    const DatagramTarget& target = peer.datagram;
    std::size_t best = kNoPair;
    int best_worth = 0;
    for (std::size_t step = 1; step < peer.route.total; ++step) {
        const std::size_t pair = (target.pair + step) % peer.route.total;
        const PeerRoute::Pair& rails = peer.route.pairs[pair];
        if (!has_datagrams(peer, pair) || paths_->rail_down(rails.local)) {
            continue;
        }
        const bool heard = target.heard.count() > 0 && heard_over(peer, pair);
        int worth = 1;
        switch (paths_->state(peer, pair)) {
        case PathState::up: worth = heard ? 4 : 3; break;
        case PathState::suspect: worth = 2; break;
        case PathState::failed: break;
        }
        if (worth > best_worth) {
            best = pair;
            best_worth = worth;
        }
    }
    return best;
}

// Creates the handle anew each time, since the address that it stands for may have changed.
Status Core::handle_for(const Peer& peer, std::size_t pair, std::unique_ptr<AddressHandle>& out) {
    const PeerRoute::Pair& rails = peer.route.pairs[pair];
    const AddressRail& remote = peer.address.rails[rails.remote];
    return rails_[rails.local]->create_ah(
        rails_[rails.local]->path_to({remote.size, remote.bytes}, rails.path), out);
}

Status Core::move_datagrams(Peer& peer, std::size_t pair) {
    std::unique_ptr<AddressHandle> handle;
    const Status status = handle_for(peer, pair, handle);
    if (status.ok()) {
        const PeerRoute::Pair& rails = peer.route.pairs[pair];
        peer.datagram.pair = static_cast<std::uint8_t>(pair);
        peer.datagrams.retransmitter().move(peer.datagram, rails.local - peer.route.local.first,
                                            std::move(handle),
                                            peer.address.rails[rails.remote].datagram_qp);
    }
    return status;
}

// Moves to the best other path that works; without one, the datagrams stay where they are.
void Core::leave_path(Peer& peer) {
    for (std::size_t tries = 0; tries < peer.route.total; ++tries) {
        const std::size_t pair = next_pair(peer);
        if (pair == kNoPair) {
            return;
        }
        const Status status = move_datagrams(peer, pair);
        if (status.ok()) {
            return;
        }
        if (status.reason() == Reason::peer_gone) {
            protocol_->on_peer_failed(peer, reason_text(status.reason()));
            return;
        }
        if (!paths_->usable(peer, pair)) {
            return; // it was the last resort
        }
        paths_->report_failure(peer, pair, reason_text(status.reason()));
    }
}

void Core::on_datagram_path_failure(Peer& peer, DatagramChannel::PathFailure failure,
                                    WorkStatus status) {
    if (peer.state == ConnectState::failed || leaves(peer)) {
        return;
    }
    const std::size_t pair = peer.datagram.pair;
    switch (failure) {
    case DatagramChannel::PathFailure::unanswered:
        paths_->report_suspect(peer, pair, "datagrams are not acknowledged");
        break;
    case DatagramChannel::PathFailure::stuck:
        paths_->report_failure(peer, pair, "the adapter does not send the datagrams posted to it");
        break;
    case DatagramChannel::PathFailure::failed:
        paths_->report_failure(peer, pair, work_status_text(status));
        break;
    case DatagramChannel::PathFailure::given_up: on_partition(peer, liveness_.patience()); return;
    }
    if (peer.datagram.handle != nullptr && peer.datagram.pair == pair) {
        leave_path(peer);
    }
}

void Core::watch_silence() {
    silence_->begin_look(unsignaled_posts());
    connections_->limit().for_each([this](Peer& peer) {
        if (reports_paths(peer)) {
            silence_->look_at(peer);
        }
    });
    silence_->end_look();
}

// Takes a path that is up again into the connection. Repairs the connection without a path that has
// failed, unless the adapter itself migrates to another path. A peer that is not repairable yet is
// checked when its connection opens.
void Core::on_path_changed(Peer& peer, std::size_t pair, PathState, PathState now,
                           const std::string&) {
    DatagramTarget& target = peer.datagram;
    if (peer.state == ConnectState::failed) {
        return;
    }
    if (now == PathState::failed) {
        if (target.pair == pair && target.handle != nullptr) {
            leave_path(peer);
        }
        const bool used = pair < peer.subchannels.size() && peer.subchannels[pair].qp != nullptr;
        if (used && peer.repairable && !rides_out(peer, pair, peer.route.pairs[pair].local)) {
            connections_->repairs().begin(peer);
        }
    } else if (now == PathState::up) {
        const bool better = pair < target.pair || paths_->state(peer, target.pair) != PathState::up;
        if (better && target.handle != nullptr && has_datagrams(peer, pair)) {
            static_cast<void>(move_datagrams(peer, pair));
        }
        connections_->repairs().improve(peer);
    }
}

void Core::on_path_line(const std::string& line) { environment_.message(Severity::notice, line); }

} // namespace adaptib
