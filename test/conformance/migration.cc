// SPDX-License-Identifier: BSD-3-Clause
// Conformance: automatic path migration.
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class Migration : public Fixture {
protected:
    // Attributes that load an alternate path over the same rail: path bits 1 and LID offset 1.
    QpAttributes load(End& self, End& peer) {
        QpAttributes a = rc_attributes(self, peer, QpState::ready_to_send);
        a.alternate_path = a.path;
        a.alternate_path.source_path_bits = 1;
        a.alternate_path.lid_offset = 1;
        a.migration = MigrationState::rearm;
        return a;
    }
    void arm(Pair& p) {
        ASSERT_EQ(p.a.qp->modify(load(p.a, p.b), kQpAlternatePath | kQpMigration), kOk);
        ASSERT_EQ(p.b.qp->modify(load(p.b, p.a), kQpAlternatePath | kQpMigration), kOk);
        Event event;
        ASSERT_TRUE(wait_event(0, EventKind::armed, event));
        EXPECT_EQ(event.qp_number, p.a.qp->number());
        ASSERT_TRUE(wait_event(1, EventKind::armed, event));
        EXPECT_EQ(event.qp_number, p.b.qp->number());
        EXPECT_EQ(p.a.qp->query().migration, MigrationState::armed);
        EXPECT_EQ(p.b.qp->query().migration, MigrationState::armed);
    }
};
ADAPTIB_CONFORMANCE(Migration);

TEST_P(Migration, StatesAndAttributesAreChecked) {
    ADAPTIB_NEEDS(migration);
    Pair p = rc_pair();
    EXPECT_EQ(p.a.qp->query().migration, MigrationState::migrated);
    QpAttributes a = load(p.a, p.b);
    EXPECT_EQ(p.a.qp->modify(a, kQpMigration), Status::error(Reason::bad_argument))
        << "no path is loaded";
    a.migration = MigrationState::armed;
    EXPECT_EQ(p.a.qp->modify(a, kQpAlternatePath | kQpMigration),
              Status::error(Reason::bad_argument));
    a.migration = MigrationState::migrated;
    EXPECT_EQ(p.a.qp->modify(a, kQpMigration), Status::error(Reason::bad_state));
    a.migration = MigrationState::rearm;
    ASSERT_EQ(p.a.qp->modify(a, kQpAlternatePath | kQpMigration), kOk);
    EXPECT_EQ(p.a.qp->query().migration, MigrationState::rearm) << "the peer has not asked yet";
    Event event;
    EXPECT_FALSE(wait_event(0, EventKind::armed, event, kQuiet));
}

TEST_P(Migration, OnRequestAgainAndAgainUnderTraffic) {
    ADAPTIB_NEEDS(migration);
    Pair p = rc_pair();
    const std::uint32_t number = p.a.qp->number();
    Buffer& source = memory(0, 5000);
    Buffer& target = memory(1, 5000);
    std::uint64_t id = 0;
    for (int round = 0; round < 5; ++round) {
        arm(p);
        for (int i = 0; i < 20; ++i, ++id) {
            fill(source.data(), 5000, id);
            const std::vector<Gather> gather{source.gather(0, 5000)};
            ASSERT_EQ(p.a.qp->post_send(send_work(id, gather)), kOk);
            if (i == 10) {
                QpAttributes go;
                go.migration = MigrationState::migrated;
                ASSERT_EQ(p.a.qp->modify(go, kQpMigration), kOk);
            }
            ASSERT_EQ(post_receive(p.b, id, {target.gather(0, 5000)}), kOk);
            ASSERT_TRUE(wait_for(*p.b.receive, id + 1)) << id;
            EXPECT_EQ(p.b.receive->got.back().wr_id, id);
            ASSERT_TRUE(holds(target.data(), 5000, id));
            ASSERT_TRUE(wait_for(*p.a.send, id + 1));
            EXPECT_EQ(p.a.send->got.back().status, WorkStatus::success);
        }
        Event event;
        ASSERT_TRUE(wait_event(0, EventKind::path_migrated, event));
        EXPECT_EQ(event.qp_number, number);
        ASSERT_TRUE(wait_event(1, EventKind::path_migrated, event));
        const QpAttributes now = p.a.qp->query();
        EXPECT_EQ(now.migration, MigrationState::migrated);
        EXPECT_EQ(now.state, QpState::ready_to_send);
        EXPECT_EQ(now.path.lid_offset, 1) << "the alternate path is the primary one";
    }
    EXPECT_EQ(p.a.qp->number(), number);
}

TEST_P(Migration, LacksTheCapabilityLacksTheAttributes) {
    if (has(Capability::migration) || !has(Capability::rc)) {
        GTEST_SKIP() << "the rail has migration, or lacks rc";
    }
    Pair p = rc_pair();
    EXPECT_EQ(p.a.qp->modify(load(p.a, p.b), kQpAlternatePath | kQpMigration),
              Status::error(Reason::not_supported));
    EXPECT_EQ(p.a.qp->query().state, QpState::ready_to_send);
    ASSERT_EQ(post_receive(p.b, 1, {}), kOk);
    EXPECT_EQ(run(p.a, send_work(2, {})), WorkStatus::success);
}

} // namespace
} // namespace adaptib::conformance
