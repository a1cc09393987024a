// SPDX-License-Identifier: BSD-3-Clause
// A device of the virtual adapter, opened through libibverbs, for the tests of this folder;
// device_test.cc describes the host.
// Ownership: objects end with their owners, the device last.
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace adaptib::hca {

template <typename Object, auto destroy> struct Destroy {
    void operator()(Object* object) const { EXPECT_EQ(destroy(object), 0); }
};
template <typename Object, auto destroy>
using Owned = std::unique_ptr<Object, Destroy<Object, destroy>>;
using Cq = Owned<ibv_cq, ibv_destroy_cq>;
using Qp = Owned<ibv_qp, ibv_destroy_qp>;
using Srq = Owned<ibv_srq, ibv_destroy_srq>;
using Mr = Owned<ibv_mr, ibv_dereg_mr>;

// Lowest LID of the device's first port.
inline std::uint16_t lid_of(ibv_context* context) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    return port.lid;
}

// Number of a device on the host; -1: there is none of that name.
inline int number_of(const std::string& name) {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    int found = -1;
    for (int device = 0; device < count; ++device) {
        found = name == ibv_get_device_name(list[device]) ? device : found;
    }
    ibv_free_device_list(list);
    return found;
}

// An open device, by its number on the host.
class Opened {
public:
    explicit Opened(int device) : context(open(device)), lid(lid_of(context.get())) {
        pd.reset(ibv_alloc_pd(context.get()));
        cq.reset(ibv_create_cq(context.get(), 50, nullptr, nullptr, 0));
        EXPECT_NE(cq, nullptr);
    }

    explicit Opened(const std::string& name) : Opened(number_of(name)) {}

    ibv_qp_init_attr usual() const {
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq.get();
        init.cap = {16, 16, 1, 1, 0};
        init.qp_type = IBV_QPT_RC;
        return init;
    }
    Qp queue_pair() const {
        ibv_qp_init_attr init = usual();
        return Qp(ibv_create_qp(pd.get(), &init));
    }
    // Error of a queue pair that has `value` in the place of one of the usual capacities.
    int error_of(std::uint32_t ibv_qp_cap::*capacity, std::uint32_t value) const {
        ibv_qp_init_attr init = usual();
        init.cap.*capacity = value;
        errno = 0;
        return Qp(ibv_create_qp(pd.get(), &init)) == nullptr ? errno : 0;
    }
    // `access`: further rights.
    Mr registered(void* memory, std::size_t bytes, int access = 0) const {
        return Mr(ibv_reg_mr(pd.get(), memory, bytes,
                             access | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    }

    Owned<ibv_context, ibv_close_device> context;
    const std::uint16_t lid;
    Owned<ibv_pd, ibv_dealloc_pd> pd;
    Cq cq;

private:
    static ibv_context* open(int device) {
        int count = 0;
        ibv_device** const list = ibv_get_device_list(&count);
        EXPECT_TRUE(device >= 0 && device < count) << "devices of this host";
        ibv_context* const opened = ibv_open_device(list[device]);
        ibv_free_device_list(list);
        return opened;
    }
};

constexpr std::chrono::milliseconds kLong{20000}; // for what has to come

// Returns the next completion; nothing: none came in that time.
inline std::optional<ibv_wc> completion(ibv_cq* cq, std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    ibv_wc wc{};
    while (std::chrono::steady_clock::now() < end) {
        if (ibv_poll_cq(cq, 1, &wc) == 1) {
            return wc;
        }
        std::this_thread::yield();
    }
    return std::nullopt;
}

// Connects a queue pair with another device's. Returns the error of the first step that fails.
inline int connect(ibv_qp* qp, std::uint16_t pkey_index, std::uint16_t lid, std::uint32_t number) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = pkey_index;
    attributes.port_num = 1;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (const int error = ibv_modify_qp(
            qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        error != 0) {
        return error;
    }
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_256;
    attributes.dest_qp_num = number;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr.dlid = lid;
    attributes.ah_attr.port_num = 1;
    if (const int error =
            ibv_modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        error != 0) {
        return error;
    }
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 8; // 1 ms
    attributes.retry_cnt = 1;
    attributes.rnr_retry = 1;
    attributes.max_rd_atomic = 1;
    return ibv_modify_qp(qp, &attributes,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

} // namespace adaptib::hca
