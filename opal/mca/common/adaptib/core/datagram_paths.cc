// SPDX-License-Identifier: BSD-3-Clause
#include "core/datagram_paths.h"

#include <algorithm>
#include <utility>

namespace adaptib {

namespace {

constexpr std::size_t kNoPath = ~std::size_t{0};

} // namespace

bool DatagramPaths::has_datagrams(const Peer& peer, std::size_t pair) {
    const PeerRoute::Pair& rails = peer.contact.route.pairs[pair];
    return rails.local - peer.contact.route.local.first < peer.contact.channel.ports() &&
           peer.contact.address.rails[rails.remote].datagram_qp != 0;
}

bool DatagramPaths::heard_over(const Peer& peer, std::size_t pair) {
    const PeerRoute::Pair& rails = peer.contact.route.pairs[pair];
    return peer.contact.datagram.heard_rail == rails.remote &&
           peer.contact.datagram.heard_port == rails.local - peer.contact.route.local.first;
}

Reach DatagramPaths::reach_of(const Peer& peer) const {
    if (peer.health.life.is_over()) {
        return Reach::ended;
    }
    if (reports_paths(peer) || peer.contact.datagram.handle == nullptr) {
        return Reach::unknown;
    }
    return peer.contact.channel.rail(peer.contact.datagram.port)
        .reach(*peer.contact.datagram.handle);
}

Reach DatagramPaths::reach(const Peer& peer, std::size_t pair) {
    std::unique_ptr<AddressHandle> handle;
    if (reports_paths(peer) || !handle_for(peer, pair, handle).ok()) {
        return Reach::unknown;
    }
    return rails_[peer.contact.route.pairs[pair].local]->reach(*handle);
}

void DatagramPaths::on_path_changed(Peer& peer, std::size_t pair, PathState now) {
    DatagramTarget& target = peer.contact.datagram;
    if (now == PathState::failed) {
        if (target.pair == pair && target.handle != nullptr) {
            leave(peer);
        }
    } else if (now == PathState::up) {
        const bool better = pair < target.pair || paths_.state(peer, target.pair) != PathState::up;
        if (better && target.handle != nullptr && has_datagrams(peer, pair)) {
            static_cast<void>(move(peer, pair));
        }
    }
}

Status DatagramPaths::open(Peer& peer, std::size_t& pair) {
    if (peer.health.life.is_over()) {
        return Status::error(Reason::peer_gone);
    }
    Status status = Status::error(Reason::unreachable);
    for (const bool usable : {true, false}) {
        for (std::size_t i = 0; i < peer.contact.route.total; ++i) {
            if (!has_datagrams(peer, i) || paths_.usable(peer, i) != usable) {
                continue;
            }
            const Status moved = move(peer, i);
            if (moved.ok() || moved == kNotYet || moved.reason() == Reason::peer_gone) {
                pair = i;
                return moved;
            }
            if (!may_be_reached(status)) {
                pair = i;
                status = moved;
            }
        }
    }
    return status;
}

// Returns the pair to move to from the present one; kNoPath: there is no other.
std::size_t DatagramPaths::next_pair(const Peer& peer) const {
    const DatagramTarget& target = peer.contact.datagram;
    std::size_t best = kNoPath;
    int best_worth = 0;
    for (std::size_t step = 1; step < peer.contact.route.total; ++step) {
        const std::size_t pair = (target.pair + step) % peer.contact.route.total;
        const PeerRoute::Pair& rails = peer.contact.route.pairs[pair];
        if (!has_datagrams(peer, pair) || paths_.rail_down(rails.local)) {
            continue;
        }
        const bool heard = target.heard.count() > 0 && heard_over(peer, pair);
        int worth = 1;
        switch (paths_.state(peer, pair)) {
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

// Asks each time, since the address that the handle stands for may have changed.
Status DatagramPaths::handle_for(const Peer& peer, std::size_t pair,
                                 std::unique_ptr<AddressHandle>& out) {
    const PeerRoute::Pair& rails = peer.contact.route.pairs[pair];
    const AddressRail& remote = peer.contact.address.rails[rails.remote];
    return rails_[rails.local]->create_ah(
        rails_[rails.local]->path_to({remote.size, remote.bytes}, rails.path), out);
}

// A datagram that is sent again may take another path, so its length has to suit all of them.
void DatagramPaths::fit_to_paths(Peer& peer) const {
    const PeerRoute& route = peer.contact.route;
    Bytes shorter = 0;
    for (std::size_t i = 0; i < route.total; ++i) {
        const AddressRail& remote = peer.contact.address.rails[route.pairs[i].remote];
        const Bytes fits =
            rails_[route.pairs[i].local]->datagram_bytes_to({remote.size, remote.bytes});
        shorter = std::max(shorter, peer.contact.channel.shorter_by(fits));
    }
    peer.contact.datagram.shorter = shorter;
}

Status DatagramPaths::move(Peer& peer, std::size_t pair) {
    fit_to_paths(peer);
    std::unique_ptr<AddressHandle> handle;
    const Status status = handle_for(peer, pair, handle);
    if (status.ok()) {
        const PeerRoute::Pair& rails = peer.contact.route.pairs[pair];
        peer.contact.datagram.pair = static_cast<std::uint8_t>(pair);
        peer.contact.channel.retransmitter().move(
            peer.contact.datagram, rails.local - peer.contact.route.local.first, std::move(handle),
            peer.contact.address.rails[rails.remote].datagram_qp);
    }
    return status;
}

void DatagramPaths::renew_handle(Peer& peer) {
    std::unique_ptr<AddressHandle> handle;
    DatagramTarget& target = peer.contact.datagram;
    if (reports_paths(peer) && target.handle != nullptr &&
        handle_for(peer, target.pair, handle).ok()) {
        peer.contact.channel.retransmitter().renew(target, std::move(handle));
    }
}

// Moves to the best other path that works; without one, the datagrams stay where they are.
void DatagramPaths::leave(Peer& peer) {
    for (std::size_t tries = 0; tries < peer.contact.route.total; ++tries) {
        const std::size_t pair = next_pair(peer);
        if (pair == kNoPath) {
            return;
        }
        const Status status = move(peer, pair);
        if (status.ok() || status == kNotYet) {
            return; // in that case the next doubt tries again
        }
        if (status.reason() == Reason::peer_gone) {
            lost_.lose(peer, reason_text(status.reason()));
            return;
        }
        if (!paths_.usable(peer, pair)) {
            return; // it was the last resort
        }
        paths_.report_failure(peer, pair, reason_text(status.reason()));
    }
}

void DatagramPaths::on_failure(Peer& peer, DatagramChannel::PathFailure failure,
                               WorkStatus status) {
    const std::size_t pair = peer.contact.datagram.pair;
    switch (failure) {
    case DatagramChannel::PathFailure::unanswered:
        paths_.report_suspect(peer, pair, "datagrams are not acknowledged");
        break;
    case DatagramChannel::PathFailure::stuck:
        paths_.report_failure(peer, pair, "the adapter does not send the datagrams posted to it");
        break;
    case DatagramChannel::PathFailure::failed:
        paths_.report_failure(peer, pair, work_status_text(status));
        break;
    case DatagramChannel::PathFailure::given_up: on_partition(peer, liveness_.patience()); return;
    }
    if (peer.contact.datagram.handle != nullptr && peer.contact.datagram.pair == pair) {
        leave(peer);
    }
}

void DatagramPaths::on_address_moved(Peer& peer, std::size_t pair) {
    const std::uint32_t remote = peer.contact.route.pairs[pair].remote;
    const std::size_t used = peer.contact.datagram.pair;
    if (peer.contact.route.pairs[used].remote == remote) {
        static_cast<void>(move(peer, used));
    }
    listener_.on_address_moved(peer, remote);
}

void DatagramPaths::on_partition(Peer& peer, Nanoseconds lasted) {
    std::string paths;
    for (std::size_t pair = 0; pair < peer.contact.route.count; ++pair) {
        const std::string why = peer.health.paths == nullptr
                                    ? std::string()
                                    : peer.health.paths->records[pair].last_error;
        paths += (pair == 0 ? "" : "; ") + paths_.path_text(peer, pair) +
                 (why.empty() ? "" : ": " + why);
    }
    lost_.lose(peer, "no path to it has worked for " + whole_seconds_text(lasted) + " (" + paths +
                         ")" + silence_text(peer, lasted));
}

// The end of a message that lists paths that do not work.
std::string DatagramPaths::silence_text(const Peer& peer, Nanoseconds lasted) const {
    if (const Reach reach = reach_of(peer); reach == Reach::good || reach == Reach::cut_off) {
        return ", though its process runs; check these rails";
    }
    return "; its host has been silent for " + whole_seconds_text(lasted) +
           ": check these ports, the cables and switches between them, and that the process still "
           "runs and calls MPI; opal_common_adaptib_partition_timeout sets how long adaptib waits";
}

bool DatagramPaths::send_aside(Peer& peer, std::size_t pair, std::uint32_t qp,
                               const MessageHeader& header, const void* body) {
    std::unique_ptr<AddressHandle> handle;
    if (!has_datagrams(peer, pair) || peer.contact.datagram.handle == nullptr ||
        !handle_for(peer, pair, handle).ok()) {
        return false;
    }
    const std::uint32_t port =
        peer.contact.route.pairs[pair].local - peer.contact.route.local.first;
    return peer.contact.channel.send_probe(peer.contact.datagram, port, std::move(handle), qp,
                                           header, body);
}

bool DatagramPaths::can_ask(const Peer& peer, std::size_t pair) const {
    return has_datagrams(peer, pair);
}

bool DatagramPaths::send_probe(Peer& peer, std::size_t pair, MessageType type,
                               const ProbeBody& body) {
    const PeerRoute::Pair& rails = peer.contact.route.pairs[pair];
    ProbeBody full = body;
    const RailAddress at = rails_[rails.local]->address();
    full.size = static_cast<std::uint8_t>(at.size);
    full.changes = at.changes;
    full.path = rails.path;
    full.bytes = at.bytes;
    const std::uint32_t port = rails.local - peer.contact.route.local.first;
    if (port < peer.contact.channel.ports()) {
        full.datagram_qp = peer.contact.channel.qp_number(port);
        full.responder_qp = peer.contact.channel.responder(port);
    }
    MessageHeader header;
    header.type = type;
    header.length = sizeof full;
    return send_aside(peer, pair, peer.contact.address.rails[rails.remote].datagram_qp, header,
                      &full);
}

} // namespace adaptib
