// SPDX-License-Identifier: BSD-3-Clause
// The measurement of a peer's ports: when it begins, what is posted, and what its result changes.
#include "connect/path_measurement.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "unit/connect/connections.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Measurement : public Connections {
protected:
    static constexpr std::uint64_t kMemory = 0x10000; // of the peer, to write into

    Measurement() {
        peer_->in.ring_parts = {.lines_bytes = 4096, .measuring = true};
        const Bytes bytes = RingMemory::bytes(peer_->in.ring_parts);
        EXPECT_TRUE(world_.first.allocate(bytes, kLocalWrite, peer_->in.ring_memory).ok());
        peer_->control.measure_address = kMemory;
        RingTarget target{};
        target.units = 4096 / kRingUnit;
        peer_->out.ring = std::make_unique<RingWriter>(
            world_.first, *peer_->lanes.subchannels[0].qp, target,
            static_cast<const std::uint64_t*>(peer_->in.ring_memory->address()), 0);
        EXPECT_EQ(lanes_.get_or_choose(*peer_), 0u);
        measurement_.add(*peer_);
        world_.clock.advance(1s);
    }
    ~Measurement() override { stop(); }

    void stop() {
        measurement_.stop(*peer_);
        migrations_.stop(*peer_);
    }
    std::vector<SendWork>& posts(std::size_t port) { return pair_of(*peer_, port).posts; }
    // Completes the first write of a port.
    void complete(std::uint32_t port, WorkStatus status = WorkStatus::success) {
        ASSERT_FALSE(posts(port).empty());
        const SendWork work = posts(port).front();
        posts(port).erase(posts(port).begin());
        WorkCompletion completion{};
        completion.wr_id = work.wr_id;
        completion.qp_number = port + 1;
        completion.status = status;
        target_of(work.wr_id)->on_work_done(port, completion);
    }
    // Completes all of a port, the bytes in `time`, for a program that polls each `step`.
    void complete_all(std::uint32_t port, Nanoseconds time, Nanoseconds step) {
        world_.clock.advance(step);
        complete(port);
        for (Nanoseconds spent{}; spent < time; spent += step) {
            measurement_.on_polled();
            world_.clock.advance(step);
        }
        while (!posts(port).empty()) {
            complete(port);
        }
    }
    // Lets a measurement begin.
    void begin(Nanoseconds after = 1s, std::uint32_t messages = 256) {
        world_.clock.advance(after);
        peer_->session.next_send += messages;
        measurement_.begin_some();
    }

    const ConnectContext context_ = context({});
    ControlLanes lanes_{context_};
    ConnectionPool pool_{0, world_.counters};
    RemoteRings rings_{context_, lanes_, pool_};
    LaneMigrations migrations_{context_, lanes_, rings_};
    PathMeasurement measurement_{context_, lanes_, migrations_};
    std::unique_ptr<Peer> peer_ = open_peer(1);
};

TEST_F(Measurement, BeginsAfterSoManyMessages) {
    begin(1s, 255);
    EXPECT_FALSE(measurement_.active());
    begin(1s, 1);
    EXPECT_TRUE(measurement_.active());
    EXPECT_TRUE(peer_->control.measuring.active);
}

TEST_F(Measurement, EachPortInTurnWritesIntoThePeersMemory) {
    begin();
    ASSERT_EQ(posts(0).size(), 5u); // an empty one, and 16 KiB
    EXPECT_TRUE(posts(1).empty());
    EXPECT_EQ(posts(0).front().gather_count, 0u);
    EXPECT_EQ(posts(0).back().gather_count, 1u);
    EXPECT_EQ(posts(0).back().remote_address, kMemory);
    EXPECT_EQ(lanes_.posts(), 1u);
    complete_all(0, 100us, 1us);
    EXPECT_EQ(posts(1).size(), 5u);
    EXPECT_TRUE(measurement_.active());
    complete_all(1, 100us, 1us);
    EXPECT_FALSE(measurement_.active());
    EXPECT_FALSE(peer_->control.measuring.active);
    EXPECT_EQ(world_.counters.ports_measured, 2u);
    EXPECT_EQ(peer_->lanes.subchannels[0].completions, 5u);
    EXPECT_FALSE(peer_->control.migration.active);
}

TEST_F(Measurement, AControlLaneThatIsSlowerAgainAndAgainIsLeft) {
    for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_FALSE(peer_->control.migration.active) << i;
        begin(i == 0 ? 1s : 10ms, i == 0 ? 256 : 1); // once it is in doubt, soon again
        ASSERT_TRUE(measurement_.active()) << i;
        complete_all(0, 300us, 1us);
        complete_all(1, 100us, 1us);
    }
    EXPECT_TRUE(peer_->control.migration.active);
    EXPECT_EQ(peer_->control.migration.to, 1u);
}

TEST_F(Measurement, WithoutDoubtTheNextOneComesLaterAndLater) {
    for (const Nanoseconds pause : {1s, 2s, 4s, 8s, 16s, 16s}) {
        begin(pause);
        ASSERT_TRUE(measurement_.active()) << pause.count();
        complete_all(0, 100us, 1us);
        complete_all(1, 100us, 1us);
        const Nanoseconds next = peer_->control.measuring.at - world_.clock.now();
        EXPECT_GE(next, pause / 2);
        begin(10ms);
        EXPECT_FALSE(measurement_.active());
        world_.clock.advance(-10ms);
    }
}

TEST_F(Measurement, AProgramThatPollsSeldomLearnsNothingAndMeasuresMoreBytes) {
    begin();
    complete_all(0, 200us, 100us); // 100 us at least, 300 at most
    EXPECT_FALSE(measurement_.active());
    EXPECT_TRUE(posts(1).empty());
    begin(10ms);
    ASSERT_TRUE(measurement_.active());
    EXPECT_EQ(posts(0).size(), 9u);
}

TEST_F(Measurement, AFailedWriteEndsTheMeasurement) {
    begin();
    while (posts(0).size() > 1) {
        complete(0, WorkStatus::flushed);
    }
    EXPECT_TRUE(measurement_.active()); // until the last one has completed
    complete(0, WorkStatus::flushed);
    EXPECT_FALSE(measurement_.active());
    EXPECT_TRUE(posts(1).empty());
    EXPECT_EQ(world_.counters.ports_measured, 0u);
}

TEST_F(Measurement, APathThatIsNotUsableIsNotWrittenTo) {
    events_.usable = false;
    begin();
    EXPECT_FALSE(measurement_.active());
    EXPECT_TRUE(posts(0).empty());
}

TEST_F(Measurement, CompletionsOfAConnectionThatIsGoneAreIgnored) {
    begin();
    measurement_.stop(*peer_);
    EXPECT_FALSE(measurement_.active());
    while (!posts(0).empty()) {
        complete(0);
    }
    EXPECT_EQ(peer_->lanes.subchannels[0].completions, 0u);
    begin();
    EXPECT_FALSE(measurement_.active());
}

TEST_F(Measurement, NeitherAPeerThatDisconnectsNorOneInRepairIsMeasured) {
    peer_->ending.disconnect_received = true;
    begin();
    EXPECT_FALSE(measurement_.active());
    peer_->ending.disconnect_received = false;
    peer_->interruption.repair.wanted = true;
    begin();
    EXPECT_FALSE(measurement_.active());
    peer_->interruption.repair.wanted = false;
    begin();
    EXPECT_TRUE(measurement_.active());
}

} // namespace
} // namespace adaptib::test
