// SPDX-License-Identifier: BSD-3-Clause
// States of a queue pair of the virtual adapter: legal moves, the attributes that each needs, and
// what may be posted in each (IBA vol. 1, 10.3.1 and 11.2.5.2).
#include <gtest/gtest.h>

#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>

#include "unit/adapter/opened_device.h"

namespace adaptib::hca {
namespace {

constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kSend = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

ibv_qp_attr to(ibv_qp_state state, std::uint16_t lid) {
    ibv_qp_attr out{};
    out.qp_state = state;
    out.port_num = out.ah_attr.port_num = 1;
    out.path_mtu = IBV_MTU_256;
    out.dest_qp_num = 77;
    out.max_dest_rd_atomic = out.max_rd_atomic = 1;
    out.min_rnr_timer = 1;
    out.ah_attr.dlid = lid;
    out.timeout = 8;
    return out;
}

class States : public ::testing::Test {
protected:
    explicit States(int number = 2) : device(number), qp(device.queue_pair()) {}

    int move(ibv_qp_state state, int mask) {
        ibv_qp_attr wanted = to(state, device.lid);
        return ibv_modify_qp(qp.get(), &wanted, mask);
    }
    void reach(ibv_qp_state state) {
        if (state != IBV_QPS_RESET) {
            ASSERT_EQ(move(IBV_QPS_INIT, kInit), 0);
        }
        if (state == IBV_QPS_RTR || state == IBV_QPS_RTS) {
            ASSERT_EQ(move(IBV_QPS_RTR, kReceive), 0);
        }
        if (state == IBV_QPS_RTS) {
            ASSERT_EQ(move(IBV_QPS_RTS, kSend), 0);
        }
    }
    ibv_qp_state state() const {
        ibv_qp_attr now{};
        ibv_qp_init_attr init{};
        EXPECT_EQ(ibv_query_qp(qp.get(), &now, IBV_QP_STATE, &init), 0);
        return now.qp_state;
    }
    int post_send(std::uint64_t id) {
        ibv_send_wr work{};
        work.wr_id = id;
        work.opcode = IBV_WR_SEND;
        ibv_send_wr* bad = nullptr;
        return ibv_post_send(qp.get(), &work, &bad);
    }
    int post_receive(std::uint64_t id) {
        ibv_recv_wr work{};
        work.wr_id = id;
        ibv_recv_wr* bad = nullptr;
        return ibv_post_recv(qp.get(), &work, &bad);
    }
    ibv_wc completion() const {
        const std::optional<ibv_wc> wc = hca::completion(device.cq.get(), kLong);
        EXPECT_TRUE(wc.has_value()) << "no completion";
        return wc.value_or(ibv_wc{});
    }

    const Opened device;
    Qp qp;
};

class StatesThatEnd : public States {
protected:
    StatesThatEnd() : States(4) {}
};

TEST_F(States, OneAfterTheOther) {
    EXPECT_EQ(state(), IBV_QPS_RESET);
    reach(IBV_QPS_INIT);
    EXPECT_EQ(state(), IBV_QPS_INIT);
    ASSERT_EQ(move(IBV_QPS_RTR, kReceive), 0);
    EXPECT_EQ(state(), IBV_QPS_RTR);
    ASSERT_EQ(move(IBV_QPS_RTS, kSend), 0);
    EXPECT_EQ(state(), IBV_QPS_RTS);
    ASSERT_EQ(move(IBV_QPS_SQD, IBV_QP_STATE), 0);
    EXPECT_EQ(state(), IBV_QPS_SQD);
    ASSERT_EQ(move(IBV_QPS_RTS, IBV_QP_STATE), 0);
    ASSERT_EQ(move(IBV_QPS_RESET, IBV_QP_STATE), 0);
    EXPECT_EQ(state(), IBV_QPS_RESET);
}

TEST_F(States, NoneIsSkipped) {
    EXPECT_EQ(move(IBV_QPS_RTR, kReceive), EINVAL);
    EXPECT_EQ(move(IBV_QPS_RTS, kSend), EINVAL);
    reach(IBV_QPS_INIT);
    EXPECT_EQ(move(IBV_QPS_RTS, kSend), EINVAL);
    ASSERT_EQ(move(IBV_QPS_RTR, kReceive), 0);
    EXPECT_EQ(move(IBV_QPS_INIT, kInit), EINVAL) << "not back";
    EXPECT_EQ(state(), IBV_QPS_RTR) << "a refused move changes nothing";
}

TEST_F(States, EachNeedsItsAttributesAndNoOthers) {
    for (const int bit : {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS}) {
        EXPECT_EQ(move(IBV_QPS_INIT, kInit & ~bit), EINVAL) << bit;
    }
    EXPECT_EQ(move(IBV_QPS_INIT, kInit | IBV_QP_AV), EINVAL);
    reach(IBV_QPS_INIT);
    for (const int bit : {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN,
                          IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER}) {
        EXPECT_EQ(move(IBV_QPS_RTR, kReceive & ~bit), EINVAL) << bit;
    }
    EXPECT_EQ(move(IBV_QPS_RTR, kReceive | IBV_QP_TIMEOUT), EINVAL);
    ASSERT_EQ(move(IBV_QPS_RTR, kReceive), 0);
    for (const int bit : {IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_SQ_PSN,
                          IBV_QP_MAX_QP_RD_ATOMIC}) {
        EXPECT_EQ(move(IBV_QPS_RTS, kSend & ~bit), EINVAL) << bit;
    }
    EXPECT_EQ(move(IBV_QPS_RTS, kSend | IBV_QP_AV), EINVAL);
    EXPECT_EQ(move(IBV_QPS_RTS, kSend), 0);
}

TEST_F(States, WhatMayBePosted) {
    EXPECT_EQ(post_receive(1), EINVAL);
    EXPECT_EQ(post_send(1), EINVAL);
    reach(IBV_QPS_INIT);
    EXPECT_EQ(post_receive(1), 0);
    EXPECT_EQ(post_send(1), EINVAL);
    ASSERT_EQ(move(IBV_QPS_RTR, kReceive), 0);
    EXPECT_EQ(post_send(1), EINVAL);
    ASSERT_EQ(move(IBV_QPS_RTS, kSend), 0);
    EXPECT_EQ(post_send(1), 0);
}

TEST_F(States, AnErrorFlushesAndResetForgets) {
    reach(IBV_QPS_RTS);
    EXPECT_EQ(post_receive(5), 0);
    ASSERT_EQ(move(IBV_QPS_ERR, IBV_QP_STATE), 0);
    const ibv_wc flushed = completion();
    EXPECT_EQ(flushed.wr_id, 5u);
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(post_send(6), 0);
    EXPECT_EQ(completion().wr_id, 6u) << "what is posted later is flushed, too";
    EXPECT_EQ(move(IBV_QPS_INIT, kInit), EINVAL);
    ASSERT_EQ(move(IBV_QPS_RESET, IBV_QP_STATE), 0);
    reach(IBV_QPS_RTS);
    EXPECT_EQ(state(), IBV_QPS_RTS);
}

TEST_F(States, RequestsToNobodyEndAfterTheRetries) {
    reach(IBV_QPS_RTS);
    ASSERT_EQ(post_send(1), 0);
    ASSERT_EQ(post_send(2), 0);
    EXPECT_EQ(completion().status, IBV_WC_RETRY_EXC_ERR);
    const ibv_wc behind = completion();
    EXPECT_EQ(behind.wr_id, 2u);
    EXPECT_EQ(behind.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(state(), IBV_QPS_ERR);
}

TEST_F(StatesThatEnd, AnErrorIsForEver) {
    reach(IBV_QPS_RTS);
    EXPECT_EQ(move(IBV_QPS_RESET, IBV_QP_STATE), 0) << "from other states";
    reach(IBV_QPS_RTS);
    ASSERT_EQ(move(IBV_QPS_ERR, IBV_QP_STATE), 0);
    EXPECT_EQ(move(IBV_QPS_RESET, IBV_QP_STATE), EINVAL);
    EXPECT_EQ(state(), IBV_QPS_ERR);
}

} // namespace
} // namespace adaptib::hca
