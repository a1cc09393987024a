// SPDX-License-Identifier: BSD-3-Clause
// Functions of librdmacm that the fabric uses, as a table, so that a test can replace them.
// Arguments and results are those of the manual pages: -1 and errno on failure.
// Threads: constant.
// May touch: librdmacm. Only this file includes its header; include this file only with
// ADAPTIB_HAVE_RDMACM.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <vector>

namespace adaptib::verbs {

struct RdmaCmCalls {
    rdma_event_channel* (*create_event_channel)();
    void (*destroy_event_channel)(rdma_event_channel* channel);
    // Sets O_NONBLOCK for the channel's file; 0 or the error number.
    int (*set_nonblocking)(rdma_event_channel* channel);
    int (*get_event)(rdma_event_channel* channel, rdma_cm_event** event);
    int (*ack_event)(rdma_cm_event* event);

    int (*create_id)(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                     rdma_port_space space);
    int (*destroy_id)(rdma_cm_id* id);
    int (*bind_addr)(rdma_cm_id* id, sockaddr* address);
    int (*listen)(rdma_cm_id* id, int backlog);
    std::uint16_t (*get_src_port)(rdma_cm_id* id); // network byte order
    int (*resolve_addr)(rdma_cm_id* id, sockaddr* from, sockaddr* to, int milliseconds);
    int (*resolve_route)(rdma_cm_id* id, int milliseconds);
    int (*connect)(rdma_cm_id* id, rdma_conn_param* parameters);
    int (*accept)(rdma_cm_id* id, rdma_conn_param* parameters);
    int (*reject)(rdma_cm_id* id, const void* data, std::uint8_t bytes);
    int (*establish)(rdma_cm_id* id);
    int (*init_qp_attr)(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask);

    // Not of librdmacm: IP addresses of this host's interfaces that are up, without loopback; empty
    // on failure.
    std::vector<sockaddr_storage> (*host_addresses)();
};

} // namespace adaptib::verbs
