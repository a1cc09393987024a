// SPDX-License-Identifier: BSD-3-Clause
// The two ends of a dynamic connection. Only with ADAPTIB_HAVE_MLX5DV.
//
// An initiator is a queue pair like others, except that mlx5dv creates it and that its requests go
// by ibv_wr_*, since ibv_post_send has no field for the target. An initiator counts the slots of
// its send queue: when there is none, libmlx5 writes on into the previous request, which the
// adapter may not have read yet.
//
// A target is in the adapter only while it is in RTR, and the kernel allows no transition from
// there. So
//   * INIT creates it, because mlx5dv takes the key at creation;
//   * its number is known in RTR;
//   * RESET, and ERR where the caller moves it there, destroy it;
//   * an initiator's error does not move it to ERR: its state is what modify() set, and only an
//     event or the failure of its queues changes that.
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
    // Slots of the send queue: how many were ever taken and released, and a ring of 2^n flags that
    // tells which of those in between belong to signaled requests.
    std::uint32_t taken_ = 0;
    std::uint32_t released_ = 0;
    std::vector<bool> signalled_;
};

class DcTarget final : public VerbsQueuePair {
public:
    using VerbsQueuePair::VerbsQueuePair;
    ~DcTarget() override;
    int create() override;
    // No effect: the error is the initiator's, which has its own completion; the target serves
    // others.
    void failed(ibv_wc_status) override {}

private:
    Status modify_impl(const QpAttributes& attributes, std::uint32_t mask) override;
    QpAttributes query_impl() const override;
    // Does not touch the adapter: the event that names the object must be acknowledged before a
    // destroy.
    void enter_error() override { state_ = QpState::error; }

    ibv_qp* make_target(std::uint64_t key);
    int to_init(const QpAttributes& wanted);
    int to_ready(const QpAttributes& wanted);
    void end();
};

} // namespace adaptib::verbs
