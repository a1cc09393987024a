// SPDX-License-Identifier: BSD-3-Clause
// Which peers may be connected over shared queue pairs, and which are, under each policy.
#include "connect/sharing_rules.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Rules : public RecordedConnections {
protected:
    // One process: its options, and the classes that decide.
    struct Deciding {
        Deciding(Rules& test, Sharing sharing, std::uint64_t most = 1)
            : context_(test.recorded_context(test.options(sharing, most))), messages(context_),
              lanes(context_), draining(context_, lanes),
              closings(context_, lanes, messages, draining), yielding(context_, messages, closings),
              limit(context_, closings, yielding), rules(context_, limit) {}

        const ConnectContext context_;
        HandshakeMessages messages;
        ControlLanes lanes;
        SharedDraining draining;
        Closings closings;
        Yielding yielding;
        ConnectionLimit limit;
        SharingRules rules;
    };

    Rules() {
        world_.clock.advance(1s);
        EXPECT_TRUE(pool_.open(0).ok());
        EXPECT_TRUE(pool_.open(1).ok());
    }

    ConnectOptions options(Sharing sharing, std::uint64_t most) {
        ConnectOptions options;
        options.self = 9;
        options.sharing = sharing;
        options.connect_max = most;
        options.shared = &pool_;
        return options;
    }
    std::unique_ptr<Peer> sharing_peer(std::uint64_t name) {
        std::unique_ptr<Peer> peer = idle_peer(name);
        for (AddressRail& rail : peer->contact.address.rails) {
            rail.flags |= kRailShares;
        }
        return peer;
    }

    SharedQueuePairs pool_{{.initiators = 2, .self = 9, .access_key = 3}, rails_, queues_};
};

TEST_F(Rules, BothSidesNeedSharedQueuePairsOnEachPath) {
    Deciding here(*this, Sharing::all);
    const auto peer = sharing_peer(1);
    EXPECT_TRUE(here.rules.may_share(*peer));
    EXPECT_FALSE(here.rules.may_share(*sharing_peer(9))); // this process itself
    peer->contact.address.rails[1].flags = 0;
    EXPECT_FALSE(here.rules.may_share(*peer));

    SharedQueuePairs half({.initiators = 2}, rails_, queues_);
    ASSERT_TRUE(half.open(0).ok());
    ConnectOptions with_half = options(Sharing::all, 1);
    with_half.shared = &half;
    const ConnectContext other = recorded_context(with_half);
    EXPECT_FALSE(SharingRules(other, here.limit).may_share(*sharing_peer(1)));
    with_half.shared = nullptr;
    const ConnectContext without = recorded_context(with_half);
    EXPECT_FALSE(SharingRules(without, here.limit).may_share(*sharing_peer(1)));
}

TEST_F(Rules, ThePolicyDecidesWithoutAPreference) {
    const auto peer = sharing_peer(1);
    EXPECT_FALSE(Deciding(*this, Sharing::never).rules.chooses(*peer));
    EXPECT_TRUE(Deciding(*this, Sharing::all).rules.chooses(*peer));
    Deciding spare(*this, Sharing::spare);
    EXPECT_FALSE(spare.rules.chooses(*peer)); // there is room for queue pairs of its own
    const auto other = idle_peer(2);
    spare.limit.enter(*other);
    EXPECT_TRUE(spare.rules.chooses(*peer));
    EXPECT_FALSE(spare.rules.chooses(*idle_peer(3))); // which cannot
    peer->connection.activity.chosen = true; // as one of the busiest: others are closed for it
    EXPECT_FALSE(spare.rules.chooses(*peer));
    spare.limit.leave(*other);
}

TEST_F(Rules, APreferenceGoesBeforeThePolicy) {
    const auto peer = sharing_peer(1);
    peer->connection.activity.preference = SharingPreference::own;
    EXPECT_FALSE(Deciding(*this, Sharing::all).rules.chooses(*peer));
    peer->connection.activity.preference = SharingPreference::shared;
    EXPECT_TRUE(Deciding(*this, Sharing::spare).rules.chooses(*peer));
    EXPECT_FALSE(Deciding(*this, Sharing::never).rules.chooses(*peer));
    peer->contact.address.rails[0].flags = 0;
    EXPECT_FALSE(Deciding(*this, Sharing::spare).rules.chooses(*peer));
}

TEST_F(Rules, OnceTheSelectionDecidesOnlyLargeWorkSharesByItself) {
    Deciding here(*this, Sharing::spare, 1);
    const auto other = idle_peer(2);
    here.limit.enter(*other);
    const auto peer = sharing_peer(1);
    EXPECT_FALSE(here.rules.limited());
    EXPECT_TRUE(here.rules.shares_at_once(*peer));
    here.rules.limit(5);
    EXPECT_TRUE(here.rules.limited());
    EXPECT_FALSE(here.rules.shares_at_once(*peer));
    EXPECT_FALSE(here.rules.chooses(*peer));
    peer->transfers.users = 1;
    EXPECT_TRUE(here.rules.chooses(*peer));
    here.limit.leave(*other);
}

TEST_F(Rules, ARequestIsAcceptedForLargeWorkOrWhileThereIsRoom) {
    Deciding here(*this, Sharing::spare);
    here.rules.limit(1);
    const auto asking = sharing_peer(1);
    EXPECT_TRUE(here.rules.may_share_now(*asking, false));
    const auto sharer = sharing_peer(2);
    sharer->connection.shared = true;
    here.limit.enter(*sharer);
    EXPECT_FALSE(here.rules.has_room());
    EXPECT_FALSE(here.rules.may_share_now(*asking, false));
    EXPECT_TRUE(here.rules.may_share_now(*asking, true));
    EXPECT_TRUE(here.rules.may_share_now(*sharer, false)); // it has one already
    asking->transfers.users = 1;
    EXPECT_TRUE(here.rules.may_share_now(*asking, false));
    asking->transfers.users = 0;
    Deciding all(*this, Sharing::all);
    all.rules.limit(0);
    EXPECT_TRUE(all.rules.may_share_now(*asking, false)); // the bound is of Sharing::spare
    here.limit.leave(*sharer);
}

TEST_F(Rules, APeerThatWaitsForItsOwnNeedNotOnceItHasLargeWork) {
    Deciding here(*this, Sharing::spare);
    const auto other = idle_peer(2);
    here.limit.enter(*other);
    const auto peer = sharing_peer(1);
    EXPECT_FALSE(here.rules.need_not_wait(*peer));
    peer->transfers.users = 1;
    EXPECT_TRUE(here.rules.need_not_wait(*peer));
    peer->connection.activity.ask_at = world_.clock.now() + 1ms; // it was refused
    EXPECT_FALSE(here.rules.need_not_wait(*peer));
    world_.clock.advance(1ms);
    EXPECT_TRUE(here.rules.need_not_wait(*peer));
    here.limit.leave(*other);
    EXPECT_FALSE(here.rules.need_not_wait(*peer)); // there is room now
}

} // namespace
} // namespace adaptib::test
