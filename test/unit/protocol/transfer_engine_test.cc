// SPDX-License-Identifier: BSD-3-Clause
// TransferEngine, with queue pairs that take as many requests as the test says: stripes go out as
// far as there is room and in their order, each transfer ends once, and what a connection loses is
// transferred again.
#include "protocol/transfer_engine.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "unit/messages.h"
#include "unit/protocol/held_flow.h"
#include "unit/protocol/open_peer.h"

namespace adaptib::test {
namespace {

constexpr Bytes kLength = 100'000;
constexpr std::uint32_t kKey = 77;

struct CountedTransfer final : Transfer {
    CountedTransfer(TransferOwner& of, TransferEngine& by, Peer& to, Opcode opcode)
        : Transfer(of, by, to) {
        rma.opcode = opcode;
        rma.registration = &nothing;
        rma.remote_key_count = 2;
        rma.remote_keys[0] = rma.remote_keys[1] = kKey;
        rma.length = kLength;
        rma.local = data.data();
    }

    Registration nothing;
    std::vector<std::byte> data = std::vector<std::byte>(kLength);
    int ended = 0;
};

class Engine : public testing::Test, protected OpenPeer, public TransferOwner {
protected:
    Engine() { held.hold(*peer); }
    ~Engine() override { EXPECT_FALSE(engine.work_outstanding()); }

    CountedTransfer& make(Opcode opcode = Opcode::read) {
        return *made.emplace_back(std::make_unique<CountedTransfer>(*this, engine, *peer, opcode));
    }
    CountedTransfer& started(Opcode opcode = Opcode::read) {
        CountedTransfer& transfer = make(opcode);
        engine.start_transfer(transfer);
        return transfer;
    }
    bool wants(PeerEvent event) {
        return held.losses.events.take(event) == std::vector<Peer*>{peer.get()};
    }

    // Carries transfers whose second stripe takes twice as long as the first, and expects that the
    // scheduler learns so.
    void learn_from_a_late_rail() {
        peer->lanes.scheduler = scheduler("adaptive");
        const auto poll = [this] {
            for (int step = 0; step < 100; ++step) {
                there.clock.advance(Nanoseconds{10});
                engine.on_polled();
            }
        };
        for (int i = 0; i < 3; ++i) {
            const CountedTransfer& transfer = started();
            ASSERT_FALSE(transfer.rma.progress.empty());
            poll();
            complete(0);
            poll();
            complete_all();
            ASSERT_EQ(transfer.ended, 1);
        }
        EXPECT_GT(peer->lanes.scheduler->lessons(), 0u);
        EXPECT_GT(peer->lanes.scheduler->weight(Mix::reads, 0),
                  peer->lanes.scheduler->weight(Mix::reads, 1));
    }

    HeldFlow held{there.counters};
    std::vector<std::string> refusals;
    TransferEngine engine{{&there.clock, std::chrono::microseconds{100}, 10},
                          rails,
                          held.flow,
                          held.losses.events,
                          there.counters,
                          messages_into(refusals)};
    std::vector<std::unique_ptr<CountedTransfer>> made;

private:
    void on_rma_done(Transfer& transfer) override {
        ++static_cast<CountedTransfer&>(transfer).ended;
    }
};

TEST_F(Engine, ATransferEndsWithItsLastStripe) {
    peer->lanes.scheduler = scheduler("even");
    CountedTransfer& transfer = started(Opcode::write);
    ASSERT_EQ(posted(), 2u);
    EXPECT_EQ(qp(0).taken[0].remote_key, kKey);
    EXPECT_EQ(peer->transfers.stripes, 2u);
    EXPECT_TRUE(engine.work_outstanding());
    complete(1);
    EXPECT_EQ(transfer.ended, 0);
    complete(0);
    EXPECT_EQ(transfer.ended, 1);
    EXPECT_FALSE(transfer.rma.failed);
    EXPECT_FALSE(engine.work_outstanding());
    EXPECT_EQ(peer->transfers.stripes, 0u);
    EXPECT_EQ(there.counters.rdma_write_bytes, kLength);
}

// A device of the peer was lost, and is back: what its keys were means nothing.
TEST_F(Engine, KeysOfAnEarlierEpochAreAskedFor) {
    peer->connection.key_epoch = 2;
    CountedTransfer& late = make(Opcode::read);
    late.rma.keys.epoch = 1;
    engine.start_transfer(late);
    EXPECT_EQ(posted(), 0u);
    EXPECT_EQ(engine.asking(), 1u);
    EXPECT_FALSE(late.waits());
    const std::vector<HeldMessage> asked = held.take(*peer);
    ASSERT_EQ(asked.size(), 1u);
    ASSERT_EQ(asked[0].type, MessageType::region_query);
    RegionKeysBody answer{};
    answer.id = read_body<RegionQueryBody>(asked[0].body.data()).id;
    answer.key_epoch = 2;
    answer.key_count = 2;
    answer.keys[0] = answer.keys[1] = kKey + 1;
    engine.on_region_keys(*peer, answer);
    EXPECT_EQ(engine.asking(), 0u);
    ASSERT_EQ(posted(), 1u);
    EXPECT_EQ(qp(used()).taken[0].remote_key, kKey + 1);
    complete_all();
    EXPECT_EQ(late.ended, 1);
}

TEST_F(Engine, AnEpochMayBeKnownByTheKeysFirst) {
    CountedTransfer& early = make(Opcode::read);
    early.rma.keys.epoch = 1; // the peer's handshake has not said so yet
    engine.start_transfer(early);
    EXPECT_EQ(posted(), 1u);
    EXPECT_EQ(engine.asking(), 0u);
    EXPECT_TRUE(epoch_before(255, 0)) << "it wraps";
    complete_all();
}

TEST_F(Engine, APlanOfOneStripeLiesInItsTransfer) {
    CountedTransfer& one = started(Opcode::write);
    EXPECT_EQ(one.rma.plan.size(), 1u);
    EXPECT_TRUE(one.rma.plan.is_inline());
    peer->lanes.scheduler = scheduler("even");
    CountedTransfer& two = started(Opcode::write);
    EXPECT_EQ(two.rma.plan.size(), 2u);
    EXPECT_FALSE(two.rma.plan.is_inline());
    complete_all();
}

TEST_F(Engine, AShortTransferTakesTheControlLane) {
    peer->lanes.scheduler = scheduler("even");
    CountedTransfer* last = nullptr;
    for (int i = 0; i < 3; ++i) {
        last = &make(Opcode::write);
        last->rma.length = 8;
        engine.start_transfer(*last);
        ASSERT_EQ(posted(), 1u);
        EXPECT_EQ(used(), peer->lanes.scheduler->control_lane());
        EXPECT_EQ(last->rma.rounds, 1u);
        complete_all();
        EXPECT_EQ(last->ended, 1);
    }
    // It takes the path that is left if the control lane's is gone.
    const std::uint32_t gone = peer->lanes.scheduler->control_lane();
    std::unique_ptr<QueuePair> kept = std::move(peer->lanes.subchannels[gone].qp);
    last = &make(Opcode::write);
    last->rma.length = 8;
    engine.start_transfer(*last);
    EXPECT_EQ(qp(1 - gone).taken.size(), 1u);
    EXPECT_NE(peer->lanes.scheduler->control_lane(), gone);
    complete(1 - gone);
    EXPECT_EQ(last->ended, 1);
    peer->lanes.subchannels[gone].qp = std::move(kept);
}

TEST_F(Engine, ACompletionNamesItsStripe) {
    constexpr std::size_t kStripes = kWorkNumbers + 1000; // the numbers begin again
    peer->lanes.scheduler = scheduler("adaptive");
    CountedTransfer& transfer = make();
    transfer.rma.length = kStripes * 512 * kKiB; // rounds of one stripe or two; nothing is copied
    engine.start_transfer(transfer);
    ASSERT_EQ(posted(), 4u) << "two rounds are under way";
    std::size_t complete_ones = 0;
    while (transfer.ended == 0) {
        engine.post_waiting();
        // The first stripe of the second queue pair is late. From then on either may be ahead.
        const std::uint32_t other_one = 1 - used();
        const bool both = !qp(other_one).taken.empty();
        const bool late = complete_ones < kWorkNumbers + 100 || complete_ones % 3 == 0;
        const std::uint32_t on = both && !late ? other_one : used();
        complete(on);
        ++complete_ones;
        ASSERT_EQ(transfer.rma.progress[1].done, !late || complete_ones > kWorkNumbers + 100);
    }
    EXPECT_GE(complete_ones, kStripes);
    EXPECT_EQ(complete_ones, transfer.rma.plan.size());
    for (const StripeProgress& each : transfer.rma.progress) {
        ASSERT_TRUE(each.done);
    }
    for (const Subchannel& subchannel : peer->lanes.subchannels) {
        EXPECT_EQ(subchannel.outstanding[0], 0u);
        EXPECT_EQ(subchannel.reads, 0u);
    }
}

// A time says less about a path the more bytes went before.
TEST_F(Engine, AStripeKnowsHowMuchIsAheadOfIt) {
    peer->lanes.scheduler = scheduler("adaptive");
    std::array<Bytes, 2> posted_before{}; // by subchannel
    for (int i = 0; i < 2; ++i) {
        const TransferPlan& rma = started(Opcode::write).rma;
        ASSERT_EQ(rma.progress.size(), 2u);
        for (std::size_t stripe = 0; stripe < 2; ++stripe) {
            Bytes& before = posted_before.at(rma.plan[stripe].subchannel);
            EXPECT_EQ(rma.progress[stripe].ahead, before);
            before += rma.plan[stripe].length;
        }
    }
    complete_all();
}

TEST_F(Engine, ACompletionOfAConnectionThatIsGoneNamesNoStripe) {
    started();
    const std::uint32_t on = used();
    const SendWork work = qp(on).taken.front();
    const std::uint32_t number = qp(on).number();
    connect();
    peer->lanes.subchannels[on].outstanding[0] = 1; // of another transfer
    peer->lanes.subchannels[on].local_rail = 7;
    WorkCompletion completion;
    completion.wr_id = work.wr_id;
    completion.qp_number = number;
    target_of(work.wr_id)->on_work_done(on, completion);
    EXPECT_EQ(peer->lanes.subchannels[on].outstanding[0], 1u);
    EXPECT_EQ(made.front()->ended, 1);
}

TEST_F(Engine, WithoutRoomTransfersWaitInTheirOrder) {
    qp(0).room = qp(1).room = 1;
    started();
    const std::uint32_t on = used();
    CountedTransfer& second_one = started();
    CountedTransfer& third = started();
    EXPECT_EQ(posted(), 1u);
    EXPECT_TRUE(engine.any_waits());
    engine.post_waiting();
    EXPECT_EQ(posted(), 1u) << "there is no room yet";
    complete(on);
    engine.post_waiting();
    ASSERT_EQ(qp(on).taken.size(), 1u);
    EXPECT_EQ(target_of(qp(on).taken[0].wr_id), &second_one);
    complete(on);
    engine.post_waiting();
    ASSERT_EQ(qp(on).taken.size(), 1u);
    EXPECT_EQ(target_of(qp(on).taken[0].wr_id), &third);
    EXPECT_FALSE(engine.any_waits());
    complete_all();
    EXPECT_EQ(third.ended, 1);
}

TEST_F(Engine, NoMoreStripesAreUnderWayThanTheirCompletionsHaveRoomFor) {
    qp(0).room = qp(1).room = 100;
    for (int i = 0; i < 25; ++i) {
        started();
    }
    for (int pass = 0; pass < 3; ++pass) {
        EXPECT_LE(posted(), 10u);
        complete_all();
        engine.post_waiting();
    }
    complete_all();
    for (const auto& each : made) {
        EXPECT_EQ(each->ended, 1);
    }
}

// The bound is of all peers: in each pass they share what is left of it.
TEST_F(Engine, PeersThatWaitForTheBoundGetAsMuchOfIt) {
    constexpr std::size_t kBound = 10;
    OpenPeer another;
    for (OpenPeer* of : {static_cast<OpenPeer*>(this), &another}) {
        of->qp(0).room = of->qp(1).room = 2 * kBound;
    }
    for (std::size_t i = 0; i < 2 * kBound; ++i) {
        started();
    }
    for (std::size_t i = 0; i < kBound; ++i) {
        engine.start_transfer(*made.emplace_back(
            std::make_unique<CountedTransfer>(*this, engine, *another.peer, Opcode::read)));
    }
    ASSERT_EQ(posted(), kBound);
    ASSERT_EQ(another.posted(), 0u);
    complete_all();
    engine.post_waiting();
    EXPECT_EQ(posted(), kBound / 2);
    EXPECT_EQ(another.posted(), kBound / 2);
    while (posted() + another.posted() > 0) {
        complete_all();
        another.complete_all();
        engine.post_waiting();
    }
    for (const auto& transfer : made) {
        EXPECT_EQ(transfer->ended, 1);
    }
}

TEST_F(Engine, ATransferWaitsForAConnection) {
    peer->session.state = ConnectState::idle;
    CountedTransfer& transfer = started();
    EXPECT_TRUE(wants(PeerEvent::want_connection));
    EXPECT_EQ(posted(), 0u);
    peer->session.state = ConnectState::open;
    engine.post_waiting();
    EXPECT_EQ(posted(), 1u);
    complete_all();
    EXPECT_EQ(transfer.ended, 1);
}

TEST_F(Engine, AnOperationIsHeldDuringADisconnect) {
    CountedTransfer& operation = make(Opcode::write);
    operation.rma.one_sided = operation.rma.keys.found = true;
    peer->session.disconnect_sent = true;
    engine.start_operation(operation);
    engine.post_waiting();
    EXPECT_EQ(posted(), 0u);
    EXPECT_FALSE(engine.any_waits()) << "no pass can post it";
    peer->session.disconnect_sent = false;
    engine.start_held(*peer);
    EXPECT_EQ(posted(), 1u);
    complete_all();
    EXPECT_EQ(operation.ended, 1);
}

TEST_F(Engine, OnceThePeerHasFailedAllThatWaitsFails) {
    qp(0).room = qp(1).room = 1;
    CountedTransfer& under_way = started();
    const std::uint32_t on = used();
    CountedTransfer& behind = started();
    CountedTransfer& held = make();
    held.rma.one_sided = true;
    peer->session.disconnect_sent = true;
    engine.start_operation(held);
    peer->session.state = ConnectState::failed;
    engine.fail_waiting(*peer);
    EXPECT_EQ(behind.ended, 1);
    EXPECT_TRUE(behind.rma.failed);
    EXPECT_EQ(held.ended, 1);
    EXPECT_EQ(under_way.ended, 0) << "its stripe is still to complete";
    complete(on, WorkStatus::flushed);
    EXPECT_EQ(under_way.ended, 1);
    EXPECT_TRUE(under_way.rma.failed);
    EXPECT_FALSE(engine.any_waits());
}

TEST_F(Engine, AfterAPathFailureTheStripeIsTransferredAgain) {
    peer->session.repairable = true;
    peer->lanes.scheduler = scheduler("even");
    CountedTransfer& transfer = started();
    ASSERT_EQ(posted(), 2u);
    complete(0);
    complete(1, WorkStatus::flushed);
    EXPECT_EQ(transfer.ended, 0);
    EXPECT_EQ(there.counters.stripes_repeated, 1u);
    EXPECT_TRUE(engine.any_waits());
    ++peer->connection.number;
    connect();
    engine.post_waiting();
    EXPECT_GE(posted(), 1u);
    complete_all();
    EXPECT_EQ(transfer.ended, 1);
    EXPECT_FALSE(transfer.rma.failed);
    EXPECT_EQ(there.counters.rdma_read_bytes, kLength + there.counters.stripes_repeated_bytes);
    EXPECT_LT(there.counters.stripes_repeated_bytes, kLength);
}

TEST_F(Engine, StripesThatWillNotCompleteAreTransferredAgain) {
    peer->session.repairable = true;
    CountedTransfer& read = started();
    CountedTransfer& atomic = make(Opcode::fetch_add);
    atomic.rma.length = 8;
    engine.start_transfer(atomic);
    engine.abandon(*peer);
    EXPECT_EQ(atomic.ended, 1) << "it may have been executed";
    EXPECT_TRUE(atomic.rma.failed);
    EXPECT_EQ(read.ended, 0);
    EXPECT_FALSE(engine.work_outstanding());
    ++peer->connection.number;
    connect();
    engine.post_waiting();
    complete_all();
    EXPECT_EQ(read.ended, 1);
    EXPECT_FALSE(read.rma.failed);
}

TEST_F(Engine, AnAbandonedPlanWithoutTimesLeavesTimesAlone) {
    peer->session.repairable = true;
    started();
    engine.abandon(*peer);
    ++peer->connection.number;
    connect();
    engine.post_waiting();
    complete_all();
    learn_from_a_late_rail();
}

TEST_F(Engine, AQueuePairThatIsBrokenAsksForRepair) {
    peer->session.repairable = true;
    qp(0).answer = qp(1).answer = Status::error(Reason::bad_state);
    CountedTransfer& transfer = started();
    EXPECT_TRUE(wants(PeerEvent::want_repair));
    EXPECT_TRUE(transfer.waits());
    peer->interruption.repair.wanted = false;
    ++peer->connection.number;
    connect();
    engine.post_waiting();
    complete_all();
    EXPECT_EQ(transfer.ended, 1);
}

TEST_F(Engine, AnOperationThatTheTargetRefusesFailsAlone) {
    peer->session.repairable = true;
    CountedTransfer& operation = make();
    operation.rma.one_sided = operation.rma.keys.found = true;
    engine.start_operation(operation);
    complete(used(), WorkStatus::remote_access_error);
    EXPECT_EQ(operation.ended, 1);
    EXPECT_EQ(operation.rma.failure, TransferFailure::refusal);
    EXPECT_EQ(refusals.size(), 1u);
    EXPECT_FALSE(peer->interruption.work_failed);

    first.see_regions(); // no key is found when the operation has waited for a connection
    qp(0).key = qp(1).key = Status::error(Reason::bad_key);
    CountedTransfer& other_one = make();
    other_one.rma.one_sided = true;
    engine.start_operation(other_one);
    EXPECT_EQ(other_one.ended, 1);
    EXPECT_EQ(other_one.rma.failure, TransferFailure::refusal);
    EXPECT_EQ(posted(), 0u);
}

TEST_F(Engine, TimesOfStripesCountFromTheLastPoll) { learn_from_a_late_rail(); }

TEST_F(Engine, OnceBothDirectionsAreWantedTheyShareTheRails) {
    qp(0).room = qp(1).room = 100;
    const auto operation = [this](Opcode opcode) -> CountedTransfer& {
        CountedTransfer& made_one = make(opcode);
        made_one.rma.one_sided = made_one.rma.keys.found = true;
        engine.start_operation(made_one);
        return made_one;
    };
    for (int i = 0; i < 4; ++i) {
        operation(Opcode::write);
    }
    EXPECT_EQ(posted(), 4u) << "nothing is held while there are puts alone";
    operation(Opcode::read);
    EXPECT_EQ(posted(), 5u);
    const CountedTransfer& held = operation(Opcode::write);
    EXPECT_EQ(posted(), 5u);
    EXPECT_TRUE(held.waits());
    EXPECT_FALSE(engine.any_waits()) << "a completion posts it, not a pass";
    complete_all();
    for (const auto& each : made) {
        EXPECT_EQ(each->ended, 1);
    }
    EXPECT_EQ(there.counters.transfers_queued, 1u);
}

TEST_F(Engine, TheRailsAreSharedAsLongAsBothDirectionsAreWanted) {
    qp(0).room = qp(1).room = 100;
    for (int period = 0; period < 20; ++period) {
        for (const Opcode opcode : {Opcode::write, Opcode::write, Opcode::read, Opcode::write}) {
            CountedTransfer& each = make(opcode);
            each.rma.one_sided = each.rma.keys.found = true;
            engine.start_operation(each);
        }
        complete_all();
        ASSERT_NE(peer->transfers.put_get_balance, nullptr) << period;
    }
}

TEST_F(Engine, ARefusalThatNamesNoStripeIsNoSubchannels) {
    CountedTransfer& operation = make();
    operation.rma.one_sided = operation.rma.keys.found = true;
    engine.start_operation(operation);
    const std::uint32_t on = used();
    const SendWork work = qp(on).taken.front();
    const std::uint32_t number = qp(on).number();
    connect();
    peer->lanes.subchannels[on].local_rail = 7;
    WorkCompletion completion;
    completion.wr_id = work.wr_id;
    completion.qp_number = number;
    completion.status = WorkStatus::remote_access_error;
    target_of(work.wr_id)->on_work_done(on, completion);
    EXPECT_EQ(operation.ended, 1);
    for (const Subchannel& subchannel : peer->lanes.subchannels) {
        EXPECT_FALSE(subchannel.refused);
    }
}

} // namespace
} // namespace adaptib::test
