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

// Transfers report their own completion; all else is posted on the control lane.
bool SharedDraining::drained(Peer& peer) {
    if (!peer.connection.shared) {
        return true;
    }
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
    if (is_quiet(peer)) {
        return true;
    }
    if (!peer.connection.closing.flush.awaits(peer.lanes.subchannels[chosen])) {
        static_cast<void>(lanes_.post_flush(peer, peer.connection.closing_flush));
    }
    return false;
}

bool SharedDraining::drained_by_others(Peer& left, QueuePairOwners& owners) {
    return std::none_of(
        left.lanes.subchannels.begin(), left.lanes.subchannels.end(), [&](const auto& each) {
            SharedQueuePair* const shared = left.shared_queue_pair(each);
            return shared != nullptr && !shared->settled() && !shared->initiator().failed() &&
                   waits_for_others(left, each, owners);
        });
}

// Returns true if the end of the peer's work over that shared queue pair is to be awaited. Of
// several subchannels one at a time has the peer's flush.
bool SharedDraining::waits_for_others(Peer& left, const Subchannel& subchannel,
                                      QueuePairOwners& owners) {
    constexpr std::int64_t kPart = 4; // as a repair waits for work under way
    Closing& closing = left.connection.closing;
    const Nanoseconds now = context_.options.clock->now();
    if (closing.flush.awaits(subchannel)) {
        const bool late = context_.options.fault_tolerance &&
                          now >= closing.began + context_.options.failure_timeout / kPart;
        if (late) {
            left.shared_queue_pair(subchannel)->initiator().fail();
        }
        return !late;
    }
    bool used = false; // by another one, over which nothing can be posted now
    for (Peer* other : owners.find(subchannel.local_rail, subchannel.qp->number())) {
        const PeerLife& life = other->health.life;
        if (other == &left || other->session.state == ConnectState::failed || life.left ||
            life.ended) {
            continue;
        }
        used = true;
        Subchannel* const way = other->lanes.find(subchannel.local_rail, subchannel.qp->number());
        if (other->session.state == ConnectState::open && !other->in.teardown_pending &&
            lanes_.post_flush(*other, *way, left.connection.closing_flush).ok()) {
            closing.flush.posts = left.shared_queue_pair(subchannel)->posts();
            closing.began = now;
            return true;
        }
    }
    return used && !context_.options.fault_tolerance;
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
