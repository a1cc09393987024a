// SPDX-License-Identifier: BSD-3-Clause
// The two ends of a dynamic connection. Only where ADAPTIB_HAVE_MLX5DV.
//
// An initiator is a queue pair like others, but that it is made by mlx5dv and that its requests go by ibv_wr_*, since
// ibv_post_send has no place for the target. It counts the slots of its send queue: where there is none, libmlx5 goes on
// writing into the request before, which the adapter may not have read yet.
//
// A target is in the adapter only while it is in RTR, and the kernel knows no way on from there. So
//   * INIT makes it, which is when its key is given to mlx5dv;
//   * its number is known in RTR;
//   * RESET, and ERR where the caller moves it there, destroy it;
//   * it does not go to ERR by what an initiator does: its state is what modify() made it, and an event or the end of
//     its queues alone changes that.
// Ownership: the caller's.  Threads: one.
// May touch: base/, fabric/, libibverbs, libmlx5.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/verbs/mlx5_calls.h"
#include "fabric/verbs/qp.h"

namespace adaptib::verbs {

class DcInitiator final : public VerbsQueuePair {
public:
    using VerbsQueuePair::VerbsQueuePair;
    void sent() override;

private:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) override;
    ibv_qp* make(ibv_qp_init_attr& init) override;
    void add_to_move(QpState to, ibv_qp_attr& out, int& mask) override;
    Status post_send_impl(const SendWork& work) override;
    Status post_receive_impl(const ReceiveWork& work) override;
    void build(const SendWork& work, const ibv_send_wr& request);

    ibv_qp_ex* ex_ = nullptr;
    mlx5dv_qp_ex* mlx5_ = nullptr;
    // Slots of the send queue: how many were ever taken and given back, and which of those in between are of signalled
    // requests, a ring of 2^n.
    std::uint32_t taken_ = 0;
    std::uint32_t given_back_ = 0;
    std::vector<bool> signalled_;
};

class DcTarget final : public VerbsQueuePair {
public:
    using VerbsQueuePair::VerbsQueuePair;
    ~DcTarget() override;
    int create() override;
    void failed(ibv_wc_status) override {
    } // of the initiator: it has been told, and others are served

private:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) override;
    QpAttributes query_impl() const override;
    // An event is being read that names the object, which would have to be acknowledged first.
    void enter_error() override { state_ = QpState::error; }

    ibv_qp* make_target(std::uint64_t key);
    int to_init(const QpAttributes& wanted);
    int to_ready(const QpAttributes& wanted);
    void end();
};

} // namespace adaptib::verbs
