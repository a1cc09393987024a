// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events of every kind.
#include <cerrno>

#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

class Events : public VerbsTest {
protected:
    // Returns all pending events, at most 20.
    std::vector<Event> events() {
        std::vector<Event> out;
        Event event;
        while (out.size() < 20 && fabric_->poll_event(event)) {
            out.push_back(event);
        }
        return out;
    }
    void one(EventKind kind, std::uint32_t rail_index, std::uint32_t qp_number = 0,
             SharedReceiveQueue* shared = nullptr) {
        const std::vector<Event> got = events();
        ASSERT_EQ(got.size(), 1u) << static_cast<int>(kind);
        EXPECT_EQ(got[0].kind, kind);
        EXPECT_EQ(got[0].rail, rail_index);
        EXPECT_EQ(got[0].qp_number, qp_number);
        EXPECT_EQ(got[0].srq, shared);
    }
    void none() { EXPECT_EQ(events().size(), 0u); }
    ibv_port_attr& port(int number) {
        return lib_.devices[0].ports[static_cast<std::size_t>(number - 1)].attributes;
    }
};

TEST_F(Events, NoneToBeginWith) {
    open_ib();
    none();
}

TEST_F(Events, PortsGoAndCome) {
    open_ib();
    port(2).state = IBV_PORT_DOWN;
    lib_.raise_port(0, IBV_EVENT_PORT_ERR, 2);
    one(EventKind::port_error, 1);
    EXPECT_EQ(rail(1).state(), PortState::down);
    EXPECT_EQ(rail(0).state(), PortState::active);
    port(2).state = IBV_PORT_ACTIVE;
    lib_.raise_port(0, IBV_EVENT_PORT_ACTIVE, 2);
    one(EventKind::port_active, 1);
    EXPECT_EQ(rail(1).state(), PortState::active);
}

TEST_F(Events, RailsThatAreDownAreNotUsable) {
    open_ib();
    QueuePair& pair = qp(init(QpType::rc, cq()));
    start(pair);
    EXPECT_TRUE(pair.usable());
    lib_.raise_port(0, IBV_EVENT_PORT_ERR, 1);
    one(EventKind::port_error, 0);
    EXPECT_FALSE(pair.usable());
}

TEST_F(Events, PortsThatAreNoRailsAreIgnored) {
    options_.if_include = "mlx5_0:2";
    open_ib();
    lib_.raise_port(0, IBV_EVENT_PORT_ERR, 1);
    lib_.raise_port(0, IBV_EVENT_PORT_ERR, 77);
    none();
    lib_.raise_port(0, IBV_EVENT_PORT_ERR, 2);
    one(EventKind::port_error, 0);
}

TEST_F(Events, AddressesChange) {
    open_ib(0);
    const RailAddress before = rail().address();
    port(1).lid = 99;
    lib_.raise_port(0, IBV_EVENT_LID_CHANGE, 1);
    one(EventKind::address_changed, 0);
    EXPECT_NE(rail().address().bytes, before.bytes);
    std::unique_ptr<AddressHandle> handle;
    ASSERT_EQ(await_ah(rail(), path_to(rail()), handle), kOk);
    EXPECT_EQ(attributes_of(*handle).dlid, 99);
    handle.reset();
    port(1).lid = 120; // set by another subnet manager
    lib_.raise_port(0, IBV_EVENT_CLIENT_REREGISTER, 1);
    one(EventKind::address_changed, 0);
    ASSERT_EQ(await_ah(rail(), path_to(rail()), handle), kOk);
    EXPECT_EQ(attributes_of(*handle).dlid, 120);
    handle.reset();
    lib_.devices[0].ports[0].gids[0] = gid("fe80::77", IBV_GID_TYPE_IB, 0);
    const RailAddress between = rail().address();
    lib_.raise_port(0, IBV_EVENT_GID_CHANGE, 1);
    one(EventKind::address_changed, 0);
    EXPECT_NE(rail().address().bytes, between.bytes);
    lib_.devices[0].ports[0].pkeys = {0x8002};
    lib_.raise_port(0, IBV_EVENT_PKEY_CHANGE, 1);
    one(EventKind::address_changed, 0);
    QueuePair& pair = qp(init(QpType::rc, cq()));
    EXPECT_EQ(pair.modify(attributes(QpState::init, rail()), kRcInit), kOk);
}

// Queue pairs and handles name a GID by its index.
TEST_F(Events, TheSameAddressInAnotherPlaceIsAChange) {
    open_roce();
    const RailAddress before = rail().address();
    lib_.raise_port(0, IBV_EVENT_GID_CHANGE, 1);
    one(EventKind::address_changed, 0);
    EXPECT_EQ(rail().address(), before) << "nothing has changed";
    std::vector<ibv_gid_entry>& gids = lib_.devices[0].ports[0].gids;
    std::swap(gids[1].gid, gids[3].gid);
    lib_.raise_port(0, IBV_EVENT_GID_CHANGE, 1);
    one(EventKind::address_changed, 0);
    EXPECT_EQ(rail().address().bytes, before.bytes);
    EXPECT_NE(rail().address(), before);
    EXPECT_EQ(rail().address().changes, before.changes + 1);
}

TEST_F(Events, AddressesThatCannotBeReadAgainStay) {
    open_roce();
    const RailAddress before = rail().address();
    lib_.devices[0].ports[0].gids.clear();
    lib_.raise_port(0, IBV_EVENT_GID_CHANGE, 1);
    one(EventKind::address_changed, 0);
    EXPECT_EQ(rail().address().bytes, before.bytes);
}

TEST_F(Events, QueuePairsFail) {
    open_ib();
    for (const ibv_event_type type :
         {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
        QueuePair& pair = qp(init(QpType::rc, cq(1)), 1);
        start(pair, 1);
        lib_.raise_qp(type, pair.number());
        one(EventKind::qp_fatal, 1, pair.number());
        EXPECT_FALSE(pair.usable());
        EXPECT_EQ(fake(pair).state, IBV_QPS_ERR);
    }
}

TEST_F(Events, TheLastReceiveOfASharedQueue) {
    open_roce();
    QpInit what = init(QpType::rc, cq());
    what.srq = &srq();
    QueuePair& failed = qp(what);
    start(failed);
    lib_.raise_qp(IBV_EVENT_QP_LAST_WQE_REACHED, failed.number());
    one(EventKind::qp_fatal, 0, failed.number());
    QueuePair& moved = qp(what);
    start(moved);
    QpAttributes a;
    a.state = QpState::error;
    ASSERT_EQ(moved.modify(a, kQpState), kOk);
    lib_.raise_qp(IBV_EVENT_QP_LAST_WQE_REACHED, moved.number());
    none();
}

class SilentErrors : public Events {
protected:
    // A queue pair with separate queues for sends and receives, which is in ERR without
    // the fabric's doing.
    void SetUp() override {
        open_roce();
        sends_ = &cq();
        receives_ = &cq();
        QpInit what = init(QpType::rc, *sends_);
        what.receive_cq = receives_;
        pair_ = &qp(what);
        start(*pair_);
        fake(*pair_).state = IBV_QPS_ERR;
    }
    ibv_wc with(ibv_wc_status status) {
        ibv_wc wc{};
        wc.status = status;
        return wc;
    }

    CompletionQueue* sends_ = nullptr;
    CompletionQueue* receives_ = nullptr;
    QueuePair* pair_ = nullptr;
};

TEST_F(SilentErrors, FlushedWithoutAReason) {
    lib_.complete_receive(pair_->number(), with(IBV_WC_WR_FLUSH_ERR));
    lib_.complete_receive(pair_->number(), with(IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(poll(*receives_).size(), 2u);
    one(EventKind::qp_fatal, 0, pair_->number());
    lib_.raise_qp(IBV_EVENT_QP_ACCESS_ERR, pair_->number());
    none();
}

TEST_F(SilentErrors, FoundByAskingForTheState) {
    none();
    EXPECT_EQ(pair_->query().state, QpState::error);
    one(EventKind::qp_fatal, 0, pair_->number());
    EXPECT_EQ(pair_->query().state, QpState::error);
    none();
}

TEST_F(SilentErrors, TheReasonIsInAnotherQueue) {
    lib_.complete_receive(pair_->number(), with(IBV_WC_WR_FLUSH_ERR));
    lib_.complete_send(pair_->number(), with(IBV_WC_REM_ACCESS_ERR));
    lib_.complete_send(pair_->number(), with(IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(poll(*receives_).size(), 1u);
    none();
    const std::vector<WorkCompletion> got = poll(*sends_);
    ASSERT_EQ(got.size(), 2u) << "what was read for that is not lost";
    EXPECT_EQ(got[0].status, WorkStatus::remote_access_error);
    EXPECT_EQ(got[1].status, WorkStatus::flushed);
    none();
}

TEST_F(SilentErrors, TheCallersOwnDoing) {
    fake(*pair_).state = IBV_QPS_RTS;
    QpAttributes a;
    a.state = QpState::error;
    ASSERT_EQ(pair_->modify(a, kQpState), kOk);
    lib_.complete_receive(pair_->number(), with(IBV_WC_WR_FLUSH_ERR));
    EXPECT_EQ(poll(*receives_).size(), 1u);
    none();
}

TEST_F(SilentErrors, EndedOrConnectedAnewBeforeItIsReported) {
    EXPECT_EQ(pair_->query().state, QpState::error);
    QpAttributes a;
    ASSERT_EQ(pair_->modify(a, kQpState), kOk);
    none();
    start(*pair_);
    fake(*pair_).state = IBV_QPS_ERR;
    EXPECT_EQ(pair_->query().state, QpState::error);
    qps_.clear();
    none();
}

TEST_F(Events, OnlyOfInterestToOthers) {
    open_ib();
    QueuePair& pair = qp(init(QpType::rc, cq()));
    start(pair);
    lib_.raise_qp(IBV_EVENT_COMM_EST, pair.number());
    lib_.raise_qp(IBV_EVENT_SQ_DRAINED, pair.number());
    lib_.raise_port(0, IBV_EVENT_SM_CHANGE, 1);
    lib_.raise_port(0, IBV_EVENT_WQ_FATAL, 0);
    lib_.raise_port(0, static_cast<ibv_event_type>(31), 1);
    none();
    EXPECT_TRUE(pair.usable());
    lib_.raise_port(0, IBV_EVENT_SM_CHANGE, 1);
    lib_.raise_port(0, IBV_EVENT_PORT_ERR, 1);
    one(EventKind::port_error, 0);
}

TEST_F(Events, PathMigration) {
    open_ib();
    QueuePair& pair = qp(init(QpType::rc, cq()));
    start(pair);
    lib_.raise_qp(IBV_EVENT_PATH_MIG_ERR, pair.number());
    one(EventKind::path_migration_error, 0, pair.number());
    EXPECT_TRUE(pair.usable()) << "the primary goes on";
    lib_.raise_qp(IBV_EVENT_PATH_MIG, pair.number());
    one(EventKind::path_migrated, 0, pair.number());
}

TEST_F(Events, SharedReceiveQueueLimit) {
    open_roce();
    SharedReceiveQueue& shared = srq();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    event.element.srq = lib_.srqs[0].get();
    lib_.raise(0, event);
    one(EventKind::srq_limit, 0, 0, &shared);
}

TEST_F(Events, BrokenQueuesFailTheirQueuePairs) {
    open_roce();
    CompletionQueue& queue = cq();
    QpInit what = init(QpType::rc, queue);
    what.srq = &srq();
    QueuePair& a = qp(what);
    QueuePair& b = qp(init(QpType::ud, queue));
    start(a);
    start(b);
    ibv_async_event event{};
    event.event_type = IBV_EVENT_SRQ_ERR;
    event.element.srq = lib_.srqs[0].get();
    lib_.raise(0, event);
    one(EventKind::qp_fatal, 0, a.number());
    EXPECT_FALSE(a.usable());
    EXPECT_TRUE(b.usable());
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = b.number() != 0 ? fake(b).send_cq : nullptr;
    lib_.raise(0, event);
    const std::vector<Event> got = events();
    ASSERT_EQ(got.size(), 2u) << "a's was told";
    EXPECT_EQ(got[0].kind, EventKind::device_fatal);
    EXPECT_EQ(got[1].kind, EventKind::qp_fatal);
    EXPECT_EQ(got[1].qp_number, b.number());
    EXPECT_FALSE(b.usable());
    const int polls = lib_.count("poll_cq");
    EXPECT_TRUE(poll(queue).empty());
    EXPECT_EQ(lib_.count("poll_cq"), polls) << "it cannot be used any more";
}

TEST_F(Events, PollingABrokenQueue) {
    open_roce();
    CompletionQueue& queue = cq();
    QueuePair& pair = qp(init(QpType::rc, queue));
    start(pair);
    lib_.fail("poll_cq", 1, EIO);
    EXPECT_TRUE(poll(queue).empty());
    const std::vector<Event> got = events();
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].kind, EventKind::device_fatal);
    EXPECT_EQ(got[1].kind, EventKind::qp_fatal);
    EXPECT_EQ(got[1].qp_number, pair.number());
    EXPECT_FALSE(pair.usable());
}

// Nothing on the rail would ever complete, however often its port comes up.
TEST_F(Events, ABrokenQueueIsTheEndOfItsRail) {
    open_roce();
    cq();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = lib_.cqs.back().get();
    lib_.raise(0, event);
    one(EventKind::device_fatal, 0, 0);
    EXPECT_EQ(rail().state(), PortState::down);
    lib_.raise(0, event);
    lib_.raise_port(0, IBV_EVENT_PORT_ACTIVE, 1);
    none();
    EXPECT_EQ(rail().state(), PortState::down);
}

TEST_F(Events, ADeviceDies) {
    open_ib();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    lib_.raise(0, event);
    const std::vector<Event> got = events();
    ASSERT_EQ(got.size(), 2u) << "all its rails";
    for (std::uint32_t i = 0; i < 2; ++i) {
        EXPECT_EQ(got[i].kind, EventKind::device_fatal);
        EXPECT_EQ(got[i].rail, i);
        EXPECT_EQ(rail(i).state(), PortState::down);
    }
}

TEST_F(Events, OnlyTheDeviceThatRaisedIt) {
    lib_.devices = {roce_device("a0"), roce_device("b0")};
    ASSERT_EQ(open(), kOk) << error_;
    lib_.raise_port(1, IBV_EVENT_PORT_ERR, 1);
    one(EventKind::port_error, 1);
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    lib_.raise(0, event);
    one(EventKind::device_fatal, 0);
}

// Each event is acknowledged before the caller may destroy the object that it names (the stand-in
// complains otherwise), and that object still exists when the event is reported.
TEST_F(Events, ObjectsMayEndAfterTheirEvents) {
    open_roce();
    std::unique_ptr<SharedReceiveQueue> shared;
    ASSERT_EQ(rail().create_srq(8, shared), kOk);
    QpInit what = init(QpType::rc, cq());
    what.srq = shared.get();
    std::unique_ptr<QueuePair> pair;
    ASSERT_EQ(rail().create_qp(what, pair), kOk);
    lib_.raise_port(0, IBV_EVENT_PORT_ERR, 1);
    lib_.raise_qp(IBV_EVENT_QP_FATAL, pair->number());
    Event event;
    ASSERT_TRUE(fabric_->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::port_error);
    EXPECT_EQ(lib_.contexts[0]->events.size(), 1u) << "no event is read before it can be told";
    ASSERT_TRUE(fabric_->poll_event(event));
    pair.reset();
    shared.reset();
    none();
}

TEST_F(Events, FatalEventsOfQueuePairsThatEnded) {
    open_roce();
    CompletionQueue& queue = cq();
    std::unique_ptr<QueuePair> pair;
    ASSERT_EQ(rail().create_qp(init(QpType::rc, queue), pair), kOk);
    lib_.fail("poll_cq", 1, EIO);
    EXPECT_TRUE(poll(queue).empty());
    pair.reset();
    one(EventKind::device_fatal, 0); // of the rail; none of the queue pair
}

} // namespace
} // namespace adaptib::test
