// SPDX-License-Identifier: BSD-3-Clause
// Lost peers: each is reported once, to people if it is news, and to the user by the peer that the
// user knows.
#include "protocol/lost_peers.h"

#include <gtest/gtest.h>

#include "base/process_name.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

class LostPeersTest : public testing::Test {
protected:
    LostPeersTest() {
        lost_.listen([](void* list,
                        Peer& peer) { static_cast<std::vector<Peer*>*>(list)->push_back(&peer); },
                     &heard_);
    }
    void lose(Peer& peer, const std::string& what = "its cable was cut") {
        lost_.lose(peer, what);
        lost_.report(peer);
    }
    std::vector<Peer*> tell_user() {
        heard_.clear();
        lost_.tell_user([this](std::uint64_t name) {
            return name == known_->contact.name ? known_.get() : nullptr;
        });
        return heard_;
    }

    TwoRails rails_;
    Counters counters_;
    std::unique_ptr<Peer> known_ = rails_.peer(5);
    std::unique_ptr<Peer> amo_peer_ = rails_.peer(5);
    std::unique_ptr<Peer> other_ = rails_.peer(6);
    std::vector<std::string> messages_;
    MessageFunction message_ = [this](Severity severity, const std::string& text) {
        EXPECT_EQ(severity, Severity::failure);
        messages_.push_back(text);
    };
    PeerEvents events_;
    LostPeers lost_{events_, counters_, message_, {}};
    std::vector<Peer*> heard_;
};

TEST_F(LostPeersTest, EachIsReportedOnceWithTheFirstReason) {
    EXPECT_FALSE(lost_.any());
    lose(*known_);
    lost_.lose(*known_, "another reason");
    lost_.report(*known_);
    ASSERT_EQ(messages_.size(), 1u);
    EXPECT_NE(messages_[0].find("process 5 "), std::string::npos);
    EXPECT_NE(messages_[0].find("is broken: its cable was cut."), std::string::npos);
    EXPECT_TRUE(lost_.any());
    EXPECT_EQ(tell_user(), std::vector<Peer*>{known_.get()});
    EXPECT_FALSE(lost_.any());
    EXPECT_TRUE(tell_user().empty());
}

TEST_F(LostPeersTest, NothingGoesToALostPeerAndWhatWaitsForItIsToEnd) {
    known_->session.state = ConnectState::open;
    counters_.connections_open = 1;
    lost_.lose(*known_, "test");
    EXPECT_EQ(known_->session.state, ConnectState::failed);
    EXPECT_EQ(counters_.connections_open, 0u);
    EXPECT_TRUE(known_->in.unheard);
    EXPECT_EQ(events_.take(PeerEvent::lost), std::vector<Peer*>{known_.get()});
    lost_.lose(*known_, "test");
    EXPECT_FALSE(events_.any()) << "once";
}

// The user asks before the core has handled the failure.
TEST_F(LostPeersTest, OneWhoseConnectionFailedIsReportedWithTheReason) {
    known_->session.state = ConnectState::failed;
    known_->connection.events.failure = std::make_unique<ConnectFailure>(
        ConnectFailure{Status::error(Reason::no_memory), "it got no queue pair"});
    EXPECT_TRUE(lost_.is_lost(*known_));
    ASSERT_EQ(messages_.size(), 1u);
    EXPECT_NE(messages_[0].find(std::string("is broken: it got no queue pair (") +
                                reason_text(Reason::no_memory) + ")"),
              std::string::npos)
        << messages_[0];
    EXPECT_TRUE(events_.any(PeerEvent::lost));
}

TEST_F(LostPeersTest, OneThatIsExpectedIsNotReported) {
    lost_.expect_all(true);
    other_->transfers.one_sided = 1;
    lose(*known_);
    EXPECT_TRUE(messages_.empty());
    lose(*other_);
    EXPECT_EQ(messages_.size(), 1u) << "a one-sided operation wants something of it";
}

TEST_F(LostPeersTest, ALossThatIsNoNewsIsToldToTheUserAlone) {
    known_->contact.name = endpoint_name(5, 3);
    std::vector<std::uint64_t> asked;
    LostPeers lost(events_, counters_, message_, [&](std::uint64_t process) {
        asked.push_back(process);
        return false;
    });
    lost.lose(*known_, "test");
    lost.report(*known_);
    EXPECT_EQ(asked, std::vector<std::uint64_t>{5});
    EXPECT_TRUE(lost.any());
    EXPECT_TRUE(messages_.empty());
}

TEST_F(LostPeersTest, TheUserHearsOfPeersThatItKnows) {
    lose(*amo_peer_);
    lose(*other_);
    EXPECT_EQ(tell_user(), std::vector<Peer*>{known_.get()});
}

TEST_F(LostPeersTest, WithoutAHandlerTheyAreDropped) {
    lost_.listen(nullptr, nullptr);
    lose(*known_);
    EXPECT_TRUE(tell_user().empty());
    EXPECT_FALSE(lost_.any());
}

} // namespace
} // namespace adaptib::test
