// SPDX-License-Identifier: BSD-3-Clause
// Path probes: when a path that is asked counts as failed, and when a peer is given up.
#include "recovery/path_probes.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "unit/recovery/two_rails.h"

namespace adaptib {
namespace {

using namespace std::chrono_literals;

class Probes : public testing::Test,
               public PathObserver,
               public ProbeSender,
               public LifeAsker,
               public Witness {
protected:
    static constexpr std::size_t kPair = 1; // not the pair of the datagrams

    Probes() {
        const PathRepository::Options options{true, "here", &world_.clock};
        paths_ = std::make_unique<PathRepository>(options, world_.rails, world_.counters, *this);
        life_ = std::make_unique<LifeWatch>(world_.clock, random_, world_.counters, *this,
                                            Nanoseconds::max());
        PathProbes::Options probing;
        probing.liveness = &liveness_;
        probing.witness = this;
        probing.life = life_.get();
        probing.clock = &world_.clock;
        probing.random = &random_;
        probes_ = std::make_unique<PathProbes>(probing, *paths_, world_.counters, *this);
        peer_->contact.datagram.handle = std::make_unique<Handle>();
        paths_->add(*peer_);
        world_.clock.advance(1s);
    }
    ~Probes() override { paths_->remove(*peer_); }

    // Lets `time` pass, and runs the timers each millisecond. `answer`: the peer answers over
    // its datagrams' path.
    void pass(Nanoseconds time, bool answer) {
        const Nanoseconds end = world_.clock.now() + time;
        while (world_.clock.now() < end) {
            probes_->run_timers();
            world_.clock.advance(1ms);
            if (answer) {
                probes_->on_probe(*peer_, peer_->contact.datagram.pair, MessageType::probe,
                                  ProbeBody{});
            }
        }
    }
    PathState state(std::size_t pair) const { return paths_->state(*peer_, pair); }

    class Handle final : public AddressHandle {
        Status standing_impl(std::string&) const override { return kOk; }
    };

    // ProbeSender, LifeAsker, Witness, PathObserver
    Reach reach(const Peer&, std::size_t pair) override {
        return cut_off_.contains(pair) ? Reach::cut_off : Reach::unknown;
    }
    bool can_ask(const Peer&, std::size_t pair) const override { return !dumb_.contains(pair); }
    bool send_probe(Peer&, std::size_t pair, MessageType type, const ProbeBody& body) override {
        if (full_ && pair == kPair) {
            return false;
        }
        if (type == MessageType::probe && pair == kPair) {
            asked_.push_back(body);
        }
        return true;
    }
    void on_address_moved(Peer&, std::size_t pair) override { moved_.push_back(pair); }
    void on_partition(Peer&, Nanoseconds lasted) override { partitions_.push_back(lasted); }
    bool has_responder(const Peer&, std::size_t) const override { return false; }
    bool send_question(Peer&, std::size_t, const LifeBody&) override { return false; }
    bool is_awaited(const Peer&) const override { return false; }
    void on_present(Peer&) override {}
    bool may_live(Peer& peer, Nanoseconds since) override {
        return world_.clock.now() < liveness_.ends_at(peer, since);
    }
    void on_path_changed(Peer&, std::size_t, PathState, PathState, const std::string&) override {}
    void on_path_line(const std::string&) override {}

    test::TwoRails world_;
    Random random_{1};
    Liveness liveness_{10s};
    std::unique_ptr<Peer> peer_ = world_.peer(11);
    std::unique_ptr<PathRepository> paths_;
    std::unique_ptr<LifeWatch> life_;
    std::unique_ptr<PathProbes> probes_;
    bool full_ = false; // the path takes no question now
    std::set<std::size_t> cut_off_;
    std::set<std::size_t> dumb_; // nothing can be asked over these
    std::vector<ProbeBody> asked_;
    std::vector<std::size_t> moved_; // pairs
    std::vector<Nanoseconds> partitions_;
};

// A probe, or an answer of a responder, from a rail whose address was changed so often.
template <typename Body> Body message_from(std::uint16_t changes) {
    Body body{};
    body.size = 1;
    body.bytes[0] = static_cast<std::byte>(changes);
    body.changes = changes;
    return body;
}

TEST_F(Probes, AnAddressThatComesLateDoesNotMoveAPeerBack) {
    world_.first.reaches_all = world_.second.reaches_all = true;
    AddressRail& remote = peer_->contact.address.rails[peer_->contact.route.pairs[kPair].remote];
    const auto arrives = [&](std::uint16_t changes, bool answer) {
        moved_.clear();
        if (answer) {
            probes_->on_answer(*peer_, kPair, message_from<LifeBody>(changes));
        } else {
            probes_->on_probe(*peer_, kPair, MessageType::probe, message_from<ProbeBody>(changes));
        }
        return moved_ == std::vector{kPair};
    };
    for (const bool answer : {false, true}) {
        remote.changes = 0;
        EXPECT_TRUE(arrives(2, answer));
        EXPECT_FALSE(arrives(1, answer)) << "it is older";
        EXPECT_FALSE(arrives(2, answer)) << "it is the same";
        EXPECT_EQ(remote.bytes[0], std::byte{2});
        EXPECT_TRUE(arrives(3, answer));
        remote.changes = 0xffff;
        EXPECT_TRUE(arrives(1, answer)) << "the count begins again";
        EXPECT_FALSE(arrives(0xffff, answer));
        EXPECT_EQ(remote.bytes[0], std::byte{1});
    }
}

// The peer's device was lost, and is back: its queue pairs have other numbers, if not by chance.
TEST_F(Probes, AProbeTellsTheNumbersOfQueuePairs) {
    world_.first.reaches_all = world_.second.reaches_all = true;
    AddressRail& remote = peer_->contact.address.rails[peer_->contact.route.pairs[kPair].remote];
    const auto arrives = [&](std::uint16_t changes, std::uint32_t datagram_qp,
                             std::uint32_t after = 1) {
        auto body = message_from<ProbeBody>(1);
        body.nonce = 7;
        body.changes = changes;
        body.datagram_qp = datagram_qp;
        body.responder_qp = datagram_qp + after;
        moved_.clear();
        probes_->on_probe(*peer_, kPair, MessageType::probe, body);
        return moved_ == std::vector{kPair};
    };
    EXPECT_TRUE(arrives(1, 100));
    EXPECT_EQ(remote.datagram_qp, 100u);
    EXPECT_EQ(remote.responder_qp, 101u);
    EXPECT_FALSE(arrives(1, 100));
    EXPECT_TRUE(arrives(2, 200));
    EXPECT_FALSE(arrives(1, 100)) << "it is older";
    EXPECT_EQ(remote.datagram_qp, 200u);
    probes_->on_answer(*peer_, kPair, message_from<LifeBody>(3)); // says nothing of numbers
    EXPECT_EQ(remote.datagram_qp, 200u);
    EXPECT_TRUE(arrives(3, 300)) << "the numbers come later than the address";
    EXPECT_EQ(remote.responder_qp, 301u);
    EXPECT_TRUE(arrives(3, 300 - 5, 6)) << "the responder has the same one";
    EXPECT_EQ(remote.datagram_qp, 295u);
    EXPECT_EQ(remote.responder_qp, 301u);
}

TEST_F(Probes, APathHasFailedOnceThePeerIsHeardOverOthersAlone) {
    paths_->report_suspect(*peer_, kPair, "silent");
    pass(1s, true);
    EXPECT_EQ(state(kPair), PathState::failed);
    EXPECT_GE(asked_.size(), PathProbes::kIgnored);
}

TEST_F(Probes, WhoIsNotHeardAtAllKeepsItsPathsSuspect) {
    paths_->report_suspect(*peer_, kPair, "silent");
    pass(60s, false);
    EXPECT_EQ(state(kPair), PathState::suspect);
    EXPECT_TRUE(partitions_.empty());
}

TEST_F(Probes, AnAnswerEndsTheSuspicion) {
    paths_->report_suspect(*peer_, kPair, "silent");
    pass(100ms, false);
    ASSERT_FALSE(asked_.empty());
    probes_->on_probe(*peer_, kPair, MessageType::probe_answer, asked_.back());
    EXPECT_EQ(state(kPair), PathState::up);
}

TEST_F(Probes, EachSuspicionBeginsWithQuestionsInQuickSuccession) {
    const auto time_for_questions = [this] {
        const Nanoseconds begin = world_.clock.now();
        asked_.clear();
        paths_->report_suspect(*peer_, kPair, "silent");
        while (asked_.size() < PathProbes::kIgnored) {
            pass(1ms, false);
        }
        const Nanoseconds took = world_.clock.now() - begin;
        probes_->on_probe(*peer_, kPair, MessageType::probe_answer, asked_.back());
        return took;
    };
    const Nanoseconds first = time_for_questions();
    for (int i = 0; i < 3; ++i) {
        EXPECT_LT(time_for_questions(), 2 * first);
    }
}

// The peer computes with a full queue behind this path, and then first takes messages that came
// over another path: one question that it had no time for does not make the path fail.
// Its responder has answered, so that the path is up; its process does not know the address yet.
TEST_F(Probes, APeerIsToldANewAddressUntilItsProcessAnswers) {
    paths_->rail_readdressed(peer_->contact.route.pairs[kPair].local);
    EXPECT_EQ(state(kPair), PathState::up);
    EXPECT_FALSE(paths_->all_well());
    pass(1s, false);
    EXPECT_GE(asked_.size(), 3u);
    EXPECT_LE(asked_.size(), 6u) << "ever more seldom";
    ProbeBody earlier = asked_.back();
    paths_->rail_readdressed(peer_->contact.route.pairs[kPair].local);
    probes_->on_probe(*peer_, kPair, MessageType::probe_answer, earlier);
    EXPECT_FALSE(paths_->all_well()) << "it has answered what told the address before";
    pass(1s, false);
    probes_->on_probe(*peer_, kPair, MessageType::probe_answer, asked_.back());
    EXPECT_TRUE(paths_->all_well());
    asked_.clear();
    pass(10s, false);
    EXPECT_TRUE(asked_.empty());
}

TEST_F(Probes, AQuestionCountsAsIgnoredOnce) {
    paths_->report_suspect(*peer_, kPair, "silent");
    probes_->run_timers();
    ASSERT_EQ(asked_.size(), 1u);
    full_ = true;
    pass(30s, true);
    EXPECT_EQ(asked_.size(), 1u);
    EXPECT_EQ(state(kPair), PathState::suspect);
    full_ = false;
    pass(30s, true);
    EXPECT_EQ(state(kPair), PathState::failed) << "now they are ignored indeed";
}

TEST_F(Probes, ARailThatIsDownTakesAllItsPathsAlong) {
    const PeerRoute::Pair suspect = peer_->contact.route.pairs[kPair];
    std::set<std::size_t> expected;
    for (std::size_t pair = 0; pair < peer_->contact.route.total; ++pair) {
        if (peer_->contact.route.pairs[pair].remote == suspect.remote) {
            expected.insert(pair);
        }
    }
    ASSERT_EQ(expected.size(), 2u);
    cut_off_ = expected;
    paths_->report_suspect(*peer_, kPair, "silent");
    pass(100ms, true);
    for (std::size_t pair = 0; pair < peer_->contact.route.total; ++pair) {
        EXPECT_EQ(state(pair), expected.contains(pair) ? PathState::failed : PathState::up) << pair;
    }
}

TEST_F(Probes, TheFirstPathsRailTakesNoMoreThanItsPathsAlong) {
    paths_->report_suspect(*peer_, 0, "silent");
    for (std::size_t pair = 0; pair < peer_->contact.route.total; ++pair) {
        cut_off_.insert(pair);
    }
    cut_off_.insert(peer_->contact.route.total);
    pass(100ms, true);
    const PeerRoute::Pair& first = peer_->contact.route.pairs[0];
    for (std::size_t pair = 0; pair < peer_->contact.route.total; ++pair) {
        const PeerRoute::Pair& rails = peer_->contact.route.pairs[pair];
        const bool shares = rails.local == first.local || rails.remote == first.remote;
        EXPECT_EQ(state(pair), shares ? PathState::failed : PathState::up) << pair;
    }
}

TEST_F(Probes, NothingIsAskedBesideOverAPathThatCannotBeAsked) {
    for (const bool can_be : {false, true}) {
        dumb_ = can_be ? std::set<std::size_t>{} : std::set{kPair};
        paths_->report_suspect(*peer_, peer_->contact.datagram.pair, "silent");
        pass(100ms, false);
        EXPECT_EQ(asked_.empty(), !can_be);
        paths_->report_success(*peer_, peer_->contact.datagram.pair);
    }
}

TEST_F(Probes, APeerWithoutAPathIsGivenUpAfterItsSilence) {
    for (std::size_t pair = 0; pair < peer_->contact.route.total; ++pair) {
        paths_->report_failure(*peer_, pair, "no answer");
    }
    pass(9s, false);
    EXPECT_TRUE(partitions_.empty());
    pass(2s, false);
    ASSERT_FALSE(partitions_.empty());
    EXPECT_EQ(partitions_.front(), 10s);
}

// Others end the work that waits for it. A process that sleeps until the next deadline would poll
// for ever if that were in the past.
TEST_F(Probes, AProcessThatHasEndedIsNotGivenUp) {
    for (std::size_t pair = 0; pair < peer_->contact.route.total; ++pair) {
        paths_->report_failure(*peer_, pair, "no answer");
    }
    peer_->health.life.ended = true;
    pass(12s, false);
    EXPECT_TRUE(partitions_.empty());
    EXPECT_GT(probes_->deadline(), world_.clock.now());
}

TEST_F(Probes, APathThatRestsCanBeAskedAtOnce) {
    const auto fail_again = [this] {
        paths_->report_success(*peer_, kPair);
        paths_->report_failure(*peer_, kPair, "no answer");
    };
    for (int i = 0; i < 8; ++i) {
        fail_again();
    }
    asked_.clear();
    pass(5s, true);
    EXPECT_TRUE(asked_.empty());
    paths_->end_rests(*peer_);
    pass(1ms, true);
    EXPECT_EQ(asked_.size(), 1u);
    paths_->end_rests(*peer_);
    pass(1ms, true);
    EXPECT_EQ(asked_.size(), 1u) << "it does not rest any more";
}

} // namespace
} // namespace adaptib
