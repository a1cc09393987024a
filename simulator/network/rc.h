// SPDX-License-Identifier: BSD-3-Clause
// Reliable connected queue pairs of the simulated fabric, and the dynamically connected ones.
//
// Purpose: requests go out in order and are answered in order. One file per event:
//     rc.cc          posting, states, completions
//     rc_send.cc     requests leave: packets at once, long ones as flows; answers; retries
//     rc_target.cc   a request arrives; serving_qp.h: rights, receives, memory
//     rc_dc.cc       the connection of a DC initiator
// Parts: requests.h, request_flow.h, retry_timer.h, flow_path.h, path_migration.h, dc_link.h.
//
// A request is queued, on the wire, arrived or answered (requests.h). The first queued one may be
// on its way out as a flow (request_flow.h).
//
// A request without an answer (path down, no target, no receive) is taken back with all after it
// and sent again later; a request that had arrived but whose answer was lost is not carried out
// twice.
// Ownership: the caller's.  Threads: one.
// Source: InfiniBand Architecture, vol. 1, 9.7 (reliable service); Takagi et al., 2.1 (DC).
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <cstdint>
#include <span>

#include "simulator/network/dc_link.h"
#include "simulator/network/flow_path.h"
#include "simulator/network/flows.h"
#include "simulator/network/path_migration.h"
#include "simulator/network/request_flow.h"
#include "simulator/network/requests.h"
#include "simulator/network/retry_timer.h"
#include "simulator/network/serving_qp.h"

namespace adaptib::sim {

class RcQueuePair final : public ServingQueuePair,
                          private RequestFlow::Listener,
                          private RetryTimer::Listener,
                          private PathMigration::Listener {
public:
    RcQueuePair(SimRail& rail, const QpInit& init);
    ~RcQueuePair() override;

    void path_changed() override;

private:
    using Pause = RetryTimer::Pause;

    // rc.cc
    Status connect(const QpAttributes& attributes) override;
    Status post_send_impl(const SendWork& work) override;
    Status check(const SendWork& work, Bytes& length) const;
    void leave_behind();
    void stop_sending() override;
    void flush_sends() override;
    void forget_sends() override;
    Status migrate_to(const QpAttributes& attributes, std::uint32_t mask) override;
    PathMigration* peer_migration() override;
    void take_path(Path& path, Nanoseconds done) override;
    void settle();
    void plan_settling();
    void finish_first(WorkStatus status);
    // True if the process, or a later request, waits for the completion of this request.
    bool tells(const Request& request) const {
        return wants_completion(request.work.flags) || request.returns_data() ||
               request.status != WorkStatus::success || is_initiator();
    }

    // rc_send.cc
    void pump();
    void launch(Request& request);
    void on_flow_begins() override;
    void on_flow_through() override;
    void add_to_wire(Request& request, Nanoseconds arrives);
    void arrivals();
    bool arrival(Request& request);
    void answer(Request& request, WorkStatus status, Nanoseconds after);
    void respond();
    void response_through();
    void take_back(std::size_t first);
    void take_back_unanswered();
    void no_answer();
    void no_receive(RcQueuePair& at, Request& request);
    void reject(Request& request, WorkStatus status, Nanoseconds after);
    void on_retry(Pause why) override;
    void fail(WorkStatus status);

    // rc_target.cc
    RcQueuePair* target() const;
    std::uint32_t remote() const { return is_initiator() ? dc_.remote() : attributes_.remote_qp; }
    // Port that packets leave from and arrive at; after a migration it may differ from the rail's.
    PortIndex port() const { return path_.get() == nullptr ? rail_.port() : path_->from; }
    bool takes_source(const Path& path_of_target) const;
    void let_requester_go();
    Path* way_back(const RcQueuePair& at) const;
    std::span<const LinkIndex> links_back(const RcQueuePair& at);
    Outcome carry_out(RcQueuePair& at, Request& request, WorkStatus& refusal);
    void on_receive_posted() override;

    // rc_dc.cc
    static DcLink* link_of(RcQueuePair* at) { return at == nullptr ? nullptr : &at->dc_; }
    bool is_heard(const Request& request);
    bool retarget(Request& request);
    void let_others_be_served();
    void disconnect();
    bool is_initiator() const { return type() == QpType::dc_initiator; }

    RequestList requests_;
    FlowPath path_;
    FlowPath way_back_; // an initiator's, for the answers

    MemberEvent<RcQueuePair, &RcQueuePair::arrivals> arrives_{*this};
    MemberEvent<RcQueuePair, &RcQueuePair::settle> settles_{*this};
    RequestFlow outgoing_{simulator_, world_.network().flows(), *this};
    MemberFlow<RcQueuePair, &RcQueuePair::response_through> response_{*this};

    RetryTimer retries_{simulator_, *this};
    PathMigration migration_{rail_, *this, attributes_, *this};
    DcLink dc_; // path_ leads to an initiator's target
};

} // namespace adaptib::sim
