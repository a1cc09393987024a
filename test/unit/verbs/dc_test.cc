// SPDX-License-Identifier: BSD-3-Clause
// Dynamically connected queue pairs over mlx5dv: which rails have them, what the library is asked for, what becomes of
// what it refuses. What they do is conformance/dc.cc's, on a device that has them.
#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "fabric/rail_text.h"
#include "unit/verbs/mlx5_stand_in.h"
#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

constexpr std::uint32_t kTargetInit = kQpState | kQpAccess | kQpKey;
constexpr std::uint32_t kTargetReceive = kQpState | kQpPath | kQpReceiveLimits;
constexpr std::uint64_t kKey = 0x8877'6655'4433'2211;

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kInitiatorReadyMask = IBV_QP_STATE | IBV_QP_PATH_MTU;
constexpr int kInitiatorSendMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN;
constexpr int kTargetReadyMask = IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU;

constexpr std::uint64_t kAtomicOperations =
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr std::uint64_t kOperations =
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
    // Since then.
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
        EXPECT_EQ(rail().create_ah(path_to(rail()), handles_.emplace_back()), kOk);
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
    bool has_dc() { return rail().info().has(Capability::dc); }
    // What a rail without DC says when it is asked for it.
    std::string refused() {
        QpInit what = init(QpType::dc_initiator, cq());
        std::unique_ptr<QueuePair> none;
        EXPECT_EQ(rail().create_qp(what, none), refusal(Reason::not_supported));
        what.type = QpType::dc_target;
        EXPECT_EQ(rail().create_qp(what, none), refusal(Reason::not_supported));
        return rail().trouble();
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

// ---------------------------------------------------------------------------------------------------
// Which rails have it

TEST_F(DcTest, BothEndsAreTried) {
    lib_.devices = {device_};
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_TRUE(has_dc());
    EXPECT_EQ(rail_text(rail().info()), "mlx5_0:1: rc, ud, dc, srq, rdma_read, rdma_write, "
                                        "write_imm, atomic64, migration");
    EXPECT_EQ(rail().info().inline_bytes, 512u);

    ASSERT_EQ(dc_creations().size(), 2u);
    EXPECT_EQ(dc_creations()[0].mlx5.dc_init_attr.dc_type, MLX5DV_DCTYPE_DCI);
    EXPECT_EQ(dc_creations()[1].mlx5.dc_init_attr.dc_type, MLX5DV_DCTYPE_DCT);
    std::vector<int> masks;
    for (const ModifyCall& call : lib_.modified) {
        masks.push_back(call.mask);
    }
    EXPECT_EQ(masks, (std::vector<int>{kInitMask, kInitiatorReadyMask, kInitiatorSendMask,
                                       kInitMask | IBV_QP_ACCESS_FLAGS, kTargetReadyMask}));
    EXPECT_EQ(lib_.modified[3].attributes.qp_access_flags,
              static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                    IBV_ACCESS_REMOTE_ATOMIC));
    EXPECT_EQ(lib_.living("qp"), 0);
    EXPECT_EQ(lib_.living("cq"), 0);
    EXPECT_EQ(lib_.living("srq"), 0);
}

TEST_F(DcTest, AnotherAdapterHasNone) {
    device_.mlx5 = false;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: mlx5_0 is not an mlx5 adapter");
    EXPECT_TRUE(dc_creations().empty());
}

TEST_F(DcTest, WithoutTheLibraryThereIsNone) {
    options_.mlx5 = nullptr;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: mlx5_0 is not an mlx5 adapter");
    EXPECT_TRUE(dc_creations().empty());
}

TEST_F(DcTest, WithoutSharedReceiveQueuesThereIsNone) {
    device_.limits.max_srq = 0;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: the device has no shared receive queues");
    EXPECT_TRUE(dc_creations().empty());
}

TEST_F(DcTest, WithoutConnectionsThereIsNone) {
    device_.rc = false;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: the device has no connected queue pairs");
    EXPECT_TRUE(dc_creations().empty());
}

TEST_F(DcTest, OneEndIsNotEnough) {
    device_.initiators = false;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: no DC initiator: Operation not supported");
    end_objects();
    fabric_.reset();

    device_.initiators = true;
    device_.targets = false;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_NE(refused().find("DC target"), std::string::npos) << refused();
    EXPECT_TRUE(rail().info().has(Capability::rc));
}

// Whatever is refused on the way: the rail is there without DC, and nothing is left.
TEST_F(DcTest, WhateverIsRefusedTheRailGoesOn) {
    struct Case {
        const char* call;
        int nth;
        int error;
    };
    lib_.devices = {device_};
    ASSERT_EQ(open(), kOk);
    const int queues = lib_.count("create_cq");
    fabric_.reset();
    for (const Case& c :
         {Case{"mlx5dv_create_qp", 1, ENOMEM}, Case{"mlx5dv_create_qp", 1, EOPNOTSUPP},
          Case{"mlx5dv_create_qp", 2, ENOMEM}, Case{"mlx5dv_create_qp", 2, EOPNOTSUPP},
          Case{"mlx5dv_qp_ex", 1, EINVAL}, Case{"create_cq", queues, ENOMEM},
          Case{"create_srq", 1, ENOMEM}, Case{"modify_qp", 1, EINVAL}, Case{"modify_qp", 2, EINVAL},
          Case{"modify_qp", 3, EIO}, Case{"modify_qp", 4, EOPNOTSUPP},
          Case{"modify_qp", 5, EINVAL}}) {
        SCOPED_TRACE(std::string(c.call) + " " + std::to_string(c.nth));
        lib_.fail(c.call, c.nth, c.error);
        ASSERT_EQ(open(), kOk) << error_;
        EXPECT_TRUE(lib_.failed());
        EXPECT_FALSE(has_dc());
        EXPECT_TRUE(rail().info().has(Capability::rc));
        EXPECT_TRUE(rail().info().has(Capability::ud));
        EXPECT_EQ(rail().info().inline_bytes, 512u) << "who has no DC gives nothing away for it";
        EXPECT_EQ(rail().trouble(), "") << "nobody has asked for DC";
        EXPECT_GT(refused().size(), std::strlen("no DC queue pairs: no "));
        EXPECT_EQ(lib_.living("qp"), 0);
        EXPECT_EQ(lib_.living("srq"), 0);
        end_objects();
        fabric_.reset();
        EXPECT_EQ(lib_.living(), 0) << left();
    }
}

TEST_F(DcTest, LimitsAreTried) {
    device_.initiator_inline_bytes = 100;
    device_.initiator_reads = 3;
    open_device();
    ASSERT_TRUE(has_dc());
    EXPECT_EQ(rail().info().inline_bytes, 64u);
    EXPECT_EQ(rail().info().max_reads, 8u) << "of connected ones";
    initiator(); // asks for 5
    EXPECT_EQ(lib_.modified.back().attributes.max_rd_atomic, 2);
}

TEST_F(DcTest, AnAdapterWithoutAtomics) {
    device_.limits.atomic_cap = IBV_ATOMIC_NONE;
    lib_.devices = {device_};
    ASSERT_EQ(open(), kOk);
    ASSERT_TRUE(has_dc());
    EXPECT_EQ(dc_creations()[0].attributes.send_ops_flags, kOperations & ~kAtomicOperations);
    EXPECT_EQ(lib_.modified[3].attributes.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC, 0u);
    QueuePair& from = initiator();
    EXPECT_EQ(from.post_send(work(1, Opcode::fetch_add)), refusal(Reason::not_supported));
}

// ---------------------------------------------------------------------------------------------------
// Initiators

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
    ASSERT_EQ(move(made, QpState::error), kOk); // by INIT, which the adapter wants
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
    gather_[0].length = 0; // not said at all: some adapters take it for 2 GiB
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

// The request itself shows it: nothing is begun.
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
    EXPECT_TRUE(refuses([](SendWork& w) { w.opcode = Opcode::fetch_add; })); // of 8 bytes in two
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

    fake(from).state = IBV_QPS_ERR; // by itself
    EXPECT_EQ(from.post_send(work(10, Opcode::send)), refusal(Reason::bad_state));
    Event event;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::qp_fatal);
    EXPECT_EQ(event.qp_number, from.number());
}

// With a full queue nothing is begun, or the request before would be overwritten: the stand-in complains.
TEST_F(DcTest, AFullSendQueue) {
    open_device();
    QueuePair& from = initiator();
    CompletionQueue& queue = *cqs_.back();
    std::uint64_t next = 0;
    // Posts until the queue is full, every third request signalled; how many there was room for.
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
    for (int round = 0; round < 50; ++round) { // with each request in each place
        complete_first();
        EXPECT_EQ(poll(queue).size(), 1u);
        EXPECT_NE(fill(), 0u);
        EXPECT_EQ(fake(from).sends.size(), 8u) << "as many as there is room for";
    }

    // Another's completion gives nothing back, a receive's neither.
    QueuePair& other = qp(init(QpType::dc_initiator, queue));
    start_initiator(other);
    ASSERT_EQ(other.post_send(work(1, Opcode::send)), kOk);
    lib_.complete_send(other.number(), written(1));
    ibv_wc arrived{};
    arrived.opcode = IBV_WC_RECV;
    lib_.complete_receive(target(queue).number(), arrived);
    EXPECT_EQ(poll(queue).size(), 2u);
    EXPECT_EQ(fill(), 0u);

    // What is read because another leaves counts as well.
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
    lib_.complete_send(from.number(), failed(1, IBV_WC_REM_ACCESS_ERR)); // unsignalled
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
    what.send_depth = 0; // there is room for one all the same
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

// ---------------------------------------------------------------------------------------------------
// Targets

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
    b.path = {}; // whom it answers is the initiators' business
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

// A number can be used again as soon as its target has left.
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

    // One that cannot be had leaves things as they were.
    a.access_key = 3;
    lib_.fail("mlx5dv_create_qp", 1, ENOMEM);
    EXPECT_EQ(at.modify(a, kQpState | kQpKey), refusal(Reason::no_memory));
    EXPECT_NE(rail().trouble().find("a DC target: "), std::string::npos);
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

// It is of one initiator, and others are served.
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

// Destroying waits for events that are not acknowledged, and this one is being read.
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

TEST_F(DcTest, TheEndOfTheSharedQueueIsTold) {
    open_device();
    QueuePair& at = target(cq());
    ibv_async_event broken{};
    broken.event_type = IBV_EVENT_SRQ_ERR;
    broken.element.srq = lib_.srqs.back().get();
    lib_.raise(0, broken);
    Event event;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::qp_fatal);
    EXPECT_EQ(event.qp_number, at.number());
    EXPECT_EQ(at.query().state, QpState::error);
}

// They are not in the adapter.
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

TEST_F(DcTest, TheEndOfTheCompletionQueueIsTold) {
    open_device();
    QueuePair& at = target(cq());
    ibv_async_event broken{};
    broken.event_type = IBV_EVENT_CQ_ERR;
    broken.element.cq = lib_.cqs.back().get();
    lib_.raise(0, broken);
    Event event;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::qp_fatal);
    EXPECT_EQ(event.qp_number, at.number());
    EXPECT_EQ(at.query().state, QpState::error);
}

// ---------------------------------------------------------------------------------------------------
// The library itself

TEST(Mlx5Library, IsTakenOnlyWhereItIsInUse) {
    verbs::Mlx5Calls calls{};
    if (dlopen("libmlx5.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr) {
        EXPECT_FALSE(verbs::load_mlx5(calls));
    }
    void* const library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL); // as libibverbs would
    if (library == nullptr) {
        GTEST_SKIP() << "this machine has no libmlx5: " << dlerror();
    }
    EXPECT_TRUE(verbs::load_mlx5(calls));
    EXPECT_NE(calls.is_supported, nullptr);
    EXPECT_NE(calls.create_qp, nullptr);
    EXPECT_NE(calls.mlx5_qp_of, nullptr);
    EXPECT_NE(calls.qp_ex_of, nullptr);
}

} // namespace
} // namespace adaptib::test
