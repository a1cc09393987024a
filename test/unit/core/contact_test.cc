// SPDX-License-Identifier: BSD-3-Clause
// A message has come whose sender cannot be answered yet, or not at all.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "cores.h"
#include "simulator/faults/fault.h"
#include "unit/sanitizers.h"

namespace adaptib::test {
namespace {

using fault::Fault;

constexpr Nanoseconds kMillisecond{1'000'000};
constexpr Nanoseconds kSecond{1'000'000'000};

// Node 1 can reach no new peer, for `reason`, until `until`.
class Contact : public testing::Test {
protected:
    Cores& begin(Reason reason, Nanoseconds until, std::uint64_t shm_rails = 1) {
        plan_.faults.push_back({.fault = Fault::create_ah_fails,
                                .rate = 1,
                                .from = kMillisecond,
                                .until = until,
                                .reason = reason});
        Options options;
        options.parameters.shm_rails = static_cast<int>(shm_rails);
        options.parameters.partition_timeout = 20;
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return node == 1 ? fault::with_faults(std::move(fabric), plan_, clock, log_)
                             : std::move(fabric);
        };
        world_.emplace(3, options);
        TestRequest send;
        TestRequest receive;
        int word = 1;
        int got = 0;
        EXPECT_TRUE(world_->send(2, 1, 1, contiguous(&word, sizeof word), send).ok());
        EXPECT_TRUE(world_->receive(1, 2, 1, contiguous(&got, sizeof got), receive).ok());
        EXPECT_TRUE(world_->run({&send, &receive})); // node 1 knows node 2 before
        world_->clock.advance(2 * kMillisecond);
        return *world_;
    }
    // Lets time pass, in steps of a millisecond with some passes each.
    void pass_time(Nanoseconds time) {
        for (Nanoseconds done{0}; done < time; done += kMillisecond) {
            world_->clock.advance(kMillisecond);
            for (int pass = 0; pass < 130; ++pass) {
                world_->progress();
            }
        }
    }
    // Exchanges messages between nodes 1 and 2, which go on whatever else waits.
    static void exchange_with_2(Cores& world) {
        for (int i = 0; i < 40; ++i) {
            const std::size_t from = 1 + static_cast<std::size_t>(i % 2);
            TestRequest send;
            TestRequest receive;
            int got = -1;
            ASSERT_TRUE(world.send(from, 3 - from, 7, contiguous(&i, sizeof i), send).ok());
            ASSERT_TRUE(world
                            .receive(3 - from, static_cast<std::int32_t>(from), 7,
                                     contiguous(&got, sizeof got), receive)
                            .ok());
            ASSERT_TRUE(world.run({&send, &receive}));
            EXPECT_EQ(got, i);
        }
    }
    bool said(std::size_t node, const std::string& text) {
        const auto& all = world_->messages(node);
        return std::any_of(all.begin(), all.end(), [&](const std::string& each) {
            return each.find(text) != std::string::npos;
        });
    }
    std::size_t tries() const { return log_.count(Fault::create_ah_fails); }

    fault::FaultPlan plan_;
    fault::FaultLog log_;
    std::optional<Cores> world_;
};

TEST_F(Contact, WhatNeedsNoAnswerIsTakenInOrder) {
    Cores& world = begin(Reason::no_memory, Nanoseconds::max());
    constexpr int kMany = 10;
    std::vector<TestRequest> sends(kMany);
    std::vector<TestRequest> receives(kMany);
    std::vector<int> sent(kMany);
    std::vector<int> got(kMany, -1);
    for (int i = 0; i < kMany; ++i) {
        sent[i] = i;
        ASSERT_TRUE(world.send(0, 1, 4, contiguous(&sent[i], sizeof(int)), sends[i]).ok());
        ASSERT_TRUE(
            world.receive(1, Envelope::kAnySource, 4, contiguous(&got[i], sizeof(int)), receives[i])
                .ok());
    }
    ASSERT_TRUE(world.run([&] {
        return std::all_of(receives.begin(), receives.end(),
                           [](const TestRequest& each) { return each.done; });
    }));
    EXPECT_EQ(got, sent);
    EXPECT_EQ(world.counters(1).bad_packets, 0u);
    EXPECT_EQ(tries(), 1u) << "not tried again while no time passes";
    pass_time(30 * kSecond);
    EXPECT_LT(tries(), 200u) << "ever more rarely";
    EXPECT_TRUE(world.messages(0).empty() && world.messages(1).empty()) << "no answer is owed";
}

TEST_F(Contact, WhatNeedsAnAnswerWaitsForIt) {
    for (const std::uint64_t rails : {1, 2}) {
        SCOPED_TRACE(rails);
        plan_.faults.clear();
        log_.entries.clear();
        Cores& world = begin(Reason::no_memory, 3 * kSecond, rails);
        std::vector<std::byte> large = pattern(1 << 20, 1);
        std::vector<std::byte> got(1 << 20);
        int word = 5;
        int other = 0;
        TestRequest send;
        TestRequest receive;
        TestRequest synchronous;
        TestRequest short_receive;
        ASSERT_TRUE(world.send(0, 1, 4, contiguous(large), send).ok());
        ASSERT_TRUE(world.send(0, 1, 5, contiguous(&word, sizeof word), synchronous, true).ok());
        ASSERT_TRUE(world.receive(1, 0, 4, contiguous(got), receive).ok());
        ASSERT_TRUE(world
                        .receive(1, Envelope::kAnySource, 5, contiguous(&other, sizeof other),
                                 short_receive)
                        .ok());
        pass_time(100 * kMillisecond);
        EXPECT_TRUE(short_receive.done);
        EXPECT_FALSE(send.done || receive.done || synchronous.done);
        exchange_with_2(world);
        pass_time(2 * kSecond);
        EXPECT_TRUE(said(1, "cannot be reached yet"));
        EXPECT_TRUE(said(1, "ulimit -n")) << "what helps";
        EXPECT_EQ(world.messages(1).size(), 1u);
        pass_time(2 * kSecond);
        EXPECT_TRUE(send.done && receive.done && synchronous.done);
        EXPECT_EQ(got, large);
        EXPECT_EQ(other, word);
        EXPECT_EQ(world.messages(1).size(), 1u);
        exchange(world, 100, 40); // connects
        EXPECT_EQ(world.peer(1, 0)->session.state, ConnectState::open);
    }
}

// The refusal needs no way to the sender, which hears of it without asking.
TEST_F(Contact, ARefusalForGoodIsAnErrorAtBothEnds) {
    for (const std::uint64_t rails : {1, 2}) {
        SCOPED_TRACE(rails);
        plan_.faults.clear();
        log_.entries.clear();
        Cores& world = begin(Reason::no_permission, Nanoseconds::max(), rails);
        int word = 5;
        int got = 0;
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(world.send(0, 1, 4, contiguous(&word, sizeof word), send, true).ok());
        bool complete = false;
        ASSERT_TRUE(world.core(0)
                        .protocol()
                        .receives()
                        .receive({0, 1, 6}, contiguous(&got, sizeof got), receive.user, complete,
                                 world.peer(0, 1))
                        .ok());
        pass_time(kSecond);
        EXPECT_TRUE(send.done && receive.done);
        for (const TestRequest* request : {&send, &receive}) {
            EXPECT_EQ(request->user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
        }
        EXPECT_LE(tries(), rails * rails) << "each pair of rails, once";
        for (const std::size_t node : {0, 1}) {
            EXPECT_EQ(world.messages(node).size(), 1u);
            EXPECT_TRUE(said(node, reason_text(Reason::no_permission)));
            EXPECT_TRUE(said(node, "another user, a container")) << "what helps";
        }
        TestRequest again;
        EXPECT_FALSE(world.send(0, 1, 4, contiguous(&word, sizeof word), again).ok());
        EXPECT_FALSE(world.send(1, 0, 4, contiguous(&word, sizeof word), again).ok());
        exchange_with_2(world);
    }
}

TEST_F(Contact, WhoCannotBeAnsweredForLongIsRefused) {
    Cores& world = begin(Reason::no_memory, Nanoseconds::max());
    int word = 5;
    TestRequest send;
    ASSERT_TRUE(world.send(0, 1, 4, contiguous(&word, sizeof word), send, true).ok());
    TestRequest receive;
    int got = 0;
    ASSERT_TRUE(world.receive(1, 0, 4, contiguous(&got, sizeof got), receive).ok());
    pass_time(19 * kSecond);
    EXPECT_FALSE(send.done);
    pass_time(2 * kSecond);
    EXPECT_TRUE(send.done);
    EXPECT_EQ(send.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_TRUE(said(0, "ulimit -n"));
    EXPECT_TRUE(said(1, "for 20 s"));
    EXPECT_EQ(world.messages(0).size(), 1u);
    EXPECT_EQ(world.messages(1).size(), 2u) << "after a second, and at the end";
}

// Messages that a process sends before it ends are not lost, though the process is gone.
TEST(ContactWithoutFaults, TheLastMessagesOfWhoHasLeftAreTaken) {
    Cores world(2);
    int word[2] = {5, 6};
    int got[2] = {};
    TestRequest sends[2];
    TestRequest receives[2];
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(world.send(0, 1, i, contiguous(&word[i], sizeof(int)), sends[i]).ok());
    }
    world.end(0);
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(
            world.receive(1, Envelope::kAnySource, i, contiguous(&got[i], sizeof(int)), receives[i])
                .ok());
    }
    for (int pass = 0; pass < 1000; ++pass) {
        world.progress(1);
    }
    EXPECT_TRUE(receives[0].done && receives[1].done);
    EXPECT_EQ(got[0], 5);
    EXPECT_EQ(got[1], 6);
    EXPECT_TRUE(world.messages(1).empty());
}

TEST(ContactWithoutFaults, TheLimitInTheWayIsNamed) {
    if (kAsan) {
        GTEST_SKIP() << "a sanitizer's checks need files of their own";
    }
    Cores world(2);
    int word = 5;
    int got = 0;
    TestRequest send;
    TestRequest receive;
    ASSERT_TRUE(world.send(0, 1, 4, contiguous(&word, sizeof word), send, true).ok());
    ASSERT_TRUE(world.receive(1, 0, 4, contiguous(&got, sizeof got), receive).ok());
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit limit = before;
    limit.rlim_cur = 64;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::vector<int> taken;
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
        taken.push_back(fd);
    }
    for (int i = 0; i < 2000; ++i) {
        world.clock.advance(kMillisecond);
        for (int pass = 0; pass < 70; ++pass) {
            world.progress();
        }
    }
    for (const int fd : taken) {
        close(fd);
    }
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_TRUE(receive.done);
    EXPECT_FALSE(send.done);
    ASSERT_EQ(world.messages(1).size(), 1u);
    EXPECT_NE(world.messages(1)[0].find("Too many open files; ulimit -n is 64"), std::string::npos)
        << world.messages(1)[0];
    world.clock.advance(kSecond);
    EXPECT_TRUE(world.run({&send}));
}

} // namespace
} // namespace adaptib::test
