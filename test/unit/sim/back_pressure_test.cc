// SPDX-License-Identifier: BSD-3-Clause
// Messages without a posted receive: how many are kept, which senders have to wait, and that
// nobody waits forever.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "unit/sim/worlds.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kMost = 64 * kKiB;
constexpr Bytes kOnItsWay = 1 * kMiB; // capacity of a ring and the queue
constexpr Bytes kAnnounced = 512;     // kept of an announced message

// A message with a tag of its own.
struct Tagged {
    Tagged(std::size_t from, std::size_t to, std::size_t bytes, std::size_t number)
        : message(from, to, bytes, number), tag(static_cast<std::int32_t>(number)) {}

    void send(Ranks& ranks) { message.start_send(ranks, tag); }
    void receive(Ranks& ranks, bool from_anybody = false) {
        Envelope pattern = envelope();
        pattern.source = from_anybody ? Envelope::kAnySource : pattern.source;
        message.start_receive(ranks, pattern,
                              from_anybody ? nullptr : ranks.peer(message.target, message.source));
    }
    Envelope envelope() const { return message.envelope(tag); }

    Message message;
    std::int32_t tag;
};

using AllTagged = std::vector<std::unique_ptr<Tagged>>;

bool all_done(const AllTagged& messages) {
    return std::all_of(messages.begin(), messages.end(),
                       [](const auto& each) { return each->message.done(); });
}

class Flood {
public:
    // Sends `count` messages, and lets time pass.
    Flood(Bytes bytes, std::size_t count, std::size_t ranks = 3) {
        RanksOptions options = world_of(ranks);
        options.parameters.unexpected_memory = kMost;
        ranks_ = make(std::move(options));
        for (std::size_t i = 0; i < count; ++i) {
            messages_.push_back(std::make_unique<Tagged>(0, 1, bytes, i));
            messages_.back()->send(*ranks_);
        }
        rest(*ranks_, 50ms);
    }
    Ranks& ranks() { return *ranks_; }
    Tagged& operator[](std::size_t i) { return *messages_[i]; }
    std::size_t sent() const {
        return static_cast<std::size_t>(
            std::count_if(messages_.begin(), messages_.end(),
                          [](const auto& each) { return each->message.send.done; }));
    }
    Bytes kept(std::size_t rank) {
        ranks_->core(rank).protocol().update_levels();
        return ranks_->counters(rank).unexpected_bytes;
    }
    // Receives all messages, the last one first.
    void receive_all() {
        for (std::size_t i = messages_.size(); i-- > 0;) {
            messages_[i]->receive(*ranks_, i % 2 == 0);
        }
        EXPECT_TRUE(ranks_->run_until([&] { return all_done(messages_); }, 10s));
        for (const auto& each : messages_) {
            ASSERT_EQ(each->message.got, each->message.sent);
        }
        EXPECT_EQ(kept(1), 0u);
        nothing_bad(*ranks_);
    }

private:
    std::unique_ptr<Ranks> ranks_;
    AllTagged messages_;
};

TEST(BackPressure, AFloodIsKeptByItsSender) {
    for (const Bytes bytes : {0u, 8u, 1000u, 4000u}) {
        SCOPED_TRACE(bytes);
        Flood flood(bytes, 6000);
        EXPECT_LE(flood.kept(1), kMost + kOnItsWay);
        EXPECT_LT(flood.sent(), 1000u);
        EXPECT_GT(flood.ranks().counters(1).peers_restrained, 0u);
        EXPECT_GT(flood.ranks().counters(0).sends_queued, 5000u);
        flood.receive_all();
    }
}

TEST(BackPressure, OtherTrafficPasses) {
    Flood flood(1000, 3000);
    const std::size_t sent = flood.sent();
    carry(flood.ranks(), 2, 1, 100); // from another peer
    carry(flood.ranks(), 2, 1, 100'000);
    EXPECT_LT(flood.sent(), sent + 500); // receives for other peers do not let the flood in
    carry(flood.ranks(), 1, 0, 100);     // to the rank that is held back
    carry(flood.ranks(), 1, 0, 100'000);
    flood.receive_all();
}

TEST(BackPressure, WhatIsAskedForComes) {
    for (const bool anybody : {false, true}) {
        Flood flood(1000, 3000);
        Tagged& last = flood[2999];
        last.receive(flood.ranks(), anybody);
        ASSERT_TRUE(flood.ranks().run_until([&] { return last.message.receive.done; }, 1s));
        EXPECT_EQ(last.message.got, last.message.sent);
        // Messages that had to come before the last one are kept as announcements.
        EXPECT_LE(flood.kept(1), kMost + kOnItsWay + 3000 * kAnnounced);
    }
}

TEST(BackPressure, WhatIsProbedForComes) {
    Flood flood(1000, 3000);
    Protocol& protocol = flood.ranks().core(1).protocol();
    const Envelope wanted = flood[2999].envelope();
    EXPECT_TRUE(flood.ranks().run_until(
        [&] { return protocol.receives().find(wanted, flood.ranks().peer(1, 0)) != nullptr; }, 1s));
    const std::size_t sent = flood.sent();
    EXPECT_GT(sent, 0u);
    flood.receive_all();
}

TEST(BackPressure, AProbeForSomebodyElseLetsNothingIn) {
    Flood flood(1000, 3000);
    const Bytes kept = flood.kept(1);
    Protocol& protocol = flood.ranks().core(1).protocol();
    flood.ranks().run_until(
        [&] {
            EXPECT_EQ(protocol.receives().find({0, 2, 7}, flood.ranks().peer(1, 2)), nullptr);
            return false;
        },
        10ms);
    EXPECT_LE(flood.kept(1), kept + 4 * kKiB);
    flood.receive_all();
}

// All ranks send more than any rank keeps before they receive: unsafe in MPI, and common.
TEST(BackPressure, ThoseThatSendFirstDoNotWaitForEachOther) {
    constexpr std::size_t kRanks = 3;
    constexpr std::size_t kCount = 1000;
    RanksOptions options = world_of(kRanks);
    options.parameters.unexpected_memory = kMost;
    const auto ranks = make(std::move(options));
    std::vector<AllTagged> of(kRanks);
    // Behaves like a program with MPI_Send and MPI_Recv: starts the next one when the
    // last is complete.
    std::vector<std::size_t> received(kRanks);
    const auto go_on = [&] {
        bool done = true;
        for (std::size_t self = 0; self < kRanks; ++self) {
            auto& own = of[self];
            while (own.size() < kCount && (own.empty() || own.back()->message.send.done)) {
                own.push_back(
                    std::make_unique<Tagged>(self, (self + 1) % kRanks, 1000, own.size()));
                own.back()->send(*ranks);
            }
            const auto& from = of[(self + kRanks - 1) % kRanks];
            std::size_t& next = received[self];
            if (own.size() == kCount && own.back()->message.send.done) {
                while (next < from.size() && (next == 0 || from[next - 1]->message.receive.done)) {
                    from[next++]->receive(*ranks);
                }
            }
            done = done && next == kCount && from.back()->message.receive.done;
        }
        return done;
    };
    ASSERT_TRUE(ranks->run_until(go_on, 1s));
    for (const auto& own : of) {
        for (const auto& each : own) {
            ASSERT_EQ(each->message.got, each->message.sent);
        }
    }
    nothing_bad(*ranks);
}

// A synchronous send waits for its receive: a process that waits in one restrains nobody.
TEST(BackPressure, WhoWaitsWithASynchronousSendLetsAllIn) {
    Flood flood(1000, 3000);
    EXPECT_EQ(flood.ranks().peer(0, 1)->flow.allowed, Allowance::nothing);
    Message synchronous(1, 2, 8);
    synchronous.start_send(flood.ranks(), 3, true);
    rest(flood.ranks(), 50ms);
    EXPECT_EQ(flood.ranks().peer(0, 1)->flow.allowed, Allowance::all);
    EXPECT_EQ(flood.sent(), 3000u);
    synchronous.start_receive(flood.ranks(), synchronous.envelope(3));
    ASSERT_TRUE(flood.ranks().run_until([&] { return synchronous.done(); }, 1s));
    flood.receive_all();
}

// The receiver takes the messages of one peer. The other peers, which it held back because all of
// them together sent too much, go on.
TEST(BackPressure, TheOthersGoOnWhenAllOfItIsLess) {
    RanksOptions options = world_of(4);
    options.parameters.unexpected_memory = kMost;
    const auto ranks = make(std::move(options));
    AllTagged messages;
    for (std::size_t i = 0; i < 100; ++i) {
        for (const std::size_t from : {0u, 2u, 3u}) {
            messages.push_back(std::make_unique<Tagged>(from, 1, 1000, i));
            messages.back()->send(*ranks);
        }
    }
    rest(*ranks, 50ms);
    EXPECT_GT(ranks->counters(1).peers_restrained, 0u);
    for (const auto& each : messages) {
        each->receive(*ranks);
    }
    EXPECT_TRUE(ranks->run_until([&] { return all_done(messages); }, 1s));
    for (const std::size_t from : {0u, 2u, 3u}) {
        rest(*ranks, 1ms);
        EXPECT_EQ(ranks->peer(from, 1)->flow.allowed, Allowance::all) << from;
    }
    nothing_bad(*ranks);
}

} // namespace
} // namespace adaptib::sim
