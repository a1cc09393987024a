// SPDX-License-Identifier: BSD-3-Clause
// Connections at the start of a job: to which peers, in which order, and how many at a time.
#include "core/startup.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/process_name.h"
#include "unit/messages.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kJob = std::uint64_t{7} << 32;

class StartupTest : public testing::Test {
protected:
    void begin(Startup::Mode mode, std::uint32_t rank, std::uint32_t count,
               std::uint64_t connections = 0) {
        startup_.emplace(Startup::Options{kJob + rank, mode, connections, messages_into(notices_)});
        startup_->begin(rank, count, 1);
    }
    // Begins at one of the endpoints of this process, number 0 of `count`.
    void begin_at(std::uint32_t endpoint, std::uint32_t endpoints, std::uint32_t count,
                  std::uint64_t connections = 0) {
        startup_.emplace(Startup::Options{endpoint_name(kJob, endpoint), Startup::Mode::all,
                                          connections, messages_into(notices_)});
        startup_->begin(0, count, endpoints);
    }
    // Returns the endpoints of process number 1 that one of this process's endpoints connects.
    std::vector<std::uint64_t> partners(std::uint32_t endpoint, std::uint32_t endpoints,
                                        std::uint32_t theirs) {
        theirs_ = {{1, theirs}};
        asked_.clear();
        begin_at(endpoint, endpoints, 2);
        return connect_all();
    }
    void connect_some() {
        startup_->connect_some(
            [this](std::uint64_t name, const Peer*& asked) { return connect(name, asked); },
            [this](std::uint64_t process) { return endpoints_of(process); });
    }
    // Lets each request be answered at once; returns the ranks asked, in their order.
    std::vector<std::uint64_t> connect_all() {
        for (int pass = 0; startup_->goes_on() && pass < 1000; ++pass) {
            connect_some();
            for (const auto& [rank, peer] : peers_) {
                peer->session.state = ConnectState::open;
            }
        }
        return asked_;
    }

    bool connect(std::uint64_t name, const Peer*& asked) {
        const std::uint64_t rank = name - kJob;
        if (rank == unreachable_) {
            return false;
        }
        asked_.push_back(rank);
        if (rank == released_) {
            return true;
        }
        auto& peer = peers_[rank];
        peer = rails_.peer(name);
        peer->session.state = has_room_ ? ConnectState::requested : ConnectState::idle;
        asked = peer.get();
        return true;
    }
    std::uint32_t endpoints_of(std::uint64_t process) {
        const auto found = theirs_.find(process - kJob);
        return found == theirs_.end() ? 1 : found->second;
    }

    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    TwoRails rails_;
    std::map<std::uint64_t, std::unique_ptr<Peer>> peers_;
    std::vector<std::uint64_t> asked_;
    std::vector<std::string> notices_;
    std::map<std::uint64_t, std::uint32_t> theirs_; // endpoints of each rank that has several
    std::uint64_t unreachable_ = kNone;
    std::uint64_t released_ = kNone;
    bool has_room_ = true;
    std::optional<Startup> startup_;
};

using Ranks = std::vector<std::uint64_t>;

TEST_F(StartupTest, PartialConnectsAtPowersOfTwoAboveItself) {
    begin(Startup::Mode::partial, 3, 10);
    EXPECT_EQ(connect_all(), (Ranks{4, 5, 7, 1}));
}

TEST_F(StartupTest, StaticConnectsToTheHalfOfTheJobAboveItself) {
    begin(Startup::Mode::all, 3, 7);
    EXPECT_EQ(connect_all(), (Ranks{4, 5, 6}));
    asked_.clear();
    begin(Startup::Mode::all, 5, 8);
    EXPECT_EQ(connect_all(), (Ranks{6, 7, 0, 1}));
}

TEST_F(StartupTest, OnDemandConnectsNobodyAndSoDoesAJobOfOne) {
    begin(Startup::Mode::on_demand, 0, 8);
    EXPECT_FALSE(startup_->goes_on());
    begin(Startup::Mode::all, 0, 1);
    EXPECT_FALSE(startup_->goes_on());
    EXPECT_FALSE(startup_->is_due());
}

TEST_F(StartupTest, TheNextIsAskedOnceOneHasAnswered) {
    begin(Startup::Mode::all, 0, 100);
    EXPECT_TRUE(startup_->is_due());
    connect_some();
    ASSERT_EQ(asked_.size(), Startup::kAskedAtOnce);
    EXPECT_FALSE(startup_->is_due());
    connect_some();
    EXPECT_EQ(asked_.size(), Startup::kAskedAtOnce) << "no answer, no further request";
    peers_[9]->session.state = ConnectState::open;
    EXPECT_TRUE(startup_->is_due());
    connect_some();
    EXPECT_EQ(asked_.size(), Startup::kAskedAtOnce + 1);
    EXPECT_EQ(asked_.back(), Startup::kAskedAtOnce + 1);
}

TEST_F(StartupTest, NothingIsWaitedForThatDoesNotConnect) {
    has_room_ = false;
    begin(Startup::Mode::all, 0, 100);
    connect_some();
    EXPECT_EQ(asked_.size(), 50u);
    EXPECT_FALSE(startup_->goes_on());
}

TEST_F(StartupTest, AReleasedPeerIsPassedOverAndAnUnreachableOneEndsIt) {
    released_ = 2;
    unreachable_ = 8;
    begin(Startup::Mode::partial, 0, 64);
    EXPECT_EQ(connect_all(), (Ranks{1, 2, 4}));
    EXPECT_FALSE(startup_->is_due());
}

TEST_F(StartupTest, ASecondCallDoesNothing) {
    begin(Startup::Mode::partial, 0, 4);
    EXPECT_EQ(connect_all(), (Ranks{1, 2}));
    startup_->begin(0, 4, 1);
    EXPECT_FALSE(startup_->goes_on());
}

TEST_F(StartupTest, ALimitBelowTheJobIsReportedByTheFirstProcessOnly) {
    begin(Startup::Mode::all, 0, 10, 8);
    ASSERT_EQ(notices_.size(), 1u);
    EXPECT_NE(notices_[0].find("allows 8 connections for the 9 peers"), std::string::npos);
    begin(Startup::Mode::all, 1, 10, 8);
    begin(Startup::Mode::all, 0, 10, 9);
    begin(Startup::Mode::partial, 0, 10, 8);
    begin(Startup::Mode::all, 0, 10);
    EXPECT_EQ(notices_.size(), 1u);
}

// The ranks in these tests are whole names below the job's: an endpoint's number, and its rank.
constexpr std::uint64_t at(std::uint32_t endpoint, std::uint64_t rank) {
    return endpoint_name(rank, endpoint);
}

TEST_F(StartupTest, EndpointsOfTheSameNumberAreConnected) {
    for (std::uint32_t mine = 0; mine < 4; ++mine) {
        EXPECT_EQ(partners(mine, 4, 4), Ranks{at(mine, 1)});
    }
}

TEST_F(StartupTest, EndpointsBeyondThoseOfAPeerShareThem) {
    for (std::uint32_t mine = 0; mine < 4; ++mine) {
        EXPECT_EQ(partners(mine, 4, 1), Ranks{at(0, 1)});
        EXPECT_EQ(partners(mine, 4, 2), Ranks{at(mine % 2, 1)});
    }
}

TEST_F(StartupTest, EndpointsOfAPeerThatHasMoreAreAllConnected) {
    EXPECT_EQ(partners(0, 1, 4), (Ranks{at(0, 1), at(1, 1), at(2, 1), at(3, 1)}));
    EXPECT_EQ(partners(1, 2, 8), (Ranks{at(1, 1), at(3, 1), at(5, 1), at(7, 1)}));
}

TEST_F(StartupTest, PeersOfDifferentNumbersOfEndpointsFollowOneAnother) {
    theirs_ = {{1, 4}, {2, 1}, {3, 2}};
    begin_at(1, 2, 7);
    EXPECT_EQ(connect_all(), (Ranks{at(1, 1), at(3, 1), at(0, 2), at(1, 3)}));
}

TEST_F(StartupTest, ALimitIsReportedByTheFirstEndpointOnly) {
    begin_at(1, 4, 10, 8);
    EXPECT_TRUE(notices_.empty());
    begin_at(0, 4, 10, 8);
    ASSERT_EQ(notices_.size(), 1u);
    EXPECT_NE(notices_[0].find("allows 8 connections for the 9 peers of each endpoint"),
              std::string::npos);
}

} // namespace
} // namespace adaptib::test
