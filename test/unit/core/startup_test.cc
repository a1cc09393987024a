// SPDX-License-Identifier: BSD-3-Clause
// Connections at the start of a job: to which peers, in which order, and how many at a time.
#include "core/startup.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kJob = std::uint64_t{7} << 32;

class StartupTest : public testing::Test, public StartupListener {
protected:
    void begin(Startup::Mode mode, std::uint32_t rank, std::uint32_t count,
               std::uint64_t connections = 0) {
        startup_.emplace(Startup::Options{kJob + rank, mode, connections}, *this);
        startup_->begin(rank, count);
    }
    // Lets each request be answered at once; returns the ranks asked, in their order.
    std::vector<std::uint64_t> connect_all() {
        for (int pass = 0; startup_->goes_on() && pass < 1000; ++pass) {
            startup_->connect_some();
            for (const auto& [rank, peer] : peers_) {
                peer->session.state = ConnectState::open;
            }
        }
        return asked_;
    }

    bool connect_at_start(std::uint64_t name, const Peer*& asked) override {
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
    void on_notice(const std::string& text) override { notices_.push_back(text); }

    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    TwoRails rails_;
    std::map<std::uint64_t, std::unique_ptr<Peer>> peers_;
    std::vector<std::uint64_t> asked_;
    std::vector<std::string> notices_;
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
    startup_->connect_some();
    ASSERT_EQ(asked_.size(), Startup::kAskedAtOnce);
    EXPECT_FALSE(startup_->is_due());
    startup_->connect_some();
    EXPECT_EQ(asked_.size(), Startup::kAskedAtOnce) << "no answer, no further request";
    peers_[9]->session.state = ConnectState::open;
    EXPECT_TRUE(startup_->is_due());
    startup_->connect_some();
    EXPECT_EQ(asked_.size(), Startup::kAskedAtOnce + 1);
    EXPECT_EQ(asked_.back(), Startup::kAskedAtOnce + 1);
}

TEST_F(StartupTest, NothingIsWaitedForThatDoesNotConnect) {
    has_room_ = false;
    begin(Startup::Mode::all, 0, 100);
    startup_->connect_some();
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
    startup_->begin(0, 4);
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

} // namespace
} // namespace adaptib::test
