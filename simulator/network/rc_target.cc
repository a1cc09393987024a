// SPDX-License-Identifier: BSD-3-Clause
// RC: the target of a request, and the way back from it (simulator/network/rc.h).
#include "simulator/network/rc.h"

namespace adaptib::sim {

// Returns the queue pair that takes our requests now; null: none.
RcQueuePair* RcQueuePair::target() const {
    if (path_.get() == nullptr) {
        return nullptr;
    }
    SimQueuePair* found = world_.adapter_of(path_->to).find(remote());
    if (found == nullptr || found->type() != (is_initiator() ? QpType::dc_target : QpType::rc)) {
        return nullptr;
    }
    auto* at = static_cast<RcQueuePair*>(found);
    if (at->port() != path_->to || !at->receives()) {
        return nullptr;
    }
    if (is_initiator()) {
        return at;
    }
    const bool ours = at->attributes_.remote_qp == number_ && at->path_.get() != nullptr &&
                      at->path_->to == port() && takes_source(*at->path_) &&
                      at->attributes_.receive_psn == attributes_.send_psn;
    return ours ? at : nullptr;
}

// The source of a packet has to be the destination of its target's path (InfiniBand Architecture,
// vol. 1, 9.6.1.5; Linux, hfi1/ruc.c, hfi1_ruc_check_hdr). Where an adapter does not look, it
// carries the request out, and its answer goes nowhere.
bool RcQueuePair::takes_source(const Path& path_of_target) const {
    return !world_.options().checks_sources || !world_.network().stale(path_of_target);
}

// Lets the peer try again if it waits for a receive of ours.
void RcQueuePair::let_requester_go() {
    if (type() != QpType::rc || path_.get() == nullptr) {
        return;
    }
    SimQueuePair* found = world_.adapter_of(path_->to).find(attributes_.remote_qp);
    if (found == nullptr || found->type() != QpType::rc) {
        return;
    }
    auto* from = static_cast<RcQueuePair*>(found);
    if (from->attributes_.remote_qp == number_) {
        from->retries_.receive_posted();
    }
}

Path* RcQueuePair::way_back(const RcQueuePair& at) const {
    return is_initiator()
               ? world_.network().path(path_->to, world_.topology().ports[rail_.port()].lid)
               : at.path_.get();
}

// A DC target has no path of its own: its responses go back to the initiator of the request.
std::span<const LinkIndex> RcQueuePair::links_back(const RcQueuePair& at) {
    if (!is_initiator()) {
        return at.path_.links();
    }
    way_back_.use(at.engine_, *way_back(at));
    return way_back_.links();
}

void RcQueuePair::on_receive_posted() { let_requester_go(); }

RcQueuePair::Outcome RcQueuePair::carry_out(RcQueuePair& at, Request& request,
                                            WorkStatus& refusal) {
    if (is_initiator()) {
        if (request.work.remote_access_key != at.attributes_.access_key) {
            return Outcome::nobody;
        }
        if (!dc_.get_served(at.dc_, machine_.dc.responders)) {
            return Outcome::busy;
        }
    }
    // An initiator's reads are of several targets.
    const bool counted = request.returns_data() && !is_initiator();
    const std::uint32_t before = counted ? requests_.answering(simulator_.now()) : 0;
    return at.serve(request, before, refusal);
}

} // namespace adaptib::sim
