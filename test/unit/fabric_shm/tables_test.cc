// SPDX-License-Identifier: BSD-3-Clause
// The tables of a shm fabric's context, each by itself: queue pairs, peers, rails, and the use of
// cross-memory attach.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabric/shm/own_rails.h"
#include "fabric/shm/peer_table.h"
#include "fabric/shm/queue_pair_table.h"
#include "fabric/shm/single_copy.h"
#include "unit/fabric_shm/two_segments.h"

namespace adaptib::shm {
namespace {

using TablesTest = test::TwoSegments;

// Stands for the queue pair number i; nothing looks into it.
LocalQueuePair* fake(std::uintptr_t i) { return reinterpret_cast<LocalQueuePair*>(i * 64); }

TEST_F(TablesTest, AQueuePairIsFoundByItsNumberUntilItEnds) {
    std::string error;
    QueuePairTable table(*target_, error);
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    ASSERT_TRUE(table.add(fake(1), first).ok());
    ASSERT_TRUE(table.add(fake(2), second).ok());
    EXPECT_NE(first, second);
    EXPECT_EQ(table.find(first), fake(1));
    EXPECT_EQ(table.find(second), fake(2));
    EXPECT_EQ(table.find(0), nullptr);
    EXPECT_EQ(table.find(first + (1u << kQpIndexBits)), nullptr) << "another generation";
    table.remove(first);
    EXPECT_EQ(table.find(first), nullptr);
    int count = 0;
    table.for_each([&](LocalQueuePair&) { ++count; });
    EXPECT_EQ(count, 1);
}

TEST_F(TablesTest, ANumberIsUsedAgainLate) {
    std::string error;
    QueuePairTable table(*target_, error);
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 1000; ++i) {
        std::uint32_t number = 0;
        ASSERT_TRUE(table.add(fake(1), number).ok());
        EXPECT_TRUE(seen.insert(number).second);
        EXPECT_LT(qp_index(number), 66u) << "takes no new pages while old ones are free";
        table.remove(number);
    }
}

TEST_F(TablesTest, SharedReceiveQueuesHaveSmallIndices) {
    SrqTable table(*target_);
    std::uint32_t index = 9;
    for (std::uint32_t i = 0; i < kMaxSrqs; ++i) {
        ASSERT_TRUE(table.add(index).ok());
        EXPECT_EQ(index, i);
    }
    EXPECT_EQ(table.add(index).reason(), Reason::no_memory);
    table.remove(7);
    ASSERT_TRUE(table.add(index).ok());
    EXPECT_EQ(index, 7u);
}

TEST_F(TablesTest, APeerIsMappedOnceAndForgottenWithItsLastUser) {
    std::string error;
    PeerTable table(*initiator_, error);
    std::shared_ptr<PeerSegment> one;
    std::shared_ptr<PeerSegment> two;
    std::uint32_t rail = 9;
    ASSERT_TRUE(table.open(target_->address(0), one, rail).ok());
    EXPECT_EQ(rail, 0u);
    ASSERT_TRUE(table.open(target_->address(0), two, rail).ok());
    EXPECT_EQ(one, two);
    EXPECT_EQ(table.find(target_->cookie()), one.get());
    EXPECT_EQ(table.find(target_->cookie() + 1), nullptr);
    EXPECT_EQ(table.open(target_->address(1), two, rail).reason(), Reason::unreachable);
    one.reset();
    two.reset();
    EXPECT_EQ(table.find(target_->cookie()), nullptr);
}

TEST_F(TablesTest, TellsOfPeersRailsAndOfPeersThatRefuse) {
    std::string error;
    PeerTable table(*initiator_, error);
    std::shared_ptr<PeerSegment> peer;
    std::uint32_t rail = 0;
    ASSERT_TRUE(table.open(target_->address(0), peer, rail).ok());
    std::uint32_t news = 9;
    EXPECT_EQ(table.look_at_rails(news), 0u);
    EXPECT_EQ(news, 0u);
    target_->header()->rail[0].word.store(kRailDown);
    EXPECT_EQ(table.look_at_rails(news), kRailDown);
    PeerTable theirs(*target_, error);
    theirs.refuse(initiator_->address(0), Reason::no_permission);
    table.look_at_rails(news);
    EXPECT_EQ(news, 1u);
    EXPECT_EQ(peer->refusal().reason, Reason::no_permission);
    table.look_at_rails(news);
    EXPECT_EQ(news, 0u) << "told once";
}

TEST(OwnRails, TellsOfChangesAndPacesSlowedRails) {
    RailEntry entries[2] = {};
    ManualClock clock;
    OwnRails rails(entries, 2);
    std::vector<EventKind> events;
    const auto look = [&] {
        rails.look([&](EventKind kind, std::uint32_t rail) {
            EXPECT_EQ(rail, 1u);
            events.push_back(kind);
        });
    };
    look();
    EXPECT_TRUE(events.empty());
    entries[1].word.store(kRailDown);
    look();
    look();
    EXPECT_EQ(rails.words(1), kRailDown | 1);
    entries[1].word.store(1'000'000'000); // a byte each nanosecond
    look();
    EXPECT_EQ(events, (std::vector{EventKind::port_error, EventKind::port_active}));
    EXPECT_EQ(rails.pace(0, 0, 100, clock), Nanoseconds{0});
    EXPECT_EQ(rails.pace(1, 0, 100, clock), Nanoseconds{100});
    EXPECT_EQ(rails.pace(1, 500'000'000, 100, clock), Nanoseconds{300}) << "the slower end";
    clock.advance(Nanoseconds{1000});
    EXPECT_EQ(rails.pace(1, 0, 100, clock), Nanoseconds{1100});
}

TEST_F(TablesTest, SingleCopyIsForbiddenForOnePeerOrAll) {
    std::vector<std::string> notices;
    SingleCopy single_copy(notices);
    PeerSegment& peer = peer_->segment();
    single_copy.forbid(&peer, "the reason");
    EXPECT_FALSE(peer.single_copy);
    EXPECT_TRUE(single_copy.allowed());
    single_copy.forbid(nullptr, "another");
    EXPECT_FALSE(single_copy.allowed());
    ASSERT_EQ(notices.size(), 1u) << "one notice is enough";
    EXPECT_NE(notices[0].find("the reason"), std::string::npos);
}

} // namespace
} // namespace adaptib::shm
