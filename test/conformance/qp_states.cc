// SPDX-License-Identifier: BSD-3-Clause
// Conformance: the state machine of queue pairs (table in fabric/README.md).
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

constexpr std::uint32_t kEveryMask[] = {
    kQpAccess, kQpKey,     kQpPath,       kQpRemote,        kQpReceiveLimits,
    kQpRetry,  kQpSendPsn, kQpSendLimits, kQpAlternatePath, kQpMigration,
};

class QpStates : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::rc)) {
            GTEST_SKIP() << "the rail lacks rc";
        }
    }
    struct Step {
        QpState state;
        std::uint32_t required;
        std::uint32_t optional;
    };
    std::vector<Step> steps(QpType type) {
        const std::uint32_t alternate = has(Capability::migration) ? +kQpAlternatePath : 0u;
        const std::uint32_t migration = has(Capability::migration) ? +kQpMigration : 0u;
        if (type == QpType::ud) {
            return {{QpState::init, kQpKey, 0},
                    {QpState::ready_to_receive, 0, kQpKey},
                    {QpState::ready_to_send, kQpSendPsn, kQpKey}};
        }
        return {{QpState::init, kQpAccess, 0},
                {QpState::ready_to_receive, kQpPath | kQpRemote | kQpReceiveLimits,
                 kQpAccess | alternate},
                {QpState::ready_to_send, kQpRetry | kQpSendPsn | kQpSendLimits,
                 kQpAccess | alternate | migration}};
    }
    // Attributes each of which has a value that its transition accepts.
    QpAttributes attributes(End& self, End& peer, QpState state) {
        QpAttributes a = rc_attributes(self, peer, state);
        a.access_key = kTestKey;
        a.alternate_path = a.path;
        a.migration = MigrationState::rearm;
        return a;
    }
    void refuse(End& e, const QpAttributes& a, std::uint32_t mask, Reason reason,
                const char* what) {
        const QpState before = e.qp->query().state;
        const Status status = e.qp->modify(a, mask);
        // A rail that lacks migration may report that instead of the expected reason.
        const bool lacking = (mask & (kQpAlternatePath | kQpMigration)) != 0 &&
                             !has(Capability::migration) &&
                             status == Status::error(Reason::not_supported);
        EXPECT_TRUE(lacking || status == Status::error(reason))
            << what << ": mask " << mask << " from " << static_cast<int>(before) << " to "
            << static_cast<int>(a.state) << ": " << testing::PrintToString(status);
        EXPECT_EQ(e.qp->query().state, before);
    }
    void walk(QpType type) {
        EndOptions options;
        options.type = type;
        End& self = end(0, options);
        End& peer = end(1, options);
        const std::vector<Step> all = steps(type);
        for (std::size_t at = 0; at < all.size(); ++at) {
            const Step& step = all[at];
            const QpAttributes a = attributes(self, peer, step.state);
            for (const std::uint32_t bit : kEveryMask) {
                if ((step.required & bit) != 0) {
                    refuse(self, a, (kQpState | step.required) & ~bit, Reason::bad_argument,
                           "a required one is missing");
                } else if ((step.optional & bit) == 0) {
                    refuse(self, a, kQpState | step.required | bit, Reason::bad_argument,
                           "a superfluous one is there");
                }
            }
            for (std::size_t far = at + 1; far < all.size(); ++far) {
                const QpAttributes beyond = attributes(self, peer, all[far].state);
                refuse(self, beyond, kQpState | all[far].required, Reason::bad_state,
                       "a state is left out");
            }
            ASSERT_EQ(self.qp->modify(a, kQpState | step.required), kOk);
            EXPECT_EQ(self.qp->query().state, step.state);
            for (std::size_t back = 0; back < at; ++back) {
                const QpAttributes earlier = attributes(self, peer, all[back].state);
                refuse(self, earlier, kQpState | all[back].required, Reason::bad_state, "back");
            }
        }
        QpAttributes unknown;
        unknown.state = static_cast<QpState>(99);
        EXPECT_TRUE(self.qp->modify(unknown, kQpState).is_error());
        EXPECT_TRUE(self.qp->modify(unknown, 1u << 30).is_error());
        EXPECT_EQ(self.qp->query().state, QpState::ready_to_send);
    }
    Status move(End& e, QpState state) {
        QpAttributes a;
        a.state = state;
        return e.qp->modify(a, kQpState);
    }
};
ADAPTIB_CONFORMANCE(QpStates);

TEST_P(QpStates, RcTransitionsWantTheirAttributes) { walk(QpType::rc); }

TEST_P(QpStates, UdTransitionsWantTheirAttributes) {
    ADAPTIB_NEEDS(ud);
    walk(QpType::ud);
}

TEST_P(QpStates, OptionalAttributesAreTaken) {
    Pair p{rc_end(0), rc_end(1)};
    QpAttributes a = rc_attributes(p.a, p.b, QpState::init);
    a.access = 0;
    ASSERT_EQ(p.a.qp->modify(a, kRcInit), kOk);
    a.access = kRemoteRead;
    ASSERT_EQ(p.a.qp->modify(a, kRcInit), kOk) << "INIT to INIT";
    EXPECT_EQ(p.a.qp->query().access, +kRemoteRead);
    a = rc_attributes(p.a, p.b, QpState::ready_to_receive);
    a.access = kRemoteWrite;
    ASSERT_EQ(p.a.qp->modify(a, kRcReceive | kQpAccess), kOk);
    EXPECT_EQ(p.a.qp->query().access, +kRemoteWrite);
    a = rc_attributes(p.a, p.b, QpState::ready_to_send);
    a.access = kRemoteRead;
    ASSERT_EQ(p.a.qp->modify(a, kRcSend | kQpAccess), kOk);
    EXPECT_EQ(p.a.qp->query().access, +kRemoteRead);
    a.access = kRemoteRead | kRemoteWrite;
    ASSERT_EQ(p.a.qp->modify(a, kQpAccess), kOk) << "without kQpState the state stays";
    EXPECT_EQ(p.a.qp->query().access, kRemoteRead | kRemoteWrite);
    EXPECT_EQ(p.a.qp->query().state, QpState::ready_to_send);
    a.access = 0;
    ASSERT_EQ(p.a.qp->modify(a, kQpState | kQpAccess), kOk) << "RTS to RTS";
    EXPECT_EQ(p.a.qp->query().access, 0u);
}

TEST_P(QpStates, AccessCanBeTakenBackInRts) {
    ADAPTIB_NEEDS(rdma_write);
    Pair p = rc_pair();
    Buffer& source = memory(0, 8);
    Buffer& target = memory(1, 8);
    const std::vector<Gather> gather{source.gather(0, 8)};
    const SendWork work = rdma_work(1, Opcode::write, gather, target.remote(), target.key());
    EXPECT_EQ(run(p.a, work), WorkStatus::success);
    QpAttributes a;
    a.access = kRemoteRead;
    ASSERT_EQ(p.b.qp->modify(a, kQpAccess), kOk);
    const std::optional<WorkStatus> status = run(p.a, work);
    EXPECT_TRUE(status == WorkStatus::remote_access_error ||
                status == WorkStatus::remote_invalid_request);
}

TEST_P(QpStates, QueryTellsWhatWasSet) {
    Pair p = rc_pair();
    const QpAttributes set = rc_attributes(p.a, p.b, QpState::ready_to_send);
    const QpAttributes got = p.a.qp->query();
    EXPECT_EQ(got.state, QpState::ready_to_send);
    EXPECT_EQ(got.access, set.access);
    EXPECT_EQ(got.remote_qp, p.b.qp->number());
    EXPECT_EQ(got.send_psn, set.send_psn);
    EXPECT_EQ(got.receive_psn, set.receive_psn);
    EXPECT_EQ(got.max_target_reads, set.max_target_reads);
    EXPECT_EQ(got.timeout, set.timeout);
    EXPECT_EQ(got.retry_count, set.retry_count);
    EXPECT_EQ(got.rnr_retry, set.rnr_retry);
    EXPECT_EQ(got.migration, MigrationState::migrated);
}

TEST_P(QpStates, EveryStateGoesToErrorAndReset) {
    const QpState order[] = {QpState::reset, QpState::init, QpState::ready_to_receive,
                             QpState::ready_to_send, QpState::error};
    const std::uint32_t masks[] = {0, kRcInit, kRcReceive, kRcSend};
    End& peer = rc_end(1);
    for (const QpState goal : {QpState::error, QpState::reset}) {
        for (std::size_t reach = 0; reach < 5; ++reach) {
            End& e = rc_end(0);
            for (std::size_t i = 1; i <= reach && i < 4; ++i) {
                ASSERT_EQ(e.qp->modify(rc_attributes(e, peer, order[i]), masks[i]), kOk);
            }
            if (reach == 4) {
                ASSERT_EQ(move(e, QpState::error), kOk);
            }
            ASSERT_EQ(e.qp->query().state, order[reach]);
            QpAttributes superfluous;
            superfluous.state = goal;
            EXPECT_EQ(e.qp->modify(superfluous, kQpState | kQpSendPsn),
                      Status::error(Reason::bad_argument));
            EXPECT_EQ(e.qp->query().state, order[reach]);
            EXPECT_EQ(move(e, goal), kOk) << "from " << reach;
            EXPECT_EQ(e.qp->query().state, goal);
            if (goal == QpState::error) {
                EXPECT_EQ(e.qp->modify(rc_attributes(e, peer, QpState::init), kRcInit),
                          Status::error(Reason::bad_state))
                    << "the way out of ERR is RESET";
            }
        }
    }
}

TEST_P(QpStates, PostingInEachState) {
    Pair p{rc_end(0), rc_end(1)};
    Buffer& memory_a = memory(0, 64);
    Buffer& memory_b = memory(1, 64);
    const std::vector<Gather> gather{memory_a.gather(0, 64)};
    const Status bad = Status::error(Reason::bad_state);
    EXPECT_EQ(post_receive(p.a, 1, {memory_a.gather(0, 64)}), bad);
    EXPECT_EQ(p.a.qp->post_send(send_work(1, gather)), bad);
    EXPECT_FALSE(p.a.qp->usable());
    ASSERT_EQ(p.a.qp->modify(rc_attributes(p.a, p.b, QpState::init), kRcInit), kOk);
    EXPECT_EQ(p.a.qp->post_send(send_work(1, gather)), bad);
    EXPECT_EQ(post_receive(p.a, 11, {memory_a.gather(0, 64)}), kOk);
    EXPECT_FALSE(p.a.qp->usable());
    ASSERT_EQ(p.a.qp->modify(rc_attributes(p.a, p.b, QpState::ready_to_receive), kRcReceive), kOk);
    EXPECT_EQ(p.a.qp->post_send(send_work(1, gather)), bad);
    EXPECT_EQ(post_receive(p.a, 12, {memory_a.gather(0, 64)}), kOk);
    EXPECT_FALSE(p.a.qp->usable());
    EXPECT_TRUE(stays_empty({p.a.send, p.a.receive}));
    // A queue pair in RTR already receives.
    connect_one(p.b, p.a);
    const std::vector<Gather> from_b{memory_b.gather(0, 64)};
    fill(memory_b.data(), 64, 2);
    EXPECT_EQ(run(p.b, send_work(5, from_b)), WorkStatus::success);
    ASSERT_TRUE(wait_for(*p.a.receive, 1));
    EXPECT_EQ(p.a.receive->got[0].wr_id, 11u);
    EXPECT_TRUE(holds(memory_a.data(), 64, 2));
    ASSERT_EQ(p.a.qp->modify(rc_attributes(p.a, p.b, QpState::ready_to_send), kRcSend), kOk);
    EXPECT_TRUE(p.a.qp->usable());
    EXPECT_EQ(run(p.b, send_work(6, from_b)), WorkStatus::success);
    ASSERT_TRUE(wait_for(*p.a.receive, 2));
    EXPECT_EQ(p.a.receive->got[1].wr_id, 12u);
    ASSERT_EQ(post_receive(p.b, 13, {memory_b.gather(0, 64)}), kOk);
    EXPECT_EQ(run(p.a, send_work(7, gather)), WorkStatus::success);
    EXPECT_TRUE(wait_for(*p.b.receive, 1));
}

TEST_P(QpStates, DestroyWithWorkOutstanding) {
    for (const QpState last : {QpState::ready_to_send, QpState::error, QpState::reset}) {
        for (const Bytes length : {Bytes{64}, Bytes{100'000}}) {
            Pair p = rc_pair();
            Buffer& source = memory(0, length);
            Buffer& sink = memory(0, length);
            Buffer& back = memory(1, length);
            const std::vector<Gather> gather{source.gather(0, length)};
            for (std::uint64_t i = 0; i < 20; ++i) {
                SendWork work = send_work(i, gather);
                work.flags = i % 2 == 0 ? +kSignaled : 0u;
                ASSERT_EQ(p.a.qp->post_send(work), kOk);
                ASSERT_EQ(post_receive(p.a, i, {sink.gather(0, length)}), kOk);
            }
            if (last != QpState::ready_to_send) {
                ASSERT_EQ(move(p.a, last), kOk);
            }
            destroy(p.a);
            p.a.receive->cq.reset();
            p.a.send->cq.reset();
            destroy(source);
            std::fill(sink.data(), sink.data() + length, std::byte{1});
            // The peer's sends end with an error, and it receives nothing more of the dead end.
            ASSERT_EQ(post_receive(p.b, 1, {back.gather(0, length)}), kOk);
            EXPECT_TRUE(stays_empty({p.b.receive}));
            const std::vector<Gather> from_b{back.gather(0, length)};
            EXPECT_EQ(run(p.b, send_work(5, from_b)), WorkStatus::retry_exceeded);
            EXPECT_TRUE(all_equal(sink.data(), length, std::byte{1}));
        }
    }
}

TEST_P(QpStates, ResetMakesItUsableAgain) {
    Pair p = rc_pair();
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    for (std::uint64_t round = 0; round < 5; ++round) {
        // Leftovers of one round (waiting sends, unused receives) must not affect the next.
        const std::vector<Gather> gather{source.gather(0, 64)};
        const std::vector<Gather> bad{{source.data(), 64, ~0u}};
        ASSERT_EQ(post_receive(p.a, 900, {source.gather(0, 64)}), kOk);
        if (round % 2 == 0) {
            EXPECT_TRUE(refused_locally(p.a, send_work(1, bad)));
            ASSERT_EQ(move(p.a, QpState::error), kOk); // where post_send refused it
            ASSERT_EQ(p.a.qp->query().state, QpState::error);
        } else {
            ASSERT_EQ(p.a.qp->post_send(send_work(901, gather)), kOk);
            if (round == 3) {
                ASSERT_EQ(post_receive(p.b, 902, {target.gather(0, 64)}), kOk);
            }
        }
        ASSERT_EQ(move(p.a, QpState::reset), kOk);
        ASSERT_EQ(move(p.b, QpState::reset), kOk);
        EXPECT_EQ(post_receive(p.a, 1, {source.gather(0, 64)}), Status::error(Reason::bad_state));
        wait([] { return false; }, kQuiet);
        p.a.send->got.clear();
        p.a.receive->got.clear();
        p.b.receive->got.clear();
        RcOptions rc;
        rc.first_psn = static_cast<std::uint32_t>(round + 1) * 1000;
        connect(p.a, p.b, rc);
        EXPECT_TRUE(stays_empty({p.a.send, p.a.receive, p.b.receive}));
        for (std::uint64_t i = 0; i < 70; ++i) {
            fill(source.data(), 64, round * 100 + i);
            ASSERT_EQ(post_receive(p.b, i, {target.gather(0, 64)}), kOk);
            ASSERT_EQ(run(p.a, send_work(i, gather)), WorkStatus::success) << "round " << round;
            ASSERT_TRUE(wait_for(*p.b.receive, 1));
            EXPECT_EQ(p.b.receive->got[0].wr_id, i);
            EXPECT_TRUE(holds(target.data(), 64, round * 100 + i));
            p.b.receive->got.clear();
        }
    }
}

TEST_P(QpStates, WhatWasOnTheWayDoesNotReachTheNextConnection) {
    for (const Bytes length : {Bytes{64}, Bytes{10'000}}) {
        Pair p = rc_pair();
        Buffer& source = memory(0, length);
        Buffer& target = memory(1, length);
        const std::vector<Gather> gather{source.gather(0, length)};
        for (std::uint64_t round = 1; round <= 20; ++round) {
            // Sends, and does not poll until both ends are connected anew.
            fill(source.data(), length, 1000 + round);
            ASSERT_EQ(post_receive(p.b, 900, {target.gather(0, length)}), kOk);
            ASSERT_EQ(p.a.qp->post_send(send_work(901, gather)), kOk);
            ASSERT_EQ(move(p.a, QpState::reset), kOk);
            ASSERT_EQ(move(p.b, QpState::reset), kOk);
            RcOptions rc;
            rc.first_psn = static_cast<std::uint32_t>(round) * 1000;
            connect(p.a, p.b, rc);
            fill(source.data(), length, round);
            ASSERT_EQ(post_receive(p.b, round, {target.gather(0, length)}), kOk);
            ASSERT_EQ(p.a.qp->post_send(send_work(round, gather)), kOk);
            // Completions from before the reset may or may not still come.
            const auto current = [&](Queue& q) {
                std::erase_if(q.got, [](const WorkCompletion& c) { return c.wr_id >= 900; });
                return !q.got.empty();
            };
            ASSERT_TRUE(wait([&] { return current(*p.a.send) && current(*p.b.receive); }));
            EXPECT_EQ(p.b.receive->got[0].wr_id, round);
            EXPECT_EQ(p.b.receive->got[0].status, WorkStatus::success);
            EXPECT_TRUE(holds(target.data(), length, round)) << "round " << round;
            EXPECT_EQ(p.a.send->got[0].status, WorkStatus::success);
            p.a.send->got.clear();
            p.b.receive->got.clear();
        }
    }
}

TEST_P(QpStates, ConnectingTwiceToTheSamePeerWithNewQueuePairs) {
    Buffer& source = memory(0, 64);
    Buffer& target = memory(1, 64);
    for (std::uint64_t i = 0; i < 200; ++i) {
        Pair p = rc_pair();
        fill(source.data(), 64, i);
        ASSERT_EQ(post_receive(p.b, i, {target.gather(0, 64)}), kOk);
        ASSERT_EQ(run(p.a, send_work(i, {source.gather(0, 64)})), WorkStatus::success) << i;
        ASSERT_TRUE(wait_for(*p.b.receive, 1));
        EXPECT_TRUE(holds(target.data(), 64, i));
        destroy(p.a);
        destroy(p.b);
        p.a.send->cq.reset();
        p.a.receive->cq.reset();
        p.b.send->cq.reset();
        p.b.receive->cq.reset();
    }
}

TEST_P(QpStates, BadPathsAreRefused) {
    End& a = rc_end(0);
    End& b = rc_end(1);
    ASSERT_EQ(a.qp->modify(rc_attributes(a, b, QpState::init), kRcInit), kOk);
    QpAttributes bad = rc_attributes(a, b, QpState::ready_to_receive);
    bad.path.remote = RailAddress{};
    EXPECT_TRUE(a.qp->modify(bad, kRcReceive).is_error());
    bad.path.remote.size = 2;
    EXPECT_TRUE(a.qp->modify(bad, kRcReceive).is_error());
    EXPECT_EQ(a.qp->query().state, QpState::init);
    EXPECT_EQ(a.qp->modify(rc_attributes(a, b, QpState::ready_to_receive), kRcReceive), kOk);
}

} // namespace
} // namespace adaptib::conformance
