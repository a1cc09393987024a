// SPDX-License-Identifier: BSD-3-Clause
// PeerLanes: which subchannels carry traffic.
#include <gtest/gtest.h>

#include <memory>

#include "peer/lanes.h"

namespace adaptib {
namespace {

class NullQueuePair final : public QueuePair {
public:
    NullQueuePair() : QueuePair(QpType::rc) {}

private:
    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_send_impl(const SendWork&) override { return kOk; }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
};

class Lanes : public testing::Test {
protected:
    void add(bool up, bool standby) {
        Subchannel& subchannel = lanes.subchannels.emplace_back();
        subchannel.qp = up ? std::make_unique<NullQueuePair>() : nullptr;
        subchannel.standby = standby;
    }
    PeerLanes lanes;
};

TEST_F(Lanes, ThoseThatAreUpCarry) {
    EXPECT_EQ(lanes.live_bits(), 0u);
    add(true, false);
    add(false, false);
    add(true, false);
    EXPECT_EQ(lanes.live_bits(), 0b101u);
}

TEST_F(Lanes, StandbysCarryNothingBesideOthers) {
    add(true, true);
    add(true, false);
    add(true, true);
    EXPECT_EQ(lanes.live_bits(), 0b010u);
    EXPECT_EQ(lanes.live_subchannels(), 3u) << "they are connected";
}

TEST_F(Lanes, StandbysCarryOnceTheOthersHaveFailed) {
    add(true, true);
    add(false, false);
    add(false, true);
    EXPECT_EQ(lanes.live_bits(), 0b001u);
    lanes.subchannels[1].qp = std::make_unique<NullQueuePair>();
    EXPECT_EQ(lanes.live_bits(), 0b010u) << "until another one is back";
}

TEST_F(Lanes, AConnectionHasOnlyStandbysIfOneIsUpAndNothingElse) {
    EXPECT_FALSE(lanes.only_standbys());
    EXPECT_EQ(lanes.first_standby(), nullptr);
    add(false, true);
    add(false, false);
    EXPECT_FALSE(lanes.only_standbys()) << "nothing is up";
    add(true, true);
    EXPECT_TRUE(lanes.only_standbys());
    EXPECT_EQ(lanes.first_standby(), &lanes.subchannels[2]);
    lanes.subchannels[1].qp = std::make_unique<NullQueuePair>();
    EXPECT_FALSE(lanes.only_standbys()) << "another one is back";
    EXPECT_EQ(lanes.first_standby(), &lanes.subchannels[2]) << "it stays connected";
    lanes.subchannels[2].qp.reset();
    EXPECT_FALSE(lanes.only_standbys());
}

} // namespace
} // namespace adaptib
