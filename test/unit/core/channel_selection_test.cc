// SPDX-License-Identifier: BSD-3-Clause
// Selection of the peers that get the only connection: by their messages, both ways, of late.
#include "core/channel_selection.h"

#include "unit/connect/shared_connections.h"
#include "unit/core/core_parts.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class ChannelSelectionTest : public CoreParts {
protected:
    static constexpr Nanoseconds kPeriod = 100ms;

    ChannelSelectionTest() {
        clock().advance(1s);
        for (const std::uint64_t name : {21u, 22u, 23u}) {
            table_.add(peer(name));
        }
    }
    ~ChannelSelectionTest() override {
        table_.for_each([this](Peer& peer) { connections_.close(peer, ConnectState::idle); });
    }

    static ChannelSelection::Options options() {
        ChannelSelection::Options options;
        options.selects = true;
        options.period = kPeriod;
        options.rings = 8;
        return options;
    }
    Peer& at(std::uint64_t name) { return *table_.find(name); }
    void talk(std::uint64_t name, std::uint32_t sent, std::uint32_t received) {
        at(name).session.next_send += sent;
        at(name).in.next_receive += received;
    }
    void select() {
        clock().advance(kPeriod);
        selection_.select_channels(clock().now());
    }
    std::vector<std::uint64_t> chosen() {
        std::vector<std::uint64_t> names;
        for (const std::uint64_t name : {21u, 22u, 23u}) {
            if (at(name).connection.activity.chosen) {
                names.push_back(name);
            }
        }
        return names;
    }
    std::vector<std::uint64_t> requested() {
        std::vector<std::uint64_t> names;
        for (const std::uint64_t name : {21u, 22u, 23u}) {
            if (at(name).session.state == ConnectState::requested) {
                names.push_back(name);
            }
        }
        return names;
    }
    using Names = std::vector<std::uint64_t>;

    PeerTable table_;
    CostMeter meter_;
    ChannelSelection selection_{options(), table_, connections_, counters()};
};

TEST_F(ChannelSelectionTest, IsDueOncePerPeriodAndOnlyWithoutRoom) {
    EXPECT_FALSE(selection_.is_due(clock().now())) << "there is room for all";
    connections_.request(at(21));
    ASSERT_EQ(requested(), Names{21});
    EXPECT_TRUE(selection_.is_due(clock().now()));
    select();
    EXPECT_FALSE(selection_.is_due(clock().now() + kPeriod - 1ns));
    EXPECT_TRUE(selection_.is_due(clock().now() + kPeriod));
    ChannelSelection none({}, table_, connections_, counters());
    EXPECT_FALSE(none.is_due(clock().now()));
}

TEST_F(ChannelSelectionTest, TheBusiestPeerGetsTheConnection) {
    talk(21, 3000, 0);
    talk(22, 2000, 2000); // both directions count
    talk(23, 0, 1000);
    select();
    EXPECT_EQ(chosen(), Names{22});
    EXPECT_EQ(requested(), Names{22});
    EXPECT_EQ(counters().selections, 1u);
    EXPECT_EQ(counters().selections_changed, 1u);
}

TEST_F(ChannelSelectionTest, FewMessagesAreNotWorthAConnection) {
    talk(21, 5, 5);
    select();
    EXPECT_EQ(chosen(), Names{});
    EXPECT_EQ(requested(), Names{});
}

TEST_F(ChannelSelectionTest, OnlyMessagesSinceTheLastSelectionCount) {
    talk(21, 3000, 0);
    select();
    ASSERT_EQ(chosen(), Names{21});
    for (int period = 0; period < 4; ++period) { // 21 has more in all, but is silent
        talk(22, 400, 0);
        select();
    }
    EXPECT_EQ(chosen(), Names{22});
    EXPECT_TRUE(at(22).connection.wanted_link.linked()) << "it waits for the other one's end";
    EXPECT_EQ(requested(), Names{21});
}

TEST_F(ChannelSelectionTest, APeerThatWasRefusedIsNotChosenForAWhile) {
    at(21).connection.activity.own_after = clock().now() + 150ms;
    talk(21, 9000, 0);
    talk(22, 1000, 0);
    select();
    EXPECT_EQ(chosen(), Names{22});
    EXPECT_EQ(requested(), Names{22});
}

TEST_F(ChannelSelectionTest, APeerThatIsReleasedOrOutOfContactGetsNoConnection) {
    at(21).ending.release = Release::released;
    talk(21, 9000, 0);
    select();
    EXPECT_EQ(requested(), Names{});
    at(21).ending.release = Release::none;
    at(21).contact.datagram.handle.reset();
    talk(21, 9000, 0);
    select();
    EXPECT_EQ(at(21).session.state, ConnectState::idle);
}

TEST_F(ChannelSelectionTest, TheConnectionInUseStaysUnlessAnotherIsWorthMore) {
    connections_.request(at(21));
    at(21).session.state = ConnectState::open;
    talk(21, 3000, 0);
    talk(22, 3100, 0);
    select();
    EXPECT_EQ(counters().selections_changed, 0u);
    EXPECT_EQ(at(21).session.state, ConnectState::open);
    EXPECT_FALSE(at(22).connection.wanted_link.linked());
    at(21).session.state = ConnectState::requested;
}

TEST_F(ChannelSelectionTest, CostsAreTheModelsUntilTheyAreMeasured) {
    ChannelSelection::Options measured = options();
    measured.meter = &meter_;
    measured.costs.poll = 7;
    ChannelSelection selection(measured, table_, connections_, counters());
    selection.note_costs();
    EXPECT_EQ(counters().cost_poll, 7'000u) << "ps";
    EXPECT_EQ(counters().cost_credit, 300'000u);
    EXPECT_EQ(counters().cost_samples, 0u);
    for (std::size_t i = 0; i < CostMeter::kSamples; ++i) {
        meter_.add_credit(Nanoseconds{500}, Nanoseconds{20});
    }
    selection.note_costs();
    EXPECT_EQ(counters().cost_credit, 480'000u);
    EXPECT_EQ(counters().cost_poll, 7'000u);
    EXPECT_EQ(counters().cost_samples, CostMeter::kSamples);
    EXPECT_FALSE(meter_.wants_credits());
    selection.select_channels(clock().now());
    EXPECT_TRUE(meter_.wants_credits()) << "another period, new samples";
}

// Beyond the initiators, a shared ring changes its queue pair's target with each message.
TEST_F(ChannelSelectionTest, NoMorePeersShareThanPays) {
    ChannelSelection::Options changes_are_dear = options();
    changes_are_dear.costs.change = 2 * changes_are_dear.costs.shared_ring;
    changes_are_dear.costs.initiators = 0;
    ChannelSelection(changes_are_dear, table_, connections_, counters()).note_costs();
    EXPECT_FALSE(connections_.sharing().has_room());
    ChannelSelection::Options changes_are_free = options();
    changes_are_free.costs.change = 0;
    ChannelSelection(changes_are_free, table_, connections_, counters()).note_costs();
    EXPECT_TRUE(connections_.sharing().has_room());
}

TEST_F(ChannelSelectionTest, ACallerPromotesAPeerThatItStillWants) {
    at(21).ending.release = Release::released;
    selection_.promote(at(21));
    at(22).contact.datagram.handle.reset();
    selection_.promote(at(22));
    EXPECT_EQ(requested(), Names{});
    selection_.promote(at(23));
    EXPECT_EQ(requested(), Names{23});
}

TEST_F(ChannelSelectionTest, ACallerDemotesAPeerWhoseConnectionNothingNeeds) {
    connections_.request(at(21));
    at(21).session.state = ConnectState::open;
    at(21).transfers.users = 1;
    selection_.demote(at(21));
    EXPECT_EQ(at(21).session.state, ConnectState::open);
    at(21).transfers.users = 0;
    selection_.demote(at(21));
    EXPECT_EQ(at(21).session.state, ConnectState::closing);
}

// With room for one connection over queue pairs of a peer's own, and for one over shared ones.
class SharedSelection : public SharedConnections {
protected:
    static constexpr Nanoseconds kPeriod = 100ms;

    SharedSelection() : SharedConnections(Sharing::spare, 1) {
        world_.clock.advance(1s);
        for (const std::uint64_t name : {21u, 22u, 23u}) {
            table_.add(sharing_peer(name));
        }
        connections_.sharing().limit(1);
    }
    ~SharedSelection() override {
        table_.for_each([this](Peer& peer) { connections_.close(peer, ConnectState::idle); });
    }
    static ChannelSelection::Options selection_options() {
        ChannelSelection::Options options;
        options.selects = true;
        options.period = kPeriod;
        options.sharing = Sharing::spare;
        options.rings = 8;
        return options;
    }
    Peer& at(std::uint64_t name) { return *table_.find(name); }

    PeerTable table_;
    ChannelSelection selection_{selection_options(), table_, connections_, world_.counters};
};

TEST_F(SharedSelection, APeerThatIsSilentMakesRoomForOneThatShallShare) {
    for (const bool wanted : {false, true}) {
        connections_.set_preference(at(21), SharingPreference::shared);
        ASSERT_TRUE(at(21).connection.shared);
        at(21).session.state = ConnectState::open;
        ASSERT_FALSE(connections_.sharing().has_room());
        at(22).session.next_send += 9000; // it gets the one of its own
        at(23).session.next_send += wanted ? 8000 : 0;
        world_.clock.advance(kPeriod);
        selection_.select_channels(world_.clock.now());
        EXPECT_EQ(at(23).session.state, ConnectState::idle);
        EXPECT_EQ(at(21).session.state, wanted ? ConnectState::closing : ConnectState::open);
    }
}

} // namespace
} // namespace adaptib::test
