// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of a verbs rail: connected and datagram ones, and what those of dynamic connections (dc_queue_pairs.h)
// have in common with them.
//
// A queue pair is always in one of 5 states (QpState). state_ is the one last known: the adapter moves
// a queue pair to ERR by itself, and an error completion, an event, query() or a refused call tells.
// Ownership: the caller's.  Threads: one.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <cstdint>

#include "fabric/fabric.h"
#include "fabric/verbs/queues.h"
#include "fabric/verbs/rail.h"

namespace adaptib::verbs {

constexpr std::uint32_t kNumberMask = 0xffffff; // queue pairs, packets

// A Q_Key has 32 bits, of which the highest is the system's.
std::uint32_t queue_key(std::uint64_t access_key);

class VerbsQueuePair : public QueuePair {
public:
    VerbsQueuePair(VerbsRail& rail, const QpInit& init);
    ~VerbsQueuePair() override;
    virtual int create(); // 0 or the error number

    VerbsRail& rail() { return rail_; }
    const VerbsCompletionQueue& send_cq() const { return send_cq_; }
    const VerbsCompletionQueue& receive_cq() const { return receive_cq_; }
    const VerbsSharedReceiveQueue* srq() const { return srq_; } // null: it has receives of its own
    std::uint32_t send_depth() const { return send_depth_; }
    std::uint32_t receive_depth() const { return receive_depth_; }
    QpState last_state() const { return state_; }
    // It is in ERR, as this completion tells.
    virtual void failed(ibv_wc_status status);
    // A signalled request of it has succeeded. Told of DC initiators, perhaps of others.
    virtual void sent() {}
    // It is in ERR, as an event of the device tells, or has to. False: one has told it already.
    bool fatal();
    // For one of VerbsRail::suspects(): whether no completion tells why it is in ERR; then an event has to.
    bool needs_event() const;
    void path_migrated();
    bool armed() const; // asks the adapter

    // ---- For the rail's meeting point

    const QpAttributes& wanted() const { return wanted_; } // what meet() was given
    // To RTR or RTS as meet() wants it and, in what the service decides, as it has `found`.
    Status rise(QpState to, const ibv_qp_attr& found);
    // To INIT, from where a try that came to nothing has left it.
    Status begin_again();

protected:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) override;
    QpAttributes query_impl() const override;
    Status post_send_impl(const SendWork& work) override;
    Status post_receive_impl(const ReceiveWork& work) override;

    // ---- What the kinds of queue pairs have their own ways for

    // Null and errno if there is none.
    virtual ibv_qp* make(ibv_qp_init_attr& init);
    // What a move wants besides what its attributes say.
    virtual void add_to_move(QpState, ibv_qp_attr&, int&) {}
    virtual void enter_error();

    // ---- What they share

    Status check_values(const QpAttributes& attributes, std::uint32_t mask) const;
    void took_effect(const QpAttributes& attributes, std::uint32_t mask, QpState to);
    Status fill(const SendWork& work, ibv_send_wr& out, ibv_sge* list) const;
    Status refused(int result);

    VerbsRail& rail_;
    VerbsCompletionQueue& send_cq_;
    VerbsCompletionQueue& receive_cq_;
    VerbsSharedReceiveQueue* srq_;
    std::uint32_t send_depth_;
    bool signal_all_;
    ibv_qp* qp_ = nullptr;
    mutable QpState state_ = QpState::reset;
    QpAttributes attributes_;

private:
    Status meet_impl(const QpAttributes& attributes, std::uint32_t mask,
                     const Meeting& meeting) override;
    bool usable_impl() const override;

    // What modify() asks the adapter for.
    Status check_migration(const QpAttributes& attributes, std::uint32_t mask) const;
    Status fill(const QpAttributes& attributes, std::uint32_t mask, QpState to, ibv_qp_attr& out,
                int& out_mask);
    Status fill_paths(const QpAttributes& attributes, std::uint32_t mask, ibv_qp_attr& out,
                      int& out_mask);
    Status alternate_port(std::uint8_t number, Port& port);
    int move_to_error();
    Status refused_move(int result);
    void forget_completions();

    // What post_send() does.
    Status fill_datagram(const SendWork& work, ibv_send_wr& out) const;
    void look_again() const; // reads state_
    void suspect() const;

    std::uint32_t receive_depth_;
    std::uint32_t max_gather_;
    Bytes inline_bytes_;
    // Who has told that, and why, it is in ERR.
    enum class Told : std::uint8_t { nobody, suspected, completion, event };
    mutable Told told_ = Told::nobody;
    bool alternate_loaded_ = false;
    QpAttributes wanted_; // by meet()
    std::uint32_t wanted_mask_ = 0;
};

} // namespace adaptib::verbs
