// SPDX-License-Identifier: BSD-3-Clause
#include "connect/control_lanes.h"

#include "peer/subchannel_stats.h"

namespace adaptib {

std::size_t ControlLanes::get_or_choose(Peer& peer) {
    const std::vector<Subchannel>& all = peer.lanes.subchannels;
    if (peer.control.lane >= all.size() || all[peer.control.lane].qp == nullptr) {
        collect_subchannel_stats(peer, context_.rails, subchannel_stats_);
        peer.control.lane = subchannel_stats_.empty()
                                ? 0
                                : peer.lanes.scheduler->choose_control_lane(subchannel_stats_);
    }
    return peer.control.lane;
}

bool ControlLanes::can_carry(const Peer& peer, std::uint32_t index) const {
    const bool there =
        index < peer.lanes.subchannels.size() && peer.lanes.subchannels[index].qp != nullptr;
    return there &&
           context_.rails[peer.lanes.subchannels[index].local_rail]->state() == PortState::active &&
           context_.listener.is_usable(peer, index);
}

Status ControlLanes::post_flush(Peer& peer, FlushWork& by) {
    return post_flush(peer, peer.lanes.subchannels[get_or_choose(peer)], by);
}

Status ControlLanes::post_flush(const Peer& peer, Subchannel& subchannel, FlushWork& by) {
    Flush& flush = by.flush();
    const SendWork work =
        empty_write(by.next_id(), peer.in.credit_address, subchannel.remote_memory_key);
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
