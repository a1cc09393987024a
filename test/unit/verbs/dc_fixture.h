// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the tests of dynamically connected queue pairs over mlx5dv: a device that has them,
// both ends on it, work requests between the ends, and what the fabric should ask the library for.
// Behavior of such queue pairs is tested by conformance/dc.cc, on a device that has them.
// May touch: fabric/verbs/ as verbs_fixture.h does, and the stand-ins.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unit/verbs/mlx5_stand_in.h"
#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {

inline constexpr std::uint32_t kTargetInit = kQpState | kQpAccess | kQpKey;
inline constexpr std::uint32_t kTargetReceive = kQpState | kQpPath | kQpReceiveLimits;
inline constexpr std::uint64_t kKey = 0x8877'6655'4433'2211;

inline constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
inline constexpr int kInitiatorReadyMask = IBV_QP_STATE | IBV_QP_PATH_MTU;
inline constexpr int kInitiatorSendMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                                          IBV_QP_SQ_PSN;
inline constexpr int kTargetReadyMask =
    IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU;

inline constexpr std::uint64_t kAtomicOperations =
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
inline constexpr std::uint64_t kOperations =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | kAtomicOperations;

class DcTest : public VerbsTest {
protected:
    DcTest() {
        reset_dc();
        options_.mlx5 = &mlx5_calls();
        device_ = ib_device("mlx5_0", 1, 0);
        device_.mlx5 = true;
    }
    void TearDown() override {
        handles_.clear();
        VerbsTest::TearDown();
        reset_dc();
    }

    void open_device() {
        lib_.devices = {device_};
        ASSERT_EQ(open(), kOk) << error_;
        lib_.modified.clear();
        before_ = dc_creations().size();
    }
    // Creations since open_device().
    const DcCreation& created(std::size_t index) { return dc_creations().at(before_ + index); }
    std::size_t creations() const { return dc_creations().size() - before_; }

    QueuePair& initiator() {
        QueuePair& made = qp(init(QpType::dc_initiator, cq()));
        start_initiator(made);
        return made;
    }
    void start_initiator(QueuePair& pair) {
        ASSERT_EQ(pair.modify(attributes(QpState::init, rail()), kQpState), kOk);
        ASSERT_EQ(pair.modify(attributes(QpState::ready_to_receive, rail()), kQpState), kOk);
        ASSERT_EQ(pair.modify(attributes(QpState::ready_to_send, rail()), kRcSend), kOk);
    }
    QueuePair& new_target(CompletionQueue& queue) {
        QpInit what = init(QpType::dc_target, queue);
        what.srq = &srq();
        return qp(what);
    }
    QpAttributes target_attributes(QpState state, std::uint64_t key = kKey) {
        QpAttributes a = attributes(state, rail());
        a.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
        a.access_key = key;
        return a;
    }
    void start_target(QueuePair& pair, std::uint64_t key = kKey) {
        ASSERT_EQ(pair.modify(target_attributes(QpState::init, key), kTargetInit), kOk);
        ASSERT_EQ(pair.modify(target_attributes(QpState::ready_to_receive, key), kTargetReceive),
                  kOk);
    }
    QueuePair& target(CompletionQueue& queue) {
        QueuePair& made = new_target(queue);
        start_target(made);
        return made;
    }
    Status move(QueuePair& pair, QpState to) {
        QpAttributes a;
        a.state = to;
        return pair.modify(a, kQpState);
    }
    AddressHandle& handle() {
        EXPECT_EQ(await_ah(rail(), path_to(rail()), handles_.emplace_back()), kOk);
        return *handles_.back();
    }
    SendWork work(std::uint64_t wr_id, Opcode opcode) {
        SendWork out;
        out.wr_id = wr_id;
        out.opcode = opcode;
        out.flags = kSignaled;
        out.gather = gather_;
        out.gather_count = 2;
        out.immediate = 0x01020304;
        out.remote_address = 0xabcdef;
        out.remote_key = 55;
        out.compare_add = 7;
        out.swap = 8;
        out.address_handle = &handle();
        out.remote_qp = 0x123456;
        out.remote_access_key = kKey;
        return out;
    }
    // Lets the library report `broken`, and expects events that report an error of the target `at`.
    void is_told_as_error_of(QueuePair& at, const ibv_async_event& broken,
                             const std::vector<EventKind>& told = {EventKind::qp_fatal}) {
        lib_.raise(0, broken);
        Event event;
        for (const EventKind kind : told) {
            ASSERT_TRUE(fabric_->poll_event(event));
            EXPECT_EQ(event.kind, kind);
        }
        EXPECT_EQ(event.qp_number, at.number());
        EXPECT_EQ(at.query().state, QpState::error);
    }
    bool has_dc() { return rail().info().has(Capability::dc); }
    // Checks that a rail without DC refuses both ends; returns the reason that it gives.
    std::string refused() {
        QpInit what = init(QpType::dc_initiator, cq());
        std::unique_ptr<QueuePair> none;
        EXPECT_EQ(rail().create_qp(what, none), refusal(Reason::not_supported));
        what.type = QpType::dc_target;
        EXPECT_EQ(rail().create_qp(what, none), refusal(Reason::not_supported));
        return rail().last_error_text();
    }
    ibv_wc written(std::uint64_t wr_id) {
        ibv_wc wc{};
        wc.wr_id = wr_id;
        wc.opcode = IBV_WC_RDMA_WRITE;
        return wc;
    }
    ibv_wc failed(std::uint64_t wr_id, ibv_wc_status status) {
        ibv_wc wc{};
        wc.wr_id = wr_id;
        wc.status = status;
        wc.vendor_err = 0x99;
        return wc;
    }

    FakeDevice device_;
    std::size_t before_ = 0;
    char bytes_[64] = "abcdefghijklmnopqrstuvwxyz";
    Gather gather_[2] = {{bytes_, 5, 11}, {bytes_ + 10, 3, 12}};
    std::vector<std::unique_ptr<AddressHandle>> handles_;
};

} // namespace adaptib::test
