// SPDX-License-Identifier: BSD-3-Clause
// Work requests as they reach libibverbs, and completions as they come back.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

class Posting : public VerbsTest {
protected:
    void open_pair(QpType type = QpType::rc, bool signal_all = false) {
        open_roce();
        queue_ = &cq();
        QpInit what = init(type, *queue_);
        what.signal_all = signal_all;
        pair_ = &qp(what);
        start(*pair_);
        ASSERT_EQ(await_ah(rail(), path_to(rail()), handle_), kOk);
    }
    void TearDown() override {
        handle_.reset();
        VerbsTest::TearDown();
    }
    SendWork work(Opcode opcode, std::uint32_t flags = kSignaled) {
        SendWork out;
        out.wr_id = next_id_++;
        out.opcode = opcode;
        out.flags = flags;
        out.gather = gather_;
        out.gather_count = 1;
        out.remote_address = 0x123456789abc;
        out.remote_key = 0x5555;
        return out;
    }
    SendWork datagram(Opcode opcode = Opcode::send) {
        SendWork out = work(opcode);
        out.address_handle = handle_.get();
        out.remote_qp = 0xdef;
        out.remote_access_key = 0x1234;
        return out;
    }
    ibv_wc done(std::uint64_t wr_id, ibv_wc_opcode opcode, std::uint32_t bytes = 0) {
        ibv_wc wc{};
        wc.wr_id = wr_id;
        wc.opcode = opcode;
        wc.byte_len = bytes;
        return wc;
    }

    CompletionQueue* queue_ = nullptr;
    QueuePair* pair_ = nullptr;
    std::unique_ptr<AddressHandle> handle_;
    std::uint64_t next_id_ = 1;
    std::uint64_t memory_[32] = {};
    Gather gather_[4] = {
        {memory_, 8, 71}, {memory_ + 1, 0, 72}, {memory_ + 2, 24, 73}, {memory_ + 8, 8, 74}};
};

TEST_F(Posting, EveryOpcode) {
    open_pair();
    const struct {
        Opcode opcode;
        ibv_wr_opcode verbs;
    } rows[] = {
        {Opcode::send, IBV_WR_SEND},
        {Opcode::send_imm, IBV_WR_SEND_WITH_IMM},
        {Opcode::write, IBV_WR_RDMA_WRITE},
        {Opcode::write_imm, IBV_WR_RDMA_WRITE_WITH_IMM},
        {Opcode::read, IBV_WR_RDMA_READ},
        {Opcode::compare_swap, IBV_WR_ATOMIC_CMP_AND_SWP},
        {Opcode::fetch_add, IBV_WR_ATOMIC_FETCH_AND_ADD},
    };
    for (const auto& row : rows) {
        SendWork request = work(row.opcode);
        request.immediate = 0xa1b2c3d4;
        request.compare_add = 11;
        request.swap = 22;
        ASSERT_EQ(pair_->post_send(request), kOk);
        const SendCall& call = lib_.sent.back();
        EXPECT_EQ(call.qp_number, pair_->number());
        EXPECT_EQ(call.request.opcode, row.verbs);
        EXPECT_EQ(call.request.wr_id, request.wr_id);
        EXPECT_EQ(call.request.next, nullptr);
        ASSERT_EQ(call.list.size(), 1u);
        EXPECT_EQ(call.list[0].addr, reinterpret_cast<std::uintptr_t>(memory_));
        EXPECT_EQ(call.list[0].length, 8u);
        EXPECT_EQ(call.list[0].lkey, 71u);
        if (row.opcode == Opcode::send_imm || row.opcode == Opcode::write_imm) {
            EXPECT_EQ(call.request.imm_data, htonl(0xa1b2c3d4)) << "network order";
        }
        if (row.opcode >= Opcode::compare_swap) {
            EXPECT_EQ(call.request.wr.atomic.remote_addr, 0x123456789abcu);
            EXPECT_EQ(call.request.wr.atomic.rkey, 0x5555u);
            EXPECT_EQ(call.request.wr.atomic.compare_add, 11u);
            EXPECT_EQ(call.request.wr.atomic.swap, 22u);
        } else if (row.opcode >= Opcode::write) {
            EXPECT_EQ(call.request.wr.rdma.remote_addr, 0x123456789abcu);
            EXPECT_EQ(call.request.wr.rdma.rkey, 0x5555u);
        }
    }
}

TEST_F(Posting, Flags) {
    open_pair();
    const auto flags_of = [&](Opcode opcode, std::uint32_t flags) {
        EXPECT_EQ(pair_->post_send(work(opcode, flags)), kOk);
        return lib_.sent.back().request.send_flags;
    };
    EXPECT_EQ(flags_of(Opcode::write, 0), 0u);
    EXPECT_EQ(flags_of(Opcode::write, kSignaled), +IBV_SEND_SIGNALED);
    EXPECT_EQ(flags_of(Opcode::write, kInline), +IBV_SEND_INLINE);
    EXPECT_EQ(flags_of(Opcode::write, kFence), +IBV_SEND_FENCE);
    EXPECT_EQ(flags_of(Opcode::write, kPublish), 0u) << "adapters do that anyhow";
    EXPECT_EQ(flags_of(Opcode::send, kSignaled | kInline | kFence),
              +IBV_SEND_SIGNALED | +IBV_SEND_INLINE | +IBV_SEND_FENCE);
    EXPECT_EQ(flags_of(Opcode::read, kSignaled | kInline), +IBV_SEND_SIGNALED)
        << "a read takes nothing inline";
}

TEST_F(Posting, GatherListsLeaveOutWhatIsEmpty) {
    open_pair();
    SendWork request = work(Opcode::send);
    request.gather_count = 3;
    ASSERT_EQ(pair_->post_send(request), kOk);
    ASSERT_EQ(lib_.sent.back().list.size(), 2u);
    EXPECT_EQ(lib_.sent.back().list[1].lkey, 73u);
    EXPECT_EQ(lib_.sent.back().list[1].length, 24u);
    request.gather_count = 0;
    request.gather = nullptr;
    ASSERT_EQ(pair_->post_send(request), kOk);
    EXPECT_EQ(lib_.sent.back().list.size(), 0u);
}

TEST_F(Posting, BadRequestsNeverReachTheAdapter) {
    open_pair();
    const auto refused = [&](Reason reason, SendWork request, auto change) {
        change(request);
        EXPECT_EQ(pair_->post_send(request), refusal(reason));
        EXPECT_TRUE(lib_.sent.empty());
    };
    const Reason bad = Reason::bad_argument;
    refused(bad, work(Opcode::send), [](SendWork& w) { w.gather_count = 4; });
    refused(bad, work(Opcode::send), [](SendWork& w) { w.gather = nullptr; });
    refused(bad, work(static_cast<Opcode>(7)), [](SendWork&) {});
    Gather huge[2] = {{memory_, Bytes{1} << 30, 1}, {memory_, 1, 1}};
    refused(bad, work(Opcode::write), [&](SendWork& w) {
        w.gather = huge;
        w.gather_count = 2;
    });
    huge[1].length = ~Bytes{0};
    refused(bad, work(Opcode::write), [&](SendWork& w) {
        w.gather = huge;
        w.gather_count = 2;
    });
    Gather inlined{memory_, 65, 0};
    refused(bad, work(Opcode::write, kInline), [&](SendWork& w) { w.gather = &inlined; });
    Gather odd{memory_, 4, 1};
    refused(bad, work(Opcode::fetch_add), [&](SendWork& w) { w.gather = &odd; });
    refused(bad, work(Opcode::compare_swap), [](SendWork& w) { w.gather_count = 0; });
    EXPECT_EQ(pair_->rma_now(RmaWork{.local = memory_, .length = 8}).category(), Category::again)
        << "never in the call";
}

TEST_F(Posting, OpcodesThatTheRailLacks) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].limits.atomic_cap = IBV_ATOMIC_NONE;
    ASSERT_EQ(open(), kOk) << error_;
    pair_ = &qp(init(QpType::rc, cq()));
    start(*pair_);
    EXPECT_EQ(pair_->post_send(work(Opcode::fetch_add)), refusal(Reason::not_supported));
}

TEST_F(Posting, Datagrams) {
    open_pair(QpType::ud);
    SendWork request = datagram(Opcode::send_imm);
    request.immediate = 0x01020304;
    request.remote_access_key = 0x1'0000'0007;
    ASSERT_EQ(pair_->post_send(request), kOk);
    const ibv_send_wr& sent = lib_.sent.back().request;
    EXPECT_EQ(sent.opcode, IBV_WR_SEND_WITH_IMM);
    EXPECT_EQ(sent.imm_data, htonl(0x01020304));
    EXPECT_EQ(sent.wr.ud.ah, lib_.ahs.back().get());
    EXPECT_EQ(sent.wr.ud.remote_qpn, 0xdefu);
    EXPECT_EQ(sent.wr.ud.remote_qkey, 6u) << "as modify() folds it";
    QpAttributes a;
    a.access_key = request.remote_access_key;
    ASSERT_EQ(pair_->modify(a, kQpKey), kOk);
    EXPECT_EQ(lib_.modified.back().attributes.qkey, 6u);
    lib_.sent.clear();
    const Status bad = refusal(Reason::bad_argument);
    request.address_handle = nullptr;
    EXPECT_EQ(pair_->post_send(request), bad);
    request = datagram();
    request.remote_qp = 1u << 24;
    EXPECT_EQ(pair_->post_send(request), bad);
    for (const Opcode opcode : {Opcode::write, Opcode::write_imm, Opcode::read,
                                Opcode::compare_swap, Opcode::fetch_add}) {
        EXPECT_EQ(pair_->post_send(datagram(opcode)), bad);
    }
    Gather most{memory_, 2048, 1};
    request = datagram();
    request.gather = &most;
    EXPECT_EQ(pair_->post_send(request), kOk);
    most.length = 2049;
    EXPECT_EQ(pair_->post_send(request), bad);
    EXPECT_EQ(lib_.sent.size(), 1u);
}

// Drivers that post by a call to the system fail with EIO then, and say nothing of the state.
TEST_F(Posting, AQueuePairIsGoneWithItsDevice) {
    open_pair();
    lib_.fail("post_send", 1, EIO);
    EXPECT_EQ(pair_->post_send(work(Opcode::write)), refusal(Reason::bad_state));
    const int calls = lib_.count("post_send");
    EXPECT_EQ(pair_->post_send(work(Opcode::write)), refusal(Reason::bad_state));
    EXPECT_EQ(lib_.count("post_send"), calls) << "it is in the error state";
}

TEST_F(Posting, FullQueuesAndTheirSlots) {
    open_pair();
    for (int i = 0; i < 8; ++i) {
        ASSERT_EQ(pair_->post_send(work(Opcode::write, i == 5 ? +kSignaled : 0u)), kOk);
    }
    EXPECT_EQ(pair_->post_send(work(Opcode::write)), Status::again(Reason::queue_full));
    lib_.complete_send(pair_->number(), done(6, IBV_WC_RDMA_WRITE));
    ASSERT_EQ(poll(*queue_).size(), 1u);
    for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(pair_->post_send(work(Opcode::write)), kOk) << "it covers those before it";
    }
    EXPECT_EQ(pair_->post_send(work(Opcode::write)), Status::again(Reason::queue_full));
    ReceiveWork receive;
    for (int i = 0; i < 8; ++i) {
        ASSERT_EQ(pair_->post_receive(receive), kOk);
    }
    EXPECT_EQ(pair_->post_receive(receive), Status::again(Reason::queue_full));
}

TEST_F(Posting, InEachState) {
    open_roce();
    QueuePair& pair = qp(init(QpType::rc, cq()));
    ReceiveWork receive;
    EXPECT_EQ(pair.post_send(work(Opcode::send)), refusal(Reason::bad_state));
    EXPECT_EQ(pair.post_receive(receive), refusal(Reason::bad_state));
    EXPECT_FALSE(pair.usable());
    ASSERT_EQ(pair.modify(attributes(QpState::init, rail()), kRcInit), kOk);
    EXPECT_EQ(pair.post_send(work(Opcode::send)), refusal(Reason::bad_state));
    EXPECT_EQ(pair.post_receive(receive), kOk);
    ASSERT_EQ(pair.modify(attributes(QpState::ready_to_receive, rail()), kRcReceive), kOk);
    EXPECT_EQ(pair.post_send(work(Opcode::send)), refusal(Reason::bad_state));
    ASSERT_EQ(pair.modify(attributes(QpState::ready_to_send, rail()), kRcSend), kOk);
    EXPECT_TRUE(pair.usable());
    EXPECT_EQ(pair.post_send(work(Opcode::send)), kOk);
    fake(pair).state = IBV_QPS_SQD; // not the state that the fabric expects
    EXPECT_EQ(pair.post_send(work(Opcode::send)), refusal(Reason::bad_state));
    EXPECT_EQ(pair.query().state, QpState::error);
    lib_.modified.clear();
    EXPECT_EQ(pair.post_receive(receive), kOk);
    ASSERT_EQ(lib_.modified.size(), 1u) << "it is flushed";
    EXPECT_EQ(lib_.modified[0].attributes.qp_state, IBV_QPS_ERR);
    EXPECT_EQ(pair.post_send(work(Opcode::send)), refusal(Reason::bad_state));
}

TEST_F(Posting, Receives) {
    open_pair();
    ReceiveWork receive;
    receive.wr_id = 7;
    receive.scatter = gather_;
    receive.scatter_count = 3;
    ASSERT_EQ(pair_->post_receive(receive), kOk);
    const ReceiveCall& call = lib_.received.back();
    EXPECT_EQ(call.wr_id, 7u);
    ASSERT_EQ(call.list.size(), 2u) << "without the empty one";
    EXPECT_EQ(call.list[0].lkey, 71u);
    EXPECT_EQ(call.list[1].lkey, 73u);
    receive.scatter_count = 4;
    EXPECT_EQ(pair_->post_receive(receive), refusal(Reason::bad_argument));
    receive.scatter_count = 1;
    receive.scatter = nullptr;
    EXPECT_EQ(pair_->post_receive(receive), refusal(Reason::bad_argument));
}

TEST_F(Posting, TheGrhIsNotSeen) {
    open_pair(QpType::ud);
    ReceiveWork receive;
    receive.scatter = gather_;
    receive.scatter_count = 3;
    ASSERT_EQ(pair_->post_receive(receive), kOk);
    const std::vector<ibv_sge>& list = lib_.received.back().list;
    ASSERT_EQ(list.size(), 3u);
    EXPECT_EQ(list[0].length, 40u);
    bool registered = false;
    for (const auto& mr : lib_.mrs) {
        const auto base = reinterpret_cast<std::uintptr_t>(mr->addr);
        registered = registered || (mr->alive && mr->lkey == list[0].lkey && base == list[0].addr &&
                                    mr->length >= 40 && (mr->access & IBV_ACCESS_LOCAL_WRITE) != 0);
    }
    EXPECT_TRUE(registered);
    EXPECT_EQ(list[1].lkey, 71u);
    ibv_wc arrived = done(1, IBV_WC_RECV, 140);
    arrived.src_qp = 0x321;
    arrived.wc_flags = IBV_WC_GRH;
    lib_.complete_receive(pair_->number(), arrived);
    arrived.wc_flags = IBV_WC_WITH_IMM; // without a GRH its 40 bytes stay empty
    arrived.imm_data = htonl(0xfeedface);
    arrived.byte_len = 40;
    lib_.complete_receive(pair_->number(), arrived);
    const std::vector<WorkCompletion> got = poll(*queue_);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].length, 100u);
    EXPECT_EQ(got[0].kind, WorkKind::receive);
    EXPECT_EQ(got[0].source_qp, 0x321u);
    EXPECT_EQ(got[1].length, 0u);
    EXPECT_EQ(got[1].kind, WorkKind::receive_imm);
    EXPECT_EQ(got[1].immediate, 0xfeedfaceu);
}

TEST_F(Posting, ConnectionsOnTheQueueOfDatagramsKeepTheirLength) {
    open_pair(QpType::ud);
    QueuePair& connected = qp(init(QpType::rc, *queue_));
    lib_.complete_receive(connected.number(), done(1, IBV_WC_RECV, 140));
    lib_.complete_receive(pair_->number(), done(2, IBV_WC_RECV, 140));
    const std::vector<WorkCompletion> got = poll(*queue_);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].length, 140u);
    EXPECT_EQ(got[1].length, 100u);
}

TEST_F(Posting, KindsOfCompletions) {
    open_pair();
    const struct {
        ibv_wc_opcode verbs;
        WorkKind kind;
    } rows[] = {{IBV_WC_SEND, WorkKind::send},
                {IBV_WC_RDMA_WRITE, WorkKind::write},
                {IBV_WC_RDMA_READ, WorkKind::read},
                {IBV_WC_COMP_SWAP, WorkKind::compare_swap},
                {IBV_WC_FETCH_ADD, WorkKind::fetch_add},
                {IBV_WC_RECV, WorkKind::receive},
                {IBV_WC_RECV_RDMA_WITH_IMM, WorkKind::receive_imm}};
    for (const auto& row : rows) {
        ibv_wc wc = done(5, row.verbs, 33);
        wc.wc_flags = row.verbs == IBV_WC_RECV_RDMA_WITH_IMM ? +IBV_WC_WITH_IMM : 0u;
        wc.imm_data = htonl(9);
        lib_.complete_receive(pair_->number(), wc);
        const std::vector<WorkCompletion> got = poll(*queue_);
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(got[0].kind, row.kind);
        EXPECT_EQ(got[0].status, WorkStatus::success);
        EXPECT_EQ(got[0].qp_number, pair_->number());
        EXPECT_EQ(got[0].length, row.kind >= WorkKind::receive ? 33u : 0u);
        EXPECT_EQ(got[0].immediate, row.kind == WorkKind::receive_imm ? 9u : 0u);
    }
}

TEST_F(Posting, StatusesOfCompletions) {
    const struct {
        ibv_wc_status verbs;
        WorkStatus status;
    } rows[] = {{IBV_WC_LOC_LEN_ERR, WorkStatus::local_length_error},
                {IBV_WC_LOC_QP_OP_ERR, WorkStatus::local_qp_error},
                {IBV_WC_LOC_EEC_OP_ERR, WorkStatus::general_error},
                {IBV_WC_LOC_PROT_ERR, WorkStatus::local_protection_error},
                {IBV_WC_WR_FLUSH_ERR, WorkStatus::flushed},
                {IBV_WC_MW_BIND_ERR, WorkStatus::general_error},
                {IBV_WC_BAD_RESP_ERR, WorkStatus::bad_response},
                {IBV_WC_LOC_ACCESS_ERR, WorkStatus::local_access_error},
                {IBV_WC_REM_INV_REQ_ERR, WorkStatus::remote_invalid_request},
                {IBV_WC_REM_ACCESS_ERR, WorkStatus::remote_access_error},
                {IBV_WC_REM_OP_ERR, WorkStatus::remote_operation_error},
                {IBV_WC_RETRY_EXC_ERR, WorkStatus::retry_exceeded},
                {IBV_WC_RNR_RETRY_EXC_ERR, WorkStatus::rnr_retry_exceeded},
                {IBV_WC_REM_ABORT_ERR, WorkStatus::remote_aborted},
                {IBV_WC_FATAL_ERR, WorkStatus::fatal},
                {IBV_WC_RESP_TIMEOUT_ERR, WorkStatus::response_timeout},
                {IBV_WC_GENERAL_ERR, WorkStatus::general_error},
                {static_cast<ibv_wc_status>(31), WorkStatus::general_error}};
    open_pair();
    for (const auto& row : rows) {
        QueuePair& pair = qp(init(QpType::rc, *queue_));
        start(pair);
        lib_.modified.clear();
        ibv_wc wc{};
        std::memset(&wc, 0xee, sizeof wc); // only four fields are valid
        wc.wr_id = 42;
        wc.status = row.verbs;
        wc.vendor_err = 0x77;
        lib_.complete_receive(pair.number(), wc);
        const std::vector<WorkCompletion> got = poll(*queue_);
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(got[0].status, row.status);
        EXPECT_EQ(got[0].wr_id, 42u);
        EXPECT_EQ(got[0].qp_number, pair.number());
        EXPECT_EQ(got[0].vendor_error, 0x77u);
        EXPECT_EQ(got[0].length, 0u);
        EXPECT_FALSE(pair.usable());
        ASSERT_EQ(lib_.modified.size(), 1u) << "the rest is flushed";
        EXPECT_EQ(lib_.modified[0].attributes.qp_state, IBV_QPS_ERR);
    }
}

TEST_F(Posting, PollsInPortions) {
    open_pair();
    for (std::uint64_t i = 0; i < 50; ++i) {
        lib_.complete_receive(pair_->number(), done(i, IBV_WC_RECV));
    }
    std::uint64_t next = 0;
    for (const std::size_t portion : {0u, 1u, 15u, 16u, 17u, 40u, 5u}) {
        std::vector<WorkCompletion> out(portion);
        const std::size_t count = queue_->poll(out);
        EXPECT_EQ(count, std::min<std::size_t>(portion, 50 - next));
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(out[i].wr_id, next++);
        }
    }
    EXPECT_EQ(next, 50u);
}

TEST_F(Posting, ResetAndDestroyTakeTheirCompletionsAway) {
    open_pair();
    QueuePair& other = qp(init(QpType::rc, *queue_));
    std::unique_ptr<QueuePair> third;
    ASSERT_EQ(rail().create_qp(init(QpType::rc, *queue_), third), kOk);
    ibv_wc flushed = done(0, IBV_WC_RECV);
    flushed.status = IBV_WC_WR_FLUSH_ERR;
    for (std::uint64_t i = 0; i < 20; ++i) {
        flushed.wr_id = i;
        lib_.complete_receive(pair_->number(), flushed);
        lib_.complete_receive(other.number(), done(i, IBV_WC_RECV, 10));
        lib_.complete_receive(third->number(), done(i, IBV_WC_RECV, 20));
    }
    QpAttributes reset;
    ASSERT_EQ(pair_->modify(reset, kQpState), kOk);
    third.reset();
    start(*pair_);
    const auto got = [&] {
        std::vector<WorkCompletion> all;
        for (std::vector<WorkCompletion> some; !(some = poll(*queue_)).empty();) {
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    }();
    ASSERT_EQ(got.size(), 20u);
    for (std::uint64_t i = 0; i < 20; ++i) {
        EXPECT_EQ(got[i].qp_number, other.number());
        EXPECT_EQ(got[i].wr_id, i);
    }
    EXPECT_TRUE(pair_->usable()) << "an old completion must not fail the new connection";
}

TEST_F(Posting, SharedReceiveQueues) {
    open_roce();
    SharedReceiveQueue& shared = srq(4);
    EXPECT_EQ(lib_.srqs[0]->attributes.max_wr, 4u);
    QpInit what = init(QpType::rc, cq());
    what.srq = &shared;
    QueuePair& pair = qp(what);
    start(pair);
    ReceiveWork receive;
    receive.wr_id = 3;
    receive.scatter = gather_;
    receive.scatter_count = 3;
    EXPECT_EQ(pair.post_receive(receive), refusal(Reason::bad_argument));
    for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(shared.post(receive), kOk);
    }
    EXPECT_EQ(lib_.received.back().qp_number, 0u);
    EXPECT_EQ(lib_.received.back().list.size(), 2u);
    EXPECT_EQ(shared.post(receive), Status::again(Reason::queue_full));
    receive.scatter_count = 7;
    EXPECT_EQ(shared.post(receive), refusal(Reason::bad_argument));
    EXPECT_EQ(shared.arm_limit(3), kOk);
    EXPECT_EQ(lib_.srqs[0]->attributes.srq_limit, 3u);
    EXPECT_EQ(shared.arm_limit(5), refusal(Reason::bad_argument));
    EXPECT_EQ(shared.arm_limit(0), kOk);
    EXPECT_EQ(lib_.srqs[0]->attributes.srq_limit, 0u);
}

TEST_F(Posting, ProvidersWithOtherWaysToSayNo) {
    open_pair();
    lib_.fail("post_send", 1, -ENOMEM);
    EXPECT_EQ(pair_->post_send(work(Opcode::send)), Status::again(Reason::queue_full));
    errno = ENOMEM;
    lib_.fail("post_send", 1, -1);
    EXPECT_EQ(pair_->post_send(work(Opcode::send)), Status::again(Reason::queue_full));
    lib_.fail("post_send", 1, EINVAL);
    EXPECT_EQ(pair_->post_send(work(Opcode::send)), refusal(Reason::bad_argument));
    EXPECT_EQ(pair_->post_send(work(Opcode::send)), kOk);
    lib_.fail("post_recv", 1, EIO);
    EXPECT_EQ(pair_->post_receive({}), refusal(Reason::bad_state)) << "its device is gone";
    EXPECT_EQ(pair_->post_send(work(Opcode::send)), refusal(Reason::bad_state));
}

} // namespace
} // namespace adaptib::test
