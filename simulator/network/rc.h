// SPDX-License-Identifier: BSD-3-Clause
// Reliable connected queue pairs of the simulated fabric, and the dynamically connected ones.
//
// Purpose: requests go out in order and are answered in order. One file per event:
//     rc.cc          posting, states, completions
//     rc_send.cc     requests leave: packets at once, long ones as flows; answers; retries
//     rc_target.cc   a request arrives; serving_qp.h: rights, receives, memory
//     rc_migration.cc  automatic path migration;  rc_dc.cc  the connection of a DC initiator
//
// A request is queued, on the wire, arrived or answered (requests.h). The first queued one may be
// on its way out as a flow (leaving_).
//
// A request without an answer (path down, no target, no receive) is taken back with all after it
// and sent again later; a request that had arrived but whose answer was lost is not carried out
// twice.
// Ownership: the caller's.  Threads: one.
// Source: InfiniBand Architecture, vol. 1, 9.7 (reliable service), 17.2.8 (migration); Takagi et
// al., 2.1 (DC).
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/network/dc_link.h"
#include "simulator/network/flows.h"
#include "simulator/network/requests.h"
#include "simulator/network/serving_qp.h"

namespace adaptib::sim {

class RcQueuePair final : public ServingQueuePair {
public:
    RcQueuePair(SimRail& rail, const QpInit& init);
    ~RcQueuePair() override;

    void path_changed() override;

private:
    // A flow of this queue pair.
    class Stream final : public Flow {
    public:
        Stream(RcQueuePair& qp, void (RcQueuePair::*through)()) : qp_(qp), through_(through) {}

    private:
        void on_through() override { (qp_.*through_)(); }
        RcQueuePair& qp_;
        void (RcQueuePair::*through_)();
    };
    enum class Pause : std::uint8_t { none, no_answer, no_receive, target_busy, doorbell };

    // rc.cc
    Status connect(const QpAttributes& attributes) override;
    Status post_send_impl(const SendWork& work) override;
    Status check(const SendWork& work, Bytes& length) const;
    void stop_sending() override;
    void flush_sends() override;
    void forget_sends() override;
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
    bool local_access(const Request& request);
    void use_path(Path& path);
    static void list_links(const Engine& engine, const Path& path, std::vector<LinkIndex>& out);
    void launch(Request& request);
    void begin_flow();
    void flow_through();
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
    void wait(Pause why, Nanoseconds until);
    void resume();
    void fail(WorkStatus status);
    Nanoseconds timeout() const;

    // rc_target.cc
    RcQueuePair* target() const;
    std::uint32_t remote() const { return is_initiator() ? dc_.remote() : attributes_.remote_qp; }
    // Port that packets leave from and arrive at; after a migration it may differ from the rail's.
    PortIndex port() const { return path_ == nullptr ? rail_.port() : path_->from; }
    void let_requester_go();
    Path* way_back(const RcQueuePair& at) const;
    std::span<const LinkIndex> links_back(const RcQueuePair& at);
    Outcome carry_out(RcQueuePair& at, Request& request, WorkStatus& refusal);
    void on_receive_posted() override;

    // rc_migration.cc
    Status migrate_to(const QpAttributes& attributes, std::uint32_t mask) override;
    void try_to_arm();
    void migrate();
    void take_alternate();
    void tell_migrated();

    // rc_dc.cc
    static DcLink* link_of(RcQueuePair* at) { return at == nullptr ? nullptr : &at->dc_; }
    bool is_heard(const Request& request);
    bool retarget(Request& request);
    Nanoseconds occupy(const Path& path, Nanoseconds begin, Nanoseconds cost);
    void let_others_be_served();
    void disconnect();
    bool is_initiator() const { return type() == QpType::dc_initiator; }

    RequestList requests_;
    bool leaving_ = false;
    bool halted_ = false; // a request was refused or cannot be sent: nothing follows it
    Pause pause_ = Pause::none;
    std::uint32_t tries_ = 0;
    std::uint32_t rnr_tries_ = 0;
    Nanoseconds rnr_until_{0};
    Path* path_ = nullptr;
    std::vector<LinkIndex> links_;      // of a flow: the link of the engine, then those of the path
    std::vector<LinkIndex> links_back_; // an initiator's, for the answers

    MemberEvent<RcQueuePair, &RcQueuePair::begin_flow> flow_begins_{*this};
    MemberEvent<RcQueuePair, &RcQueuePair::arrivals> arrives_{*this};
    MemberEvent<RcQueuePair, &RcQueuePair::settle> settles_{*this};
    MemberEvent<RcQueuePair, &RcQueuePair::resume> resumes_{*this};
    Stream flow_{*this, &RcQueuePair::flow_through};
    Stream response_{*this, &RcQueuePair::response_through};

    // Migration.
    Path* alternate_ = nullptr;
    MemberEvent<RcQueuePair, &RcQueuePair::try_to_arm> arms_{*this};
    MemberEvent<RcQueuePair, &RcQueuePair::tell_migrated> migrated_{*this};

    DcLink dc_; // path_ leads to an initiator's target
};

} // namespace adaptib::sim
