// SPDX-License-Identifier: BSD-3-Clause
// Small one-sided operations that are target-assisted: each executes once, at either end, with the
// same result.
//
// ThreadSanitizer does not see that the words that two cores share are the same ones: the test
// looks at data that the target's thread touches only when that thread has ended.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "attentive.h"
#include "cores.h"
#include "window.h"

namespace adaptib::test {
namespace {

using Way = WayChoice::Way;

constexpr std::size_t kTarget = 1;

// Makes this way the preferred one from now on: target-assisted first, or never.
void prefer(Peer& peer, Way way) {
    const auto teach = [way](WayChoice& choice) {
        for (int i = 0; i < 5; ++i) {
            choice.note(AssistChoices::kDirect,
                        Nanoseconds{way == AssistChoices::kAssisted ? 1'000'000'000 : 1});
            choice.note(AssistChoices::kAssisted, Nanoseconds{1000});
        }
    };
    for (WayChoice& choice : peer.transfers.assist_choices->transfers) {
        teach(choice);
    }
    teach(peer.transfers.assist_choices->atomics);
}

void connect(Cores& world, std::size_t from, const Window& window) {
    std::uint64_t got = 0;
    TestRequest get;
    ASSERT_TRUE(start(world, from, kTarget,
                      operation(OPAL_COMMON_ADAPTIB_GET, &got, window, 0, sizeof got), get)
                    .ok());
    ASSERT_TRUE(world.run({&get}));
}

bool at_once(Cores& world, std::size_t from, const opal_common_adaptib_one_sided_t& what) {
    return world.core(from).protocol().one_sided().try_rma(*world.peer(from, kTarget), what,
                                                           nullptr);
}

// True once enough operations were target-assisted and executed, or time is over: on a busy machine
// the two threads seldom run at the same time.
class Enough {
public:
    explicit Enough(Cores& world) : counters_(world.counters(0)) {}
    bool operator()() const {
        return counters_.operations_assisted - counters_.operations_taken_back >= 300 ||
               std::chrono::steady_clock::now() >= end_;
    }

private:
    const Counters& counters_;
    std::chrono::steady_clock::time_point end_ =
        std::chrono::steady_clock::now() + std::chrono::seconds(120);
};

TEST(TargetAssisted, TheTargetDoesWhatItIsAskedFor) {
    Cores world(2);
    constexpr std::size_t kMostWords = kMaxAssisted / 8;
    std::vector<std::uint64_t> memory(64 + kMostWords, 7);
    std::vector<std::uint64_t> expected = memory;
    const Window window(world, kTarget, memory.data(), memory.size() * 8);
    connect(world, 0, window);
    prefer(*world.peer(0, kTarget), AssistChoices::kAssisted);
    std::size_t started = 0;
    std::size_t done = 0;
    {
        const Attentive target(world, kTarget);
        const Enough enough(world);
        Random random(1);
        for (; started % 4 != 0 || !enough(); ++started) {
            const std::size_t i = started;
            if (i % 100 == 0) {
                prefer(*world.peer(0, kTarget), AssistChoices::kAssisted);
            }
            const std::size_t word = random.below(64);
            const std::size_t bytes = 8 * (1 + random.below(i % 16 < 4 ? kMostWords : 32));
            std::uint64_t old = 0;
            if (i % 4 == 0) {
                auto add = operation(OPAL_COMMON_ADAPTIB_FETCH_ADD, &old, window, word * 8, 8);
                add.operand = i;
                done += at_once(world, 0, add) ? 1 : 0;
                ASSERT_EQ(old, expected[word]);
                expected[word] += i;
            } else if (i % 4 == 1) {
                auto swap = operation(OPAL_COMMON_ADAPTIB_COMPARE_SWAP, &old, window, word * 8, 8);
                swap.compare = i % 8 == 1 ? expected[word] : expected[word] + 1;
                swap.operand = i;
                done += at_once(world, 0, swap) ? 1 : 0;
                ASSERT_EQ(old, expected[word]);
                expected[word] = i % 8 == 1 ? i : expected[word];
            } else if (i % 4 == 2) {
                std::vector<std::byte> sent = pattern(bytes, i);
                const auto put =
                    operation(OPAL_COMMON_ADAPTIB_PUT, sent.data(), window, word * 8, bytes);
                done += at_once(world, 0, put) ? 1 : 0;
                std::memcpy(&expected[word], sent.data(), bytes);
            } else {
                std::vector<std::uint64_t> got(bytes / 8);
                const auto get =
                    operation(OPAL_COMMON_ADAPTIB_GET, got.data(), window, word * 8, bytes);
                done += at_once(world, 0, get) ? 1 : 0;
                ASSERT_TRUE(
                    std::equal(got.begin(), got.end(), expected.begin() + std::ptrdiff_t(word)));
            }
        }
    }
    EXPECT_EQ(done, started);
    EXPECT_EQ(memory, expected);
    const Counters& counters = world.counters(0);
    EXPECT_EQ(counters.operations_assisted - counters.operations_taken_back,
              world.counters(kTarget).operations_served);
    EXPECT_GE(world.counters(kTarget).operations_served, 300u);
    EXPECT_EQ(world.counters(kTarget).bad_packets, 0u);
    exchange(world, 100, 3);
}

// Each size has a choice of its own, and larger operations are never target-assisted.
TEST(TargetAssisted, SizesAreLearntApart) {
    AssistChoices choices;
    EXPECT_EQ(&choices.of_transfer(1), &choices.transfers[0]);
    for (std::size_t i = 0; i < AssistChoices::kSizes; ++i) {
        const Bytes most = Bytes{256} << (2 * i);
        EXPECT_EQ(&choices.of_transfer(most), &choices.transfers[i]);
        if (i + 1 < AssistChoices::kSizes) {
            EXPECT_EQ(&choices.of_transfer(most + 1), &choices.transfers[i + 1]);
        }
    }
    Cores world(2);
    std::vector<std::byte> memory(kMaxAssisted + 8);
    const Window window(world, kTarget, memory.data(), memory.size());
    connect(world, 0, window);
    prefer(*world.peer(0, kTarget), AssistChoices::kAssisted);
    std::vector<std::byte> got(memory.size());
    for (const Bytes bytes : {Bytes{kMaxAssisted} + 1, Bytes{kMaxAssisted}}) {
        EXPECT_TRUE(
            at_once(world, 0, operation(OPAL_COMMON_ADAPTIB_GET, got.data(), window, 0, bytes)));
        EXPECT_EQ(world.counters(0).operations_assisted, bytes == kMaxAssisted ? 1u : 0u);
    }
}

TEST(TargetAssisted, WhatWasTakenBackIsNotDoneAgain) {
    Cores world(2);
    alignas(8) std::uint64_t word = 0;
    const Window window(world, kTarget, &word, sizeof word);
    connect(world, 0, window);
    prefer(*world.peer(0, kTarget), AssistChoices::kAssisted);
    for (std::uint64_t i = 0; i < 300; ++i) {
        std::uint64_t old = 0;
        auto add = operation(OPAL_COMMON_ADAPTIB_FETCH_ADD, &old, window, 0, 8);
        add.operand = 1;
        ASSERT_TRUE(at_once(world, 0, add)) << "with nobody there it is done here";
        ASSERT_EQ(old, i);
        if (i % 100 == 0) {
            prefer(*world.peer(0, kTarget), AssistChoices::kAssisted);
        }
    }
    const Counters& counters = world.counters(0);
    EXPECT_GE(counters.operations_assisted, 3u);
    EXPECT_EQ(counters.operations_assisted, counters.operations_taken_back);
    exchange(world, 100, 3); // now the target looks at its ring
    EXPECT_EQ(word, 300u);
    EXPECT_EQ(world.counters(kTarget).operations_served, 0u);
    EXPECT_EQ(world.counters(kTarget).bad_packets, 0u);
}

TEST(TargetAssisted, AWindowThatIsGoneIsNotReached) {
    Cores world(2);
    alignas(8) std::uint64_t word = 5;
    Window window(world, kTarget, &word, sizeof word);
    connect(world, 0, window);
    prefer(*world.peer(0, kTarget), AssistChoices::kAssisted);
    window.open.reset();
    {
        const Attentive target(world, kTarget);
        for (int i = 0; i < 20; ++i) {
            std::uint64_t value = 9;
            EXPECT_FALSE(at_once(
                world, 0, operation(OPAL_COMMON_ADAPTIB_PUT, &value, window, 0, sizeof value)));
        }
    }
    EXPECT_EQ(word, 5u);
    EXPECT_TRUE(world.messages(0).empty()) << "nothing is broken";
    exchange(world, 100, 3);
}

// One initiator is target-assisted, the other executes directly: the target and the second
// initiator hold the same lock.
TEST(TargetAssisted, AtomicsOfBothWaysAddUp) {
    Cores world(3);
    alignas(8) std::uint64_t word = 0;
    const Window window(world, kTarget, &word, sizeof word);
    connect(world, 0, window);
    connect(world, 2, window);
    prefer(*world.peer(0, kTarget), AssistChoices::kAssisted);
    prefer(*world.peer(2, kTarget), AssistChoices::kDirect);
    std::vector<std::uint64_t> old;
    const auto add_one = [&](std::size_t from, std::vector<std::uint64_t>& got) {
        std::uint64_t found = 0;
        auto add = operation(OPAL_COMMON_ADAPTIB_FETCH_ADD, &found, window, 0, 8);
        add.operand = 1;
        while (!at_once(world, from, add)) { // the lock was held
        }
        got.push_back(found);
    };
    {
        const Attentive target(world, kTarget);
        std::atomic<bool> over{false};
        std::vector<std::uint64_t> others;
        std::thread second([&] {
            while (!over) {
                add_one(2, others);
            }
        });
        for (const Enough enough(world); !enough();) {
            if (old.size() % 100 == 0) {
                prefer(*world.peer(0, kTarget), AssistChoices::kAssisted);
            }
            add_one(0, old);
        }
        over = true;
        second.join();
        old.insert(old.end(), others.begin(), others.end());
    }
    EXPECT_EQ(word, old.size());
    std::sort(old.begin(), old.end());
    for (std::size_t i = 0; i < old.size(); ++i) {
        ASSERT_EQ(old[i], i) << "each found a value of its own";
    }
    EXPECT_GE(world.counters(kTarget).operations_served, 300u);
}

TEST(TargetAssisted, NobodyIsWhereItIsSwitchedOff) {
    Options options;
    options.parameters.small_one_sided = const_cast<char*>("direct");
    Cores world(2, options);
    alignas(8) std::uint64_t word = 0;
    const Window window(world, kTarget, &word, sizeof word);
    connect(world, 0, window);
    EXPECT_EQ(world.peer(0, kTarget)->transfers.assist_choices, nullptr);
    std::uint64_t value = 9;
    for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(
            at_once(world, 0, operation(OPAL_COMMON_ADAPTIB_PUT, &value, window, 0, sizeof value)));
    }
    EXPECT_EQ(word, 9u);
    EXPECT_EQ(world.counters(0).operations_assisted, 0u);
}

} // namespace
} // namespace adaptib::test
