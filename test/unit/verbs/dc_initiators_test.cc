// SPDX-License-Identifier: BSD-3-Clause
// DC initiators over mlx5dv: how they are made and moved, requests as they reach the library, the
// fate of wrong or refused requests, and the full send queue.
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "unit/verbs/dc_fixture.h"

namespace adaptib::test {
namespace {

TEST_F(DcTest, HowAnInitiatorIsMade) {
    open_device();
    QpInit what = init(QpType::dc_initiator, cq());
    what.signal_all = true;
    QueuePair& made = qp(what);
    ASSERT_EQ(creations(), 1u);
    const ibv_qp_init_attr_ex& a = created(0).attributes;
    EXPECT_EQ(a.qp_type, IBV_QPT_DRIVER);
    EXPECT_EQ(a.comp_mask,
              static_cast<std::uint32_t>(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS));
    EXPECT_EQ(a.send_ops_flags, kOperations);
    EXPECT_EQ(a.pd, lib_.pds.back().get());
    EXPECT_EQ(a.send_cq, lib_.cqs.back().get());
    EXPECT_EQ(a.recv_cq, lib_.cqs.back().get());
    EXPECT_EQ(a.srq, nullptr);
    EXPECT_EQ(a.cap.max_send_wr, 8u);
    EXPECT_EQ(a.cap.max_send_sge, 3u);
    EXPECT_EQ(a.cap.max_inline_data, 64u);
    EXPECT_EQ(a.cap.max_recv_wr, 0u);
    EXPECT_EQ(a.cap.max_recv_sge, 0u);
    EXPECT_EQ(a.sq_sig_all, 1);
    const mlx5dv_qp_init_attr& dc = created(0).mlx5;
    EXPECT_EQ(dc.comp_mask, static_cast<std::uint64_t>(MLX5DV_QP_INIT_ATTR_MASK_DC));
    EXPECT_EQ(dc.dc_init_attr.dc_type, MLX5DV_DCTYPE_DCI);
    EXPECT_EQ(made.type(), QpType::dc_initiator);
    EXPECT_EQ(made.number(), lib_.qps.back()->qp_num);

    start_initiator(made);
    ASSERT_EQ(lib_.modified.size(), 3u);
    EXPECT_EQ(lib_.modified[0].mask, kInitMask);
    EXPECT_EQ(lib_.modified[0].attributes.port_num, 1);
    EXPECT_EQ(lib_.modified[1].mask, kInitiatorReadyMask);
    EXPECT_EQ(lib_.modified[1].attributes.path_mtu, IBV_MTU_2048);
    EXPECT_EQ(lib_.modified[2].mask, kInitiatorSendMask);
    const ibv_qp_attr& sends = lib_.modified[2].attributes;
    EXPECT_EQ(sends.timeout, 13);
    EXPECT_EQ(sends.retry_cnt, 4);
    EXPECT_EQ(sends.rnr_retry, 3);
    EXPECT_EQ(sends.max_rd_atomic, 5);
    EXPECT_EQ(sends.sq_psn, 1u);
    EXPECT_EQ(made.query().state, QpState::ready_to_send);
}

TEST_F(DcTest, AnInitiatorGoesEverywhereThatItMay) {
    open_device();
    QueuePair& made = qp(init(QpType::dc_initiator, cq()));
    ASSERT_EQ(move(made, QpState::error), kOk); // through INIT, which the adapter requires
    EXPECT_EQ(fake(made).state, IBV_QPS_ERR);
    ASSERT_EQ(lib_.modified.size(), 2u);
    EXPECT_EQ(lib_.modified[0].mask, kInitMask);
    ASSERT_EQ(move(made, QpState::reset), kOk);
    ASSERT_EQ(move(made, QpState::init), kOk);
    ASSERT_EQ(move(made, QpState::init), kOk);
    ASSERT_EQ(move(made, QpState::ready_to_receive), kOk);
    ASSERT_EQ(made.modify(attributes(QpState::ready_to_send, rail()), kRcSend), kOk);
    ASSERT_EQ(move(made, QpState::ready_to_send), kOk);
    ASSERT_EQ(move(made, QpState::reset), kOk);
    EXPECT_EQ(fake(made).state, IBV_QPS_RESET);
    EXPECT_EQ(made.post_receive({}), refusal(Reason::bad_argument));
}

TEST_F(DcTest, AnInitiatorThatCannotBeHad) {
    open_device();
    struct Case {
        int error;
        Status status;
    };
    for (const Case& c : {Case{ENOMEM, refusal(Reason::no_memory)},
                          Case{EOPNOTSUPP, refusal(Reason::not_supported)}}) {
        lib_.fail("mlx5dv_create_qp", 1, c.error);
        std::unique_ptr<QueuePair> none;
        EXPECT_EQ(rail().create_qp(init(QpType::dc_initiator, cq()), none), c.status);
        EXPECT_EQ(none, nullptr);
    }
    lib_.fail("mlx5dv_qp_ex", 1, EINVAL);
    std::unique_ptr<QueuePair> none;
    EXPECT_EQ(rail().create_qp(init(QpType::dc_initiator, cq()), none),
              refusal(Reason::not_supported));
    EXPECT_EQ(lib_.living("qp"), 0);
}

TEST_F(DcTest, EveryOperationAsItWasAskedFor) {
    open_device();
    QueuePair& from = initiator();
    struct Case {
        Opcode opcode;
        ibv_wr_opcode verbs;
    };
    std::uint64_t wr_id = 100;
    for (const Case& c :
         {Case{Opcode::send, IBV_WR_SEND}, Case{Opcode::send_imm, IBV_WR_SEND_WITH_IMM},
          Case{Opcode::write, IBV_WR_RDMA_WRITE},
          Case{Opcode::write_imm, IBV_WR_RDMA_WRITE_WITH_IMM},
          Case{Opcode::read, IBV_WR_RDMA_READ}}) {
        SCOPED_TRACE(c.verbs);
        ASSERT_EQ(from.post_send(work(++wr_id, c.opcode)), kOk);
        const std::vector<DcRequest> posted = take_dc_requests();
        ASSERT_EQ(posted.size(), 1u);
        const DcRequest& r = posted[0];
        EXPECT_EQ(r.qp_number, from.number());
        EXPECT_EQ(r.wr_id, wr_id);
        EXPECT_EQ(r.flags, static_cast<unsigned>(IBV_SEND_SIGNALED));
        EXPECT_EQ(r.opcode, c.verbs);
        EXPECT_EQ(r.ah, lib_.ahs.back().get());
        EXPECT_EQ(r.target, 0x123456u);
        EXPECT_EQ(r.key, kKey) << "all 64 bits";
        EXPECT_FALSE(r.taken);
        ASSERT_EQ(r.list.size(), 2u);
        EXPECT_EQ(r.list[0].addr, reinterpret_cast<std::uintptr_t>(bytes_));
        EXPECT_EQ(r.list[0].length, 5u);
        EXPECT_EQ(r.list[0].lkey, 11u);
        EXPECT_EQ(r.list[1].length, 3u);
        const bool remote = c.opcode >= Opcode::write;
        EXPECT_EQ(r.remote_address, remote ? 0xabcdefu : 0u);
        EXPECT_EQ(r.remote_key, remote ? 55u : 0u);
        const bool told = c.opcode == Opcode::send_imm || c.opcode == Opcode::write_imm;
        EXPECT_EQ(r.immediate, told ? 0x01020304u : 0u);
    }
    gather_[0].length = 8;
    for (const Opcode opcode : {Opcode::compare_swap, Opcode::fetch_add}) {
        SendWork atomic = work(++wr_id, opcode);
        atomic.gather_count = 1;
        ASSERT_EQ(from.post_send(atomic), kOk);
        const std::vector<DcRequest> posted = take_dc_requests();
        ASSERT_EQ(posted.size(), 1u);
        const bool swaps = opcode == Opcode::compare_swap;
        EXPECT_EQ(posted[0].opcode,
                  swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD);
        EXPECT_EQ(posted[0].remote_address, 0xabcdefu);
        EXPECT_EQ(posted[0].remote_key, 55u);
        EXPECT_EQ(posted[0].compare_add, 7u);
        EXPECT_EQ(posted[0].swap, swaps ? 8u : 0u);
        ASSERT_EQ(posted[0].list.size(), 1u);
        EXPECT_EQ(posted[0].list[0].length, 8u);
    }
}

TEST_F(DcTest, FlagsListsAndInlineData) {
    open_device();
    QueuePair& from = initiator();
    SendWork w = work(1, Opcode::write);
    w.flags = kFence;
    ASSERT_EQ(from.post_send(w), kOk);
    w.flags = kInline | kSignaled;
    ASSERT_EQ(from.post_send(w), kOk);
    w.flags = 0;
    w.gather = nullptr;
    w.gather_count = 0;
    ASSERT_EQ(from.post_send(w), kOk);
    w.flags = kInline;
    ASSERT_EQ(from.post_send(w), kOk);
    gather_[0].length = 0; // left out of the list: some adapters take 0 for 2 GiB
    w.gather = gather_;
    w.gather_count = 2;
    w.flags = 0;
    ASSERT_EQ(from.post_send(w), kOk);
    const std::vector<DcRequest> posted = take_dc_requests();
    ASSERT_EQ(posted.size(), 5u);
    EXPECT_EQ(posted[0].flags, static_cast<unsigned>(IBV_SEND_FENCE));
    EXPECT_EQ(posted[1].flags, static_cast<unsigned>(IBV_SEND_SIGNALED));
    EXPECT_EQ(posted[1].taken, "abcdeklm");
    EXPECT_TRUE(posted[1].list.empty());
    EXPECT_TRUE(posted[2].list.empty());
    EXPECT_FALSE(posted[2].taken);
    EXPECT_EQ(posted[3].taken, "");
    ASSERT_EQ(posted[4].list.size(), 1u);
    EXPECT_EQ(posted[4].list[0].lkey, 12u);
}

TEST_F(DcTest, InlineIsWhatAnInitiatorGets) {
    open_device();
    lib_.devices[0].initiator_gets_inline = 7;
    QueuePair& from = initiator();
    SendWork w = work(1, Opcode::write); // of 8 bytes
    w.flags = kInline;
    EXPECT_EQ(from.post_send(w), refusal(Reason::bad_argument));
    gather_[0].length -= 1;
    EXPECT_EQ(from.post_send(w), kOk);
}

// Requests that are wrong in themselves are not begun.
TEST_F(DcTest, WhatIsWrongIsNotBegun) {
    open_device();
    QueuePair& from = qp(init(QpType::dc_initiator, cq()));
    EXPECT_EQ(from.post_send(work(1, Opcode::send)), refusal(Reason::bad_state));
    start_initiator(from);
    const auto refuses = [&](const std::function<void(SendWork&)>& spoil) {
        SendWork w = work(1, Opcode::write);
        spoil(w);
        return from.post_send(w) == refusal(Reason::bad_argument);
    };
    EXPECT_TRUE(refuses([](SendWork& w) { w.address_handle = nullptr; }));
    EXPECT_TRUE(refuses([](SendWork& w) { w.remote_qp = 1u << 24; }));
    EXPECT_TRUE(refuses([](SendWork& w) { w.gather_count = 4; }));
    EXPECT_TRUE(refuses([](SendWork& w) { w.gather = nullptr; }));
    // The 8 bytes lie in two entries.
    EXPECT_TRUE(refuses([](SendWork& w) { w.opcode = Opcode::fetch_add; }));
    EXPECT_TRUE(refuses([](SendWork& w) { w.opcode = static_cast<Opcode>(7); }));
    gather_[0].length = 62;
    EXPECT_TRUE(refuses([](SendWork& w) { w.flags = kInline; }));
    EXPECT_EQ(lib_.count("wr_complete"), 0);
    EXPECT_EQ(lib_.dc_posting, nullptr);
}

TEST_F(DcTest, WhatTheProviderDoesNotTake) {
    open_device();
    QueuePair& from = initiator();
    lib_.fail("wr_complete", 1, ENOMEM);
    EXPECT_EQ(from.post_send(work(1, Opcode::send)), Status::again(Reason::queue_full));
    lib_.fail("wr_complete", 1, EINVAL);
    EXPECT_EQ(from.post_send(work(2, Opcode::send)), refusal(Reason::bad_argument));
    EXPECT_EQ(from.query().state, QpState::ready_to_send);
    for (std::uint64_t i = 0; i < 8; ++i) {
        ASSERT_EQ(from.post_send(work(i, Opcode::send)), kOk) << "what was refused has no slot";
    }
    lib_.complete_send(from.number(), written(0));
    EXPECT_EQ(poll(*cqs_.back()).size(), 1u);

    fake(from).state = IBV_QPS_ERR; // the adapter's own doing
    EXPECT_EQ(from.post_send(work(10, Opcode::send)), refusal(Reason::bad_state));
    Event event;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::qp_fatal);
    EXPECT_EQ(event.qp_number, from.number());
}

// With a full queue no request is begun: it would overwrite an earlier one, and the
// stand-in complains.
TEST_F(DcTest, AFullSendQueue) {
    open_device();
    QueuePair& from = initiator();
    CompletionQueue& queue = *cqs_.back();
    std::uint64_t next = 0;
    // Posts until the queue is full, every third request signaled; returns how many it took.
    const auto fill = [&] {
        const std::uint64_t first = next;
        for (;; ++next) {
            SendWork w = work(next, Opcode::write);
            w.flags = next % 3 == 2 ? +kSignaled : 0u;
            const Status status = from.post_send(w);
            if (!status.ok()) {
                EXPECT_EQ(status, Status::again(Reason::queue_full));
                return next - first;
            }
        }
    };
    const auto complete = [&](std::uint64_t wr_id) {
        lib_.complete_send(from.number(), written(wr_id));
    };
    const auto complete_first = [&] { complete(next - 8 + (2 - (next - 8) % 3)); };
    EXPECT_EQ(fill(), 8u); // 0 to 7
    EXPECT_EQ(lib_.count("wr_complete"), 8);
    complete(2);
    EXPECT_EQ(fill(), 0u) << "the library knows of it when it is polled";
    EXPECT_EQ(poll(queue).size(), 1u);
    EXPECT_EQ(fill(), 3u); // to 10
    complete(5);
    complete(8);
    EXPECT_EQ(poll(queue).size(), 2u);
    EXPECT_EQ(fill(), 6u);                     // to 16
    for (int round = 0; round < 50; ++round) { // each request comes to each place
        complete_first();
        EXPECT_EQ(poll(queue).size(), 1u);
        EXPECT_NE(fill(), 0u);
        EXPECT_EQ(fake(from).sends.size(), 8u) << "as many as there is room for";
    }

    // Completions of another initiator release no slot, nor do those of receives.
    QueuePair& other = qp(init(QpType::dc_initiator, queue));
    start_initiator(other);
    ASSERT_EQ(other.post_send(work(1, Opcode::send)), kOk);
    lib_.complete_send(other.number(), written(1));
    ibv_wc arrived{};
    arrived.opcode = IBV_WC_RECV;
    lib_.complete_receive(target(queue).number(), arrived);
    EXPECT_EQ(poll(queue).size(), 2u);
    EXPECT_EQ(fill(), 0u);

    // Completions that are read because another queue pair leaves count as well.
    complete_first();
    ASSERT_EQ(move(other, QpState::reset), kOk);
    const std::size_t room = 8 - fake(from).sends.size();
    ASSERT_GT(room, 0u);
    EXPECT_EQ(fill(), room);
}

TEST_F(DcTest, ResetEmptiesTheSendQueue) {
    open_device();
    QueuePair& from = initiator();
    CompletionQueue& queue = *cqs_.back();
    const auto fill = [&](std::uint32_t flags) {
        SendWork w = work(1, Opcode::write);
        w.flags = flags;
        int count = 0;
        while (from.post_send(w).ok()) {
            ++count;
        }
        return count;
    };
    EXPECT_EQ(fill(kSignaled), 8);
    ASSERT_EQ(move(from, QpState::reset), kOk);
    start_initiator(from);
    EXPECT_EQ(fill(0), 8);
    lib_.complete_send(from.number(), failed(1, IBV_WC_REM_ACCESS_ERR)); // of an unsignaled request
    EXPECT_EQ(poll(queue).size(), 1u);
    EXPECT_EQ(from.post_send(work(2, Opcode::write)), refusal(Reason::bad_state));
    ASSERT_EQ(move(from, QpState::reset), kOk);
    start_initiator(from);
    EXPECT_EQ(fill(0), 8);
}

TEST_F(DcTest, SlotsOfOneThatSignalsAll) {
    open_device();
    QpInit what = init(QpType::dc_initiator, cq());
    what.signal_all = true;
    what.send_depth = 3; // no power of two
    QueuePair& from = qp(what);
    start_initiator(from);
    SendWork w = work(1, Opcode::write);
    w.flags = 0;
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(from.post_send(w), kOk);
    }
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(from.post_send(w), Status::again(Reason::queue_full));
        lib_.complete_send(from.number(), written(1));
        EXPECT_EQ(poll(*cqs_.back()).size(), 1u);
        ASSERT_EQ(from.post_send(w), kOk) << i;
    }
    what.send_depth = 0; // there is room for one request all the same
    QueuePair& small = qp(what);
    start_initiator(small);
    EXPECT_EQ(small.post_send(w), kOk);
    EXPECT_EQ(small.post_send(w), Status::again(Reason::queue_full));
}

TEST_F(DcTest, AnErrorPutsTheInitiatorIntoErr) {
    open_device();
    QueuePair& from = initiator();
    CompletionQueue& queue = *cqs_.back();
    ASSERT_EQ(from.post_send(work(1, Opcode::write)), kOk);
    lib_.complete_send(from.number(), failed(1, IBV_WC_RETRY_EXC_ERR));
    const std::vector<WorkCompletion> got = poll(queue);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].status, WorkStatus::retry_exceeded);
    EXPECT_EQ(got[0].qp_number, from.number());
    EXPECT_EQ(got[0].vendor_error, 0x99u);
    EXPECT_EQ(fake(from).state, IBV_QPS_ERR);
    EXPECT_EQ(from.post_send(work(2, Opcode::write)), refusal(Reason::bad_state));
    ASSERT_EQ(move(from, QpState::reset), kOk);
    start_initiator(from);
    EXPECT_EQ(from.post_send(work(3, Opcode::write)), kOk);
}

} // namespace
} // namespace adaptib::test
