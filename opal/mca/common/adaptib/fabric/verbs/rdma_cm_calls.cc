// SPDX-License-Identifier: BSD-3-Clause
// Table of librdmacm, if it was present when adaptib was built.
#include "adaptib_config.h"
#include "fabric/verbs/verbs_fabric.h"

#if ADAPTIB_HAVE_RDMACM

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <cerrno>
#include <cstring>

#include "fabric/verbs/rdma_cm_calls.h"

namespace adaptib {

namespace {

std::vector<sockaddr_storage> host_addresses() {
    std::vector<sockaddr_storage> out;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        return out;
    }
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
        const bool usable = (each->ifa_flags & IFF_UP) != 0 &&
                            (each->ifa_flags & IFF_LOOPBACK) == 0 && each->ifa_addr != nullptr;
        const sa_family_t family = usable ? each->ifa_addr->sa_family : sa_family_t{AF_UNSPEC};
        if (family == AF_INET || family == AF_INET6) {
            std::memcpy(&out.emplace_back(), each->ifa_addr,
                        family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        }
    }
    freeifaddrs(list);
    return out;
}

} // namespace

const verbs::RdmaCmCalls* rdma_cm_library() {
    static constexpr verbs::RdmaCmCalls kCalls{
        .create_event_channel = rdma_create_event_channel,
        .destroy_event_channel = rdma_destroy_event_channel,
        .set_nonblocking = [](rdma_event_channel* channel) -> int {
            const int flags = fcntl(channel->fd, F_GETFL);
            return flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
        },
        .get_event = rdma_get_cm_event,
        .ack_event = rdma_ack_cm_event,
        .create_id = rdma_create_id,
        .destroy_id = rdma_destroy_id,
        .bind_addr = rdma_bind_addr,
        .listen = rdma_listen,
        .get_src_port = [](rdma_cm_id* id) -> std::uint16_t { return rdma_get_src_port(id); },
        .resolve_addr = rdma_resolve_addr,
        .resolve_route = rdma_resolve_route,
        .connect = rdma_connect,
        .accept = rdma_accept,
        .reject = rdma_reject,
        .establish = rdma_establish,
        .init_qp_attr = rdma_init_qp_attr,
        .host_addresses = host_addresses,
    };
    return &kCalls;
}

} // namespace adaptib

#else

namespace adaptib {

const verbs::RdmaCmCalls* rdma_cm_library() { return nullptr; }

} // namespace adaptib

#endif
