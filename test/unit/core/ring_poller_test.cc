// SPDX-License-Identifier: BSD-3-Clause
// Polling of the rings of all peers: busy ones in each pass, quiet ones in turn, none forgotten.
#include "core/ring_poller.h"

#include <array>
#include <functional>
#include <limits>

#include "unit/core/core_parts.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kIdle = 20'001; // passes after which a ring is quiet

class RingPollerTest : public CoreParts {
protected:
    RingPollerTest() {
        for (std::uint64_t name = 10; name < 17; ++name) {
            peers_.push_back(peer(name));
            connect(*peers_.back());
            rings_.push_back(std::make_unique<PeerRing>(*peers_.back()));
        }
    }

    Peer& at(std::size_t i) { return *peers_[i]; }
    void heat(std::size_t count, std::uint64_t tick = 0) {
        for (std::size_t i = 0; i < count; ++i) {
            poller_.heat(at(i), tick);
        }
    }
    // Makes the rings of the last peers quiet: those that have no messages.
    void cool_all_but(std::size_t busy) {
        heat(peers_.size());
        for (std::size_t i = 0; i < busy; ++i) {
            rings_[i]->send(1);
        }
        poller_.poll_hot_rings(kIdle);
        poller_.cool(kIdle);
        arrived_.clear();
    }

    // Completes what was posted to the first peer.
    void complete_credit() {
        for (const std::uint32_t path : {0u, 1u}) {
            for (const SendWork& work : qp_of(at(0), path).taken) {
                WorkCompletion completion;
                completion.wr_id = work.wr_id;
                target_of(work.wr_id)->on_work_done(0, completion);
            }
        }
    }

    void on_active(Peer& peer, std::uint8_t tag) override {
        CoreParts::on_active(peer, tag);
        if (on_message_) {
            on_message_(peer);
        }
    }

    std::function<void(Peer&)> on_message_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::vector<std::unique_ptr<PeerRing>> rings_;
    Delivery delivery_{protocol_, clock()};
    CreditReturn credit_{connections_, rails(), nullptr, clock(), counters()};
    bool yields_ = false;
    RingPoller poller_{{.idle_looks = 8,
                        .tight_ticks = std::numeric_limits<std::uint64_t>::max(),
                        .yields = &yields_},
                       protocol_,
                       delivery_,
                       credit_,
                       counters()};
};

TEST_F(RingPollerTest, MessagesOfAllBusyRingsAreTakenInOrder) {
    heat(3);
    EXPECT_EQ(poller_.poll_hot_rings(1), 0u);
    rings_[2]->send(1);
    rings_[0]->send(2);
    rings_[0]->send(3);
    EXPECT_EQ(poller_.poll_hot_rings(2), 3u);
    EXPECT_EQ(arrived_, (std::vector<Arrived>{{&at(0), 2}, {&at(0), 3}, {&at(2), 1}}));
    EXPECT_EQ(counters().ring_received, 3u);
    EXPECT_EQ(at(0).in.busy_at, 2u);
    EXPECT_EQ(at(1).in.busy_at, 0u);
}

TEST_F(RingPollerTest, SilenceIsSeenWithoutATouch) {
    heat(2);
    for (std::size_t i = 0; i < 2; ++i) {
        rings_[i]->send(1);
    }
    poller_.poll_hot_rings(1);
    EXPECT_TRUE(poller_.hot_rings_are_silent());
    rings_[1]->send(1);
    EXPECT_FALSE(poller_.hot_rings_are_silent());
}

TEST_F(RingPollerTest, NoRingTakesAWholePass) {
    heat(2);
    for (std::size_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(rings_[0]->send(8));
    }
    rings_[1]->send(1);
    EXPECT_EQ(poller_.poll_hot_rings(1), 17u) << "sixteen of the first, and the second's";
    EXPECT_EQ(arrived_.back(), (Arrived{&at(1), 1}));
    EXPECT_EQ(poller_.poll_hot_rings(2), 4u);
}

TEST_F(RingPollerTest, QuietRingsArePolledInTurn) {
    cool_all_but(2);
    EXPECT_EQ(poller_.hot(), 4u) << "so many are always polled";
    EXPECT_EQ(poller_.cold(), peers_.size() - 4);
    EXPECT_EQ(poller_.polled(), 5u);
    EXPECT_EQ(poller_.poll_hot_rings(kIdle + 1), 0u);
}

TEST_F(RingPollerTest, NoQuietRingIsForgotten) {
    for (std::size_t sender = 0; sender < peers_.size(); ++sender) {
        SCOPED_TRACE(sender);
        RingPoller poller({}, protocol_, delivery_, credit_, counters());
        for (const auto& each : peers_) {
            poller.heat(*each, 0);
        }
        poller.cool(kIdle);
        arrived_.clear();
        ASSERT_TRUE(rings_[sender]->send(5));
        std::size_t passes = 0;
        while (arrived_.empty() && passes < peers_.size()) {
            ++passes;
            poller.poll_hot_rings(kIdle + passes);
            poller.poll_cold_ring(kIdle + passes);
        }
        ASSERT_EQ(arrived_, (std::vector<Arrived>{{&at(sender), 5}}));
        EXPECT_LE(passes, peers_.size() - 4);
        EXPECT_EQ(poller.hot() + poller.cold(), peers_.size());
    }
}

TEST_F(RingPollerTest, AQuietRingWithAMessageIsBusyAgain) {
    cool_all_but(4);
    const std::size_t quiet = peers_.size() - 1;
    rings_[quiet]->send(5);
    std::size_t taken = 0;
    for (std::size_t pass = 1; taken == 0 && pass <= poller_.cold() + 1; ++pass) {
        taken = poller_.poll_cold_ring(kIdle + pass);
    }
    EXPECT_EQ(taken, 1u);
    EXPECT_EQ(poller_.hot(), 5u);
    rings_[quiet]->send(6);
    EXPECT_EQ(poller_.poll_hot_rings(kIdle + 9), 1u);
    poller_.cool(kIdle + 9);
    EXPECT_EQ(poller_.hot(), 5u) << "it has had a message lately";
}

TEST_F(RingPollerTest, ARingThatWasRemovedIsNotTouched) {
    cool_all_but(4);
    const std::size_t quiet = peers_.size() - 1;
    for (const std::size_t i : {std::size_t{0}, quiet}) {
        rings_[i]->send(5);
        poller_.remove(at(i));
        at(i).in.ring.reset();
    }
    poller_.poll_hot_rings(kIdle);
    for (std::size_t pass = 0; pass < peers_.size(); ++pass) {
        poller_.poll_cold_ring(kIdle);
    }
    EXPECT_TRUE(arrived_.empty());
    EXPECT_EQ(poller_.hot() + poller_.cold(), peers_.size() - 2);
}

// A process that has just been answered releases the slot in its next idle pass.
TEST_F(RingPollerTest, ADeferredReleaseEndsWithItsRingOnly) {
    static constexpr RingHabits kDirties{
        .most_claimed = 0, .lap_messages = 4, .lap_longest = 264, .dirties = true};
    assume_ring_habits(&kDirties);
    {
        const std::unique_ptr<Peer> answered = peer(30);
        connect(*answered);
        PeerRing ring(*answered);
        ring.ring.type = MessageType::eager;
        poller_.heat(*answered, 0);
        heat(2);
        const auto answer = [&] {
            answered->session.next_send = answered->flow.sent_at_last_long + 1;
            ASSERT_TRUE(ring.send(1000));
            poller_.poll_hot_rings(1);
            ASSERT_TRUE(poller_.is_deferring());
        };
        ASSERT_NO_FATAL_FAILURE(answer());
        poller_.remove(at(0));
        ASSERT_TRUE(poller_.is_deferring());
        poller_.release_deferred();
        EXPECT_FALSE(answered->in.ring->has_deferred());
        ASSERT_NO_FATAL_FAILURE(answer());
        poller_.remove(*answered);
        EXPECT_FALSE(poller_.is_deferring());
    }
    assume_ring_habits(nullptr);
}

TEST_F(RingPollerTest, AMessageMayRemoveAndAddRings) {
    heat(3);
    for (std::size_t i = 0; i < 3; ++i) {
        rings_[i]->send(1);
    }
    rings_[3]->send(7);
    on_message_ = [&](Peer& peer) {
        if (&peer == &at(1)) {
            poller_.remove(at(1));
            poller_.heat(at(3), 1);
        }
    };
    for (std::uint64_t tick = 1; tick < 4; ++tick) {
        poller_.poll_hot_rings(tick);
    }
    EXPECT_EQ(arrived_.size(), 4u) << "each message is taken once";
    EXPECT_EQ(poller_.hot(), 3u);
}

TEST_F(RingPollerTest, AMalformedMessageFailsItsPeerOnly) {
    heat(2);
    rings_[0]->ring.type = MessageType::none;
    rings_[0]->ring.fast_path = false;
    ASSERT_TRUE(rings_[0]->send(40));
    rings_[1]->send(1);
    EXPECT_EQ(poller_.poll_hot_rings(1), 1u);
    EXPECT_EQ(at(0).session.state, ConnectState::failed);
    EXPECT_NE(at(0).ending.failure.find("malformed"), std::string::npos);
    EXPECT_EQ(counters().bad_packets, 1u);
    EXPECT_EQ(at(1).session.state, ConnectState::open);
    poller_.poll_hot_rings(2);
    EXPECT_EQ(counters().bad_packets, 1u) << "is counted once";
}

TEST_F(RingPollerTest, TheLastMessagesOfARingAreTakenInOneGo) {
    heat(1);
    for (std::size_t i = 0; i < 40; ++i) {
        ASSERT_TRUE(rings_[0]->send(8));
    }
    poller_.empty(at(0));
    EXPECT_EQ(arrived_.size(), 40u);
    EXPECT_FALSE(poller_.is_deferring());
}

// A datagram is missing: what follows it in the ring is kept, up to a bound, and then waits there.
TEST_F(RingPollerTest, EarlyMessagesTakeBoundedMemory) {
    heat(1);
    Ring& ring = rings_[0]->ring;
    ring.sequence = 1;
    const auto send_and_poll = [&](int passes) {
        for (int pass = 0; pass < passes; ++pass) {
            while (rings_[0]->send(pass % 3 == 0 ? 300 : 100)) {
            }
            poller_.poll_hot_rings(1);
            ring.credit = at(0).in.ring->consumed();
        }
    };
    send_and_poll(1000);
    const std::uint32_t sent = ring.sequence;
    EXPECT_GE(at(0).in.early_bytes, ArrivalOrder::kMostEarly);
    EXPECT_LT(at(0).in.early_bytes, ArrivalOrder::kMostEarly + 1024);
    EXPECT_TRUE(arrived_.empty());
    EXPECT_EQ(poller_.poll_hot_rings(2), 0u);
    EXPECT_EQ(poller_.take_one_each(), 0u);

    MessageHeader missing;
    missing.type = MessageType::active;
    protocol_.on_message(at(0), missing, nullptr);
    EXPECT_GT(arrived_.size(), 100u);
    send_and_poll(100);
    poller_.empty(at(0));
    EXPECT_EQ(arrived_.size(), ring.sequence);
    EXPECT_GT(ring.sequence, sent);
    EXPECT_EQ(at(0).in.early_bytes, 0u);
}

TEST_F(RingPollerTest, ARingThatIsTakenDownIsEmptiedWhateverIsKept) {
    heat(1);
    rings_[0]->ring.sequence = 1;
    at(0).in.early_bytes = ArrivalOrder::kMostEarly;
    for (std::size_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(rings_[0]->send(8));
    }
    EXPECT_EQ(poller_.poll_hot_rings(1), 0u);
    poller_.empty(at(0));
    EXPECT_EQ(counters().early, 20u);
    EXPECT_EQ(rings_[0]->peer.in.ring->head(), 0u);
    protocol_.forget(at(0));
    EXPECT_EQ(at(0).in.early_bytes, ArrivalOrder::kMostEarly) << "none of these was kept";
    at(0).in.early_bytes = 0;
}

TEST_F(RingPollerTest, ToBeTimedOneMessageOfEachRingIsTaken) {
    heat(2);
    rings_[0]->send(1);
    rings_[0]->send(2);
    rings_[1]->send(3);
    EXPECT_EQ(poller_.take_one_each(), 2u);
    EXPECT_EQ(arrived_, (std::vector<Arrived>{{&at(0), 1}, {&at(1), 3}}));
    EXPECT_EQ(poller_.take_one_each(), 1u);
}

// Posted messages take the count of the other ring along, whose writer may wait for it.
TEST_F(RingPollerTest, WhateverTakesAMessageHearsTheCountInIt) {
    heat(1);
    rings_[0] = std::make_unique<PeerRing>(at(0), 256, false);
    Ring& in = rings_[0]->ring;
    Ring out(256, false);
    out.qp.show(~std::size_t{0});
    at(0).out.ring = std::move(out.writer);
    const std::array<std::function<void()>, 2> ways{[&] { poller_.poll_hot_rings(1); },
                                                    [&] { poller_.take_one_each(); }};
    for (const auto& take : ways) {
        MessageHeader header;
        header.length = 8;
        ASSERT_NE(at(0).out.ring->reserve(8), nullptr);
        ASSERT_TRUE(at(0).out.ring->commit(header).ok());
        const std::uint64_t produced = at(0).out.ring->cursor().produced();
        in.writer->carried_credit().carry(produced);
        ASSERT_TRUE(rings_[0]->send(8));
        in.qp.show(~std::size_t{0});
        take();
        EXPECT_EQ(at(0).out.ring->cursor().consumed(), produced);
    }
    at(0).out.ring.reset();
}

TEST_F(RingPollerTest, ACallerThatOnlyWaitsHasTheBusyRingsPolledAgain) {
    heat(2);
    rings_[0]->send(1);
    rings_[1]->send(1);
    poller_.poll_hot_rings(1);
    poller_.cool(1); // sets how often
    EXPECT_EQ(poller_.look_again(2), 0u);
    rings_[1]->send(1);
    EXPECT_EQ(poller_.look_again(3), 1u);
    EXPECT_EQ(counters().found_idle, 1u);
    yields_ = true;
    poller_.cool(4);
    rings_[1]->send(1);
    EXPECT_EQ(poller_.look_again(4), 0u) << "another process may need the processor";
}

TEST_F(RingPollerTest, CreditIsReturnedWhenHalfTheRingHasBeenConsumed) {
    heat(1);
    for (std::size_t round = 0; round < 4; ++round) { // 64 of 256 units each
        for (std::size_t i = 0; i < 16; ++i) {
            ASSERT_TRUE(rings_[0]->send(100)) << round;
        }
        poller_.poll_hot_rings(round);
        complete_credit();
    }
    EXPECT_EQ(counters().credit_returns, 2u);
    EXPECT_EQ(qp_of(at(0)).taken.size() + qp_of(at(0), 1).taken.size(), 2u);
}

TEST_F(RingPollerTest, APeerThatMayBeGoneGetsNoCredit) {
    heat(2);
    at(0).session.state = ConnectState::closing;
    at(1).ending.disconnect_received = true;
    for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t sent = 0; sent < 40; ++sent) {
            ASSERT_TRUE(rings_[i]->send(100));
        }
        poller_.empty(at(i));
        EXPECT_TRUE(at(i).in.ring->credit_due());
        EXPECT_TRUE(qp_of(at(i)).taken.empty() && qp_of(at(i), 1).taken.empty());
    }
    EXPECT_EQ(counters().credit_returns, 0u);
    at(1).transfers.users = 1; // the peer takes part in a transfer
    rings_[1]->send(1);
    poller_.poll_hot_rings(1);
    EXPECT_EQ(counters().credit_returns, 1u);
}

} // namespace
} // namespace adaptib::test
