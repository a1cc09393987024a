// SPDX-License-Identifier: BSD-3-Clause
// Entry points of libibverbs: names of values, fork, address handles of a completion; and those
// that the model does not have and programs may call, which fail.
#include <cstring>

#include "absent.h"
#include "objects.h"

using namespace adaptib::hca;

extern "C" {

bool verbs_allow_disassociate_destroy = false;

const char* ibv_wc_status_str(ibv_wc_status status) {
    static const char* const kNames[] = {"success",
                                         "local length error",
                                         "local QP operation error",
                                         "local EE context operation error",
                                         "local protection error",
                                         "Work Request Flushed Error",
                                         "memory management operation error",
                                         "bad response error",
                                         "local access error",
                                         "remote invalid request error",
                                         "remote access error",
                                         "remote operation error",
                                         "transport retry counter exceeded",
                                         "RNR retry counter exceeded",
                                         "local RDD violation error",
                                         "remote invalid RD request",
                                         "aborted error",
                                         "invalid EE context number",
                                         "invalid EE context state",
                                         "fatal error",
                                         "response timeout error",
                                         "general error",
                                         "TM error",
                                         "TM software rendezvous"};
    return static_cast<std::size_t>(status) < std::size(kNames) ? kNames[status] : "unknown";
}

const char* ibv_event_type_str(ibv_event_type event) {
    static const char* const kNames[] = {"CQ error",
                                         "local work queue catastrophic error",
                                         "invalid request local work queue error",
                                         "local access violation work queue error",
                                         "communication established",
                                         "send queue drained",
                                         "path migrated",
                                         "path migration request error",
                                         "local catastrophic error",
                                         "port active",
                                         "port error",
                                         "LID change",
                                         "P_Key change",
                                         "SM change",
                                         "SRQ catastrophic error",
                                         "SRQ limit reached",
                                         "last WQE reached",
                                         "client reregistration",
                                         "GID table change",
                                         "WQ fatal"};
    return static_cast<std::size_t>(event) < std::size(kNames) ? kNames[event] : "unknown";
}

const char* ibv_node_type_str(ibv_node_type type) {
    return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

const char* ibv_port_state_str(ibv_port_state state) {
    static const char* const kNames[] = {"no state change (NOP)", "DOWN", "INIT", "ARMED", "ACTIVE",
                                         "ACTIVE_DEFER"};
    return static_cast<std::size_t>(state) < std::size(kNames) ? kNames[state] : "invalid state";
}

// Nothing is pinned, so a child harms nothing.
int ibv_fork_init(void) { return 0; }
ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
int ibv_dontfork_range(void*, std::size_t) { return 0; }
int ibv_dofork_range(void*, std::size_t) { return 0; }

const char* ibv_get_sysfs_path(void) { return "/sys"; }
int ibv_read_sysfs_file(const char*, const char*, char*, std::size_t) { return -1; }
int ibv_read_ibdev_sysfs_file(char*, std::size_t, ibv_device*, const char*, ...) { return -1; }

void __verbs_log(void*, std::uint32_t, const char*, ...) {}

int ibv_rate_to_mult(ibv_rate rate) {
    switch (rate) {
    case IBV_RATE_2_5_GBPS: return 1;
    case IBV_RATE_5_GBPS: return 2;
    case IBV_RATE_10_GBPS: return 4;
    case IBV_RATE_20_GBPS: return 8;
    case IBV_RATE_30_GBPS: return 12;
    case IBV_RATE_40_GBPS: return 16;
    case IBV_RATE_60_GBPS: return 24;
    case IBV_RATE_80_GBPS: return 32;
    case IBV_RATE_120_GBPS: return 48;
    default: return -1;
    }
}
ibv_rate mult_to_ibv_rate(int mult) {
    for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_120_GBPS; ++rate) {
        if (ibv_rate_to_mult(static_cast<ibv_rate>(rate)) == mult) {
            return static_cast<ibv_rate>(rate);
        }
    }
    return IBV_RATE_MAX;
}
int ibv_rate_to_mbps(ibv_rate rate) {
    const int mult = ibv_rate_to_mult(rate);
    return mult < 0 ? -1 : mult * 2500;
}
ibv_rate mbps_to_ibv_rate(int mbps) { return mult_to_ibv_rate(mbps / 2500); }

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid);

int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attributes) {
    *attributes = {};
    attributes->dlid = wc->slid;
    attributes->sl = wc->sl;
    attributes->src_path_bits = wc->dlid_path_bits;
    attributes->port_num = port;
    if ((wc->wc_flags & IBV_WC_GRH) == 0) {
        return 0;
    }
    attributes->is_global = 1;
    attributes->grh.dgid = grh->sgid;
    attributes->grh.hop_limit = 0xff;
    ibv_gid own;
    for (int index = 0; ibv_query_gid(context, port, index, &own) == 0; ++index) {
        if (std::memcmp(&own, &grh->dgid, sizeof own) == 0) {
            attributes->grh.sgid_index = static_cast<std::uint8_t>(index);
            return 0;
        }
    }
    return -1;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
    ibv_ah_attr attributes;
    return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0
               ? nullptr
               : ibv_create_ah(pd, &attributes);
}

} // extern "C"

ADAPTIB_ABSENT_OBJECT(ibv_import_device)
ADAPTIB_ABSENT_OBJECT(ibv_import_mr)
ADAPTIB_ABSENT_OBJECT(ibv_import_pd)
ADAPTIB_ABSENT_OBJECT(ibv_import_dm)
ADAPTIB_ABSENT(ibv_copy_path_rec_from_kern)
ADAPTIB_ABSENT(ibv_copy_path_rec_to_kern)
ADAPTIB_ABSENT(ibv_copy_qp_attr_from_kern)
ADAPTIB_ABSENT(ibv_attach_mcast)
ADAPTIB_ABSENT(ibv_copy_ah_attr_from_kern)
ADAPTIB_ABSENT(ibv_detach_mcast)
ADAPTIB_ABSENT(ibv_rereg_mr)
ADAPTIB_ABSENT(ibv_resolve_eth_l2_from_gid)
ADAPTIB_ABSENT(ibv_query_ece)
ADAPTIB_ABSENT(ibv_set_ece)
ADAPTIB_ABSENT(ibv_unimport_mr)
ADAPTIB_ABSENT(ibv_unimport_pd)
ADAPTIB_ABSENT(ibv_unimport_dm)
