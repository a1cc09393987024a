// SPDX-License-Identifier: BSD-3-Clause
// The replay of patterns, over ranks whose messages take 100 ns and 1 ns a byte, independently:
// exact times, and reports of what goes wrong.
#include "simulator/studies/replay.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <tuple>

#include "simulator/network/simulator.h"

namespace adaptib::study {
namespace {

class DelayedRanks final : public Ranks {
public:
    explicit DelayedRanks(std::size_t count) : count_(count) {}

    std::size_t size() const override { return count_; }
    Nanoseconds now(std::uint32_t) const override { return simulator_.now(); }
    bool run_until(const std::function<bool()>& condition) override {
        while (!condition()) {
            if (!simulator_.step()) {
                return false;
            }
        }
        return true;
    }

    // Ends the send at once: the payload is copied.
    void send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data, Bytes bytes,
              Waiter& waiter) override {
        if (++sent_ == lose) {
            waiter.on_end(true);
            return;
        }
        const auto* const begin = static_cast<const std::byte*>(data);
        messages_.push_back(std::make_unique<Message>(*this, Key{rank, to, tag}));
        Message& message = *messages_.back();
        message.payload.assign(begin, begin + bytes);
        if (sent_ == corrupt) {
            message.payload.at(0) ^= std::byte{1};
        }
        simulator_.schedule(message,
                            simulator_.now() + Nanoseconds{100 + static_cast<std::int64_t>(bytes)});
        waiter.on_end(sent_ != fail);
    }
    void receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data, Bytes bytes,
                 Waiter& waiter) override {
        const Key key{from, rank, tag};
        posted_[key].push_back({data, bytes, &waiter});
        match(key);
    }

    int lose = 0; // number of the send that is lost, arrives corrupted, or fails
    int corrupt = 0;
    int fail = 0;

private:
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::int32_t>; // from, to, tag

    struct Message final : sim::Event {
        Message(DelayedRanks& r, const Key& k) : ranks(r), key(k) {}
        void happen() override {
            ranks.arrived_[key].push_back(this);
            ranks.match(key);
        }

        DelayedRanks& ranks;
        Key key;
        std::vector<std::byte> payload;
    };
    struct Posted {
        void* data;
        Bytes bytes;
        Waiter* waiter;
    };

    void match(const Key& key) {
        auto& arrived = arrived_[key];
        auto& posted = posted_[key];
        while (!arrived.empty() && !posted.empty()) {
            const Message& message = *arrived.front();
            const Posted receive = posted.front();
            arrived.pop_front();
            posted.pop_front();
            std::copy(message.payload.begin(), message.payload.end(),
                      static_cast<std::byte*>(receive.data));
            receive.waiter->on_end(message.payload.size() == receive.bytes);
        }
    }

    std::size_t count_;
    sim::Simulator simulator_;
    std::vector<std::unique_ptr<Message>> messages_;
    std::map<Key, std::deque<Message*>> arrived_;
    std::map<Key, std::deque<Posted>> posted_;
    int sent_ = 0;
};

Timing replayed(const Pattern& pattern) {
    DelayedRanks ranks(pattern.size());
    Timing timing;
    std::string text;
    EXPECT_TRUE(replay(pattern, ranks, timing, text)) << text;
    return timing;
}

TEST(Replay, EveryPatternEndsAsFarApartAsItsStepsAre) {
    for (const std::string_view name : pattern_names()) {
        const Pattern pattern = make_pattern(name, 9, 16, 20);
        const Timing timing = replayed(pattern);
        ASSERT_EQ(timing.steps.size(), pattern.steps());
        EXPECT_EQ(timing.mean_step.size(), pattern.steps());
        // The pattern takes at least as long as an empty message, and at most 116 ns (16 bytes) a
        // step.
        EXPECT_GE(timing.total, Nanoseconds{100});
        EXPECT_LE(timing.total, Nanoseconds{static_cast<std::int64_t>(116 * pattern.steps())});
    }
}

TEST(Replay, RingTakesAStepAfterTheOther) {
    const Timing timing = replayed(displaced_ring(6, 50));
    ASSERT_EQ(timing.steps.size(), 5u);
    for (std::size_t step = 0; step < 5; ++step) {
        const auto n = static_cast<std::int64_t>(step);
        EXPECT_EQ(timing.steps[step].begin, Nanoseconds{150 * n});
        EXPECT_EQ(timing.steps[step].end, Nanoseconds{150 * (n + 1)});
        EXPECT_EQ(timing.mean_step[step], Nanoseconds{150});
    }
    EXPECT_EQ(timing.total, Nanoseconds{750});
}

// Rank 0 only sends, and has done all its steps at once; the others get both rounds together.
TEST(Replay, RanksDoNotWaitForEachOther) {
    const Timing timing = replayed(onetoall(5, 8, 2));
    EXPECT_EQ(timing.total, Nanoseconds{108});
    EXPECT_EQ(timing.steps[1].begin, Nanoseconds{0});
    EXPECT_EQ(timing.steps[1].end, Nanoseconds{108});
    // Step 0 takes 0 ns at rank 0 and 108 ns at the four others; step 1's messages are there
    // already.
    EXPECT_EQ(timing.mean_step[0], Nanoseconds{4 * 108 / 5});
    EXPECT_EQ(timing.mean_step[1], Nanoseconds{0});
}

TEST(Replay, WhatGoesWrongIsSaid) {
    const Pattern pattern = displaced_ring(4, 8);
    Timing timing;
    std::string text;
    DelayedRanks losing(4);
    losing.lose = 6; // in step 1, from 2 to 0; rank 3 then waits for 0 in step 2
    EXPECT_FALSE(replay(pattern, losing, timing, text));
    EXPECT_EQ(text, "displaced_ring: nothing happens any more, and 2 ranks wait");
    DelayedRanks corrupting(4);
    corrupting.corrupt = 3; // the first send of rank 2, to rank 3
    EXPECT_FALSE(replay(pattern, corrupting, timing, text));
    EXPECT_EQ(text, "displaced_ring, rank 3, step 0: another message arrived than was sent");
    DelayedRanks failing(4);
    failing.fail = 2;
    EXPECT_FALSE(replay(pattern, failing, timing, text));
    EXPECT_EQ(text, "displaced_ring, rank 1, step 0: a message failed");
    DelayedRanks few(3);
    EXPECT_FALSE(replay(pattern, few, timing, text));
    EXPECT_EQ(text, "displaced_ring: more ranks than there are");
}

} // namespace
} // namespace adaptib::study
