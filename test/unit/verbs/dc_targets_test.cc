// SPDX-License-Identifier: BSD-3-Clause
// DC targets over mlx5dv: how they are made once their key is known, which moves they have, how
// they leave, and the effects of errors and events on them.
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "unit/verbs/dc_fixture.h"

namespace adaptib::test {
namespace {

TEST_F(DcTest, HowATargetIsMade) {
    open_device();
    CompletionQueue& queue = cq();
    QueuePair& at = new_target(queue);
    EXPECT_EQ(creations(), 0u) << "the key is not known yet";
    EXPECT_EQ(at.number(), 0u);
    EXPECT_EQ(at.query().state, QpState::reset);

    ASSERT_EQ(at.modify(target_attributes(QpState::init), kTargetInit), kOk);
    ASSERT_EQ(creations(), 1u);
    const ibv_qp_init_attr_ex& a = created(0).attributes;
    EXPECT_EQ(a.qp_type, IBV_QPT_DRIVER);
    EXPECT_EQ(a.comp_mask, static_cast<std::uint32_t>(IBV_QP_INIT_ATTR_PD));
    EXPECT_EQ(a.pd, lib_.pds.back().get());
    EXPECT_EQ(a.send_cq, lib_.cqs.back().get());
    EXPECT_EQ(a.recv_cq, lib_.cqs.back().get());
    EXPECT_EQ(a.srq, lib_.srqs.back().get());
    EXPECT_EQ(created(0).mlx5.comp_mask, static_cast<std::uint64_t>(MLX5DV_QP_INIT_ATTR_MASK_DC));
    EXPECT_EQ(created(0).mlx5.dc_init_attr.dc_type, MLX5DV_DCTYPE_DCT);
    EXPECT_EQ(created(0).mlx5.dc_init_attr.dct_access_key, kKey);
    ASSERT_EQ(lib_.modified.size(), 1u);
    EXPECT_EQ(lib_.modified[0].mask, kInitMask | IBV_QP_ACCESS_FLAGS);
    EXPECT_EQ(lib_.modified[0].attributes.qp_access_flags,
              static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                    IBV_ACCESS_REMOTE_ATOMIC));
    EXPECT_EQ(at.number(), 0u);

    QpAttributes b = target_attributes(QpState::ready_to_receive);
    b.path = {}; // initiators bring the path of replies
    b.path.service_level = 3;
    ASSERT_EQ(at.modify(b, kTargetReceive), kOk);
    ASSERT_EQ(lib_.modified.size(), 2u);
    EXPECT_EQ(lib_.modified[1].mask, kTargetReadyMask);
    const ibv_qp_attr& ready = lib_.modified[1].attributes;
    EXPECT_EQ(ready.min_rnr_timer, 9);
    EXPECT_EQ(ready.path_mtu, IBV_MTU_2048);
    EXPECT_EQ(ready.ah_attr.port_num, 1);
    EXPECT_EQ(ready.ah_attr.sl, 3);
    EXPECT_EQ(ready.ah_attr.is_global, 0);
    EXPECT_EQ(ready.ah_attr.dlid, 16);
    EXPECT_EQ(at.number(), lib_.target_numbers) << "the adapter's, not the kernel's 0";
    EXPECT_EQ(at.query().state, QpState::ready_to_receive);
    EXPECT_EQ(at.query().access_key, kKey);

    SendWork w = work(1, Opcode::send);
    EXPECT_EQ(at.post_send(w), refusal(Reason::bad_state));
    EXPECT_EQ(at.post_receive({}), refusal(Reason::bad_argument));
}

TEST_F(DcTest, OnRoceATargetAnswersWithItsGid) {
    device_ = roce_device("mlx5_0");
    device_.mlx5 = true;
    options_.traffic_class = 96;
    options_.service_level = 2;
    open_device();
    ASSERT_TRUE(has_dc());
    QueuePair& at = new_target(cq());
    ASSERT_EQ(at.modify(target_attributes(QpState::init), kTargetInit), kOk);
    QpAttributes a = target_attributes(QpState::ready_to_receive);
    a.path.flow_label = 0x12345;
    ASSERT_EQ(at.modify(a, kTargetReceive), kOk);
    const ibv_ah_attr& ah = lib_.modified.back().attributes.ah_attr;
    EXPECT_EQ(ah.is_global, 1);
    EXPECT_EQ(ah.port_num, 1);
    EXPECT_EQ(ah.sl, 2);
    EXPECT_EQ(ah.grh.sgid_index, 3);
    EXPECT_EQ(ah.grh.hop_limit, 64);
    EXPECT_EQ(ah.grh.traffic_class, 96);
    EXPECT_EQ(ah.grh.flow_label, 0x12345u);
    EXPECT_EQ(std::memcmp(&ah.grh.dgid, &device_.ports[0].gids[3].gid, sizeof(ibv_gid)), 0);
}

TEST_F(DcTest, ATargetThatLeavesEndsInTheAdapter) {
    open_device();
    CompletionQueue& queue = cq();
    QueuePair& at = target(queue);
    const std::uint32_t number = at.number();
    ibv_wc wc{};
    wc.wr_id = 4;
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = 20;
    lib_.complete_receive(number, wc);
    ASSERT_EQ(move(at, QpState::error), kOk);
    EXPECT_EQ(lib_.living("qp"), 0);
    EXPECT_EQ(at.query().state, QpState::error);
    EXPECT_EQ(at.number(), 0u);
    const std::vector<WorkCompletion> got = poll(queue);
    ASSERT_EQ(got.size(), 1u) << "what had arrived";
    EXPECT_EQ(got[0].qp_number, number);
    EXPECT_EQ(got[0].length, 20u);

    ASSERT_EQ(move(at, QpState::reset), kOk);
    EXPECT_EQ(at.query().access_key, 0u);
    start_target(at, 99);
    EXPECT_EQ(dc_creations().back().mlx5.dc_init_attr.dct_access_key, 99u);
    EXPECT_EQ(at.number(), number + 1);
    ASSERT_EQ(move(at, QpState::reset), kOk);
    EXPECT_EQ(lib_.living("qp"), 0);
    EXPECT_EQ(at.number(), 0u);
    ASSERT_EQ(move(at, QpState::error), kOk) << "the adapter has nothing of it";
    ASSERT_EQ(move(at, QpState::reset), kOk);
    start_target(at);
    Event event;
    EXPECT_FALSE(fabric_->poll_event(event)) << "all that was the caller's doing";
}

// The adapter can reuse a target's number as soon as that target has left.
TEST_F(DcTest, ALateTargetTakesNothingFromTheNext) {
    open_device();
    CompletionQueue& queue = cq();
    QueuePair& first = target(queue);
    ASSERT_EQ(move(first, QpState::error), kOk);
    --lib_.target_numbers;
    QueuePair& second = target(queue);
    ibv_wc wc{};
    wc.opcode = IBV_WC_RECV;
    lib_.complete_receive(second.number(), wc);
    ASSERT_EQ(move(first, QpState::reset), kOk);
    qps_.erase(qps_.begin());
    EXPECT_EQ(poll(queue).size(), 1u);

    ibv_async_event broken{};
    broken.event_type = IBV_EVENT_CQ_ERR;
    broken.element.cq = lib_.cqs.back().get();
    lib_.raise(0, broken);
    Event event;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::device_fatal);
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.qp_number, second.number());
    EXPECT_EQ(second.query().state, QpState::error);
    EXPECT_FALSE(fabric_->poll_event(event));
}

TEST_F(DcTest, AnotherKeyWantsAnotherTarget) {
    open_device();
    QueuePair& at = new_target(cq());
    ASSERT_EQ(at.modify(target_attributes(QpState::init, 1), kTargetInit), kOk);
    QpAttributes a;
    a.state = QpState::init;
    a.access_key = 2;
    ASSERT_EQ(at.modify(a, kQpState | kQpKey), kOk);
    ASSERT_EQ(creations(), 2u);
    EXPECT_EQ(created(1).mlx5.dc_init_attr.dct_access_key, 2u);
    EXPECT_EQ(lib_.modified.back().attributes.qp_access_flags,
              static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                    IBV_ACCESS_REMOTE_ATOMIC))
        << "the rights stay";
    EXPECT_EQ(lib_.living("qp"), 1);

    // A target that cannot be made leaves everything as it was.
    a.access_key = 3;
    lib_.fail("mlx5dv_create_qp", 1, ENOMEM);
    EXPECT_EQ(at.modify(a, kQpState | kQpKey), refusal(Reason::no_memory));
    EXPECT_NE(rail().last_error_text().find("a DC target: "), std::string::npos);
    lib_.fail("modify_qp", 1, EOPNOTSUPP);
    EXPECT_EQ(at.modify(a, kQpState | kQpKey), refusal(Reason::not_supported));
    EXPECT_EQ(lib_.living("qp"), 1);
    EXPECT_EQ(at.query().access_key, 2u);
    QpAttributes b = target_attributes(QpState::ready_to_receive);
    lib_.fail("modify_qp", 1, EINVAL);
    EXPECT_EQ(at.modify(b, kTargetReceive), refusal(Reason::bad_argument));
    EXPECT_EQ(at.query().state, QpState::init);
    EXPECT_EQ(at.number(), 0u);
    ASSERT_EQ(at.modify(b, kTargetReceive), kOk);
    EXPECT_NE(at.number(), 0u);
}

TEST_F(DcTest, OnlyListedMovesOfATarget) {
    open_device();
    QueuePair& at = new_target(cq());
    EXPECT_EQ(at.modify(target_attributes(QpState::ready_to_receive), kTargetReceive),
              refusal(Reason::bad_state));
    EXPECT_EQ(at.modify(target_attributes(QpState::init), kQpState | kQpAccess),
              refusal(Reason::bad_argument));
    start_target(at);
    EXPECT_EQ(at.modify(target_attributes(QpState::ready_to_send), kRcSend),
              refusal(Reason::bad_state));
    EXPECT_EQ(at.modify(target_attributes(QpState::init), kTargetInit), refusal(Reason::bad_state));
    QpAttributes a = target_attributes(QpState::ready_to_receive);
    a.rnr_timer = 32;
    ASSERT_EQ(move(at, QpState::reset), kOk);
    ASSERT_EQ(at.modify(target_attributes(QpState::init), kTargetInit), kOk);
    EXPECT_EQ(at.modify(a, kTargetReceive), refusal(Reason::bad_argument));
    std::unique_ptr<QueuePair> none;
    EXPECT_EQ(rail().create_qp(init(QpType::dc_target, cq()), none), refusal(Reason::bad_argument));
}

// The error concerns one initiator; the target goes on serving others.
TEST_F(DcTest, AnErrorOfAReceiveLeavesTheTargetUp) {
    open_device();
    CompletionQueue& queue = cq();
    QueuePair& at = target(queue);
    lib_.modified.clear();
    lib_.complete_receive(at.number(), failed(7, IBV_WC_LOC_LEN_ERR));
    const std::vector<WorkCompletion> got = poll(queue);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].status, WorkStatus::local_length_error);
    EXPECT_EQ(got[0].qp_number, at.number());
    EXPECT_EQ(at.query().state, QpState::ready_to_receive);
    EXPECT_TRUE(lib_.modified.empty());
    EXPECT_EQ(lib_.living("qp"), 1);
    Event event;
    EXPECT_FALSE(fabric_->poll_event(event));
}

// Destroying would wait for unacknowledged events, and this event is being read.
TEST_F(DcTest, AnEventOfATargetDoesNotEndItYet) {
    open_device();
    QueuePair& at = target(cq());
    const std::uint32_t number = at.number();
    lib_.raise_qp(IBV_EVENT_QP_FATAL, number);
    lib_.raise_qp(IBV_EVENT_QP_FATAL, number);
    lib_.modified.clear();
    Event event;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::qp_fatal);
    EXPECT_EQ(event.qp_number, number);
    EXPECT_EQ(at.query().state, QpState::error);
    EXPECT_EQ(lib_.living("qp"), 1);
    EXPECT_TRUE(lib_.modified.empty()) << "there is no such move";
    EXPECT_FALSE(fabric_->poll_event(event)) << "once";
    ASSERT_EQ(move(at, QpState::reset), kOk);
    EXPECT_EQ(lib_.living("qp"), 0);
    start_target(at);
    EXPECT_NE(at.number(), number);
}

TEST_F(DcTest, TheEndOfTheSharedQueueIsReported) {
    open_device();
    QueuePair& at = target(cq());
    ibv_async_event broken{};
    broken.event_type = IBV_EVENT_SRQ_ERR;
    broken.element.srq = lib_.srqs.back().get();
    is_told_as_error_of(at, broken);
}

// Such targets are not in the adapter.
TEST_F(DcTest, TheEndOfTheSharedQueueIsNotThatOfTargetsWithoutANumber) {
    open_device();
    QpInit what = init(QpType::dc_target, cq());
    what.srq = &srq();
    QueuePair& reset = qp(what);
    QueuePair& initial = qp(what);
    QueuePair& left = qp(what);
    ASSERT_EQ(initial.modify(target_attributes(QpState::init), kTargetInit), kOk);
    start_target(left);
    ASSERT_EQ(move(left, QpState::error), kOk);
    ibv_async_event broken{};
    broken.event_type = IBV_EVENT_SRQ_ERR;
    broken.element.srq = lib_.srqs.back().get();
    lib_.raise(0, broken);
    Event event;
    EXPECT_FALSE(fabric_->poll_event(event)) << event.qp_number;
    EXPECT_EQ(reset.query().state, QpState::reset);
    EXPECT_EQ(initial.query().state, QpState::init);
}

TEST_F(DcTest, TheEndOfTheCompletionQueueIsReported) {
    open_device();
    QueuePair& at = target(cq());
    ibv_async_event broken{};
    broken.event_type = IBV_EVENT_CQ_ERR;
    broken.element.cq = lib_.cqs.back().get();
    is_told_as_error_of(at, broken, {EventKind::device_fatal, EventKind::qp_fatal});
}

} // namespace
} // namespace adaptib::test
