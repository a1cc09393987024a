// SPDX-License-Identifier: BSD-3-Clause
// Calls ibv_wr_*: requests are gathered between ibv_wr_start() and ibv_wr_complete().
#include <cerrno>

#include "engine.h"
#include "entry.h"

namespace adaptib::hca {
namespace {

ibv_send_wr& begin(ibv_qp_ex* qp, ibv_wr_opcode opcode) {
    ibv_send_wr& request = of(qp)->batch.emplace_back();
    request.opcode = opcode;
    request.wr_id = qp->wr_id;
    request.send_flags = qp->wr_flags;
    of(qp)->batch_places.emplace_back();
    of(qp)->batch_addresses.emplace_back();
    return request;
}

ibv_send_wr& begin_rdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey,
                        std::uint64_t address) {
    ibv_send_wr& request = begin(qp, opcode);
    request.wr.rdma.rkey = rkey;
    request.wr.rdma.remote_addr = address;
    return request;
}

void atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
            std::uint64_t compare_add, std::uint64_t swap) {
    ibv_send_wr& request = begin(qp, opcode);
    request.wr.atomic.rkey = rkey;
    request.wr.atomic.remote_addr = address;
    request.wr.atomic.compare_add = compare_add;
    request.wr.atomic.swap = swap;
}

void add_inline(ibv_qp_ex* qp, const void* address, std::size_t length) {
    const auto* const data = static_cast<const std::uint8_t*>(address);
    auto& copy = of(qp)->batch_data.emplace_back(data, data + length);
    of(qp)->batch.back().send_flags |= IBV_SEND_INLINE;
    of(qp)->batch_places.back().push_back(
        {reinterpret_cast<std::uintptr_t>(copy.data()), static_cast<std::uint32_t>(length), 0});
}

void clear(ibv_qp_ex* qp) {
    of(qp)->batch.clear();
    of(qp)->batch_places.clear();
    of(qp)->batch_data.clear();
    of(qp)->batch_addresses.clear();
}

int post(ibv_qp_ex* qp) {
    QueuePair& pair = *of(qp);
    if (Engine::get()->gone(*of(qp->qp_base.context))) {
        clear(qp);
        return 0;
    }
    int error = 0;
    for (std::size_t index = 0; index < pair.batch.size() && error == 0; ++index) {
        ibv_send_wr& request = pair.batch[index];
        request.sg_list = pair.batch_places[index].data();
        request.num_sge = static_cast<int>(pair.batch_places[index].size());
        const bool dynamic = pair.dynamic == Dynamic::initiator;
        error = pair.post_send(request, dynamic ? &pair.batch_addresses[index] : nullptr);
    }
    pair.pump();
    clear(qp);
    return error;
}

} // namespace

void add_work_calls(ibv_qp_ex& qp) {
    qp.wr_start = [](ibv_qp_ex* to) {
        Engine::get()->lock.lock();
        clear(to);
    };
    qp.wr_complete = [](ibv_qp_ex* to) {
        const int error = post(to);
        Engine::get()->lock.unlock();
        return error;
    };
    qp.wr_abort = [](ibv_qp_ex* to) {
        clear(to);
        Engine::get()->lock.unlock();
    };
    qp.wr_send = [](ibv_qp_ex* to) { begin(to, IBV_WR_SEND); };
    qp.wr_send_imm = [](ibv_qp_ex* to, __be32 data) {
        begin(to, IBV_WR_SEND_WITH_IMM).imm_data = data;
    };
    qp.wr_rdma_read = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address) {
        begin_rdma(to, IBV_WR_RDMA_READ, rkey, address);
    };
    qp.wr_rdma_write = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address) {
        begin_rdma(to, IBV_WR_RDMA_WRITE, rkey, address);
    };
    qp.wr_rdma_write_imm = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address,
                              __be32 data) {
        begin_rdma(to, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address).imm_data = data;
    };
    qp.wr_atomic_cmp_swp = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address,
                              std::uint64_t compare, std::uint64_t swap) {
        atomic(to, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
    };
    qp.wr_atomic_fetch_add = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t address,
                                std::uint64_t add) {
        atomic(to, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
    };
    qp.wr_set_ud_addr = [](ibv_qp_ex* to, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
        auto& ud = of(to)->batch.back().wr.ud;
        ud.ah = ah;
        ud.remote_qpn = qpn;
        ud.remote_qkey = qkey;
    };
    qp.wr_set_sge = [](ibv_qp_ex* to, std::uint32_t lkey, std::uint64_t address,
                       std::uint32_t length) {
        of(to)->batch_places.back().push_back({address, length, lkey});
    };
    qp.wr_set_sge_list = [](ibv_qp_ex* to, std::size_t count, const ibv_sge* list) {
        of(to)->batch_places.back().assign(list, list + count);
    };
    qp.wr_set_inline_data = [](ibv_qp_ex* to, void* address, std::size_t length) {
        add_inline(to, address, length);
    };
    qp.wr_set_inline_data_list = [](ibv_qp_ex* to, std::size_t count, const ibv_data_buf* list) {
        for (std::size_t index = 0; index < count; ++index) {
            add_inline(to, list[index].addr, list[index].length);
        }
    };
}

} // namespace adaptib::hca
