// SPDX-License-Identifier: BSD-3-Clause
#include "connect/yielding.h"

#include "connect/need.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kLookEvery{1'000'000};
constexpr Nanoseconds kPatience{10'000'000}; // with work under way

} // namespace

void Yielding::begin(Peer& peer) {
    begin_here(peer);
    static_cast<void>(messages_.send(peer, MessageType::connect_yield));
}

// REQUIRES: the peer is open, or closing.
void Yielding::begin_here(Peer& peer) {
    if (!peer.transfers.yields) {
        peer.transfers.yields = true;
        peer.connection.activity.turn_began = context_.options.clock->now();
        yielding_.push_back(peer);
        ++context_.counters.connections_yielded;
    }
}

void Yielding::on_yield(Peer& peer, const ConnectNote& note) {
    if (peer.session.connected() && note.connection == peer.connection.remote_number &&
        note.answers == peer.connection.number) {
        begin_here(peer);
    }
}

void Yielding::stop(Peer& peer) {
    if (peer.transfers.yields) {
        peer.transfers.yields = false;
        yielding_.remove(peer);
    }
}

void Yielding::advance() {
    const Nanoseconds now = context_.options.clock->now();
    for (std::size_t left = yielding_.size(); left > 0 && !yielding_.empty(); --left) {
        Peer& peer = *yielding_.pop_front();
        yielding_.push_back(peer);
        if (peer.session.state != ConnectState::open) {
            continue; // closing: until that has ended
        }
        // The other side has just kept the connection, since it needed it.
        const bool kept = now - peer.connection.closing.began < kLookEvery;
        if (now - peer.connection.activity.turn_began >= kPatience) {
            peer.connection.activity.turn_began = now;
            stop(peer);
        } else if (is_unused(peer) && !kept) {
            closings_.start(peer);
        }
    }
}

} // namespace adaptib
