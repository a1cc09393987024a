// SPDX-License-Identifier: BSD-3-Clause
// The stand-in for libmlx5.
#include "unit/verbs/mlx5_stand_in.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

namespace adaptib::test {

namespace {

// A queue pair's interface for posting.
struct View : ibv_qp_ex {
    FakeQp* qp = nullptr;
    std::uint64_t operations = 0; // those that it was created for
    mlx5dv_qp_ex mlx5{};
};

struct Posting {
    DcRequest request;
    int operations = 0;
    int targets = 0;
    int lists = 0;
};

std::vector<std::unique_ptr<View>> g_views;
std::vector<DcRequest> g_requests;
std::vector<DcCreation> g_creations;
Posting g_posting;

StandIn& self() { return StandIn::current(); }

FakeQp& begun(ibv_qp_ex* ex, const char* call) {
    FakeQp& qp = *static_cast<View*>(ex)->qp;
    if (self().dc_posting != &qp) {
        self().complain(std::string(call) + ": not begun");
    }
    return qp;
}

void operation(ibv_qp_ex* ex, ibv_wr_opcode opcode, std::uint32_t key, std::uint64_t address,
               std::uint64_t flag) {
    const FakeQp& qp = begun(ex, "an operation");
    if (qp.sends.size() >= qp.init.cap.max_send_wr) {
        self().complain("an operation: the send queue is full, the last request is overwritten");
    }
    DcRequest& r = g_posting.request;
    r.qp_number = qp.qp_num;
    r.wr_id = ex->wr_id;
    r.flags = ex->wr_flags;
    r.opcode = opcode;
    r.remote_key = key;
    r.remote_address = address;
    ++g_posting.operations;
    if ((static_cast<View*>(ex)->operations & flag) != flag) {
        self().complain("an operation that the queue pair was not made for");
    }
}

void wr_start(ibv_qp_ex* ex) {
    if (self().dc_posting != nullptr) {
        self().complain("wr_start: twice");
    }
    self().dc_posting = static_cast<View*>(ex)->qp;
    g_posting = {};
}

int wr_complete(ibv_qp_ex* ex) {
    FakeQp& qp = begun(ex, "wr_complete");
    self().dc_posting = nullptr;
    if (const int error = self().enter("wr_complete")) {
        return error;
    }
    const Posting& p = g_posting;
    if (p.operations != 1 || p.targets != 1 || p.lists != 1) {
        self().complain("wr_complete: a request says what, whom and with what memory, once each");
    }
    if (!qp.alive || qp.state != IBV_QPS_RTS) {
        return EINVAL;
    }
    std::size_t bytes = p.request.taken ? p.request.taken->size() : 0;
    for (const ibv_sge& entry : p.request.list) {
        if (entry.length == 0) {
            self().complain("wr_set_sge_list: an empty entry");
        }
    }
    if (bytes > qp.init.cap.max_inline_data || p.request.list.size() > qp.init.cap.max_send_sge ||
        qp.sends.size() == qp.init.cap.max_send_wr) {
        return ENOMEM;
    }
    qp.sends.emplace_back(p.request.wr_id,
                          qp.init.sq_sig_all != 0 || (p.request.flags & IBV_SEND_SIGNALED) != 0);
    g_requests.push_back(p.request);
    return 0;
}

void set_sge_list(ibv_qp_ex* ex, std::size_t count, const ibv_sge* list) {
    begun(ex, "wr_set_sge_list");
    g_posting.request.list.assign(list, list + count);
    ++g_posting.lists;
}

void set_inline_data_list(ibv_qp_ex* ex, std::size_t count, const ibv_data_buf* list) {
    begun(ex, "wr_set_inline_data_list");
    std::string& taken = g_posting.request.taken.emplace();
    for (std::size_t i = 0; i < count; ++i) {
        taken.append(static_cast<const char*>(list[i].addr), list[i].length);
    }
    ++g_posting.lists;
}

void set_dc_addr(mlx5dv_qp_ex* mlx5, ibv_ah* ah, std::uint32_t target, std::uint64_t key) {
    FakeQp* qp = nullptr;
    for (const auto& view : g_views) {
        qp = &view->mlx5 == mlx5 ? view->qp : qp;
    }
    if (qp == nullptr || qp != self().dc_posting || ah == nullptr) {
        self().complain("wr_set_dc_addr: not begun, or nowhere to");
    }
    g_posting.request.ah = ah;
    g_posting.request.target = target;
    g_posting.request.key = key;
    ++g_posting.targets;
}

void add_view(FakeQp& qp, std::uint64_t operations) {
    auto& view = g_views.emplace_back(std::make_unique<View>());
    view->qp = &qp;
    view->operations = operations;
    view->wr_start = wr_start;
    view->wr_complete = wr_complete;
    view->wr_send = [](ibv_qp_ex* ex) { operation(ex, IBV_WR_SEND, 0, 0, IBV_QP_EX_WITH_SEND); };
    view->wr_send_imm = [](ibv_qp_ex* ex, __be32 immediate) {
        operation(ex, IBV_WR_SEND_WITH_IMM, 0, 0, IBV_QP_EX_WITH_SEND_WITH_IMM);
        g_posting.request.immediate = ntohl(immediate);
    };
    view->wr_rdma_write = [](ibv_qp_ex* ex, std::uint32_t key, std::uint64_t address) {
        operation(ex, IBV_WR_RDMA_WRITE, key, address, IBV_QP_EX_WITH_RDMA_WRITE);
    };
    view->wr_rdma_write_imm = [](ibv_qp_ex* ex, std::uint32_t key, std::uint64_t address,
                                 __be32 immediate) {
        operation(ex, IBV_WR_RDMA_WRITE_WITH_IMM, key, address, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
        g_posting.request.immediate = ntohl(immediate);
    };
    view->wr_rdma_read = [](ibv_qp_ex* ex, std::uint32_t key, std::uint64_t address) {
        operation(ex, IBV_WR_RDMA_READ, key, address, IBV_QP_EX_WITH_RDMA_READ);
    };
    view->wr_atomic_cmp_swp = [](ibv_qp_ex* ex, std::uint32_t key, std::uint64_t address,
                                 std::uint64_t compare, std::uint64_t swap) {
        operation(ex, IBV_WR_ATOMIC_CMP_AND_SWP, key, address, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
        g_posting.request.compare_add = compare;
        g_posting.request.swap = swap;
    };
    view->wr_atomic_fetch_add = [](ibv_qp_ex* ex, std::uint32_t key, std::uint64_t address,
                                   std::uint64_t add) {
        operation(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, key, address,
                  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
        g_posting.request.compare_add = add;
    };
    view->wr_set_sge_list = set_sge_list;
    view->wr_set_inline_data_list = set_inline_data_list;
    view->mlx5.wr_set_dc_addr = set_dc_addr;
}

ibv_qp* refuse(int error) {
    errno = error;
    return nullptr;
}

// Checks what libmlx5's create_qp and create_dct check.
int check(const FakeDevice& device, const ibv_qp_init_attr_ex& a, const mlx5dv_qp_init_attr& mlx5) {
    const bool target = mlx5.dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
    if (a.qp_type != IBV_QPT_DRIVER || mlx5.comp_mask != MLX5DV_QP_INIT_ATTR_MASK_DC ||
        a.pd == nullptr || a.send_cq == nullptr || a.recv_cq == nullptr) {
        return EINVAL;
    }
    const std::uint32_t mask =
        IBV_QP_INIT_ATTR_PD | (target ? 0u : +IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
    if (a.comp_mask != mask || (target && a.srq == nullptr)) {
        return EINVAL;
    }
    if (target) {
        return device.targets ? 0 : EOPNOTSUPP;
    }
    const bool atomics = (a.send_ops_flags & (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                              IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)) != 0;
    if (!device.initiators || (atomics && device.limits.atomic_cap == IBV_ATOMIC_NONE)) {
        return EOPNOTSUPP;
    }
    return a.cap.max_inline_data > device.initiator_inline_bytes ||
                   a.cap.max_send_wr > static_cast<unsigned>(device.limits.max_qp_wr) ||
                   a.cap.max_recv_wr != 0 || a.cap.max_recv_sge != 0
               ? EINVAL
               : 0;
}

ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* a, mlx5dv_qp_init_attr* mlx5) {
    g_creations.push_back({*a, *mlx5});
    if (const int error = self().enter("mlx5dv_create_qp")) {
        return refuse(error);
    }
    const FakeDevice& device = self().device_of(context);
    if (!device.mlx5) {
        self().complain("mlx5dv_create_qp: of another driver's device");
    }
    if (const int error = check(device, *a, *mlx5)) {
        return refuse(error);
    }
    const bool target = mlx5->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
    if (!target) {
        a->cap.max_inline_data = std::min(a->cap.max_inline_data, device.initiator_gets_inline);
    }
    ibv_qp_init_attr init{};
    init.qp_context = a->qp_context;
    init.send_cq = a->send_cq;
    init.recv_cq = a->recv_cq;
    init.srq = a->srq;
    init.cap = a->cap;
    init.qp_type = a->qp_type;
    init.sq_sig_all = a->sq_sig_all;
    FakeQp& made = enter_qp(a->pd, init, target ? kDcTarget : kDcInitiator);
    if (!target) {
        add_view(made, a->send_ops_flags);
    }
    return &made;
}

ibv_qp_ex* qp_ex_of(ibv_qp* qp) {
    for (const auto& view : g_views) {
        if (view->qp == static_cast<FakeQp*>(qp)) {
            return view.get();
        }
    }
    return nullptr;
}

} // namespace

const verbs::Mlx5Calls& mlx5_calls() {
    static constexpr verbs::Mlx5Calls kCalls{
        .is_supported = [](ibv_device* device) -> bool { return self().listed(device).mlx5; },
        .create_qp = create_qp,
        .mlx5_qp_of = [](ibv_qp_ex* ex) -> mlx5dv_qp_ex* {
            return self().enter("mlx5dv_qp_ex") != 0 ? nullptr : &static_cast<View*>(ex)->mlx5;
        },
        .qp_ex_of = qp_ex_of,
    };
    return kCalls;
}

std::vector<DcRequest> take_dc_requests() { return std::exchange(g_requests, {}); }
const std::vector<DcCreation>& dc_creations() { return g_creations; }

void reset_dc() {
    g_requests.clear();
    g_creations.clear();
    g_views.clear();
    g_posting = {};
}

} // namespace adaptib::test
