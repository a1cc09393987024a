// SPDX-License-Identifier: BSD-3-Clause
// A queue pair with faults.
//
// Purpose: a list keeps each posted request, in posting order, until it has completed. So a request
// can be made to fail, be held back or end by itself, and completions still come in posting order.
// A request is always in one of three states: below (posted to the queue pair below), held (held
// back: a rail is down, or an earlier request is to fail), over (its completion is known).
// Once a request has failed, no held request is posted any more; each is flushed in its turn.
// Ownership: the caller's.
// Threads: one.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <deque>
#include <optional>

#include "simulator/faults/kept_work.h"
#include "simulator/faults/posted_receives.h"
#include "simulator/faults/queues.h"

namespace adaptib::fault {

class FaultQp final : public QueuePair {
public:
    FaultQp(Node& node, Rail& rail, std::uint32_t rail_index, const QpInit& init,
            std::unique_ptr<QueuePair> below);
    ~FaultQp() override;

    // Called with each completion from below.
    void on_completion(const WorkCompletion& completion);
    // Makes the queue pair report nothing from now on.
    void fall_silent() { mute_ = true; }
    // Does the work that is due; returns true if none is left for later.
    bool progress();
    // Time at which progress() has work by itself; max: not before something happens below.
    Nanoseconds next_look() const;

private:
    enum class Where : std::uint8_t { below, withheld, over };
    struct Sent {
        WorkCompletion completion; // as the node will see it; the status is valid in state over
        Where where = Where::below;
        std::uint64_t number = 0;              // in state below: the number in its wr_id
        bool wanted = false;                   // success is reported
        bool doubled = false;                  // neither success nor failure is reported
        bool barred = false;                   // in state held: is never posted, ends with `fate`
        WorkStatus fate = WorkStatus::success; // if not barred: replaces success
        Nanoseconds posted{0};                 // in state held
        std::unique_ptr<KeptWork> kept;        // in state held, or if a copy is below
    };

    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) override;
    QpAttributes query_impl() const override { return below_->query(); }
    Status cm_connect_impl(const QpAttributes& attributes, std::uint32_t mask,
                           const CmConnectParams& params) override;
    Status post_send_impl(const SendWork& work) override;
    Status post_receive_impl(const ReceiveWork& work) override;
    Status rma_now_impl(const RmaWork& work) override;
    Status serve_copy_impl(const RmaWork& work) override;
    bool allows_rma_now();
    Status serve_rma_impl(const SendWork& work) override { return below_->serve_rma(work); }
    Status find_key_impl(const RemoteRange& range, std::uint32_t& key) override {
        return below_->find_key(range, key);
    }
    bool target_lives_impl() const override { return below_->target_lives(); }
    void* map_impl(std::uint64_t address, Bytes length, std::uint32_t key) override;
    Status commit_impl(std::uint64_t address, Bytes length, std::uint32_t key) override;
    bool usable_impl() const override;

    Status post_request(const SendWork& work);
    Status post_datagram(const SendWork& work);
    Status swallow(const SendWork& work);
    Status inject(const PlannedFault& fault, const SendWork& work);
    bool has_to_wait() const { return failing_ || withheld_ > 0 || node_.down(rail_index_); }
    bool ready() const { return below_->query().state == QpState::ready_to_send; }

    Sent& add(const SendWork& work, Where where);
    Status pass(const SendWork& work);
    Status pass(std::unique_ptr<KeptWork>& kept); // moves from `kept` if ok
    void withhold(const SendWork& work, WorkStatus fate, bool barred);
    void drop(const SendWork& work);                 // completes at once with success
    bool send_copy(std::unique_ptr<KeptWork>& kept); // false: try again later

    void on_send(const WorkCompletion& completion);
    void on_receive(WorkCompletion completion);
    void release_withheld();
    void give_up();
    void report_cm_failed();
    void advance();
    void forget_all();

    Node& node_;
    Rail& rail_;
    std::uint32_t rail_index_;
    std::unique_ptr<QueuePair> below_;
    FaultCq* send_cq_;
    FaultCq* receive_cq_;
    FaultSrq* srq_;
    std::uint32_t send_depth_;
    bool signal_all_;

    bool failing_ = false; // a request that is to fail is in the list
    bool broken_ = false;  // a request has failed, or the node moved the queue pair to ERR
    bool mute_ = false;    // Fault::rail_silent
    Nanoseconds timeout_ = Nanoseconds::max();
    std::uint64_t next_send_ = 0;
    std::size_t withheld_ = 0;
    std::deque<Sent> sends_;
    PostedReceives receives_;
    LateDatagrams late_;
    std::optional<Due> cm_failed_; // when cm_failed is reported
};

} // namespace adaptib::fault
