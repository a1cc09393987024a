// SPDX-License-Identifier: BSD-3-Clause
// Table of libibverbs. A lambda stands for each macro and inline function.
#include "fabric/verbs/verbs_calls.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <cerrno>

namespace adaptib::verbs {

namespace {

// Looks a function up that older versions of rdma-core lack.
template <typename Function> Function* find(const char* name) {
    void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

// A library without ibv_reg_mr_iova2 (rdma-core before 28) does not know relaxed ordering either.
// The function leaves it out where the kernel does not.
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
    using Register = ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned);
    static Register* const kRegister = find<Register>("ibv_reg_mr_iova2");
    constexpr int kOptional = IBV_ACCESS_RELAXED_ORDERING;
    return (access & kOptional) != 0 && kRegister != nullptr
               ? kRegister(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                           static_cast<unsigned>(access))
               : (ibv_reg_mr)(pd, address, length, access & ~kOptional);
}

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t address,
                      int file, int access) {
    using Register = ibv_mr*(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int);
    static Register* const kRegister = find<Register>("ibv_reg_dmabuf_mr");
    if (kRegister == nullptr) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    return kRegister(pd, offset, length, address, file, access);
}

int writes_in_order(ibv_qp* qp) {
    using Question = int(ibv_qp*, ibv_wr_opcode, std::uint32_t);
    static Question* const kQuestion = find<Question>("ibv_query_qp_data_in_order");
    return kQuestion == nullptr ? -1 : kQuestion(qp, IBV_WR_RDMA_WRITE, 0);
}

} // namespace

const Calls& library_calls() {
    static constexpr Calls kCalls{
        .fork_init = ibv_fork_init,
        .is_fork_initialized = ibv_is_fork_initialized,
        .get_device_list = ibv_get_device_list,
        .free_device_list = ibv_free_device_list,
        .get_device_name = ibv_get_device_name,
        .open_device = ibv_open_device,
        .close_device = ibv_close_device,
        .query_device = ibv_query_device,
        .query_port = [](ibv_context* context, std::uint8_t port, ibv_port_attr* attributes)
            -> int { return ibv_query_port(context, port, attributes); },
        .query_gid_ex = [](ibv_context* context, std::uint32_t port, std::uint32_t index,
                           ibv_gid_entry* entry, std::uint32_t flags) -> int {
            return ibv_query_gid_ex(context, port, index, entry, flags);
        },
        .query_pkey = ibv_query_pkey,
        .set_nonblocking = [](ibv_context* context) -> int {
            const int flags = fcntl(context->async_fd, F_GETFL);
            return flags < 0 || fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno
                                                                                          : 0;
        },
        .get_async_event = ibv_get_async_event,
        .ack_async_event = ibv_ack_async_event,
        .alloc_pd = ibv_alloc_pd,
        .dealloc_pd = ibv_dealloc_pd,
        .reg_mr = reg_mr,
        .reg_dmabuf_mr = reg_dmabuf_mr,
        .dereg_mr = ibv_dereg_mr,
        .create_ah = ibv_create_ah,
        .destroy_ah = ibv_destroy_ah,
        .create_comp_channel = ibv_create_comp_channel,
        .destroy_comp_channel = ibv_destroy_comp_channel,
        .get_cq_event = ibv_get_cq_event,
        .ack_cq_events = ibv_ack_cq_events,
        .req_notify_cq = [](ibv_cq* cq, int solicited_only) -> int {
            return ibv_req_notify_cq(cq, solicited_only);
        },
        .create_cq = ibv_create_cq,
        .resize_cq = ibv_resize_cq,
        .destroy_cq = ibv_destroy_cq,
        .poll_cq = [](ibv_cq* cq, int count, ibv_wc* completions) -> int {
            return ibv_poll_cq(cq, count, completions);
        },
        .create_srq = ibv_create_srq,
        .modify_srq = ibv_modify_srq,
        .destroy_srq = ibv_destroy_srq,
        .post_srq_recv = [](ibv_srq* srq, ibv_recv_wr* work, ibv_recv_wr** bad) -> int {
            return ibv_post_srq_recv(srq, work, bad);
        },
        .create_qp = ibv_create_qp,
        .modify_qp = ibv_modify_qp,
        .query_qp = ibv_query_qp,
        .destroy_qp = ibv_destroy_qp,
        .writes_in_order = writes_in_order,
        .post_send = [](ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) -> int {
            return ibv_post_send(qp, work, bad);
        },
        .post_recv = [](ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad) -> int {
            return ibv_post_recv(qp, work, bad);
        },
    };
    return kCalls;
}

} // namespace adaptib::verbs
