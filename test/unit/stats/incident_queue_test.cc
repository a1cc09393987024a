// SPDX-License-Identifier: BSD-3-Clause
// Incidents on their way out of a core: who is woken when, and what happens if there are too many.
#include "stats/incident_queue.h"

#include <gtest/gtest.h>

#include <string>

#include "stats/run_history.h"

namespace adaptib {
namespace {

class IncidentsOut : public testing::Test {
protected:
    Counters counters_;
    bool ready_ = true; // the owner can be woken
    int wakings_ = 0;
    IncidentQueue queue_{counters_, [this] {
                             ++wakings_;
                             return ready_;
                         }};
};

TEST_F(IncidentsOut, WakeTheOwnerOnceForAllThatAreTakenTogether) {
    queue_.note({.peer = 1, .kind = IncidentKind::repair});
    queue_.note({.kind = IncidentKind::rail_down, .rail = 3});
    EXPECT_EQ(wakings_, 1);
    const auto taken = queue_.take();
    ASSERT_EQ(taken.size(), 2u);
    EXPECT_EQ(taken[0].kind, IncidentKind::repair);
    EXPECT_EQ(taken[0].peer, 1u);
    EXPECT_EQ(taken[1].rail, 3);
    EXPECT_TRUE(queue_.take().empty());
    queue_.note({.kind = IncidentKind::rail_up});
    EXPECT_EQ(wakings_, 2);
    EXPECT_EQ(queue_.take().size(), 1u);
}

TEST_F(IncidentsOut, WaitForAnOwnerThatCannotBeWokenYet) {
    ready_ = false;
    queue_.note({.kind = IncidentKind::rail_down});
    ready_ = true;
    queue_.wake();
    EXPECT_EQ(wakings_, 2);
    queue_.wake(); // it has been woken
    EXPECT_EQ(wakings_, 2);
    EXPECT_EQ(queue_.take().size(), 1u);
    queue_.wake(); // nothing waits
    EXPECT_EQ(wakings_, 2);
}

TEST_F(IncidentsOut, AreDroppedAndCountedIfThereAreTooMany) {
    for (std::size_t i = 0; i < IncidentQueue::kMost + 5; ++i) {
        queue_.note({.peer = i, .kind = IncidentKind::repair});
    }
    EXPECT_EQ(counters_.incidents_dropped, 5u);
    const auto taken = queue_.take();
    ASSERT_EQ(taken.size(), IncidentQueue::kMost);
    EXPECT_EQ(taken.back().peer, IncidentQueue::kMost - 1);
}

TEST_F(IncidentsOut, GoToTheHistoryAndTheQueueAlike) {
    ManualClock clock;
    RunHistory history{clock, counters_};
    note_incident(counters_, {.kind = IncidentKind::path_up}); // nobody asks for it
    counters_.history = &history;
    counters_.incidents = &queue_;
    note_incident(counters_, {.kind = IncidentKind::path_up});
    note_incident(counters_, {.kind = IncidentKind::path_up});
    EXPECT_EQ(history.incidents(), 1u) << "a history counts those that come together";
    EXPECT_EQ(queue_.take().size(), 2u);
}

TEST(IncidentKinds, HaveANameAndASentenceEach) {
    const auto table = incident_table();
    ASSERT_EQ(table.size(), static_cast<std::size_t>(IncidentKind::peer_lost) + 1);
    EXPECT_STREQ(table[static_cast<std::size_t>(IncidentKind::path_failed)].name, "path_failed");
    for (const opal_common_adaptib_incident_kind_t& row : table) {
        EXPECT_EQ(std::string(row.help).back(), '.') << row.name;
    }
}

} // namespace
} // namespace adaptib
