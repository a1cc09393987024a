// SPDX-License-Identifier: BSD-3-Clause
// A peer has left in good order: nothing of it remains here, and nothing has failed.
#include <fstream>

#include "cores.h"

namespace adaptib::test {
namespace {

constexpr Nanoseconds kMillisecond{1'000'000};

// Counts the segments mapped in this process, by their fixed parts, which are at the beginning.
std::size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        count += line.find("memfd:adaptib") != std::string::npos &&
                         line.find(" 00000000 ") != std::string::npos
                     ? 1
                     : 0;
    }
    return count;
}

class Leaving : public testing::TestWithParam<int> {
protected:
    Cores& begin() {
        Options options;
        options.parameters.shm_rails = GetParam();
        world_.emplace(2, options);
        before_ = mappings();
        exchange(*world_, 100, 40);
        peer_ = world_->peer(0, 1);
        EXPECT_EQ(peer_->session.state, ConnectState::open);
        EXPECT_EQ(mappings(), before_ + 2) << "each maps the other's";
        return *world_;
    }
    void pass_time(Nanoseconds time) {
        for (Nanoseconds done{0}; done < time; done += kMillisecond) {
            world_->clock.advance(kMillisecond);
            for (int pass = 0; pass < 130; ++pass) {
                world_->progress(0);
            }
        }
    }
    // Checks node 0.
    void expect_that_nothing_has_failed() {
        EXPECT_EQ(world_->counters(0).connections_failed, 0u);
        EXPECT_EQ(world_->counters(0).paths_failed, 0u);
        EXPECT_EQ(world_->counters(0).paths_suspected, 0u);
        const std::string report = world_->core(0).report();
        EXPECT_EQ(report.find("failed since"), std::string::npos) << report;
        EXPECT_NE(report.find("broken 0"), std::string::npos) << report;
        EXPECT_TRUE(world_->messages(0).empty());
    }
    void expect_that_nothing_is_left() {
        EXPECT_EQ(peer_->session.state, ConnectState::idle);
        EXPECT_EQ(world_->counters(0).rings_open, 0u) << "its place in ring_max is free";
        EXPECT_EQ(world_->counters(0).queue_pairs, 0u);
        EXPECT_EQ(peer_->in.ring_memory, nullptr);
        EXPECT_EQ(mappings(), before_ - 1) << "node 0's own segment alone";
    }

    std::optional<Cores> world_;
    Peer* peer_ = nullptr; // node 0's record of node 1
    std::size_t before_ = 0;
};

// Like a child that has disconnected and ended, while its parent has not released it yet.
TEST_P(Leaving, WhoHasSentDisconnectAndGoneLeavesNothing) {
    Cores& world = begin();
    world.core(1).protocol().disconnects().release(*world.peer(1, 0));
    for (int pass = 0; pass < 1000; ++pass) {
        world.progress();
    }
    EXPECT_TRUE(peer_->ending.disconnect_received);
    world.end(1);
    pass_time(20 * kMillisecond);
    expect_that_nothing_is_left();
    world.core(0).protocol().disconnects().release(*peer_);
    pass_time(20 * kMillisecond);
    expect_that_nothing_has_failed();
}

// As in MPI_Finalize: one end is gone before it has replied to the other's disconnect.
TEST_P(Leaving, ADisconnectThatNobodyAnswersIsNoFailure) {
    Cores& world = begin();
    world.end(1);
    world.core(0).protocol().disconnects().release(*peer_);
    pass_time(20 * kMillisecond);
    expect_that_nothing_is_left();
    expect_that_nothing_has_failed();
}

TEST_P(Leaving, WhatWasSentBeforeIsTaken) {
    Cores& world = begin();
    constexpr int kMany = 50;
    std::vector<int> sent(kMany);
    std::vector<int> got(kMany, -1);
    std::vector<TestRequest> sends(kMany);
    std::vector<TestRequest> receives(kMany);
    for (int i = 0; i < kMany; ++i) {
        sent[i] = i;
        ASSERT_TRUE(world.send(1, 0, 4, contiguous(&sent[i], sizeof(int)), sends[i]).ok());
        ASSERT_TRUE(sends[i].done);
    }
    world.end(1);
    for (int i = 0; i < kMany; ++i) {
        bool complete = false;
        ASSERT_TRUE(world.core(0)
                        .protocol()
                        .receives()
                        .receive({0, 1, 4}, contiguous(&got[i], sizeof(int)), receives[i].user,
                                 complete, peer_)
                        .ok());
    }
    pass_time(20 * kMillisecond);
    EXPECT_EQ(got, sent);
    expect_that_nothing_is_left();
    expect_that_nothing_has_failed();
}

TEST_P(Leaving, WhoIsStillWantedIsLost) {
    Cores& world = begin();
    int got = 0;
    TestRequest receive;
    bool complete = false;
    ASSERT_TRUE(world.core(0)
                    .protocol()
                    .receives()
                    .receive({0, 1, 4}, contiguous(&got, sizeof got), receive.user, complete, peer_)
                    .ok());
    world.end(1);
    pass_time(20 * kMillisecond);
    EXPECT_TRUE(receive.done);
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(world.messages(0).size(), 1u);
    EXPECT_EQ(world.counters(0).connections_failed, 1u);
}

// An operation that is started to the peer later is an error of its own.
TEST_P(Leaving, WhoHasLeftCannotBeSentTo) {
    Cores& world = begin();
    world.end(1);
    pass_time(20 * kMillisecond);
    expect_that_nothing_is_left();
    int word = 1;
    TestRequest send;
    EXPECT_FALSE(world.send(0, 1, 4, contiguous(&word, sizeof word), send).ok());
    EXPECT_EQ(world.messages(0).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Rails, Leaving, testing::Values(1, 2));

} // namespace
} // namespace adaptib::test
