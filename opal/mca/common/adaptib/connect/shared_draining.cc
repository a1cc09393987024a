// SPDX-License-Identifier: BSD-3-Clause
#include "connect/shared_draining.h"

#include <algorithm>

namespace adaptib {

Nanoseconds SharedDraining::packets_gone(const Peer& peer) const {
    Nanoseconds longest{0};
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        longest = std::max(longest, context_.rails[subchannel.local_rail]->info().packet_life);
    }
    return 2 * longest;
}

void SharedDraining::stop(Peer& peer) {
    for (const Subchannel& subchannel : peer.lanes.subchannels) {
        SharedQueuePair* const shared = peer.shared_queue_pair(subchannel);
        if (shared != nullptr && !shared->settled()) {
            shared->initiator().fail();
        }
    }
}

bool SharedDraining::is_quiet(const Peer& peer) {
    return std::all_of(
        peer.lanes.subchannels.begin(), peer.lanes.subchannels.end(), [&](const auto& each) {
            SharedQueuePair* const shared = peer.shared_queue_pair(each);
            return shared == nullptr || shared->settled() || shared->initiator().failed();
        });
}

// Transfers report their own completion; all else is posted on the control lane. Returns false if
// they are under way.
bool SharedDraining::settle_transfers(Peer& peer) {
    if (peer.transfers.stripes > 0) {
        return false;
    }
    const std::size_t chosen = lanes_.get_or_choose(peer);
    for (std::size_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        SharedQueuePair* const shared = peer.shared_queue_pair(peer.lanes.subchannels[i]);
        if (shared != nullptr && i != chosen) {
            if (!shared->initiator().failed() &&
                peer.connection.closing.flush.awaits(peer.lanes.subchannels[i])) {
                return false; // the control lane has migrated since the flush was posted
            }
            shared->settle(shared->posts());
        }
    }
    return true;
}

bool SharedDraining::drained(Peer& peer) {
    if (peer.connection.shared && !settle_transfers(peer)) {
        return false;
    }
    if (is_quiet(peer)) {
        return true;
    }
    const Subchannel& control = peer.lanes.subchannels[lanes_.get_or_choose(peer)];
    if (!peer.connection.closing.flush.awaits(control)) {
        static_cast<void>(lanes_.post_flush(peer, peer.connection.closing_flush));
        peer.connection.closing.began = context_.options.clock->now();
    }
    return false;
}

bool SharedDraining::drained_by_others(Peer& left, QueuePairOwners& owners) {
    const Others others = ask_others(left, owners);
    return others == Others::none ||
           (others == Others::not_now && context_.options.fault_tolerance);
}

// Nothing tells whether the peer's process is still there.
bool SharedDraining::drained_if_gone(Peer& peer, QueuePairOwners& owners) {
    return !peer.connection.shared ||
           (settle_transfers(peer) && ask_others(peer, owners) != Others::awaited && drained(peer));
}

// Has others that use the peer's queue pairs find out whether its work over them is done.
SharedDraining::Others SharedDraining::ask_others(Peer& peer, QueuePairOwners& owners) {
    Others answer = Others::none;
    for (const Subchannel& each : peer.lanes.subchannels) {
        SharedQueuePair* const shared = peer.shared_queue_pair(each);
        // Of several subchannels one at a time has the peer's flush.
        if (answer != Others::awaited && shared != nullptr && !shared->settled() &&
            !shared->initiator().failed()) {
            answer = std::max(answer, ask_others(peer, each, owners));
        }
    }
    return answer;
}

SharedDraining::Others SharedDraining::ask_others(Peer& left, const Subchannel& subchannel,
                                                  QueuePairOwners& owners) {
    constexpr std::int64_t kPart = 4; // as a repair waits for work under way
    Closing& closing = left.connection.closing;
    const Nanoseconds now = context_.options.clock->now();
    if (closing.flush.awaits(subchannel)) {
        if (!context_.options.fault_tolerance ||
            now < closing.began + context_.options.failure_timeout / kPart) {
            return Others::awaited;
        }
        left.shared_queue_pair(subchannel)->initiator().fail();
        return Others::none;
    }
    Others answer = Others::none;
    for (Peer* other : owners.find(subchannel.local_rail, subchannel.qp->number())) {
        const PeerLife& life = other->health.life;
        if (other == &left || other->session.state == ConnectState::failed || life.left ||
            life.ended) {
            continue;
        }
        answer = Others::not_now;
        Subchannel* const way = other->lanes.find(subchannel.local_rail, subchannel.qp->number());
        if (other->session.state == ConnectState::open && !other->in.teardown_pending &&
            lanes_.post_flush(*other, *way, left.connection.closing_flush).ok()) {
            closing.flush.posts = left.shared_queue_pair(subchannel)->posts();
            closing.began = now;
            return Others::awaited;
        }
    }
    return answer;
}

bool SharedDraining::may_fence(Peer& peer) {
    if (peer.transfers.stripes > 0 || !drained(peer)) {
        return false;
    }
    const bool failed = std::any_of(
        peer.lanes.subchannels.begin(), peer.lanes.subchannels.end(), [&](const auto& each) {
            SharedQueuePair* const shared = peer.shared_queue_pair(each);
            return shared != nullptr && shared->initiator().failed();
        });
    const Nanoseconds now = context_.options.clock->now();
    if (failed && peer.interruption.repair.quiet_at.count() == 0) {
        peer.interruption.repair.quiet_at = now + packets_gone(peer);
    }
    return now >= peer.interruption.repair.quiet_at;
}

} // namespace adaptib
