// SPDX-License-Identifier: BSD-3-Clause
#include "connect/control_lanes.h"

#include "peer/subchannel_stats.h"

namespace adaptib {

std::size_t ControlLanes::chosen(Peer& peer) {
    const std::vector<Subchannel>& all = peer.subchannels;
    if (peer.control_lane >= all.size() || all[peer.control_lane].qp == nullptr) {
        collect_subchannel_stats(peer, context_.rails, subchannel_stats_);
        peer.control_lane =
            subchannel_stats_.empty() ? 0 : peer.scheduler->choose_control_lane(subchannel_stats_);
    }
    return peer.control_lane;
}

bool ControlLanes::can_carry(const Peer& peer, std::uint32_t index) const {
    const bool there = index < peer.subchannels.size() && peer.subchannels[index].qp != nullptr;
    return there &&
           context_.rails[peer.subchannels[index].local_rail]->state() == PortState::active &&
           context_.listener.is_usable(peer, index);
}

Status ControlLanes::post_flush(Peer& peer, FlushWork& by) {
    Subchannel& subchannel = peer.subchannels[chosen(peer)];
    Flush& flush = by.flush();
    const SendWork work =
        empty_write(wr_id_of(&by), peer.credit_address, subchannel.remote_memory_key);
    flush.qp = subchannel.qp->number();
    flush.rail = subchannel.local_rail;
    flush.done = false;
    const Status status = subchannel.qp->post_send(work);
    flush.posted = status.ok();
    if (const SharedQueuePair* shared = peer.shared_queue_pair(subchannel); shared != nullptr) {
        flush.posts = shared->posts();
    }
    count_post();
    return status;
}

} // namespace adaptib
