// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of a connection: which paths get one, what happens without room, how they are
// connected and failed.
#include "connect/queue_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Pairs : public RecordedConnections {
protected:
    static ConnectOptions options() {
        ConnectOptions options;
        options.self = 9;
        options.answer_timeout = 17;
        options.answer_retries = 5;
        return options;
    }
    std::vector<std::uint32_t> live(const Peer& peer) const {
        std::vector<std::uint32_t> paths;
        for (std::uint32_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
            if (peer.lanes.subchannels[i].qp != nullptr) {
                paths.push_back(i);
            }
        }
        return paths;
    }
    // Takes the peer's connection down, into the pool.
    void keep(Peer& peer) {
        std::vector<std::unique_ptr<QueuePair>> taken;
        for (Subchannel& subchannel : peer.lanes.subchannels) {
            taken.push_back(pairs_.take(peer, subchannel));
        }
        peer.lanes.subchannels.clear();
        pool_.keep(peer, std::move(taken));
    }

    const ConnectContext context_ = recorded_context(options());
    ConnectionPool pool_{4, world_.counters};
    QueuePairs pairs_{context_, pool_};
    std::unique_ptr<Peer> peer_ = idle_peer(1);
};

TEST_F(Pairs, EachUsablePathGetsOneInTheStateInit) {
    peer_->contact.address.rails[0].rate = 1000;
    peer_->contact.route.pairs[1].path = 3;
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    EXPECT_EQ(peer_->lanes.subchannels[1].path, 3u);
    EXPECT_EQ(live(*peer_), (std::vector<std::uint32_t>{0, 1}));
    EXPECT_EQ(made(*peer_, 0).states, std::vector{QpState::init});
    EXPECT_EQ(made(*peer_, 0).attributes.access, kRemoteRead | kRemoteWrite | kRemoteAtomic);
    EXPECT_EQ(peer_->lanes.subchannels[0].rate.value, 1'000'000'000u);
    EXPECT_NE(peer_->lanes.scheduler, nullptr);
    EXPECT_EQ(world_.counters.queue_pairs, 2u);
    EXPECT_EQ(world_.counters.queue_pairs_bytes, 2 * ConnectablePair::kQueueBytes);

    const QueuePair* const first = peer_->lanes.subchannels[0].qp.get();
    pairs_.drop(*peer_, peer_->lanes.subchannels[1]);
    ASSERT_TRUE(pairs_.make_all(*peer_).ok()); // what is there stays
    EXPECT_EQ(peer_->lanes.subchannels[0].qp.get(), first);
    EXPECT_EQ(live(*peer_), (std::vector<std::uint32_t>{0, 1}));
    pairs_.drop_all(*peer_);
    EXPECT_EQ(world_.counters.queue_pairs, 0u);
    EXPECT_EQ(world_.counters.queue_pairs_bytes, 0u);
    EXPECT_EQ(world_.counters.queue_pairs_most, 2u);
}

TEST_F(Pairs, TheControlLaneOfEarlierOnesIsForgotten) {
    peer_->control.lane = 1;
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    EXPECT_EQ(peer_->control.lane, kNoControlLane);
    peer_->control.lane = 0;
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    EXPECT_EQ(peer_->control.lane, 0u) << "these are the same ones";
}

TEST_F(Pairs, APathThatHasFailedIsLeftOutUnlessAllHave) {
    events_.except = 0;
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    EXPECT_EQ(live(*peer_), std::vector<std::uint32_t>{1});
    EXPECT_TRUE(events_.lost_paths.empty());
    events_.usable = false;
    const auto first_time = idle_peer(2);
    ASSERT_TRUE(pairs_.make_all(*first_time).ok());
    EXPECT_EQ(live(*first_time), (std::vector<std::uint32_t>{0, 1}));
    const auto in_repair = idle_peer(3);
    in_repair->interruption.repair.active = true; // it waits for a path
    static_cast<void>(pairs_.make_all(*in_repair));
    EXPECT_TRUE(live(*in_repair).empty());
}

TEST_F(Pairs, APathThatCannotHaveOneDropsOut) {
    first_.qp_result = Status::error(Reason::no_device);
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    EXPECT_EQ(live(*peer_), std::vector<std::uint32_t>{1});
    EXPECT_EQ(events_.lost_paths, std::vector<std::size_t>{0});
    EXPECT_EQ(events_.last_loss, std::string("its queue pair could not be connected: ") +
                                     reason_text(Reason::no_device));
    second_.qp_result = Status::error(Reason::bad_argument);
    const auto other = idle_peer(2);
    EXPECT_EQ(pairs_.make_all(*other), Status::error(Reason::no_device)); // the first failure
    EXPECT_TRUE(live(*other).empty());
}

TEST_F(Pairs, WithoutRoomAFirstConnectionHasNone) {
    second_.queue_pairs = 0;
    EXPECT_TRUE(pairs_.make_all(*peer_).wants_room()); // others may be closed for it
    EXPECT_TRUE(live(*peer_).empty());
    EXPECT_TRUE(events_.lost_paths.empty());
    EXPECT_EQ(world_.counters.queue_pairs, 0u);
    peer_->interruption.repair.active = true; // which goes on with what there is
    EXPECT_TRUE(pairs_.make_all(*peer_).ok());
    EXPECT_EQ(live(*peer_), std::vector<std::uint32_t>{0});
    EXPECT_EQ(events_.lost_paths, std::vector<std::size_t>{1});
}

TEST_F(Pairs, ThoseThatArePooledAreReusedByTheirPeer) {
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    const QueuePair* const first = peer_->lanes.subchannels[0].qp.get();
    const QueuePair* const second = peer_->lanes.subchannels[1].qp.get();
    keep(*peer_);
    EXPECT_EQ(world_.counters.queue_pairs, 0u);
    first_.queue_pairs = second_.queue_pairs = 0;
    pool_.leave(*peer_);
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    EXPECT_EQ(peer_->lanes.subchannels[0].qp.get(), first);
    EXPECT_EQ(peer_->lanes.subchannels[1].qp.get(), second);
    EXPECT_EQ(made(*peer_, 0).states, (std::vector{QpState::init, QpState::reset, QpState::init}));
    EXPECT_EQ(world_.counters.queue_pairs, 2u);
}

TEST_F(Pairs, ThePooledOnesOfOthersMakeRoom) {
    const auto other = idle_peer(2);
    ASSERT_TRUE(pairs_.make_all(*other).ok());
    keep(*other);
    first_.queue_pairs = 1;
    second_.queue_pairs = 0;
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    EXPECT_EQ(live(*peer_), (std::vector<std::uint32_t>{0, 1}));
    EXPECT_FALSE(other->connection.kept.link.linked());
    EXPECT_EQ(world_.counters.connections_kept, 0u);
}

TEST_F(Pairs, ThoseOfTheLoopbackAreNotCounted) {
    const auto self = idle_peer(9);
    ASSERT_TRUE(pairs_.make_all(*self).ok());
    EXPECT_EQ(world_.counters.queue_pairs, 0u);
    pairs_.drop_all(*self);
    EXPECT_EQ(world_.counters.queue_pairs, 0u);
}

TEST_F(Pairs, ConnectsToTheOneOfTheOtherSide) {
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    peer_->connection.number = 3;
    Subchannel& subchannel = peer_->lanes.subchannels[0];
    ASSERT_TRUE(pairs_.connect(*peer_, subchannel, {1, 0, 0, 0, 77, 1234, 5}).ok());
    EXPECT_EQ(subchannel.remote_rail, 1u);
    EXPECT_EQ(subchannel.remote_memory_key, 5u);
    const ConnectablePair& qp = made(*peer_, 0);
    EXPECT_EQ(qp.states,
              (std::vector{QpState::init, QpState::ready_to_receive, QpState::ready_to_send}));
    EXPECT_EQ(qp.attributes.remote_qp, 77u);
    EXPECT_EQ(qp.attributes.receive_psn, 1234u);
    EXPECT_EQ(qp.attributes.send_psn, QueuePairs::first_packet(3, qp.number()));
    EXPECT_EQ(qp.attributes.timeout, 17);
    EXPECT_EQ(qp.attributes.retry_count, 5);

    made(*peer_, 1).answer = Status::error(Reason::bad_argument);
    EXPECT_EQ(pairs_.connect(*peer_, peer_->lanes.subchannels[1], {0, 0, 0, 0, 78, 1, 5}),
              Status::error(Reason::bad_argument));
}

TEST_F(Pairs, HaveNoMoreReadsUnderWayThanTheOtherSideTakes) {
    struct Case {
        std::uint32_t here, there, wanted;
    };
    for (const auto& [here, there, wanted] :
         {Case{126, 16, 16}, Case{16, 126, 16}, Case{4, 4, 4}, Case{16, 0, 1}, Case{0, 16, 0},
          Case{255, 255, 255}}) {
        first_.take_reads(here);
        peer_->contact.address.rails[1].max_reads = static_cast<std::uint8_t>(there);
        ASSERT_TRUE(pairs_.make_all(*peer_).ok());
        ASSERT_TRUE(
            pairs_.connect(*peer_, peer_->lanes.subchannels[0], {1, 0, 0, 0, 77, 1234, 5}).ok());
        EXPECT_EQ(made(*peer_, 0).attributes.max_reads, wanted) << here << " and " << there;
        EXPECT_EQ(made(*peer_, 0).attributes.max_target_reads, here);
        pairs_.drop_all(*peer_);
    }
}

TEST_F(Pairs, PacketNumbersOfConsecutiveAttemptsAreFarApart) {
    for (std::uint32_t attempt = 0; attempt < 20; ++attempt) {
        const std::uint32_t now = QueuePairs::first_packet(attempt, 0xfffffe);
        for (std::uint32_t later = 1; later < 4; ++later) {
            const std::uint32_t next = QueuePairs::first_packet(attempt + later, 0xfffffe);
            const std::uint32_t apart = (next - now) & 0xffffff;
            EXPECT_GT(std::min(apart, 0x1000000 - apart), 0x1000000u / 5) << attempt;
        }
    }
}

TEST_F(Pairs, ThroughRdmaCmTheConnectBeginsWithTheTokenAndIsRepeatedMoreSlowly) {
    AttendedClock attended{world_.clock};
    ConnectOptions with_cm = options();
    with_cm.attended = &attended;
    first_.can(Capability::cm_connects);
    const ConnectContext context = recorded_context(with_cm);
    QueuePairs pairs(context, pool_);
    ASSERT_TRUE(pairs.make_all(*peer_).ok());
    Subchannel& subchannel = peer_->lanes.subchannels[0];
    EXPECT_TRUE(pairs.needs_cm_connect(*peer_, subchannel));
    EXPECT_FALSE(pairs.needs_cm_connect(*peer_, peer_->lanes.subchannels[1]));
    EXPECT_FALSE(pairs.needs_cm_connect(*idle_peer(9), subchannel)); // the loopback
    peer_->connection.cm_connect.initiates = true;
    peer_->connection.cm_connect.token[4] = std::byte{42};
    Nanoseconds until = 1s;
    for (std::uint32_t failures = 0; failures < 7; ++failures) {
        subchannel.cm_connect.failures = failures;
        ASSERT_TRUE(pairs.connect(*peer_, subchannel, {1, 0, 0, 0, 77, 1234, 5}).ok());
        EXPECT_EQ(subchannel.cm_connect.again_at, world_.clock.now() + until) << failures;
        until = std::min<Nanoseconds>(2 * until, 16s);
    }
    EXPECT_EQ(subchannel.cm_connect.step, CmConnectStep::under_way);
    EXPECT_EQ(subchannel.cm_connect.remote_qp, 77u);
    ASSERT_EQ(made(*peer_, 0).tries.size(), 7u);
    EXPECT_TRUE(made(*peer_, 0).tries[0].initiates);
    EXPECT_EQ(made(*peer_, 0).tries[0].token[4], std::byte{42});
    EXPECT_EQ(made(*peer_, 0).states, std::vector{QpState::init});
    pairs.drop(*peer_, subchannel);
    EXPECT_EQ(subchannel.cm_connect.step, CmConnectStep::none);
}

TEST_F(Pairs, APathThatIsLostLeavesNothingUnderWay) {
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    Subchannel& subchannel = peer_->lanes.subchannels[1];
    subchannel.outstanding = {10, 20};
    subchannel.reads = 1;
    subchannel.completions = 5;
    pairs_.lose_path(*peer_, subchannel, "gone");
    EXPECT_EQ(subchannel.qp, nullptr);
    EXPECT_EQ(subchannel.outstanding, (std::array<Bytes, 2>{}));
    EXPECT_EQ(subchannel.reads, 0u);
    EXPECT_EQ(subchannel.completions, 0u);
    EXPECT_EQ(events_.lost_paths, std::vector<std::size_t>{1});
    EXPECT_EQ(events_.last_loss, "gone");
    EXPECT_EQ(world_.counters.queue_pairs, 1u);
}

TEST_F(Pairs, WorkOfFailedOnesEndsAndTheFirstFailureCounts) {
    ASSERT_TRUE(pairs_.make_all(*peer_).ok());
    pairs_.drop(*peer_, peer_->lanes.subchannels[1]);
    const Nanoseconds first = world_.clock.now();
    pairs_.fail_all(*peer_);
    EXPECT_EQ(made(*peer_, 0).states.back(), QpState::error);
    world_.clock.advance(1s);
    pairs_.fail_all(*peer_);
    EXPECT_EQ(peer_->interruption.repair.failed_at, first);
}

class SharedPairs : public Pairs {
protected:
    SharedPairs() {
        EXPECT_TRUE(shared_.open(0).ok());
        EXPECT_TRUE(shared_.open(1).ok());
        peer_->connection.shared = true;
    }
    ConnectOptions with_shared() {
        ConnectOptions all = options();
        all.shared = &shared_;
        return all;
    }
    SharedInitiator& initiator(Peer& peer, std::size_t subchannel) {
        return peer.shared_queue_pair(peer.lanes.subchannels[subchannel])->initiator();
    }

    SharedQueuePairs shared_{{.initiators = 1, .self = 9, .access_key = 3}, rails_, queues_};
    const ConnectContext sharing_ = recorded_context(with_shared());
    QueuePairs shared_pairs_{sharing_, pool_};
};

TEST_F(SharedPairs, TakeTheirPlaceAndAreAimedAtThePeer) {
    ASSERT_TRUE(shared_pairs_.make_all(*peer_).ok());
    EXPECT_EQ(world_.counters.queue_pairs, 0u);
    EXPECT_EQ(world_.counters.initiators, 2u);
    peer_->connection.access_key = 55;
    Subchannel& subchannel = peer_->lanes.subchannels[0];
    ASSERT_TRUE(shared_pairs_.connect(*peer_, subchannel, {1, 0, 0, 0, 77, 1234, 5}).ok());
    ASSERT_TRUE(subchannel.qp->post_send(empty_write(0, 0x1000, 5)).ok());
    const auto other = idle_peer(2);
    other->connection.shared = true;
    ASSERT_TRUE(shared_pairs_.make_all(*other).ok());
    EXPECT_EQ(&initiator(*other, 0), &initiator(*peer_, 0));
    peer_->shared_queue_pair(subchannel)->settle(1);
    shared_pairs_.drop_all(*peer_);
    EXPECT_FALSE(initiator(*other, 0).failed());
}

// A refused request fails a queue pair without that its path has failed. The next one is another.
TEST_F(SharedPairs, ForgetThatARequestWasRefused) {
    ASSERT_TRUE(shared_pairs_.make_all(*peer_).ok());
    peer_->lanes.subchannels[0].refused = true;
    shared_pairs_.drop_all(*peer_);
    peer_->interruption.repair.active = true;
    ASSERT_TRUE(shared_pairs_.make_all(*peer_).ok());
    EXPECT_FALSE(peer_->lanes.subchannels[0].refused);
}

TEST_F(SharedPairs, AreOfARailThatThereIs) {
    EXPECT_TRUE(shared_.is_open(1));
    EXPECT_FALSE(shared_.is_open(2));
    EXPECT_EQ(shared_.find(2, 1), nullptr);
}

TEST_F(SharedPairs, FailWithTheirPortNotWithAPeer) {
    ASSERT_TRUE(shared_pairs_.make_all(*peer_).ok());
    second_.port = PortState::down;
    shared_pairs_.fail_all(*peer_);
    EXPECT_FALSE(initiator(*peer_, 0).failed()); // other peers use it
    EXPECT_TRUE(initiator(*peer_, 1).failed());
    first_.port = PortState::down;
    peer_->session.state = ConnectState::failed;
    shared_pairs_.fail_all(*peer_);
    EXPECT_FALSE(initiator(*peer_, 0).failed());
}

} // namespace
} // namespace adaptib::test
