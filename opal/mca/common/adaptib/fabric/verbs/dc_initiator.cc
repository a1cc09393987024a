// SPDX-License-Identifier: BSD-3-Clause
// DC initiators: creation, posting.
#include "adaptib_config.h"

#if ADAPTIB_HAVE_MLX5DV

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "base/invariant.h"
#include "fabric/verbs/dc_queue_pairs.h"
#include "fabric/verbs/memory.h"

namespace adaptib::verbs {

namespace {

// Lists operations explicitly: one that is not listed may be missing, and one that the adapter
// lacks is refused.
std::uint64_t operations(const RailInfo& info) {
    std::uint64_t out = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    if (info.has(Capability::rdma_read)) {
        out |= IBV_QP_EX_WITH_RDMA_READ;
    }
    if (info.has(Capability::atomic64)) {
        out |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    }
    return out;
}

} // namespace

ibv_qp* DcInitiator::make(ibv_qp_init_attr& init) {
    const Mlx5Calls& library = *rail_.device().mlx5();
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_context = init.qp_context;
    wanted.send_cq = init.send_cq;
    wanted.recv_cq = init.recv_cq;
    wanted.cap.max_send_wr = init.cap.max_send_wr;
    wanted.cap.max_send_sge = init.cap.max_send_sge;
    wanted.cap.max_inline_data = init.cap.max_inline_data;
    wanted.qp_type = IBV_QPT_DRIVER;
    wanted.sq_sig_all = init.sq_sig_all;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.pd = rail_.device().pd();
    wanted.send_ops_flags = operations(rail_.info());
    mlx5dv_qp_init_attr dc{};
    dc.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    dc.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
    ibv_qp* made = library.create_qp(rail_.device().context(), &wanted, &dc);
    if (made == nullptr) {
        return nullptr;
    }
    ex_ = library.qp_ex_of(made);
    mlx5_ = ex_ == nullptr ? nullptr : library.mlx5_qp_of(ex_);
    if (mlx5_ == nullptr) { // no way to post
        rail_.calls().destroy_qp(made);
        errno = EOPNOTSUPP;
        return nullptr;
    }
    init.cap.max_inline_data = std::min(init.cap.max_inline_data, wanted.cap.max_inline_data);
    signalled_.resize(std::bit_ceil(init.cap.max_send_wr));
    return made;
}

Status DcInitiator::modify_impl(const QpAttributes& attributes, std::uint32_t mask) {
    const Status status = VerbsQueuePair::modify_impl(attributes, mask);
    if (state_ == QpState::reset) {
        taken_ = released_ = 0;
    }
    return status;
}

// Releases the slots of earlier unsignaled requests, too. A failed request releases nothing:
// signaled or not, it moves the queue pair to ERR, and only RESET leads out of there.
void DcInitiator::sent() {
    ADAPTIB_INVARIANT(taken_ - released_ <= std::max(send_depth(), 1u),
                      "no slot is released before it is taken", taken_, released_);
    for (bool found = false; !found && released_ != taken_; ++released_) {
        found = signalled_[released_ & (signalled_.size() - 1)];
    }
}

// The path, with its service level and GID, is that of each request's address handle. Older kernels
// refuse an address vector here.
void DcInitiator::add_to_move(QpState to, ibv_qp_attr& out, int& mask) {
    if (to == QpState::ready_to_receive) {
        out.path_mtu = rail_.port().attributes.active_mtu;
        mask |= IBV_QP_PATH_MTU;
    }
    out.max_rd_atomic = static_cast<std::uint8_t>(
        std::min<std::uint32_t>(out.max_rd_atomic, rail_.dc_limits().max_reads));
}

Status DcInitiator::post_receive_impl(const ReceiveWork&) {
    return Status::error(Reason::bad_argument);
}

Status DcInitiator::post_send_impl(const SendWork& work) {
    if (state_ != QpState::ready_to_send) {
        return Status::error(Reason::bad_state);
    }
    ibv_send_wr request{};
    std::array<ibv_sge, kMaxGather> list;
    if (const Status status = fill(work, request, list.data()); !status.ok()) {
        return status;
    }
    if (work.address_handle == nullptr || work.remote_qp > kNumberMask) {
        return Status::error(Reason::bad_argument);
    }
    if (taken_ - released_ == std::max(send_depth(), 1u)) {
        return Status::again(Reason::queue_full);
    }
    ibv_wr_start(ex_);
    build(work, request);
    if (const int result = ibv_wr_complete(ex_); result != 0) {
        return refused(result);
    }
    signalled_[taken_++ & (signalled_.size() - 1)] = signal_all_ || (work.flags & kSignaled) != 0;
    ADAPTIB_AUDIT(taken_ - released_ <= signalled_.size(), "each slot in use has a flag", taken_,
                  released_, signalled_.size());
    return kOk;
}

// Sets operation, target and memory, in this order and even if there is no memory: the request is
// not built before all three are set. ibv_wr_complete reports faults and then takes nothing.
void DcInitiator::build(const SendWork& work, const ibv_send_wr& request) {
    ex_->wr_id = request.wr_id;
    ex_->wr_flags = request.send_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    const std::uint64_t address = work.remote_address;
    switch (work.opcode) {
    case Opcode::send: ibv_wr_send(ex_); break;
    case Opcode::send_imm: ibv_wr_send_imm(ex_, request.imm_data); break;
    case Opcode::write: ibv_wr_rdma_write(ex_, work.remote_key, address); break;
    case Opcode::write_imm:
        ibv_wr_rdma_write_imm(ex_, work.remote_key, address, request.imm_data);
        break;
    case Opcode::read: ibv_wr_rdma_read(ex_, work.remote_key, address); break;
    case Opcode::compare_swap:
        ibv_wr_atomic_cmp_swp(ex_, work.remote_key, address, work.compare_add, work.swap);
        break;
    case Opcode::fetch_add:
        ibv_wr_atomic_fetch_add(ex_, work.remote_key, address, work.compare_add);
        break;
    }
    mlx5dv_wr_set_dc_addr(mlx5_, static_cast<const VerbsAddressHandle*>(work.address_handle)->ah(),
                          work.remote_qp, work.remote_access_key);
    const auto count = static_cast<std::size_t>(request.num_sge);
    if ((request.send_flags & IBV_SEND_INLINE) == 0) {
        ibv_wr_set_sge_list(ex_, count, request.sg_list);
        return;
    }
    ADAPTIB_INVARIANT(count <= kMaxGather, "the list of a request fits on the stack", count);
    std::array<ibv_data_buf, kMaxGather> taken;
    for (std::size_t i = 0; i < count; ++i) {
        taken[i] = {reinterpret_cast<void*>(request.sg_list[i].addr), request.sg_list[i].length};
    }
    ibv_wr_set_inline_data_list(ex_, count, taken.data());
}

} // namespace adaptib::verbs

#endif
