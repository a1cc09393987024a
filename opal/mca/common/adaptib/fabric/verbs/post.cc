// SPDX-License-Identifier: BSD-3-Clause
// Posts requests and receives.
#include <arpa/inet.h>

#include <array>
#include <cerrno>

#include "base/invariant.h"
#include "fabric/verbs/errors.h"
#include "fabric/verbs/memory.h"
#include "fabric/verbs/qp.h"

namespace adaptib::verbs {

namespace {

struct OpcodeRow {
    ibv_wr_opcode verbs;
    std::uint32_t capability; // 0: every rail has it
};

// In the order of Opcode.
constexpr std::array kOpcodes{
    OpcodeRow{IBV_WR_SEND, 0},
    OpcodeRow{IBV_WR_SEND_WITH_IMM, 0},
    OpcodeRow{IBV_WR_RDMA_WRITE, static_cast<std::uint32_t>(Capability::rdma_write)},
    OpcodeRow{IBV_WR_RDMA_WRITE_WITH_IMM, static_cast<std::uint32_t>(Capability::write_imm)},
    OpcodeRow{IBV_WR_RDMA_READ, static_cast<std::uint32_t>(Capability::rdma_read)},
    OpcodeRow{IBV_WR_ATOMIC_CMP_AND_SWP, static_cast<std::uint32_t>(Capability::atomic64)},
    OpcodeRow{IBV_WR_ATOMIC_FETCH_AND_ADD, static_cast<std::uint32_t>(Capability::atomic64)},
};

bool is_atomic(Opcode opcode) { return opcode >= Opcode::compare_swap; }

} // namespace

// Checks the request as README.md demands, and translates it.
Status VerbsQueuePair::fill(const SendWork& work, ibv_send_wr& out, ibv_sge* list) const {
    const Status bad = Status::error(Reason::bad_argument);
    if (work.opcode > Opcode::fetch_add || work.gather_count > max_gather_ ||
        (work.gather_count > 0 && work.gather == nullptr)) {
        return bad;
    }
    const OpcodeRow& row = kOpcodes[static_cast<std::size_t>(work.opcode)];
    const RailInfo& info = rail_.info();
    if ((info.capabilities & row.capability) != row.capability) {
        return Status::error(Reason::not_supported);
    }
    const Bytes most = type() == QpType::ud ? info.datagram_bytes : info.max_message_bytes;
    Bytes length = 0;
    for (std::uint32_t i = 0; i < work.gather_count; ++i) {
        const Gather& entry = work.gather[i];
        if (entry.length > most - length) {
            return bad;
        }
        length += entry.length;
        if (entry.length != 0) { // some adapters take 0 for 2 GiB
            list[out.num_sge++] = {reinterpret_cast<std::uintptr_t>(entry.address),
                                   static_cast<std::uint32_t>(entry.length), entry.local_key};
        }
    }
    const bool can_inline = work.opcode < Opcode::read;
    if (can_inline && (work.flags & kInline) != 0 && length > inline_bytes_) {
        return bad;
    }
    out.wr_id = work.wr_id;
    out.sg_list = list;
    out.opcode = row.verbs;
    out.send_flags = ((work.flags & kSignaled) != 0 ? +IBV_SEND_SIGNALED : 0u) |
                     ((work.flags & kFence) != 0 ? +IBV_SEND_FENCE : 0u) |
                     ((work.flags & kInline) != 0 && can_inline ? +IBV_SEND_INLINE : 0u);
    out.imm_data = htonl(work.immediate);
    if (type() == QpType::ud) {
        return fill_datagram(work, out);
    }
    if (is_atomic(work.opcode)) {
        out.wr.atomic.remote_addr = work.remote_address;
        out.wr.atomic.rkey = work.remote_key;
        out.wr.atomic.compare_add = work.compare_add;
        out.wr.atomic.swap = work.swap;
        return length == 8 && out.num_sge == 1 ? kOk : bad;
    }
    out.wr.rdma.remote_addr = work.remote_address;
    out.wr.rdma.rkey = work.remote_key;
    return kOk;
}

Status VerbsQueuePair::fill_datagram(const SendWork& work, ibv_send_wr& out) const {
    if (work.opcode > Opcode::send_imm || work.address_handle == nullptr ||
        work.remote_qp > kNumberMask) {
        return Status::error(Reason::bad_argument);
    }
    out.wr.ud.ah = static_cast<const VerbsAddressHandle*>(work.address_handle)->ah();
    out.wr.ud.remote_qpn = work.remote_qp;
    out.wr.ud.remote_qkey = queue_key(work.remote_access_key);
    return kOk;
}

// The provider refused the request: queue full, another state than expected, or really wrong.
Status VerbsQueuePair::refused(int result) {
    ADAPTIB_INVARIANT(result != 0, "a request that is refused was not taken", number_);
    const int error = error_number(result);
    if (error == ENOMEM || error == EAGAIN) {
        return Status::again(Reason::queue_full);
    }
    const QpState before = state_;
    look_again();
    const Status status = status_of(error);
    if (status.reason() == Reason::no_device && state_ != QpState::error) {
        state_ = QpState::error; // a removed device does not say so
        suspect();
    }
    return state_ != before ? Status::error(Reason::bad_state) : status;
}

Status VerbsQueuePair::post_send_impl(const SendWork& work) {
    if (state_ != QpState::ready_to_send) {
        return Status::error(Reason::bad_state);
    }
    ibv_send_wr request{};
    std::array<ibv_sge, kMaxGather> list;
    if (const Status status = fill(work, request, list.data()); !status.ok()) {
        return status;
    }
    if (places_.full()) [[unlikely]] {
        return Status::again(Reason::queue_full);
    }
    ibv_send_wr* bad = nullptr;
    const int result = rail_.calls().post_send(qp_, &request, &bad);
    if (result != 0) [[unlikely]] {
        return refused(result);
    }
    places_.posted(signal_all_ || (work.flags & kSignaled) != 0);
    return kOk;
}

Status VerbsQueuePair::post_receive_impl(const ReceiveWork& work) {
    if (srq_ != nullptr) {
        return Status::error(Reason::bad_argument);
    }
    if (state_ == QpState::reset) {
        return Status::error(Reason::bad_state);
    }
    if (state_ == QpState::error && reported_ != Reported::lost && rail_.device().keeps_receives())
        [[unlikely]] {
        receive_cq_.flush(work.wr_id, number_);
        return kOk;
    }
    std::array<ibv_sge, kMaxGather + 1> list;
    int used = 0;
    if (type() == QpType::ud) {
        list[static_cast<std::size_t>(used++)] = rail_.grh();
    }
    ibv_recv_wr request{};
    request.wr_id = work.wr_id;
    request.sg_list = list.data();
    request.num_sge = scatter_list(work, max_gather_, list.data(), used);
    if (request.num_sge < 0) {
        return Status::error(Reason::bad_argument);
    }
    ibv_recv_wr* bad = nullptr;
    const int result = rail_.calls().post_recv(qp_, &request, &bad);
    if (result != 0) [[unlikely]] {
        return refused(result);
    }
    if (state_ == QpState::error) [[unlikely]] {
        move_to_error(); // some providers flush only at this transition
    }
    return kOk;
}

} // namespace adaptib::verbs
