// SPDX-License-Identifier: BSD-3-Clause
// Events of peers: each waits once, in the order of the reports, until it is taken or dropped.
#include "peer/peer_events.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

using Peers = std::vector<Peer*>;

class PeerEventsTest : public testing::Test {
protected:
    Peers drained(PeerEvent event) {
        Peers peers;
        events_.drain(event, [&](Peer& peer) { peers.push_back(&peer); });
        return peers;
    }

    TwoRails world_;
    std::unique_ptr<Peer> one_ = world_.peer(1);
    std::unique_ptr<Peer> two_ = world_.peer(2);
    PeerEvents events_;
};

TEST_F(PeerEventsTest, EachWaitsOnceInTheOrderOfTheReports) {
    for (int i = 0; i < 2; ++i) {
        events_.report(*two_, PeerEvent::gone);
        events_.report(*one_, PeerEvent::gone);
        events_.report(*one_, PeerEvent::left);
    }
    EXPECT_EQ(events_.take(PeerEvent::gone), (Peers{two_.get(), one_.get()}));
    EXPECT_FALSE(events_.any(PeerEvent::gone));
    EXPECT_TRUE(events_.any());
    EXPECT_EQ(drained(PeerEvent::left), Peers{one_.get()});
    EXPECT_FALSE(events_.any());
    events_.report(*one_, PeerEvent::gone);
    EXPECT_EQ(drained(PeerEvent::gone), Peers{one_.get()});
}

TEST_F(PeerEventsTest, ReportedWhileItIsHandledItWaitsForTheNextTime) {
    events_.report(*one_, PeerEvent::want_repair);
    events_.drain(PeerEvent::want_repair, [this](Peer& peer) {
        events_.report(peer, PeerEvent::want_repair);
        events_.report(*two_, PeerEvent::want_repair);
    });
    EXPECT_EQ(drained(PeerEvent::want_repair), (Peers{one_.get(), two_.get()}));
}

TEST_F(PeerEventsTest, OnlyAnIdlePeerWantsAConnection) {
    one_->session.state = ConnectState::requested;
    events_.want_connection(*one_);
    EXPECT_FALSE(events_.any());
    events_.want_connection(*two_);
    EXPECT_EQ(drained(PeerEvent::want_connection), Peers{two_.get()});
}

TEST_F(PeerEventsTest, WithItsConnectionGoesWhatAPeerWants) {
    events_.report(*one_, PeerEvent::want_connection);
    events_.report(*one_, PeerEvent::want_lane);
    events_.report(*one_, PeerEvent::lost);
    events_.report(*two_, PeerEvent::want_repair);
    events_.drop_wants(*one_);
    EXPECT_TRUE(drained(PeerEvent::want_connection).empty());
    EXPECT_TRUE(drained(PeerEvent::want_lane).empty());
    EXPECT_EQ(drained(PeerEvent::want_repair), Peers{two_.get()});
    EXPECT_EQ(drained(PeerEvent::lost), Peers{one_.get()});
}

TEST_F(PeerEventsTest, NothingWaitsOfAPeerWhoseRecordGoes) {
    for (std::size_t event = 0; event < kPeerEvents; ++event) {
        events_.report(*one_, static_cast<PeerEvent>(event));
    }
    events_.forget(*one_);
    one_.reset();
    EXPECT_FALSE(events_.any());
}

} // namespace
} // namespace adaptib::test
