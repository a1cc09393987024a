// SPDX-License-Identifier: BSD-3-Clause
// Functions of libibverbs that the fabric uses, as a table, so that a test can replace them.
// Arguments and results are those of the manual pages.
// Threads: constant.
// May touch: libibverbs. Only this file of the fabric includes its header.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace adaptib::verbs {

struct Calls {
    int (*fork_init)();
    ibv_fork_status (*is_fork_initialized)();

    ibv_device** (*get_device_list)(int* count);
    void (*free_device_list)(ibv_device** list);
    const char* (*get_device_name)(ibv_device* device);
    ibv_context* (*open_device)(ibv_device* device);
    int (*close_device)(ibv_context* context);
    int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
    int (*query_port)(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes);
    int (*query_gid_ex)(ibv_context* context, std::uint32_t port, std::uint32_t index,
                        ibv_gid_entry* entry, std::uint32_t flags);
    int (*query_pkey)(ibv_context* context, std::uint8_t port, int index, __be16* pkey);
    // Sets O_NONBLOCK for the context's event file; 0 or the error number.
    int (*set_nonblocking)(ibv_context* context);
    int (*get_async_event)(ibv_context* context, ibv_async_event* event);
    void (*ack_async_event)(ibv_async_event* event);

    ibv_pd* (*alloc_pd)(ibv_context* context);
    int (*dealloc_pd)(ibv_pd* pd);
    ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, std::size_t length, int access);
    // Null with errno EOPNOTSUPP if the library or the driver cannot register such memory.
    ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                             std::uint64_t address, int file, int access);
    int (*dereg_mr)(ibv_mr* mr);
    ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attributes);
    int (*destroy_ah)(ibv_ah* ah);

    ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
    int (*destroy_comp_channel)(ibv_comp_channel* channel);
    int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
    void (*ack_cq_events)(ibv_cq* cq, unsigned events);
    int (*req_notify_cq)(ibv_cq* cq, int solicited_only);

    ibv_cq* (*create_cq)(ibv_context* context, int depth, void* cq_context,
                         ibv_comp_channel* channel, int vector);
    int (*resize_cq)(ibv_cq* cq, int depth);
    int (*destroy_cq)(ibv_cq* cq);
    int (*poll_cq)(ibv_cq* cq, int count, ibv_wc* completions);

    ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attributes);
    int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
    int (*destroy_srq)(ibv_srq* srq);
    int (*post_srq_recv)(ibv_srq* srq, ibv_recv_wr* work, ibv_recv_wr** bad);

    ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attributes);
    int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
    int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init);
    int (*destroy_qp)(ibv_qp* qp);
    // 1: remote writes into this queue pair's memory become visible in the order of their
    // addresses; 0: that is not guaranteed; -1: the library does not have the question.
    int (*writes_in_order)(ibv_qp* qp);
    int (*post_send)(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad);
    int (*post_recv)(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad);
};

// Table of libibverbs itself.
const Calls& library_calls();

} // namespace adaptib::verbs
