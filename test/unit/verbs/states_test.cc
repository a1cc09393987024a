// SPDX-License-Identifier: BSD-3-Clause
// Creating queue pairs and moving them: the attributes and masks that reach ibv_create_qp
// and ibv_modify_qp, against the tables of their manual pages; states that the adapter
// changes by itself.
#include <cerrno>
#include <set>
#include <vector>

#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT;

// One legal call of QueuePair::modify, and the mask that ibv_modify_qp(3) requires for it.
struct Row {
    QpType type;
    QpState from;
    QpState to;
    std::uint32_t mask;
    int verbs_mask;
};
const Row kRows[] = {
    {QpType::rc, QpState::reset, QpState::init, kRcInit, kInitMask | IBV_QP_ACCESS_FLAGS},
    {QpType::rc, QpState::init, QpState::init, kQpState | kQpAccess,
     IBV_QP_STATE | IBV_QP_ACCESS_FLAGS},
    {QpType::rc, QpState::init, QpState::init, kQpAccess, IBV_QP_ACCESS_FLAGS},
    {QpType::rc, QpState::init, QpState::ready_to_receive, kRcReceive, kRtrMask},
    {QpType::rc, QpState::init, QpState::ready_to_receive, kRcReceive | kQpAccess,
     kRtrMask | IBV_QP_ACCESS_FLAGS},
    {QpType::rc, QpState::init, QpState::ready_to_receive, kRcReceive | kQpAlternatePath,
     kRtrMask | IBV_QP_ALT_PATH},
    {QpType::rc, QpState::ready_to_receive, QpState::ready_to_send, kRcSend, kRtsMask},
    {QpType::rc, QpState::ready_to_receive, QpState::ready_to_send, kRcSend | kQpAccess,
     kRtsMask | IBV_QP_ACCESS_FLAGS},
    {QpType::rc, QpState::ready_to_receive, QpState::ready_to_send,
     kRcSend | kQpAlternatePath | kQpMigration, kRtsMask | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE},
    {QpType::rc, QpState::ready_to_send, QpState::ready_to_send, kQpAccess, IBV_QP_ACCESS_FLAGS},
    {QpType::rc, QpState::ready_to_send, QpState::ready_to_send, kQpState | kQpAccess,
     IBV_QP_STATE | IBV_QP_ACCESS_FLAGS},
    {QpType::rc, QpState::ready_to_send, QpState::ready_to_send, kQpAlternatePath | kQpMigration,
     IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE},
    {QpType::ud, QpState::reset, QpState::init, kQpState | kQpKey, kInitMask | IBV_QP_QKEY},
    {QpType::ud, QpState::init, QpState::init, kQpKey, IBV_QP_QKEY},
    {QpType::ud, QpState::init, QpState::ready_to_receive, kQpState, IBV_QP_STATE},
    {QpType::ud, QpState::init, QpState::ready_to_receive, kQpState | kQpKey,
     IBV_QP_STATE | IBV_QP_QKEY},
    {QpType::ud, QpState::ready_to_receive, QpState::ready_to_send, kQpState | kQpSendPsn,
     IBV_QP_STATE | IBV_QP_SQ_PSN},
    {QpType::ud, QpState::ready_to_send, QpState::ready_to_send, kQpKey, IBV_QP_QKEY},
};

class States : public VerbsTest {
protected:
    QueuePair& at(QpType type, QpState state) {
        QueuePair& pair = qp(init(type, cq()));
        const bool rc = type == QpType::rc;
        const std::uint32_t masks[] = {0, rc ? kRcInit : kQpState | kQpKey,
                                       rc ? kRcReceive : +kQpState,
                                       rc ? kRcSend : kQpState | kQpSendPsn};
        for (std::size_t i = 1; i <= 3 && i <= static_cast<std::size_t>(state); ++i) {
            const auto next = static_cast<QpState>(i);
            EXPECT_EQ(pair.modify(attributes(next, rail()), masks[i]), kOk);
        }
        if (state == QpState::error) {
            EXPECT_EQ(move(pair, state), kOk);
        }
        return pair;
    }
    Status move(QueuePair& pair, QpState state) {
        QpAttributes a;
        a.state = state;
        return pair.modify(a, kQpState);
    }
};

TEST_F(States, EveryMoveHasTheMaskOfTheManual) {
    open_ib();
    for (const Row& row : kRows) {
        QueuePair& pair = at(row.type, row.from);
        QpAttributes a = attributes(row.to, rail());
        a.alternate_path = path_to(rail());
        a.alternate_path.lid_offset = 1;
        a.migration = MigrationState::rearm;
        lib_.modified.clear();
        ASSERT_EQ(pair.modify(a, row.mask), kOk) << "row " << &row - kRows;
        ASSERT_EQ(lib_.modified.size(), 1u) << "one call";
        EXPECT_EQ(lib_.modified[0].mask, row.verbs_mask) << "row " << &row - kRows;
        EXPECT_EQ(pair.query().state, row.to);
    }
}

TEST_F(States, AttributesOfConnections) {
    open_ib();
    QueuePair& pair = at(QpType::rc, QpState::ready_to_send);
    ASSERT_EQ(lib_.modified.size(), 3u);
    const ibv_qp_attr& to_init = lib_.modified[0].attributes;
    EXPECT_EQ(to_init.qp_state, IBV_QPS_INIT);
    EXPECT_EQ(to_init.port_num, 1);
    EXPECT_EQ(to_init.pkey_index, 0);
    EXPECT_EQ(to_init.qp_access_flags, +IBV_ACCESS_REMOTE_WRITE | +IBV_ACCESS_REMOTE_READ);
    const ibv_qp_attr& to_rtr = lib_.modified[1].attributes;
    EXPECT_EQ(to_rtr.qp_state, IBV_QPS_RTR);
    EXPECT_EQ(to_rtr.path_mtu, IBV_MTU_2048);
    EXPECT_EQ(to_rtr.dest_qp_num, 0xabcu);
    EXPECT_EQ(to_rtr.rq_psn, 77u);
    EXPECT_EQ(to_rtr.max_dest_rd_atomic, 6);
    EXPECT_EQ(to_rtr.min_rnr_timer, 9);
    EXPECT_EQ(to_rtr.ah_attr.dlid, 16);
    EXPECT_EQ(to_rtr.ah_attr.port_num, 1);
    const ibv_qp_attr& to_rts = lib_.modified[2].attributes;
    EXPECT_EQ(to_rts.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(to_rts.sq_psn, 1u) << "24 bits";
    EXPECT_EQ(to_rts.max_rd_atomic, 5);
    EXPECT_EQ(to_rts.timeout, 13);
    EXPECT_EQ(to_rts.retry_cnt, 4);
    EXPECT_EQ(to_rts.rnr_retry, 3);
    EXPECT_EQ(pair.query().retry_count, 4);
    EXPECT_EQ(pair.query().remote_qp, 0xabcu);
}

TEST_F(States, TheSecondPortIsTheSecondRails) {
    open_ib();
    QueuePair& pair = qp(init(QpType::rc, cq(1)), 1);
    start(pair, 1);
    EXPECT_EQ(lib_.modified[0].attributes.port_num, 2);
    EXPECT_EQ(lib_.modified[1].attributes.ah_attr.port_num, 2);
}

TEST_F(States, QueueKeysHave31Bits) {
    open_roce();
    QueuePair& pair = at(QpType::ud, QpState::init);
    EXPECT_EQ(lib_.modified.back().attributes.qkey, 0x1234u);
    std::vector<std::uint32_t> keys;
    for (const std::uint64_t key : {0xffffffffull, 0x1234'0000'0000'5678ull, 1ull << 63 | 5}) {
        QpAttributes a;
        a.access_key = key;
        ASSERT_EQ(pair.modify(a, kQpKey), kOk);
        EXPECT_LT(lib_.modified.back().attributes.qkey, 1u << 31);
        EXPECT_EQ(pair.query().access_key, key);
    }
}

TEST_F(States, CreateAttributes) {
    open_roce();
    CompletionQueue& sends = cq();
    CompletionQueue& receives = cq();
    QpInit what = init(QpType::rc, sends);
    what.receive_cq = &receives;
    what.signal_all = true;
    ibv_qp_init_attr made = fake(qp(what)).init;
    EXPECT_EQ(made.qp_type, IBV_QPT_RC);
    EXPECT_EQ(made.send_cq, lib_.cqs[lib_.cqs.size() - 2].get());
    EXPECT_EQ(made.recv_cq, lib_.cqs.back().get());
    EXPECT_EQ(made.srq, nullptr);
    EXPECT_EQ(made.sq_sig_all, 1);
    EXPECT_EQ(made.cap.max_send_wr, 8u);
    EXPECT_EQ(made.cap.max_recv_wr, 8u);
    EXPECT_EQ(made.cap.max_send_sge, 3u);
    EXPECT_EQ(made.cap.max_recv_sge, 3u);
    EXPECT_EQ(made.cap.max_inline_data, 64u);
    what.type = QpType::ud;
    what.signal_all = false;
    made = fake(qp(what)).init;
    EXPECT_EQ(made.qp_type, IBV_QPT_UD);
    EXPECT_EQ(made.sq_sig_all, 0);
    EXPECT_EQ(made.cap.max_recv_sge, 4u) << "and the GRH";
    what.type = QpType::rc;
    what.srq = &srq();
    made = fake(qp(what)).init;
    EXPECT_EQ(made.srq, lib_.srqs.back().get());
    EXPECT_EQ(made.cap.max_recv_wr, 0u);
    what.srq = nullptr;
    what.send_depth = what.receive_depth = what.max_gather = 0;
    made = fake(qp(what)).init;
    EXPECT_GE(made.cap.max_send_wr, 1u);
    EXPECT_GE(made.cap.max_send_sge, 1u);
}

TEST_F(States, EachReceiveTakesRoomForItsList) {
    open_ib();
    CompletionQueue& queue = cq(0, 4096);
    QpInit what = init(QpType::rc, queue);
    what.receive_depth = 2048;
    what.max_gather = 1;
    const Bytes one = qp(what).queue_bytes();
    what.max_gather = 3;
    EXPECT_EQ(qp(what).queue_bytes(), one + Bytes{2048} * (64 - 16));
}

TEST_F(States, BadCreateArguments) {
    open_ib();
    CompletionQueue& queue = cq();
    CompletionQueue& elsewhere = cq(1);
    std::unique_ptr<QueuePair> out;
    const auto refused = [&](Reason reason, auto change) {
        QpInit what = init(QpType::rc, queue);
        change(what);
        EXPECT_EQ(rail().create_qp(what, out), refusal(reason));
        EXPECT_EQ(out, nullptr);
    };
    refused(Reason::bad_argument, [](QpInit& i) { i.send_cq = nullptr; });
    EXPECT_EQ(rail().last_error_text(), "");
    refused(Reason::bad_argument, [](QpInit& i) { i.receive_cq = nullptr; });
    refused(Reason::bad_argument, [](QpInit& i) { i.send_depth = 4097; });
    refused(Reason::bad_argument, [](QpInit& i) { i.receive_depth = 4097; });
    refused(Reason::bad_argument, [](QpInit& i) { i.max_gather = 7; });
    refused(Reason::bad_argument, [](QpInit& i) { i.inline_bytes = 513; });
    refused(Reason::bad_argument, [](QpInit& i) { i.type = static_cast<QpType>(9); });
    refused(Reason::bad_argument, [&](QpInit& i) { i.send_cq = &elsewhere; });
    refused(Reason::bad_argument, [&](QpInit& i) { i.receive_cq = &elsewhere; });
    refused(Reason::not_supported, [](QpInit& i) { i.type = QpType::dc_initiator; });
    EXPECT_TRUE(rail().last_error_text().starts_with("no DC queue pairs: "));
    SharedReceiveQueue& shared = srq();
    refused(Reason::not_supported, [&](QpInit& i) {
        i.type = QpType::ud;
        i.srq = &shared;
    });
    std::unique_ptr<CompletionQueue> no_cq;
    EXPECT_EQ(rail().create_cq(0, no_cq), refusal(Reason::bad_argument));
    EXPECT_EQ(rail().create_cq(8192, no_cq), refusal(Reason::bad_argument));
    std::unique_ptr<SharedReceiveQueue> no_srq;
    EXPECT_EQ(rail().create_srq(0, no_srq), refusal(Reason::bad_argument));
    EXPECT_EQ(rail().create_srq(2049, no_srq), refusal(Reason::bad_argument));
}

TEST_F(States, ValuesOutOfRangeNeverReachTheAdapter) {
    open_ib();
    const auto refused = [&](QpState from, QpState to, std::uint32_t mask, auto change) {
        QueuePair& pair = at(QpType::rc, from);
        QpAttributes a = attributes(to, rail());
        change(a);
        lib_.modified.clear();
        EXPECT_EQ(pair.modify(a, mask), refusal(Reason::bad_argument));
        EXPECT_TRUE(lib_.modified.empty());
        EXPECT_EQ(pair.query().state, from);
    };
    const QpState rtr = QpState::ready_to_receive;
    const QpState rts = QpState::ready_to_send;
    refused(QpState::init, rtr, kRcReceive, [](QpAttributes& a) { a.remote_qp = 1u << 24; });
    refused(QpState::init, rtr, kRcReceive, [](QpAttributes& a) { a.max_target_reads = 9; });
    refused(QpState::init, rtr, kRcReceive, [](QpAttributes& a) { a.rnr_timer = 32; });
    refused(QpState::init, rtr, kRcReceive, [](QpAttributes& a) { a.path.lid_offset = 2; });
    refused(rtr, rts, kRcSend, [](QpAttributes& a) { a.timeout = 32; });
    refused(rtr, rts, kRcSend, [](QpAttributes& a) { a.retry_count = 8; });
    refused(rtr, rts, kRcSend, [](QpAttributes& a) { a.rnr_retry = 8; });
    refused(rtr, rts, kRcSend, [](QpAttributes& a) { a.max_reads = 9; });
    refused(rtr, rts, kRcSend & ~+kQpSendPsn, [](QpAttributes&) {});
}

TEST_F(States, EveryStateGoesToErrorAndReset) {
    open_roce();
    for (const QpType type : {QpType::rc, QpType::ud}) {
        for (const QpState from : {QpState::reset, QpState::init, QpState::ready_to_receive,
                                   QpState::ready_to_send, QpState::error}) {
            for (const QpState to : {QpState::error, QpState::reset}) {
                QueuePair& pair = at(type, from);
                ASSERT_EQ(move(pair, to), kOk) << static_cast<int>(from);
                EXPECT_EQ(pair.query().state, to);
                EXPECT_EQ(fake(pair).state, to == QpState::error ? IBV_QPS_ERR : IBV_QPS_RESET);
            }
        }
    }
}

TEST_F(States, ResetForgetsTheAttributes) {
    open_roce();
    QueuePair& pair = at(QpType::rc, QpState::ready_to_send);
    ASSERT_EQ(move(pair, QpState::reset), kOk);
    EXPECT_EQ(pair.query().remote_qp, 0u);
    EXPECT_EQ(pair.query().access, 0u);
    start(pair);
    EXPECT_EQ(pair.query().state, QpState::ready_to_send);
}

// The receive queues of Omni-Path and TrueScale are the program's memory, in which the system
// leaves what comes after the move to ERR.
TEST_F(States, ResetDropsReceivesThatTheDeviceKeeps) {
    lib_.devices = {ib_device("hfi1_0", 1, 0)};
    lib_.devices[0].limits.vendor_id = 0x1175;
    lib_.devices[0].receives_stay = true;
    ASSERT_EQ(open(), kOk) << error_;
    for (const bool failed : {false, true}) {
        SCOPED_TRACE(failed);
        CompletionQueue& queue = cq();
        QueuePair& pair = qp(init(QpType::ud, queue));
        start(pair);
        const auto post = [&](std::uint64_t id) {
            ReceiveWork work;
            work.wr_id = id;
            return pair.post_receive(work);
        };
        ASSERT_EQ(post(1), kOk);
        if (failed) {
            fake(pair).state = IBV_QPS_ERR; // nobody has told yet
            ASSERT_EQ(post(2), kOk);
            ASSERT_EQ(move(pair, QpState::error), kOk);
            ASSERT_EQ(post(3), kOk);
            WorkCompletion got[4];
            ASSERT_EQ(queue.poll(got), 1u) << "of those that the device does not flush any more";
            EXPECT_EQ(got[0].wr_id, 3u);
            EXPECT_EQ(got[0].status, WorkStatus::flushed);
            EXPECT_EQ(got[0].qp_number, pair.number());
        }
        EXPECT_NE(fake(pair).receives, 0u);
        ASSERT_EQ(move(pair, QpState::reset), kOk);
        EXPECT_EQ(fake(pair).state, IBV_QPS_RESET);
        EXPECT_EQ(fake(pair).receives, 0u);
    }
    QueuePair& pair = at(QpType::ud, QpState::ready_to_send);
    lib_.fail("modify_qp", 4, EIO); // the device is gone in between
    EXPECT_EQ(move(pair, QpState::reset), refusal(Reason::bad_state));
    EXPECT_EQ(pair.query().state, QpState::error);
}

TEST_F(States, WhatTheAdapterChangedIsSeen) {
    open_roce();
    QueuePair& pair = at(QpType::rc, QpState::ready_to_send);
    for (const ibv_qp_state state : {IBV_QPS_SQE, IBV_QPS_ERR}) {
        fake(pair).state = state;
        EXPECT_EQ(pair.query().state, QpState::error);
    }
    EXPECT_FALSE(pair.usable());
    QueuePair& other = at(QpType::rc, QpState::ready_to_send);
    fake(other).state = IBV_QPS_ERR; // no call has asked for the state yet
    QpAttributes a;
    a.access = kRemoteRead;
    EXPECT_EQ(other.modify(a, kQpAccess), refusal(Reason::bad_state));
    EXPECT_EQ(move(other, QpState::reset), kOk);
}

TEST_F(States, RefusedMovesChangeNothing) {
    open_roce();
    QueuePair& pair = at(QpType::rc, QpState::init);
    const auto try_it = [&](int error) {
        lib_.fail("modify_qp", 1, error);
        return pair.modify(attributes(QpState::ready_to_receive, rail()), kRcReceive);
    };
    EXPECT_EQ(try_it(EINVAL), refusal(Reason::bad_argument));
    EXPECT_EQ(try_it(ENOMEM), refusal(Reason::no_memory));
    EXPECT_EQ(try_it(EHOSTUNREACH), refusal(Reason::unreachable));
    EXPECT_EQ(try_it(ETIMEDOUT), kUnanswered) << "of a neighbor";
    EXPECT_EQ(try_it(ENODATA), kUnanswered) << "of the GID table";
    EXPECT_EQ(try_it(EPERM), refusal(Reason::no_permission));
    EXPECT_EQ(try_it(EIO), refusal(Reason::no_device));
    EXPECT_EQ(pair.query().state, QpState::init);
    EXPECT_EQ(pair.query().remote_qp, 0u);
    EXPECT_EQ(pair.modify(attributes(QpState::ready_to_receive, rail()), kRcReceive), kOk);
}

TEST_F(States, ErrorFromResetThatFailsHalfWay) {
    open_roce();
    QueuePair& pair = at(QpType::rc, QpState::reset);
    lib_.fail("modify_qp", 2, ENOMEM); // INIT was reached
    EXPECT_EQ(move(pair, QpState::error), refusal(Reason::no_memory));
    EXPECT_EQ(pair.query().state, QpState::reset);
    EXPECT_EQ(fake(pair).state, IBV_QPS_RESET);
}

TEST_F(States, Migration) {
    open_ib();
    QueuePair& pair = at(QpType::rc, QpState::ready_to_send);
    QpAttributes a = attributes(QpState::ready_to_send, rail());
    a.migration = MigrationState::rearm;
    EXPECT_EQ(pair.modify(a, kQpMigration), refusal(Reason::bad_argument)) << "nothing loaded";
    a.migration = MigrationState::armed;
    EXPECT_EQ(pair.modify(a, kQpMigration), refusal(Reason::bad_argument));
    a.migration = MigrationState::migrated;
    EXPECT_EQ(pair.modify(a, kQpMigration), refusal(Reason::bad_state)) << "not armed";
    a.migration = MigrationState::rearm;
    a.alternate_path = path_to(rail(1));
    a.alternate_path.lid_offset = 1;
    ASSERT_EQ(pair.modify(a, kQpAlternatePath | kQpMigration), kOk);
    const ibv_qp_attr& sent = lib_.modified.back().attributes;
    EXPECT_EQ(sent.path_mig_state, IBV_MIG_REARM);
    EXPECT_EQ(sent.alt_ah_attr.dlid, 33);
    EXPECT_EQ(sent.alt_port_num, 1);
    EXPECT_EQ(sent.alt_timeout, 13);
    EXPECT_EQ(pair.query().migration, MigrationState::rearm);
    Event event;
    EXPECT_FALSE(fabric_->poll_event(event));
    fake(pair).migration = IBV_MIG_ARMED;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::armed);
    EXPECT_EQ(event.qp_number, pair.number());
    EXPECT_FALSE(fabric_->poll_event(event)) << "once";
    a.migration = MigrationState::migrated;
    ASSERT_EQ(pair.modify(a, kQpMigration), kOk);
    lib_.raise_qp(IBV_EVENT_PATH_MIG, pair.number());
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::path_migrated);
    EXPECT_EQ(event.qp_number, pair.number());
    EXPECT_EQ(pair.query().path.lid_offset, 1) << "the alternate path is the primary one";
    a.migration = MigrationState::rearm;
    EXPECT_EQ(pair.modify(a, kQpMigration), refusal(Reason::bad_argument)) << "it is used up";
}

// ibv_modify_qp(3): alt_port_num, alt_pkey_index and alt_ah_attr are the other port's.
TEST_F(States, TheAlternatePathMayLeaveFromTheOtherPort) {
    lib_.devices = {ib_device("mlx5_0", 2, 1)};
    lib_.devices[0].ports[1].pkeys = {0x0000, 0xffff};
    ASSERT_EQ(open(), kOk) << error_;
    QueuePair& pair = at(QpType::rc, QpState::ready_to_receive);
    QpAttributes a = attributes(QpState::ready_to_send, rail());
    a.alternate_path = rail(1).path_to(rail(1).address(), 1);
    a.alternate_path.source_port = 2;
    a.migration = MigrationState::rearm;
    ASSERT_EQ(pair.modify(a, kRcSend | kQpAlternatePath | kQpMigration), kOk)
        << rail().last_error_text();
    const ModifyCall& call = lib_.modified.back();
    EXPECT_EQ(call.mask, kRtsMask | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
    EXPECT_EQ(call.attributes.alt_port_num, 2);
    EXPECT_EQ(call.attributes.alt_pkey_index, 1) << "where that port has the partition";
    EXPECT_EQ(call.attributes.alt_timeout, a.timeout);
    EXPECT_EQ(call.attributes.alt_ah_attr.port_num, 2);
    EXPECT_EQ(call.attributes.alt_ah_attr.dlid, 33);
    EXPECT_EQ(call.attributes.alt_ah_attr.src_path_bits, 1);
    EXPECT_EQ(call.attributes.path_mig_state, IBV_MIG_REARM);
    // And back, as after a migration: the caller names the port by its number.
    a.alternate_path = rail().path_to(rail(1).address(), 0);
    a.alternate_path.source_port = 1;
    ASSERT_EQ(pair.modify(a, kQpAlternatePath | kQpMigration), kOk);
    EXPECT_EQ(lib_.modified.back().attributes.alt_port_num, 1);
    EXPECT_EQ(lib_.modified.back().mask, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
    const std::size_t calls = lib_.modified.size();
    a.alternate_path.source_port = 3;
    EXPECT_EQ(pair.modify(a, kQpAlternatePath | kQpMigration), refusal(Reason::bad_argument));
    lib_.devices[0].ports[1].attributes.state = IBV_PORT_DOWN;
    a.alternate_path.source_port = 2;
    EXPECT_EQ(pair.modify(a, kQpAlternatePath | kQpMigration), refusal(Reason::unreachable));
    EXPECT_NE(rail().last_error_text().find("port 2 of mlx5_0"), std::string::npos)
        << rail().last_error_text();
    EXPECT_EQ(lib_.modified.size(), calls) << "nothing was asked of the device";
}

// No event of the device reports that a path is armed: the fabric queries a few queue pairs at a
// time, so that many of them do not hold up the rest.
TEST_F(States, ManyThatWaitForArmedAreAskedInTurn) {
    constexpr std::size_t kCount = 50;
    constexpr int kAtOnce = 16;
    open_ib();
    std::vector<QueuePair*> pairs;
    for (std::size_t i = 0; i < kCount; ++i) {
        QueuePair& pair = at(QpType::rc, QpState::ready_to_send);
        QpAttributes a = attributes(QpState::ready_to_send, rail());
        a.alternate_path = path_to(rail(1));
        a.alternate_path.lid_offset = 1;
        a.migration = MigrationState::rearm;
        ASSERT_EQ(pair.modify(a, kQpAlternatePath | kQpMigration), kOk);
        pairs.push_back(&pair);
    }
    Event event;
    for (int i = 0; i < 4; ++i) {
        const int before = lib_.count("query_qp");
        EXPECT_FALSE(fabric_->poll_event(event));
        EXPECT_EQ(lib_.count("query_qp") - before, kAtOnce);
    }
    for (QueuePair* pair : pairs) {
        fake(*pair).migration = IBV_MIG_ARMED;
    }
    std::set<std::uint32_t> told;
    while (fabric_->poll_event(event)) {
        EXPECT_EQ(event.kind, EventKind::armed);
        EXPECT_TRUE(told.insert(event.qp_number).second);
    }
    EXPECT_EQ(told.size(), kCount);
}

TEST_F(States, NoMigrationWithoutTheCapability) {
    open_roce();
    QueuePair& pair = at(QpType::rc, QpState::ready_to_send);
    QpAttributes a = attributes(QpState::ready_to_send, rail());
    a.alternate_path = path_to(rail());
    EXPECT_EQ(pair.modify(a, kQpAlternatePath), refusal(Reason::not_supported));
}

// -------------------------------------------------------------------------------------------------
// Room for completions

class Room : public VerbsTest {
protected:
    int entries() { return lib_.cqs.back()->cqe; }
    // Adds a queue pair with `depth` sends and `depth` receives on one queue.
    Status add(CompletionQueue& queue, std::uint32_t depth, SharedReceiveQueue* shared = nullptr) {
        QpInit what = init(QpType::rc, queue);
        what.send_depth = depth;
        what.receive_depth = depth;
        what.srq = shared;
        std::unique_ptr<QueuePair> made;
        const Status status = rail().create_qp(what, made);
        EXPECT_EQ(status.ok(), made != nullptr);
        if (made != nullptr) {
            qps_.push_back(std::move(made));
        }
        return status;
    }
};

TEST_F(Room, AQueueGrowsWithItsQueuePairs) {
    open_roce();
    CompletionQueue& queue = cq(0, 64);
    EXPECT_EQ(add(queue, 32), kOk);
    EXPECT_EQ(entries(), 64);
    EXPECT_EQ(add(queue, 1), kOk);
    EXPECT_EQ(entries(), 128) << "ahead";
    EXPECT_EQ(add(queue, 100), kOk);
    EXPECT_EQ(entries(), 266);
    qps_.clear();
    EXPECT_EQ(add(queue, 133), kOk);
    EXPECT_EQ(entries(), 266) << "what has gone makes room";
}

TEST_F(Room, AQueuePairThatSendsNothingNeedsNoneForSends) {
    open_roce();
    CompletionQueue& queue = cq(0, 64);
    QpInit what = init(QpType::rc, queue);
    what.send_depth = 0;
    what.receive_depth = 64;
    qp(what);
    EXPECT_EQ(entries(), 64);
}

TEST_F(Room, ReceivesOfASharedQueueCountOnce) {
    open_roce();
    SharedReceiveQueue& shared = srq(16);
    CompletionQueue& queue = cq(0, 64);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(add(queue, 16, &shared), kOk);
    }
    EXPECT_EQ(entries(), 64);
    EXPECT_EQ(add(queue, 1, &shared), kOk);
    EXPECT_EQ(entries(), 128);
}

TEST_F(Room, NoQueuePairWithoutRoom) {
    open_roce();
    CompletionQueue& queue = cq(0, 64);
    EXPECT_EQ(add(queue, 32), kOk);
    const int resized = lib_.count("resize_cq");
    lib_.fail("resize_cq", 1, ENOMEM);
    EXPECT_EQ(add(queue, 1), kOk) << "no memory for more than is needed";
    EXPECT_EQ(lib_.count("resize_cq"), resized + 2);
    EXPECT_EQ(entries(), 66);
    lib_.fail("resize_cq", 1, ENOMEM);
    EXPECT_EQ(add(queue, 200), refusal(Reason::no_memory));
    EXPECT_EQ(entries(), 66);
    EXPECT_EQ(add(queue, 4000), kOk);
    EXPECT_EQ(add(queue, 63), refusal(Reason::no_memory)) << "beyond what the device can have";
    EXPECT_EQ(add(queue, 62), kOk);
    EXPECT_EQ(entries(), 8191);
}

// As after a short fault of the port: each queue pair has as many requests as it took, and nobody
// polls before all of them are flushed.
TEST_F(Room, ThereIsRoomForAllThatQueuesTakeWhichAreDeeperThanAsked) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].rounds_sends = true;
    ASSERT_EQ(open(), kOk) << error_;
    CompletionQueue& queue = cq(0, 64);
    QpInit what = init(QpType::rc, queue);
    what.send_depth = 32;
    what.receive_depth = 0;
    std::uint64_t posted = 0;
    for (int i = 0; i < 3; ++i) {
        QueuePair& pair = qp(what);
        start(pair);
        SendWork work;
        work.opcode = Opcode::write;
        Status status = kOk;
        while ((status = pair.post_send(work)).ok()) {
            work.wr_id = ++posted;
        }
        EXPECT_EQ(status, Status::again(Reason::queue_full));
    }
    EXPECT_EQ(posted, 3 * 63u);
    for (const auto& pair : qps_) {
        FakeQp& failed = fake(*pair);
        failed.state = IBV_QPS_ERR;
        while (!failed.sends.empty()) {
            ibv_wc flushed{};
            flushed.wr_id = failed.sends.front().first;
            flushed.status = IBV_WC_WR_FLUSH_ERR;
            lib_.complete_send(pair->number(), flushed);
        }
    }
    EXPECT_LE(lib_.cqs.back()->completions.size(), static_cast<std::size_t>(entries()));
    std::vector<WorkCompletion> all(2 * posted);
    EXPECT_EQ(queue.poll(all), posted);
}

// The queue pair is not left behind.
TEST_F(Room, ADeeperQueueThanTheCompletionsHaveRoomForIsRefused) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].rounds_sends = true;
    lib_.devices[0].limits.max_cqe = 100;
    ASSERT_EQ(open(), kOk) << error_;
    CompletionQueue& queue = cq(0, 64);
    const int before = lib_.living("qp");
    EXPECT_EQ(add(queue, 40), refusal(Reason::no_memory)) << "63 sends and 40 receives";
    EXPECT_EQ(lib_.living("qp"), before);
    EXPECT_EQ(add(queue, 31), kOk);
}

TEST_F(Room, WhereQueuesDoNotGrowTheyAreDeep) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].resizes = false;
    ASSERT_EQ(open(), kOk) << error_;
    CompletionQueue& queue = cq(0, 64);
    EXPECT_EQ(entries(), 8191);
    EXPECT_EQ(add(queue, 4000), kOk);
    EXPECT_EQ(add(queue, 96), refusal(Reason::no_memory));
    EXPECT_EQ(add(queue, 95), kOk);
}

// libbnxt_re frees the queue when the system refuses to resize it.
TEST_F(Room, QueuesOfBroadcomAreNotResized) {
    lib_.devices = {ib_device("bnxt_re0", 1, 0)};
    lib_.devices[0].limits.vendor_id = 0x14e4;
    ASSERT_EQ(open(), kOk) << error_;
    CompletionQueue& queue = cq(0, 64);
    EXPECT_EQ(entries(), 8191);
    EXPECT_EQ(add(queue, 4000), kOk);
    EXPECT_EQ(lib_.count("resize_cq"), 0);
}

} // namespace
} // namespace adaptib::test
