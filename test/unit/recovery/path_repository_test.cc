// SPDX-License-Identifier: BSD-3-Clause
// The path repository: its answers after reports, the notices that it gives, and its
// texts for people.
#include "recovery/path_repository.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "unit/recovery/two_rails.h"

namespace adaptib {
namespace {

using std::chrono::milliseconds;

struct Change {
    std::uint64_t peer;
    std::size_t pair;
    PathState was;
    PathState now;
    std::string why;
    friend bool operator==(const Change&, const Change&) = default;
};

class Paths : public testing::Test, public PathObserver {
protected:
    Paths() { make(true); }
    void make(bool on) {
        for (auto& peer : peers_) {
            paths_->remove(*peer);
        }
        peers_.clear();
        paths_ = std::make_unique<PathRepository>(
            PathRepository::Options{on, "here", &world_.clock}, world_.rails, counters_, *this);
        for (const std::uint64_t name : {11, 12}) {
            paths_->add(*peers_.emplace_back(world_.peer(name)));
        }
    }
    ~Paths() override {
        for (auto& peer : peers_) {
            paths_->remove(*peer);
        }
    }
    void on_path_changed(Peer& peer, std::size_t pair, PathState was, PathState now,
                         const std::string& why) override {
        changes_.push_back({peer.contact.name, pair, was, now, why});
    }
    void on_path_line(const std::string& line) override { lines_.push_back(line); }
    void at(Nanoseconds when) { world_.clock.advance(when - world_.clock.now()); }
    Peer& peer(std::size_t i) { return *peers_[i]; }

    test::TwoRails world_;
    Counters& counters_ = world_.counters;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::unique_ptr<PathRepository> paths_;
    std::vector<Change> changes_;
    std::vector<std::string> lines_;
};

TEST_F(Paths, AllAreUpUntilSomethingIsReported) {
    EXPECT_TRUE(paths_->all_well());
    EXPECT_EQ(paths_->usable_count(peer(0)), 4u);
    EXPECT_EQ(peer(0).health.paths, nullptr);
    paths_->report_success(peer(0), 0);
    EXPECT_EQ(peer(0).health.paths, nullptr);
    EXPECT_EQ(paths_->report(), "");
    EXPECT_TRUE(changes_.empty());
}

TEST_F(Paths, AFailureAndARecoveryAreReportedOnceAndKept) {
    at(milliseconds{100});
    paths_->report_failure(peer(0), 0, "no answer");
    paths_->report_failure(peer(0), 0, "again");
    EXPECT_FALSE(paths_->usable(peer(0), 0));
    EXPECT_TRUE(paths_->usable(peer(0), 1));
    EXPECT_TRUE(paths_->usable(peer(1), 0));
    EXPECT_EQ(counters_.paths_failed, 1u);
    at(milliseconds{350});
    paths_->report_success(peer(0), 0);
    paths_->report_success(peer(0), 0);
    EXPECT_TRUE(paths_->usable(peer(0), 0));
    EXPECT_TRUE(paths_->all_well());
    EXPECT_EQ(counters_.paths_recovered, 1u);
    const std::vector<Change> expected{{11, 0, PathState::up, PathState::failed, "no answer"},
                                       {11, 0, PathState::failed, PathState::up, ""}};
    EXPECT_EQ(changes_, expected);
    const std::vector<std::string> lines{
        "path here/m0:1 -> there/x0:1 down: no answer; 3 paths left",
        "path here/m0:1 -> there/x0:1 up again after 0.250 s; 4 paths"};
    EXPECT_EQ(lines_, lines);
    at(milliseconds{400});
    EXPECT_EQ(paths_->report(), "  path here/m0:1 -> there/x0:1 of process 11: up since 0.050 s, "
                                "failed 1 time, came back 1 time; last: no answer\n");
}

TEST_F(Paths, ARailOverWhichNobodyAnswersIsDownForFurtherPeers) {
    const auto meet = [&](std::uint64_t name) -> Peer& {
        paths_->add(*peers_.emplace_back(world_.peer(name)));
        return *peers_.back();
    };
    const std::size_t pair = 1;
    const std::uint32_t rail = peer(0).contact.route.pairs[pair].local;
    for (std::uint64_t name = 13; name <= 14; ++name) {
        meet(name);
    }
    for (std::size_t i = 0; i + 1 < PathRepository::kSilentPeers; ++i) {
        paths_->report_failure(peer(i), pair, "no answer");
    }
    EXPECT_TRUE(paths_->usable(meet(15), pair));
    paths_->report_queue_pair_failure(peer(3), pair, "no answer", false);
    EXPECT_NE(lines_.back().find("leads nowhere: 4 processes"), std::string::npos) << lines_.back();
    Peer& next = meet(16);
    for (std::size_t i = 0; i < next.contact.route.total; ++i) {
        EXPECT_EQ(paths_->usable(next, i), next.contact.route.pairs[i].local != rail);
    }
    EXPECT_FALSE(paths_->rail_down(rail)) << "it is asked";
    paths_->report_success(next, pair);
    EXPECT_TRUE(paths_->usable(meet(17), pair));
    for (std::size_t i = 0; i < PathRepository::kSilentPeers; ++i) {
        paths_->report_failure(peer(i), pair, "no answer");
    }
    EXPECT_TRUE(paths_->usable(meet(18), pair)) << "it has carried something once";
}

TEST_F(Paths, ARailThatCarriesSomethingIsNotDownForFurtherPeers) {
    for (std::uint64_t name = 13; name <= 17; ++name) {
        paths_->add(*peers_.emplace_back(world_.peer(name)));
    }
    const std::size_t pair = 1;
    peer(6).lanes.subchannels.resize(2);
    peer(6).lanes.subchannels[pair].completions = 1;
    for (std::size_t i = 0; i < 6; ++i) {
        paths_->report_failure(peer(i), pair, "no answer");
    }
    paths_->add(*peers_.emplace_back(world_.peer(18)));
    EXPECT_TRUE(paths_->usable(*peers_.back(), pair));
}

TEST_F(Paths, QueuePairsThatCarryNothingAreCounted) {
    paths_->report_queue_pair_failure(peer(0), 0, "an error at once", false);
    EXPECT_EQ(paths_->vain(peer(0), 0), 0u);
    paths_->report_success(peer(0), 0);
    at(milliseconds{100});
    paths_->report_queue_pair_failure(peer(0), 0, "no answer", false);
    paths_->report_success(peer(0), 0);
    paths_->report_queue_pair_failure(peer(0), 0, "no answer", false);
    EXPECT_EQ(paths_->vain(peer(0), 0), 2u);
    EXPECT_EQ(paths_->vain(peer(0), 1), 0u);
    paths_->report_success(peer(0), 0);
    paths_->report_queue_pair_failure(peer(0), 0, "no answer", true);
    EXPECT_EQ(paths_->vain(peer(0), 0), 0u);
    paths_->report_queue_pair_failure(peer(0), 0, "no answer", false);
    paths_->report_carried(peer(0), 0);
    EXPECT_EQ(paths_->vain(peer(0), 0), 0u);
    EXPECT_TRUE(paths_->usable(peer(0), 0));
}

TEST_F(Paths, RecordsFollowTheirPairs) {
    paths_->report_failure(peer(0), 0, "no answer");
    paths_->report_failure(peer(0), 1, "no answer");
    ASSERT_TRUE(paths_->pair_anew(peer(0), std::vector<std::uint8_t>{2, 3, 0, 1}));
    EXPECT_EQ(paths_->usable_count(peer(0)), 2u);
    EXPECT_TRUE(paths_->usable(peer(0), 0));
    EXPECT_TRUE(paths_->usable(peer(0), 1));
    EXPECT_EQ(peer(0).contact.route.pairs[peer(0).contact.datagram.pair],
              (PeerRoute::Pair{0, 0, 0}))
        << "datagrams take the path that they took";
    EXPECT_FALSE(paths_->pair_anew(peer(0), std::vector<std::uint8_t>{0, 1, 2, 3}));
}

TEST_F(Paths, ASuspectPathIsUsableAndNobodyReadsOfIt) {
    at(milliseconds{1});
    paths_->report_suspect(peer(0), 1, "nobody answers");
    EXPECT_EQ(paths_->state(peer(0), 1), PathState::suspect);
    EXPECT_TRUE(paths_->usable(peer(0), 1));
    EXPECT_FALSE(paths_->all_well());
    paths_->report_success(peer(0), 1);
    EXPECT_TRUE(paths_->all_well());
    EXPECT_TRUE(lines_.empty());
    EXPECT_EQ(counters_.paths_suspected, 1u);
    EXPECT_EQ(counters_.paths_recovered, 0u);
    paths_->report_failure(peer(0), 1, "an error");
    paths_->report_suspect(peer(0), 1, "nobody answers"); // the failure is known already
    EXPECT_EQ(paths_->state(peer(0), 1), PathState::failed);
}

TEST_F(Paths, APortThatFlapsIsHeldDown) {
    const auto path = [&]() -> const PathRecord& { return peer(0).health.paths->records[0]; };
    const std::uint32_t rail = peer(0).contact.route.pairs[0].local;
    const auto flap = [&](milliseconds down, milliseconds up) {
        at(down);
        paths_->rail_failed(rail, "the port went down");
        at(up);
        paths_->rail_restored(rail);
    };
    flap(milliseconds{1000}, milliseconds{1001});
    EXPECT_EQ(path().ask_at, milliseconds{1001}) << "the first time it is asked at once";
    paths_->report_success(peer(0), 0);
    flap(milliseconds{2000}, milliseconds{2001});
    EXPECT_EQ(path().ask_at, milliseconds{2100});
    flap(milliseconds{2050}, milliseconds{2051});
    EXPECT_EQ(path().ask_at, milliseconds{2250}) << "it did not even come back";
    flap(milliseconds{2300}, milliseconds{5000});
    EXPECT_EQ(path().ask_at, milliseconds{5000}) << "it was down for longer than it has to rest";
    paths_->report_success(peer(0), 0);
    flap(milliseconds{16000}, milliseconds{16001});
    EXPECT_EQ(path().ask_at, milliseconds{16001}) << "it was well for more than ten seconds";
}

TEST_F(Paths, TheLastPathIsNotHeldDown) {
    for (const std::uint32_t rail : {0u, 1u}) {
        at(milliseconds{1000 + rail});
        paths_->rail_failed(rail, "the port went down");
    }
    for (const int when : {1100, 1200, 1300}) {
        at(milliseconds{when});
        paths_->rail_restored(0);
        EXPECT_EQ(peer(0).health.paths->records[0].ask_at, milliseconds{when});
        at(milliseconds{when + 1});
        paths_->rail_failed(0, "the port went down");
    }
}

TEST_F(Paths, ARailTakesItsPathsAlongAndIsOneLine) {
    at(milliseconds{1});
    paths_->rail_failed(0, "the port went down");
    paths_->rail_failed(0, "the port went down");
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(paths_->usable_count(peer(i)), 2u);
        for (std::size_t pair = 0; pair < 4; ++pair) {
            EXPECT_EQ(paths_->usable(peer(i), pair), peer(i).contact.route.pairs[pair].local == 1);
        }
    }
    EXPECT_EQ(changes_.size(), 4u);
    EXPECT_EQ(counters_.paths_failed, 4u);
    // A late answer does not bring the rail back; a peer that is added now hears of it at once.
    paths_->report_success(peer(0), 0);
    EXPECT_FALSE(paths_->usable(peer(0), 0));
    Peer& late = *peers_.emplace_back(world_.peer(13));
    paths_->add(late);
    EXPECT_EQ(paths_->usable_count(late), 2u);
    paths_->rail_restored(0);
    EXPECT_EQ(paths_->state(peer(1), 0), PathState::suspect);
    EXPECT_EQ(paths_->usable_count(peer(1)), 2u); // until they are known to work
    EXPECT_EQ(counters_.paths_recovered, 0u);
    paths_->report_success(peer(1), 0);
    EXPECT_EQ(counters_.paths_recovered, 1u);
    const std::vector<std::string> lines{
        "rail here/m0:1 down: the port went down; with it 4 paths to 2 processes, 4 paths left",
        "rail here/m0:1 up again; its paths are tried",
        "path here/m0:1 -> there/x0:1 up again; 3 paths"};
    EXPECT_EQ(lines_, lines);
}

TEST_F(Paths, TimeWithoutAPathIsKept) {
    at(milliseconds{10});
    Nanoseconds since{0};
    paths_->rail_failed(0, "a");
    EXPECT_FALSE(paths_->without_path(peer(0), since));
    at(milliseconds{20});
    paths_->rail_failed(1, "b");
    ASSERT_TRUE(paths_->without_path(peer(0), since));
    EXPECT_EQ(since, milliseconds{20});
    EXPECT_EQ(paths_->usable_count(peer(0)), 0u);
    at(milliseconds{50});
    paths_->rail_restored(1); // the path is not known to work yet
    EXPECT_TRUE(paths_->without_path(peer(0), since));
    paths_->report_success(peer(0), 1);
    EXPECT_FALSE(paths_->without_path(peer(0), since));
    EXPECT_EQ(counters_.no_path_nanoseconds, 30'000'000u);
    EXPECT_NE(paths_->report().find("process 11: no path that was known to work for 0.030 s"),
              std::string::npos)
        << paths_->report();
    EXPECT_NE(paths_->report().find("process 12: no path that was known to work for 0.030 s"),
              std::string::npos);
}

TEST_F(Paths, ManyLinesAreCountedInstead) {
    at(milliseconds{5});
    for (int round = 0; round < 10; ++round) {
        paths_->report_failure(peer(0), 0, "x");
        paths_->report_success(peer(0), 0);
    }
    EXPECT_EQ(lines_.size(), PathRepository::kLinesPerSecond);
    EXPECT_EQ(paths_->deadline(), milliseconds{1005});
    paths_->run_timers();
    EXPECT_EQ(lines_.size(), PathRepository::kLinesPerSecond);
    at(paths_->deadline());
    paths_->run_timers();
    ASSERT_EQ(lines_.size(), PathRepository::kLinesPerSecond + 1);
    EXPECT_EQ(lines_.back(), "12 further paths of host here changed state as well; the "
                             "report lists all of them");
    EXPECT_EQ(paths_->deadline(), Nanoseconds::max());
    paths_->report_failure(peer(0), 0, "x");
    EXPECT_EQ(lines_.size(), PathRepository::kLinesPerSecond + 2);
}

TEST_F(Paths, SwitchedOffNothingIsBelieved) {
    make(false);
    paths_->rail_failed(0, "a");
    paths_->report_failure(peer(0), 1, "b");
    paths_->report_suspect(peer(0), 1, "c");
    EXPECT_EQ(paths_->usable_count(peer(0)), 4u);
    EXPECT_TRUE(changes_.empty());
    EXPECT_TRUE(lines_.empty());
    EXPECT_EQ(counters_.paths_failed, 0u);
}

TEST(Route, SparePairsFollowTheConnectedOnesIfTheyLookAsMuchAlike) {
    PeerRoute route;
    route.local = {0, 2};
    route.remote = {3, 2};
    pair_rails(route, true, [](std::uint32_t, std::uint32_t) { return 0; });
    ASSERT_EQ(route.count, 2);
    ASSERT_EQ(route.total, 4);
    const std::array<PeerRoute::Pair, 4> all{{{0, 3}, {1, 4}, {0, 4}, {1, 3}}};
    EXPECT_TRUE(std::equal(all.begin(), all.end(), route.pairs.begin()));

    // Two networks.
    pair_rails(route, true, [](std::uint32_t a, std::uint32_t b) { return a + 3 == b ? 64u : 0u; });
    EXPECT_EQ(route.count, 2);
    EXPECT_EQ(route.total, 2);

    // One rail and two in one network.
    route.remote = {0, 1};
    pair_rails(route, false, [](std::uint32_t, std::uint32_t) { return 10; });
    EXPECT_EQ(route.count, 1);
    ASSERT_EQ(route.total, 2);
    EXPECT_EQ(route.pairs[1], (PeerRoute::Pair{1, 0}));
}

} // namespace
} // namespace adaptib
