// SPDX-License-Identifier: BSD-3-Clause
#include "connect/shared_draining.h"

#include <algorithm>

namespace adaptib {

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
        peer.interruption.repair.quiet_at = now + kPacketsGone;
    }
    return now >= peer.interruption.repair.quiet_at;
}

} // namespace adaptib
