// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of a verbs rail: connected and datagram ones, and the part that those of dynamic
// connections (dc_queue_pairs.h) share with them.
//
// A queue pair is always in one of 5 states (QpState). state_ is the last known one: the adapter
// moves a queue pair to ERR by itself, and an error completion, an event, query() or a refused call
// reports that.
// Ownership: the caller's.  Threads: one.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <cstdint>

#include "fabric/fabric.h"
#include "fabric/verbs/queues.h"
#include "fabric/verbs/rail.h"
#include "fabric/verbs/send_places.h"

namespace adaptib::verbs {

constexpr std::uint32_t kNumberMask = 0xffffff; // of queue pair numbers and packet numbers

// Folds an access key into a Q_Key of 31 bits: the highest of its 32 bits is the system's.
std::uint32_t queue_key(std::uint64_t access_key);

// About what the queues of an RC queue pair take: as libmlx5 lays them out.
Bytes bytes_of_queues(const ibv_qp_cap& cap);

class VerbsQueuePair : public QueuePair {
public:
    VerbsQueuePair(VerbsRail& rail, const QpInit& init);
    ~VerbsQueuePair() override;
    virtual int create(); // 0 or the error number

    VerbsRail& rail() { return rail_; }
    const VerbsCompletionQueue& send_cq() const { return send_cq_; }
    const VerbsCompletionQueue& receive_cq() const { return receive_cq_; }
    // Null: the queue pair has its own receive queue.
    const VerbsSharedReceiveQueue* srq() const { return srq_; }
    std::uint32_t send_depth() const { return places_.depth(); }
    std::uint32_t receive_depth() const { return receive_depth_; }
    QpState last_state() const { return state_; }
    // Called when an error completion tells that the queue pair is in ERR.
    virtual void failed(ibv_wc_status status);
    // Called when a signaled request has succeeded: for DC initiators and where places are
    // counted, perhaps for other queue pairs.
    virtual void sent();
    // Moves to ERR because of an event of the device or a failed queue. False: an event was
    // reported already.
    bool fatal();
    // REQUIRES: in VerbsRail::suspects(). Returns true if no completion tells why the queue pair is
    // in ERR, so that an event has to.
    bool needs_event() const;
    void path_migrated();
    // Called when the device was lost, and is back: the queue pair is in ERR for good, and its
    // number may be another one's.
    void lose_device();
    bool armed() const; // asks the adapter
    int writes_in_order() const { return rail_.calls().writes_in_order(qp_); }

    // ---- For the rail's rdma_cm service

    const QpAttributes& wanted() const { return wanted_; } // attributes given to cm_connect()
    // Moves to RTR or RTS with the attributes of cm_connect(); `found` has those that the service
    // decides.
    Status rise(QpState to, const ibv_qp_attr& found);
    // Moves to INIT from the state in which a failed attempt left the queue pair.
    Status begin_again();

protected:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) override;
    QpAttributes query_impl() const override;
    Status post_send_impl(const SendWork& work) override;
    Status post_receive_impl(const ReceiveWork& work) override;

    // ---- Differs between the kinds of queue pairs

    // Returns null and sets errno on failure.
    virtual ibv_qp* make(ibv_qp_init_attr& init);
    // Adds attributes that a transition needs besides those of the caller.
    virtual void add_to_move(QpState, ibv_qp_attr&, int&) {}
    virtual void enter_error();

    // ---- Common to all kinds

    Status check_values(const QpAttributes& attributes, std::uint32_t mask) const;
    void took_effect(const QpAttributes& attributes, std::uint32_t mask, QpState to);
    Status fill(const SendWork& work, ibv_send_wr& out, ibv_sge* list) const;
    Status refused(int result);

    VerbsRail& rail_;
    VerbsCompletionQueue& send_cq_;
    VerbsCompletionQueue& receive_cq_;
    VerbsSharedReceiveQueue* srq_;
    SendPlaces places_;
    bool signal_all_;
    ibv_qp* qp_ = nullptr;
    mutable QpState state_ = QpState::reset;
    QpAttributes attributes_;

private:
    Status cm_connect_impl(const QpAttributes& attributes, std::uint32_t mask,
                           const CmConnectParams& params) override;
    bool usable_impl() const override;

    // Parts of modify().
    Status check_migration(const QpAttributes& attributes, std::uint32_t mask) const;
    Status fill(const QpAttributes& attributes, std::uint32_t mask, QpState to, ibv_qp_attr& out,
                int& out_mask);
    Status fill_paths(const QpAttributes& attributes, std::uint32_t mask, ibv_qp_attr& out,
                      int& out_mask);
    int move_to_error();
    Status refused_move(int result);
    void forget_completions();

    // Parts of post_send().
    Status fill_datagram(const SendWork& work, ibv_send_wr& out) const;
    void look_again() const; // reads state_
    void suspect() const;

    std::uint32_t receive_depth_;
    std::uint32_t max_gather_;
    Bytes inline_bytes_;
    // Source that has reported why the queue pair is in ERR.
    // `lost`: its device was.
    enum class Reported : std::uint8_t { nobody, suspected, completion, event, lost };
    mutable Reported reported_ = Reported::nobody;
    bool alternate_loaded_ = false;
    std::uint16_t pkey_index_ = 0; // given at INIT
    QpAttributes wanted_;          // attributes of cm_connect()
    std::uint32_t wanted_mask_ = 0;
};

} // namespace adaptib::verbs
