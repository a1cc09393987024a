// SPDX-License-Identifier: BSD-3-Clause
// Conformance: dynamically connected queue pairs.
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

constexpr std::uint32_t kInitiatorSend = kQpState | kQpRetry | kQpSendPsn | kQpSendLimits;
constexpr std::uint32_t kTargetInit = kQpState | kQpAccess | kQpKey;
constexpr std::uint32_t kTargetReceive = kQpState | kQpPath | kQpReceiveLimits;
constexpr std::uint64_t kKey = 0xdc00'0000'1ee7'c0de; // all 64 bits are significant

class Dc : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::dc)) {
            GTEST_SKIP() << "the rail lacks dc: " << why_not();
        }
    }
    // Asks a rail without DC for a DC initiator and returns the rail's reason for refusing.
    std::string why_not() {
        QpInit init;
        init.type = QpType::dc_initiator;
        init.send_cq = init.receive_cq = queue(0).cq.get();
        init.send_depth = 1;
        std::unique_ptr<QueuePair> none;
        EXPECT_EQ(rail(0).create_qp(init, none), Status::error(Reason::not_supported));
        const std::string told = rail(0).last_error_text();
        return told.empty() ? "this fabric has none" : told;
    }

    QpAttributes attributes(QpState state, std::size_t node, std::uint64_t key = kKey) {
        QpAttributes a;
        a.state = state;
        a.access = kRemoteWrite | kRemoteRead | (has(Capability::atomic64) ? kRemoteAtomic : 0u);
        a.access_key = key;
        a.path = path(node);
        a.max_reads = a.max_target_reads = std::min(info().max_reads, 4u);
        a.timeout = 14;
        a.retry_count = 2;
        a.rnr_timer = 1;
        return a;
    }
    void start_initiator(End& e, std::uint8_t rnr_retry = 7) {
        QpAttributes a = attributes(QpState::init, e.node);
        a.rnr_retry = rnr_retry;
        ASSERT_EQ(e.qp->modify(a, kQpState), kOk);
        a.state = QpState::ready_to_receive;
        ASSERT_EQ(e.qp->modify(a, kQpState), kOk);
        a.state = QpState::ready_to_send;
        ASSERT_EQ(e.qp->modify(a, kInitiatorSend), kOk);
    }
    void start_target(End& e, std::uint64_t key = kKey) {
        ASSERT_EQ(e.qp->modify(attributes(QpState::init, e.node, key), kTargetInit), kOk);
        ASSERT_EQ(e.qp->modify(attributes(QpState::ready_to_receive, e.node, key), kTargetReceive),
                  kOk);
    }
    End& initiator(std::size_t node, EndOptions options = {}, std::uint8_t rnr_retry = 7) {
        options.type = QpType::dc_initiator;
        End& e = end(node, options);
        start_initiator(e, rnr_retry);
        return e;
    }
    // Creates a target in RESET, with the given SRQ or one of its own.
    End& raw_target(std::size_t node, SharedReceiveQueue* s = nullptr) {
        EndOptions options;
        options.type = QpType::dc_target;
        options.srq = s != nullptr ? s : &srq(node, 64);
        return end(node, options);
    }
    End& target(std::size_t node, SharedReceiveQueue* s = nullptr) {
        End& e = raw_target(node, s);
        start_target(e);
        return e;
    }
    SendWork to(End& at, SendWork work, AddressHandle& through, std::uint64_t key = kKey) {
        work.address_handle = &through;
        work.remote_qp = at.qp->number();
        work.remote_access_key = key;
        return work;
    }
    std::size_t last() const { return nodes() - 1; }
};
ADAPTIB_CONFORMANCE(Dc);

TEST_P(Dc, OneInitiatorManyTargets) {
    constexpr std::uint64_t kMessages = 60;
    constexpr Bytes kSlot = 512;
    End& from = initiator(0);
    struct There {
        SharedReceiveQueue* s;
        End* at;
        Buffer* memory;
        AddressHandle* through;
        std::uint64_t arrived = 0;
    };
    std::vector<There> there;
    for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t node = i % nodes(); // the first target is on the initiator's node
        There one{&srq(node, 64), nullptr, &memory(node, 64 * kSlot), &handle(0, node)};
        one.at = &target(node, one.s);
        for (std::uint64_t slot = 0; slot < 64; ++slot) {
            ASSERT_EQ(post_receive(*one.s, slot, {one.memory->gather(slot * kSlot, kSlot)}), kOk);
        }
        there.push_back(one);
    }
    std::set<std::uint32_t> numbers;
    for (const There& one : there) {
        EXPECT_NE(one.at->qp->number(), 0u);
        EXPECT_LT(one.at->qp->number(), 1u << 24);
        numbers.insert(one.at->qp->number());
    }
    Buffer& source = memory(0, kMessages * kSlot);
    for (std::uint64_t m = 0; m < kMessages; ++m) {
        fill(source.data() + m * kSlot, kSlot, m);
        const std::vector<Gather> gather{source.gather(m * kSlot, (m * 37) % kSlot)};
        There& one = there[(m / 3) % there.size()]; // three in a row to each target
        ASSERT_EQ(post(from, to(*one.at, send_work(m, gather), *one.through)), kOk);
    }
    ASSERT_TRUE(wait_for(*from.send, kMessages));
    for (std::uint64_t m = 0; m < kMessages; ++m) {
        EXPECT_EQ(from.send->got[m].status, WorkStatus::success);
        EXPECT_EQ(from.send->got[m].wr_id, m) << "in posting order, whoever the target is";
        EXPECT_EQ(from.send->got[m].qp_number, from.qp->number());
    }
    for (std::uint64_t m = 0; m < kMessages; ++m) {
        There& one = there[(m / 3) % there.size()];
        ASSERT_TRUE(wait_for(*one.at->receive, one.arrived + 1)) << "message " << m;
        const WorkCompletion& done = one.at->receive->got[one.arrived++];
        EXPECT_EQ(done.status, WorkStatus::success);
        EXPECT_EQ(done.kind, WorkKind::receive);
        EXPECT_EQ(done.qp_number, one.at->qp->number());
        ASSERT_EQ(done.length, (m * 37) % kSlot);
        EXPECT_TRUE(holds(one.memory->data() + done.wr_id * kSlot, done.length, m));
    }
}

TEST_P(Dc, ManyInitiatorsOneTarget) {
    constexpr std::uint64_t kEach = 40;
    constexpr std::size_t kInitiators = 4;
    constexpr Bytes kSlot = 16;
    SharedReceiveQueue& s = srq(last(), 256);
    End& at = target(last(), &s);
    Buffer& arrived = memory(last(), 256 * kSlot);
    for (std::uint64_t slot = 0; slot < kInitiators * kEach; ++slot) {
        ASSERT_EQ(post_receive(s, slot, {arrived.gather(slot * kSlot, kSlot)}), kOk);
    }
    std::vector<End*> from;
    std::vector<Buffer*> sources;
    std::vector<AddressHandle*> through;
    for (std::size_t i = 0; i < kInitiators; ++i) {
        const std::size_t node = i % nodes();
        from.push_back(&initiator(node));
        through.push_back(&handle(node, last()));
        sources.push_back(&memory(node, kEach * kSlot));
    }
    for (std::uint64_t m = 0; m < kEach; ++m) {
        for (std::size_t i = 0; i < kInitiators; ++i) {
            const std::uint64_t words[2] = {i, m};
            std::memcpy(sources[i]->data() + m * kSlot, words, kSlot);
            const std::vector<Gather> gather{sources[i]->gather(m * kSlot, kSlot)};
            ASSERT_EQ(post(*from[i], to(at, send_work(m, gather), *through[i])), kOk);
        }
    }
    ASSERT_TRUE(wait_for(*at.receive, kInitiators * kEach));
    std::vector<std::uint64_t> next(kInitiators, 0);
    for (const WorkCompletion& done : at.receive->got) {
        ASSERT_EQ(done.status, WorkStatus::success);
        std::uint64_t words[2];
        std::memcpy(words, arrived.data() + done.wr_id * kSlot, kSlot);
        ASSERT_LT(words[0], kInitiators);
        EXPECT_EQ(words[1], next[words[0]]++) << "of initiator " << words[0];
    }
}

TEST_P(Dc, EveryOperation) {
    constexpr Bytes kSize = 8192;
    SharedReceiveQueue& s = srq(1, 16);
    End& at = target(1, &s);
    EndOptions options;
    options.max_gather = std::min(info().max_gather, 2u);
    options.inline_bytes = std::min<Bytes>(info().inline_bytes, 64);
    End& from = initiator(0, options);
    AddressHandle& through = handle(0, 1);
    Buffer& here = memory(0, kSize);
    Buffer& there = memory(1, kSize);
    fill(here.data(), kSize, 5);

    const std::vector<Gather> whole{here.gather(0, kSize)};
    EXPECT_EQ(
        run(from, to(at, rdma_work(1, Opcode::write, whole, there.remote(), there.key()), through)),
        WorkStatus::success);
    EXPECT_TRUE(holds(there.data(), kSize, 5));

    ASSERT_EQ(post_receive(s, 70, {}), kOk);
    fill(here.data(), kSize, 6);
    SendWork told = rdma_work(2, Opcode::write_imm, whole, there.remote(), there.key());
    told.immediate = 0x01020304;
    EXPECT_EQ(run(from, to(at, told, through)), WorkStatus::success);
    ASSERT_TRUE(wait_for(*at.receive, 1));
    EXPECT_EQ(at.receive->got[0].kind, WorkKind::receive_imm);
    EXPECT_EQ(at.receive->got[0].immediate, 0x01020304u);
    EXPECT_EQ(at.receive->got[0].length, kSize);
    EXPECT_TRUE(holds(there.data(), kSize, 6));

    ASSERT_EQ(post_receive(s, 71, {there.gather(0, 256)}), kOk);
    SendWork noted = send_work(3, {});
    noted.opcode = Opcode::send_imm;
    noted.immediate = 77;
    EXPECT_EQ(run(from, to(at, noted, through)), WorkStatus::success);
    ASSERT_TRUE(wait_for(*at.receive, 2));
    EXPECT_EQ(at.receive->got[1].kind, WorkKind::receive_imm);
    EXPECT_EQ(at.receive->got[1].immediate, 77u);
    EXPECT_EQ(at.receive->got[1].length, 0u);

    if (options.max_gather == 2) {
        ASSERT_EQ(post_receive(s, 72, {there.gather(0, 256)}), kOk);
        const std::vector<Gather> two{here.gather(0, 10), here.gather(10, 90)};
        EXPECT_EQ(run(from, to(at, send_work(4, two), through)), WorkStatus::success);
        ASSERT_TRUE(wait_for(*at.receive, 3));
        EXPECT_EQ(at.receive->got[2].length, 100u);
        EXPECT_TRUE(holds(there.data(), 100, 6));
    }
    if (options.inline_bytes > 0) {
        fill(here.data(), options.inline_bytes, 8);
        const std::vector<Gather> own{{here.data(), options.inline_bytes, 0}}; // no key
        SendWork taken = rdma_work(5, Opcode::write, own, there.remote(512), there.key());
        taken.flags |= kInline;
        EXPECT_EQ(run(from, to(at, taken, through)), WorkStatus::success);
        EXPECT_TRUE(holds(there.data() + 512, options.inline_bytes, 8));
    }
    if (has(Capability::rdma_read)) {
        fill(there.data(), kSize, 9);
        EXPECT_EQ(run(from, to(at, rdma_work(6, Opcode::read, whole, there.remote(), there.key()),
                               through)),
                  WorkStatus::success);
        EXPECT_TRUE(holds(here.data(), kSize, 9));
    }
    if (has(Capability::atomic64)) {
        const std::vector<Gather> word{here.gather(0, 8)};
        std::uint64_t value = 40;
        std::memcpy(there.data(), &value, 8);
        SendWork add = rdma_work(7, Opcode::fetch_add, word, there.remote(), there.key());
        add.compare_add = 2;
        EXPECT_EQ(run(from, to(at, add, through)), WorkStatus::success);
        std::memcpy(&value, here.data(), 8);
        EXPECT_EQ(value, 40u);
        SendWork swap = rdma_work(8, Opcode::compare_swap, word, there.remote(), there.key());
        swap.compare_add = 42;
        swap.swap = 99;
        EXPECT_EQ(run(from, to(at, swap, through)), WorkStatus::success);
        std::memcpy(&value, here.data(), 8);
        EXPECT_EQ(value, 42u);
        std::memcpy(&value, there.data(), 8);
        EXPECT_EQ(value, 99u);
    }
}

TEST_P(Dc, UnsignalledRequestsAreCovered) {
    End& at = target(1);
    End& from = initiator(0);
    AddressHandle& through = handle(0, 1);
    constexpr std::uint64_t kRequests = 208; // more than the send queue holds
    constexpr Bytes kSize = 64;
    Buffer& here = memory(0, kRequests * kSize);
    Buffer& there = memory(1, kRequests * kSize);
    bool was_full = false;
    for (std::uint64_t i = 0; i < kRequests; ++i) {
        fill(here.data() + i * kSize, kSize, i);
        const std::vector<Gather> gather{here.gather(i * kSize, kSize)};
        SendWork work = rdma_work(i, Opcode::write, gather, there.remote(i * kSize), there.key());
        work.flags = i % 16 == 15 ? +kSignaled : 0u;
        work = to(at, work, through);
        Status status = from.qp->post_send(work);
        if (status == Status::again(Reason::queue_full)) {
            was_full = true;
            status = post(from, work);
        }
        ASSERT_EQ(status, kOk) << i;
    }
    EXPECT_TRUE(was_full);
    ASSERT_TRUE(wait_for(*from.send, kRequests / 16));
    for (std::uint64_t i = 0; i < kRequests / 16; ++i) {
        EXPECT_EQ(from.send->got[i].wr_id, 16 * i + 15);
        EXPECT_EQ(from.send->got[i].status, WorkStatus::success);
    }
    for (std::uint64_t i = 0; i < kRequests; ++i) { // no write took another's place
        EXPECT_TRUE(holds(there.data() + i * kSize, kSize, i)) << i;
    }
}

TEST_P(Dc, WhatIsRefusedAtOnce) {
    Queue& q = queue(0);
    QpInit init;
    init.type = QpType::dc_target;
    init.send_cq = init.receive_cq = q.cq.get();
    init.send_depth = init.receive_depth = 4;
    std::unique_ptr<QueuePair> none;
    EXPECT_EQ(rail(0).create_qp(init, none), Status::error(Reason::bad_argument)) << "no SRQ";
    EXPECT_EQ(none, nullptr);

    End& at = target(1);
    End& from = initiator(0);
    Buffer& here = memory(0, 64);
    Buffer& there = memory(1, 64);
    const std::vector<Gather> gather{here.gather(0, 64)};
    AddressHandle& through = handle(0, 1);
    SendWork work = to(at, send_work(1, gather), through);
    work.address_handle = nullptr;
    EXPECT_EQ(from.qp->post_send(work), Status::error(Reason::bad_argument));
    EXPECT_EQ(post_receive(from, 1, {here.gather(0, 64)}), Status::error(Reason::bad_argument));
    EXPECT_EQ(post_receive(at, 1, {there.gather(0, 64)}), Status::error(Reason::bad_argument));
    EXPECT_EQ(at.qp->post_send(to(at, send_work(1, gather), handle(1, 1))),
              Status::error(Reason::bad_state));
    // The refused calls had no effect.
    EXPECT_EQ(run(from, to(at, rdma_work(2, Opcode::write, gather, there.remote(), there.key()),
                           through)),
              WorkStatus::success);
}

TEST_P(Dc, OnlyListedTransitions) {
    EndOptions options;
    options.type = QpType::dc_initiator;
    End& from = end(0, options);
    QpAttributes a = attributes(QpState::ready_to_send, 0);
    EXPECT_EQ(from.qp->modify(a, kInitiatorSend), Status::error(Reason::bad_state));
    a.state = QpState::init;
    EXPECT_EQ(from.qp->modify(a, kQpState | kQpAccess), Status::error(Reason::bad_argument));
    EXPECT_EQ(from.qp->query().state, QpState::reset);
    ASSERT_EQ(from.qp->modify(a, kQpState), kOk);
    ASSERT_EQ(from.qp->modify(a, kQpState), kOk) << "INIT from INIT";
    EXPECT_EQ(from.qp->query().state, QpState::init);

    End& at = raw_target(1);
    a.state = QpState::ready_to_receive;
    EXPECT_EQ(at.qp->modify(a, kTargetReceive), Status::error(Reason::bad_state));
    a.state = QpState::init;
    EXPECT_EQ(at.qp->modify(a, kQpState | kQpAccess), Status::error(Reason::bad_argument));
    ASSERT_EQ(at.qp->modify(a, kTargetInit), kOk);
    ASSERT_EQ(at.qp->modify(a, kTargetInit), kOk) << "INIT from INIT";
    EXPECT_EQ(at.qp->query().access_key, kKey);
    a.state = QpState::ready_to_receive;
    a.path = path(1);
    EXPECT_EQ(at.qp->modify(a, kTargetReceive | kQpRemote), Status::error(Reason::bad_argument));
    ASSERT_EQ(at.qp->modify(a, kTargetReceive), kOk);
    EXPECT_EQ(at.qp->query().state, QpState::ready_to_receive);
    a.state = QpState::ready_to_send;
    EXPECT_EQ(at.qp->modify(a, kInitiatorSend), Status::error(Reason::bad_state));
    EXPECT_EQ(at.qp->query().state, QpState::ready_to_receive);
}

TEST_P(Dc, AWrongKeyReachesNobody) {
    SharedReceiveQueue& s = srq(1, 4);
    End& at = target(1, &s);
    Buffer& here = memory(0, 64);
    Buffer& there = memory(1, 64);
    ASSERT_EQ(post_receive(s, 1, {there.gather(0, 64)}), kOk);
    const std::vector<Gather> gather{here.gather(0, 64)};
    AddressHandle& through = handle(0, 1);
    for (const std::uint64_t wrong : {kKey ^ 1, kKey ^ std::uint64_t{1} << 63}) {
        End& from = initiator(0);
        const auto ended = run(from, to(at, send_work(1, gather), through, wrong));
        EXPECT_TRUE(ended == WorkStatus::retry_exceeded || ended == WorkStatus::remote_access_error)
            << std::hex << wrong;
        EXPECT_TRUE(wait_state(from, QpState::error));
    }
    EXPECT_TRUE(stays_empty({at.receive}));
    End& right = initiator(0);
    EXPECT_EQ(run(right, to(at, send_work(2, gather), through)), WorkStatus::success);
    ASSERT_TRUE(wait_for(*at.receive, 1));
}

TEST_P(Dc, AnInitiatorWorksAgainAfterAnError) {
    End& gone = raw_target(1);
    End& at = target(1);
    End& from = initiator(0);
    AddressHandle& through = handle(0, 1);
    Buffer& here = memory(0, 64);
    Buffer& there = memory(1, 64);
    const std::vector<Gather> gather{here.gather(0, 64)};
    SendWork first = rdma_work(1, Opcode::write, gather, there.remote(), there.key());
    first.flags = 0;
    const SendWork second = rdma_work(2, Opcode::write, gather, there.remote(), there.key());
    ASSERT_EQ(from.qp->post_send(to(gone, first, through)), kOk);
    ASSERT_EQ(from.qp->post_send(to(at, second, through)), kOk);
    ASSERT_TRUE(wait_for(*from.send, 2));
    EXPECT_EQ(from.send->got[0].wr_id, 1u);
    EXPECT_EQ(from.send->got[0].status, WorkStatus::retry_exceeded);
    EXPECT_EQ(from.send->got[1].wr_id, 2u);
    EXPECT_EQ(from.send->got[1].status, WorkStatus::flushed);
    EXPECT_TRUE(wait_state(from, QpState::error));

    ASSERT_EQ(from.qp->modify({}, kQpState), kOk); // to RESET
    EXPECT_EQ(from.qp->query().state, QpState::reset);
    start_initiator(from);
    from.send->got.clear();
    EXPECT_EQ(run(from, to(at, second, through)), WorkStatus::success);
}

TEST_P(Dc, ATargetLeavesAndComesBack) {
    SharedReceiveQueue& s = srq(1, 4);
    End& at = target(1, &s);
    Buffer& here = memory(0, 64);
    Buffer& there = memory(1, 64);
    const std::vector<Gather> gather{here.gather(0, 64)};
    AddressHandle& through = handle(0, 1);
    ASSERT_EQ(post_receive(s, 1, {there.gather(0, 64)}), kOk);
    End& from = initiator(0);
    const SendWork while_up = to(at, send_work(1, gather), through);
    ASSERT_EQ(run(from, while_up), WorkStatus::success);
    ASSERT_TRUE(wait_for(*at.receive, 1));

    for (const QpState state : {QpState::error, QpState::reset}) {
        QpAttributes a;
        a.state = state;
        ASSERT_EQ(at.qp->modify(a, kQpState), kOk);
        EXPECT_EQ(at.qp->query().state, state);
        End& late = initiator(0);
        EXPECT_EQ(run(late, while_up), WorkStatus::retry_exceeded);
    }
    start_target(at, kKey + 1);
    ASSERT_EQ(post_receive(s, 2, {there.gather(0, 64)}), kOk);
    End& again = initiator(0);
    EXPECT_EQ(run(again, to(at, send_work(1, gather), through, kKey + 1)), WorkStatus::success);
    ASSERT_TRUE(wait_for(*at.receive, 2));
    EXPECT_EQ(at.receive->got[1].qp_number, at.qp->number());
}

TEST_P(Dc, WhatATargetRefusesIsTheInitiatorsError) {
    End& at = target(1);
    End& from = initiator(0);
    Buffer& here = memory(0, 64);
    Buffer& there = memory(1, 64);
    const std::vector<Gather> gather{here.gather(0, 64)};
    EXPECT_TRUE(
        ended(run(from, to(at, rdma_work(1, Opcode::write, gather, there.remote(1), there.key()),
                           handle(0, 1))),
              WorkStatus::remote_access_error));
    EXPECT_TRUE(wait_state(from, QpState::error));
}

TEST_P(Dc, WithoutReceivesTheInitiatorWaits) {
    SharedReceiveQueue& s = srq(1, 4);
    End& at = target(1, &s);
    Buffer& here = memory(0, 64);
    Buffer& there = memory(1, 64);
    const std::vector<Gather> gather{here.gather(0, 64)};
    AddressHandle& through = handle(0, 1);
    End& impatient = initiator(0, {}, 0);
    EXPECT_EQ(run(impatient, to(at, send_work(1, gather), through)),
              WorkStatus::rnr_retry_exceeded);
    End& patient = initiator(0);
    ASSERT_EQ(patient.qp->post_send(to(at, send_work(2, gather), through)), kOk);
    EXPECT_TRUE(stays_empty({patient.send, at.receive}));
    ASSERT_EQ(post_receive(s, 1, {there.gather(0, 64)}), kOk);
    EXPECT_TRUE(wait_for(*patient.send, 1));
    EXPECT_EQ(patient.send->got[0].status, WorkStatus::success);
}

} // namespace
} // namespace adaptib::conformance
