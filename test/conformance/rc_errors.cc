// SPDX-License-Identifier: BSD-3-Clause
// Conformance: effects of an error on a connection: status, state ERR, flushing in order, and
// nothing further.
#include <algorithm>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class RcErrors : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::rc)) {
            GTEST_SKIP() << "the rail lacks rc";
        }
    }
    // Expects that a queue pair in ERR refuses a request, or accepts and flushes it.
    void expect_dead(End& e) {
        e.send->got.clear();
        SendWork work = send_work(4711, {});
        work.flags = 0;
        const Status status = e.qp->post_send(work);
        if (status.ok()) {
            ASSERT_TRUE(wait_for(*e.send, 1)) << "accepted in ERR and never flushed";
            EXPECT_EQ(e.send->got[0].wr_id, 4711u);
            EXPECT_EQ(e.send->got[0].status, WorkStatus::flushed);
        } else {
            EXPECT_EQ(status, Status::error(Reason::bad_state));
        }
        EXPECT_FALSE(e.qp->usable());
    }
};
ADAPTIB_CONFORMANCE(RcErrors);

TEST_P(RcErrors, EverythingBehindTheFailedOneIsFlushed) {
    // Sends wait for receives: all requests are outstanding when the failing one is reached.
    for (const Bytes length : {Bytes{100}, Bytes{50'000}}) {
        Pair p = rc_pair();
        Buffer& source = memory(0, length);
        Buffer& target = memory(1, length);
        const std::vector<Gather> good{source.gather(0, length)};
        const std::vector<Gather> bad{{source.data(), length, ~0u}};
        bool refused = false;
        for (std::uint64_t i = 0; i < 16; ++i) {
            SendWork work = send_work(i, i == 6 ? bad : good);
            work.flags = i % 3 == 0 && i != 6 ? +kSignaled : 0u; // 6 is not signaled
            const Status status = p.a.qp->post_send(work);
            refused = refused || (i == 6 && status == Status::error(Reason::bad_argument));
            ASSERT_TRUE(status.ok() || (refused && i == 6)) << i;
        }
        if (refused) { // by post_send: the others go on as if it had not been there
            for (std::uint64_t i = 0; i < 15; ++i) {
                ASSERT_EQ(post_receive(p.b, i, {target.gather(0, length)}), kOk);
            }
            ASSERT_TRUE(wait_for(*p.b.receive, 15));
            ASSERT_TRUE(wait_for(*p.a.send, 5));
            for (const std::uint64_t i : {0, 3, 9, 12, 15}) {
                EXPECT_EQ(p.a.send->got.front().wr_id, i);
                EXPECT_EQ(p.a.send->got.front().status, WorkStatus::success);
                p.a.send->got.pop_front();
            }
            EXPECT_TRUE(stays_empty({p.a.send}));
            EXPECT_EQ(p.a.qp->query().state, QpState::ready_to_send);
            continue;
        }
        for (std::uint64_t i = 0; i < 10; ++i) {
            ASSERT_EQ(post_receive(p.a, 100 + i, {source.gather(0, length)}), kOk);
            ASSERT_EQ(post_receive(p.b, i, {target.gather(0, length)}), kOk);
        }
        // 0 and 3 succeed with a completion, 1, 2, 4, 5 without, 6 fails, 7 to 15 are flushed.
        ASSERT_TRUE(wait_for(*p.a.send, 12)) << p.a.send->got.size();
        const std::vector<std::uint64_t> ids{0, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        for (std::size_t i = 0; i < ids.size(); ++i) {
            EXPECT_EQ(p.a.send->got[i].wr_id, ids[i]);
            EXPECT_EQ(p.a.send->got[i].qp_number, p.a.qp->number());
            const WorkStatus expected = ids[i] < 6    ? WorkStatus::success
                                        : ids[i] == 6 ? WorkStatus::local_protection_error
                                                      : WorkStatus::flushed;
            EXPECT_EQ(p.a.send->got[i].status, expected) << "request " << ids[i];
        }
        ASSERT_TRUE(wait_for(*p.a.receive, 10));
        for (std::uint64_t i = 0; i < 10; ++i) {
            EXPECT_EQ(p.a.receive->got[i].wr_id, 100 + i);
            EXPECT_EQ(p.a.receive->got[i].status, WorkStatus::flushed);
        }
        EXPECT_EQ(p.a.qp->query().state, QpState::error);
        EXPECT_TRUE(wait_for(*p.b.receive, 6));
        wait([] { return false; }, kQuiet);
        EXPECT_EQ(p.b.receive->got.size(), 6u) << "nothing more reaches the wire";
        EXPECT_EQ(p.a.send->got.size(), 12u);
        EXPECT_EQ(p.b.qp->query().state, QpState::ready_to_send);
        expect_dead(p.a);
    }
}

TEST_P(RcErrors, RemoteErrorEndsBothEnds) {
    ADAPTIB_NEEDS(rdma_write);
    for (const bool ahead : {false, true}) {
        Pair p = rc_pair();
        Buffer& source = memory(0, 64);
        Buffer& target = memory(1, 64);
        const std::vector<Gather> gather{source.gather(0, 64)};
        for (std::uint64_t i = 0; i < 5; ++i) {
            ASSERT_EQ(post_receive(p.b, i, {target.gather(0, 64)}), kOk);
        }
        if (ahead) {
            ASSERT_EQ(run(p.a, send_work(1, gather)), WorkStatus::success);
            ASSERT_TRUE(wait_for(*p.b.receive, 1));
        }
        p.b.receive->got.clear();
        EXPECT_EQ(run(p.a, rdma_work(2, Opcode::write, gather, target.remote(), ~0u)),
                  WorkStatus::remote_access_error);
        EXPECT_EQ(p.a.qp->query().state, QpState::error);
        EXPECT_TRUE(wait_state(p.b, QpState::error));
        const std::size_t left = ahead ? 4 : 5;
        ASSERT_TRUE(wait_for(*p.b.receive, left));
        for (std::size_t i = 0; i < left; ++i) {
            EXPECT_EQ(p.b.receive->got[i].wr_id, 5 - left + i);
            EXPECT_EQ(p.b.receive->got[i].status, WorkStatus::flushed);
        }
        Event event;
        ASSERT_TRUE(wait_event(1, EventKind::qp_fatal, event));
        EXPECT_EQ(event.qp_number, p.b.qp->number());
        expect_dead(p.a);
        expect_dead(p.b);
    }
}

TEST_P(RcErrors, OtherQueuePairsGoOn) {
    ADAPTIB_NEEDS(rdma_write);
    Queue& shared = queue(0);
    EndOptions options;
    options.send_queue = &shared;
    End& bad = end(0, options);
    End& good = end(0, options);
    End& bad_peer = end(1);
    End& good_peer = end(1);
    connect(bad, bad_peer);
    connect(good, good_peer);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    const std::vector<Gather> gather{source.gather(0, 64)};
    EXPECT_EQ(run(bad, rdma_work(2, Opcode::write, gather, target.remote(), ~0u)),
              WorkStatus::remote_access_error);
    for (std::uint64_t i = 0; i < 20; ++i) {
        fill(source.data(), 64, i);
        EXPECT_EQ(run(good, rdma_work(i, Opcode::write, gather, target.remote(), target.key())),
                  WorkStatus::success);
        EXPECT_TRUE(holds(target.data(), 64, i));
    }
}

TEST_P(RcErrors, ModifyToErrorFlushes) {
    Pair p = rc_pair();
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    const std::vector<Gather> gather{source.gather(0, 64)};
    for (std::uint64_t i = 0; i < 8; ++i) {
        SendWork work = send_work(i, gather);
        work.flags = i == 3 ? +kSignaled : 0u;
        ASSERT_EQ(p.a.qp->post_send(work), kOk);
        ASSERT_EQ(post_receive(p.a, i, {source.gather(0, 64)}), kOk);
    }
    EXPECT_TRUE(stays_empty({p.a.send, p.a.receive}));
    QpAttributes attributes;
    attributes.state = QpState::error;
    ASSERT_EQ(p.a.qp->modify(attributes, kQpState), kOk);
    ASSERT_TRUE(wait_for(*p.a.send, 8));
    ASSERT_TRUE(wait_for(*p.a.receive, 8));
    for (std::uint64_t i = 0; i < 8; ++i) {
        EXPECT_EQ(p.a.send->got[i].wr_id, i);
        EXPECT_EQ(p.a.receive->got[i].wr_id, i);
        EXPECT_EQ(p.a.receive->got[i].status, WorkStatus::flushed);
        EXPECT_EQ(p.a.send->got[i].status, WorkStatus::flushed);
    }
    ASSERT_EQ(post_receive(p.a, 50, {source.gather(0, 64)}), kOk) << "accepted in ERR";
    ASSERT_TRUE(wait_for(*p.a.receive, 9)) << "and flushed";
    EXPECT_EQ(p.a.receive->got[8].wr_id, 50u);
    EXPECT_EQ(p.a.receive->got[8].status, WorkStatus::flushed);
    expect_dead(p.a);
    // None of the flushed sends arrives later.
    ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, 64)}), kOk);
    EXPECT_TRUE(stays_empty({p.b.receive}));
}

TEST_P(RcErrors, FlushedMemoryIsTheCallersAgain) {
    // A receive that the peer posts later must not take data of a flushed send, and the peer's send
    // must not write into the memory of a flushed receive.
    for (const Bytes length : {Bytes{200}, Bytes{100'000}}) {
        Pair p = rc_pair();
        Buffer& source = memory(0, length);
        Buffer& sink = memory(0, length);
        Buffer& target = memory(1, length);
        const std::vector<Gather> gather{source.gather(0, length)};
        ASSERT_EQ(p.a.qp->post_send(send_work(1, gather)), kOk);
        ASSERT_EQ(post_receive(p.a, 2, {sink.gather(0, length)}), kOk);
        QpAttributes attributes;
        attributes.state = QpState::error;
        ASSERT_EQ(p.a.qp->modify(attributes, kQpState), kOk);
        ASSERT_TRUE(wait_for(*p.a.send, 1));
        ASSERT_TRUE(wait_for(*p.a.receive, 1));
        destroy(source);
        std::fill(sink.data(), sink.data() + length, std::byte{4});
        // The peer sends to a queue pair in ERR, which does not answer.
        const std::vector<Gather> back{target.gather(0, length)};
        EXPECT_EQ(run(p.b, send_work(3, back)), WorkStatus::retry_exceeded);
        EXPECT_TRUE(all_equal(sink.data(), length, std::byte{4}));
    }
}

TEST_P(RcErrors, NoAnswerEndsInRetryExceeded) {
    ADAPTIB_NEEDS(rdma_write);
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    const std::vector<Gather> gather{source.gather(0, 64)};
    { // Destroyed peer.
        Pair p = rc_pair();
        destroy(p.b);
        EXPECT_EQ(run(p.a, send_work(1, gather)), WorkStatus::retry_exceeded);
        expect_dead(p.a);
    }
    { // Destroyed peer, one-sided.
        Pair p = rc_pair();
        destroy(p.b);
        fill(target.data(), 64, 8);
        EXPECT_EQ(run(p.a, rdma_work(1, Opcode::write, gather, target.remote(), target.key())),
                  WorkStatus::retry_exceeded);
        EXPECT_TRUE(holds(target.data(), 64, 8));
    }
    { // The peer never left INIT.
        End& a = rc_end(0);
        End& b = rc_end(1);
        connect_one(a, b);
        ASSERT_EQ(b.qp->modify(rc_attributes(b, a, QpState::init), kRcInit), kOk);
        ASSERT_EQ(post_receive(b, 9, {target.gather(0, 64)}), kOk);
        EXPECT_EQ(run(a, send_work(1, gather)), WorkStatus::retry_exceeded);
        EXPECT_TRUE(b.receive->got.empty());
    }
}

TEST_P(RcErrors, PeerThatEndsInTheMiddle) {
    // Requests wait for receives of a queue pair, which is then destroyed.
    for (const Bytes length : {Bytes{64}, Bytes{100'000}}) {
        Pair p = rc_pair();
        Buffer& source = memory(0, length);
        const std::vector<Gather> gather{source.gather(0, length)};
        for (std::uint64_t i = 0; i < 6; ++i) {
            SendWork work = send_work(i, gather);
            work.flags = i == 5 ? +kSignaled : 0u;
            ASSERT_EQ(p.a.qp->post_send(work), kOk);
        }
        EXPECT_TRUE(stays_empty({p.a.send}));
        destroy(p.b);
        ASSERT_TRUE(wait_for(*p.a.send, 6));
        EXPECT_EQ(p.a.send->got[0].status, WorkStatus::retry_exceeded);
        for (std::uint64_t i = 0; i < 6; ++i) {
            EXPECT_EQ(p.a.send->got[i].wr_id, i);
            if (i > 0) {
                EXPECT_EQ(p.a.send->got[i].status, WorkStatus::flushed);
            }
        }
    }
}

TEST_P(RcErrors, TargetThatTakesNoReads) {
    ADAPTIB_NEEDS(rdma_read);
    RcOptions rc;
    rc.max_target_reads = 0;
    Pair p = rc_pair(0, 1, {}, rc);
    Buffer& sink = memory(0, 64);
    Buffer& target = memory(1, 64);
    const std::vector<Gather> gather{sink.gather(0, 64)};
    EXPECT_EQ(run(p.a, rdma_work(1, Opcode::read, gather, target.remote(), target.key())),
              WorkStatus::remote_invalid_request);
}

} // namespace
} // namespace adaptib::conformance
