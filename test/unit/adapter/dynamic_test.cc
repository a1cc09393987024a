// SPDX-License-Identifier: BSD-3-Clause
// Dynamic connections of the virtual adapter: keys, change of target, and the number of initiators
// that a target serves at a time. Calls what the adapter's libmlx5 calls.
#include <gtest/gtest.h>

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "simulator/adapter/entry_dynamic.h"
#include "unit/adapter/opened_device.h"

namespace adaptib::hca {
namespace {

using Ah = Owned<ibv_ah, ibv_destroy_ah>;

constexpr std::uint64_t kKey = 0x1234567800abcdef;
constexpr std::uint32_t kBytes = 64;

ibv_qp_attr attributes_to(ibv_qp_state state, std::uint16_t lid) {
    ibv_qp_attr out{};
    out.qp_state = state;
    out.port_num = out.ah_attr.port_num = 1;
    out.path_mtu = IBV_MTU_256;
    out.min_rnr_timer = 1;
    out.ah_attr.dlid = lid;
    out.max_rd_atomic = 1;
    out.timeout = 10; // 4 ms
    out.retry_cnt = 3;
    out.rnr_retry = 7;
    return out;
}

void step(ibv_qp* qp, ibv_qp_state state, std::uint16_t lid, int mask) {
    ibv_qp_attr wanted = attributes_to(state, lid);
    ASSERT_EQ(ibv_modify_qp(qp, &wanted, mask), 0);
}

// A target with a shared receive queue.
class Target {
public:
    explicit Target(const Opened& device)
        : cq_(ibv_create_cq(device.context.get(), 50, nullptr, nullptr, 0)), memory_(16 * kBytes),
          region_(device.registered(memory_.data(), memory_.size())) {
        ibv_srq_init_attr queue{nullptr, {16, 1, 0}};
        srq_.reset(ibv_create_srq(device.pd.get(), &queue));
        ibv_qp_init_attr_ex init{};
        init.comp_mask = IBV_QP_INIT_ATTR_PD;
        init.pd = device.pd.get();
        init.send_cq = init.recv_cq = cq_.get();
        init.srq = srq_.get();
        init.qp_type = IBV_QPT_DRIVER;
        qp_.reset(adaptib_hca_create_dc(device.context.get(), &init, 1, kKey));
        step(qp_.get(), IBV_QPS_INIT, device.lid,
             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        step(qp_.get(), IBV_QPS_RTR, device.lid,
             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER);
    }
    std::uint32_t number() const { return qp_->qp_num; }
    void post_receive(std::uint64_t slot) {
        ibv_sge place{reinterpret_cast<std::uintptr_t>(&memory_[slot * kBytes]), kBytes,
                      region_->lkey};
        ibv_recv_wr work{slot, nullptr, &place, 1};
        ibv_recv_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_srq_recv(srq_.get(), &work, &bad), 0);
    }
    // First byte of the next message; nothing: none came.
    std::optional<std::uint8_t> received(std::chrono::milliseconds limit) const {
        const std::optional<ibv_wc> wc = completion(cq_.get(), limit);
        if (!wc.has_value() || wc->status != IBV_WC_SUCCESS) {
            return std::nullopt;
        }
        return memory_[wc->wr_id * kBytes];
    }

private:
    Cq cq_;
    Srq srq_;
    std::vector<std::uint8_t> memory_;
    Mr region_;
    Qp qp_;
};

class Initiator {
public:
    Initiator(const Opened& device, std::uint8_t content)
        : cq(ibv_create_cq(device.context.get(), 50, nullptr, nullptr, 0)),
          memory_(kBytes, content), region_(device.registered(memory_.data(), kBytes)) {
        ibv_qp_init_attr_ex init{};
        init.comp_mask = IBV_QP_INIT_ATTR_PD;
        init.pd = device.pd.get();
        init.send_cq = init.recv_cq = cq.get();
        init.cap = {16, 0, 1, 0, 0};
        init.qp_type = IBV_QPT_DRIVER;
        qp_.reset(adaptib_hca_create_dc(device.context.get(), &init, 0, 0));
        step(qp_.get(), IBV_QPS_INIT, device.lid, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
        step(qp_.get(), IBV_QPS_RTR, device.lid, IBV_QP_STATE | IBV_QP_PATH_MTU);
        step(qp_.get(), IBV_QPS_RTS, device.lid,
             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                 IBV_QP_MAX_QP_RD_ATOMIC);
        ibv_ah_attr path = attributes_to(IBV_QPS_RTR, device.lid).ah_attr;
        ah_.reset(ibv_create_ah(device.pd.get(), &path));
    }
    void send(const Target& target, std::uint64_t key = kKey) {
        ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qp_.get());
        ibv_wr_start(ex);
        ex->wr_id = 1;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(ex);
        adaptib_hca_set_dc_address(ex, ah_.get(), target.number(), key);
        ibv_wr_set_sge(ex, region_->lkey, reinterpret_cast<std::uintptr_t>(memory_.data()), kBytes);
        ASSERT_EQ(ibv_wr_complete(ex), 0);
    }
    ibv_wc_status sent() const {
        const std::optional<ibv_wc> wc = completion(cq.get(), kLong);
        return wc.has_value() ? wc->status : IBV_WC_GENERAL_ERR;
    }

    Cq cq;

private:
    std::vector<std::uint8_t> memory_;
    Mr region_;
    Ah ah_;
    Qp qp_;
};

class AdapterDynamic : public ::testing::Test {
protected:
    const Opened device{5}; // serves one initiator at a time
};

TEST_F(AdapterDynamic, ATargetAnswersItsKeyOnly) {
    Target target(device);
    target.post_receive(0);
    Initiator stranger(device, 1);
    stranger.send(target, kKey + 1);
    EXPECT_EQ(stranger.sent(), IBV_WC_RETRY_EXC_ERR);
    Initiator friendly(device, 2);
    friendly.send(target);
    EXPECT_EQ(friendly.sent(), IBV_WC_SUCCESS);
    EXPECT_EQ(target.received(kLong), 2);
}

TEST_F(AdapterDynamic, AnInitiatorChangesItsTarget) {
    Target first(device);
    Target second(device);
    Initiator initiator(device, 3);
    for (std::uint64_t round = 0; round < 8; ++round) {
        first.post_receive(round);
        second.post_receive(round);
        initiator.send(first);
        initiator.send(second);
        EXPECT_EQ(initiator.sent(), IBV_WC_SUCCESS);
        EXPECT_EQ(initiator.sent(), IBV_WC_SUCCESS);
        EXPECT_EQ(first.received(kLong), 3);
        EXPECT_EQ(second.received(kLong), 3);
    }
}

TEST_F(AdapterDynamic, AnotherInitiatorWaitsUntilThereIsRoom) {
    Target target(device);
    Initiator first(device, 1);
    Initiator second(device, 2);
    first.send(target); // waits for a receive, and keeps the target busy
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    second.send(target);
    EXPECT_FALSE(completion(second.cq.get(), std::chrono::milliseconds(50)).has_value());
    target.post_receive(0);
    EXPECT_EQ(target.received(kLong), 1) << "the one that the target serves";
    EXPECT_EQ(first.sent(), IBV_WC_SUCCESS);
    target.post_receive(1);
    EXPECT_EQ(second.sent(), IBV_WC_SUCCESS) << "the first one has left, having nothing to do";
    EXPECT_EQ(target.received(kLong), 2);
}

TEST_F(AdapterDynamic, AnInitiatorThatEndsMakesRoom) {
    Target target(device);
    std::optional<Initiator> first(std::in_place, device, 1);
    first->send(target); // never gets a receive
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first.reset();
    // A packet of it that is still under way would take the receive.
    EXPECT_FALSE(target.received(std::chrono::milliseconds(50)).has_value());
    Initiator second(device, 2);
    second.send(target);
    target.post_receive(0);
    EXPECT_EQ(second.sent(), IBV_WC_SUCCESS);
    EXPECT_EQ(target.received(kLong), 2);
}

} // namespace
} // namespace adaptib::hca
