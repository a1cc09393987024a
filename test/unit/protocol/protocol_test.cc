// SPDX-License-Identifier: BSD-3-Clause
// The loss of a peer: which are reported, when, and what ends with the peer.
#include "protocol/protocol.h"

#include "base/process_name.h"
#include "common_adaptib_two_sided.h"
#include "stats/run_history.h"

#include "unit/core/core_parts.h"

namespace adaptib::test {
namespace {

class LosingPeers : public CoreParts {
protected:
    LosingPeers() {
        connect(*peer_);
        connect(*other_);
        user_.complete = [](UserRequest*) {};
    }
    ~LosingPeers() override {
        protocol_.receives().drop_receives();
        protocol_.forget(*peer_);
        protocol_.forget(*other_);
    }

    // Posts a receive for a message of that peer; null: of any.
    void post_receive(Peer* from) {
        bool complete = false;
        ASSERT_TRUE(protocol_.receives()
                        .receive({1, OPAL_COMMON_ADAPTIB_ANY_SOURCE, 3}, {}, user_, complete, from)
                        .ok());
        ASSERT_FALSE(complete);
    }
    void lose(Peer& peer, const std::string& what) {
        lost_.lose(peer, what);
        protocol_.end_lost_peers();
    }
    std::vector<const Peer*> awaited() {
        std::vector<const Peer*> found;
        protocol_.for_each_awaited([&](const Peer& peer) { found.push_back(&peer); });
        return found;
    }

    std::unique_ptr<Peer> peer_ = peer(20);
    std::unique_ptr<Peer> other_ = peer(21);
    UserRequest user_{};
};

TEST_F(LosingPeers, OneThatNothingWaitsForIsReportedWhenItIsWanted) {
    protocol_.active().listen(nullptr, nullptr);
    lose(*peer_, "its cable was cut");
    EXPECT_EQ(peer_->session.state, ConnectState::failed);
    EXPECT_TRUE(failures_.empty());
    EXPECT_FALSE(lost_.is_lost(*other_));
    EXPECT_TRUE(lost_.is_lost(*peer_));
    EXPECT_TRUE(lost_.is_lost(*peer_));
    ASSERT_EQ(failures_.size(), 1u);
    EXPECT_NE(failures_[0].find("process 20 "), std::string::npos);
    EXPECT_NE(failures_[0].find("its cable was cut"), std::string::npos);
    EXPECT_EQ(told(), std::vector<std::uint64_t>{20});
}

TEST_F(LosingPeers, OneThatIsReportedIsAnIncident) {
    RunHistory history(clock(), counters());
    counters().history = &history;
    protocol_.active().listen(nullptr, nullptr);
    lose(*peer_, "it ended before this process");
    EXPECT_EQ(history.incidents(), 0u);
    post_receive(other_.get());
    lose(*other_, "its cable was cut");
    ASSERT_EQ(history.incidents(), 1u);
    EXPECT_EQ(history.incident(0).kind, IncidentKind::peer_lost);
    EXPECT_EQ(history.incident(0).peer, other_->contact.name);
    EXPECT_TRUE(lost_.is_lost(*peer_));
    ASSERT_EQ(history.incidents(), 1u) << "within the same milliseconds";
    EXPECT_EQ(history.incident(0).count, 2u);
    counters().history = nullptr;
}

TEST_F(LosingPeers, OneThatAReceiveWaitsForIsReportedAndEndsIt) {
    post_receive(peer_.get());
    EXPECT_EQ(awaited(), std::vector<const Peer*>{peer_.get()});
    EXPECT_EQ(protocol_.awaited(), 1u);
    EXPECT_TRUE(protocol_.needs(*peer_));
    EXPECT_FALSE(protocol_.needs(*other_));
    lose(*peer_, "test");
    EXPECT_EQ(failures_.size(), 1u);
    EXPECT_EQ(told(), std::vector<std::uint64_t>{20});
    ASSERT_FALSE(protocol_.completed().empty());
    EXPECT_EQ(protocol_.completed().pop()->status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_TRUE(awaited().empty());
    EXPECT_FALSE(protocol_.needs(*peer_));
}

TEST_F(LosingPeers, AReceiveFromAnySourceWaitsForNobody) {
    post_receive(nullptr);
    EXPECT_TRUE(awaited().empty());
    lose(*peer_, "test");
    EXPECT_TRUE(protocol_.completed().empty());
    EXPECT_EQ(protocol_.receives().posted(), 1u);
}

TEST_F(LosingPeers, TheFirstReasonCounts) {
    post_receive(peer_.get());
    lose(*peer_, "the first");
    lose(*peer_, "the second");
    ASSERT_EQ(failures_.size(), 1u);
    EXPECT_NE(failures_[0].find("the first"), std::string::npos);
}

TEST_F(LosingPeers, AUserOfActiveMessagesMayWaitForAPeerOfItsMessages) {
    peer_->in.next_receive = 1;
    lose(*peer_, "test");
    EXPECT_EQ(failures_.size(), 1u);
    lose(*other_, "test");
    EXPECT_EQ(failures_.size(), 1u);
}

TEST_F(LosingPeers, NamesAnEndpointThatIsNotTheFirst) {
    const std::unique_ptr<Peer> second = peer(endpoint_name(5, 2));
    connect(*second);
    second->in.next_receive = 1;
    lose(*second, "test");
    ASSERT_EQ(failures_.size(), 1u);
    EXPECT_NE(failures_[0].find("process 5 (endpoint 2) on host"), std::string::npos);
    protocol_.forget(*second);
}

} // namespace
} // namespace adaptib::test
