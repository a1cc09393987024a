// SPDX-License-Identifier: BSD-3-Clause
// The model of one-sided operations: values that gets and atomics may return.
#include "simulator/torture/memory_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "simulator/torture/payload.h"

namespace adaptib::torture {
namespace {

constexpr Bytes kBytes = 64;

// The memory of one rank; apply() executes a put.
class Story {
public:
    Story() : memory_(payload(1), payload(1) + kBytes) {
        history_.memory.push_back({1, memory_.data(), kBytes, {0, 0}});
    }

    std::size_t put(Bytes offset, Bytes bytes) {
        const auto id = static_cast<std::uint32_t>(history_.puts.size());
        history_.puts.push_back({id, 0, offset, bytes, 100 + id, nullptr, ++now_, kNever, 0});
        return id;
    }
    void apply(std::size_t put) {
        const MovedData& what = history_.puts[put];
        std::copy_n(payload(what.payload), what.bytes,
                    memory_.begin() + static_cast<std::ptrdiff_t>(what.offset));
    }
    void done(std::size_t put) { history_.puts[put].completed = ++now_; }
    void put_all(Bytes offset, Bytes bytes) {
        const std::size_t id = put(offset, bytes);
        apply(id);
        done(id);
    }
    void get(const std::vector<std::byte>& bytes) {
        const Time started = ++now_;
        got_.push_back(std::make_unique<std::vector<std::byte>>(bytes));
        history_.gets.push_back(
            {0, 0, 0, bytes.size(), 0, got_.back()->data(), started, ++now_, 0});
    }
    AtomicUpdate& atomic(bool swap, std::uint64_t operand, std::uint64_t compare,
                         std::uint64_t old) {
        const Time started = ++now_;
        history_.atomics.push_back({static_cast<std::uint32_t>(history_.atomics.size()), 0, 0, swap,
                                    operand, compare, old, started, ++now_, 0});
        return history_.atomics.back();
    }
    void last(std::uint64_t value) { history_.memory[0].words[0] = value; }

    std::vector<std::byte>& memory() { return memory_; }
    MemoryHistory& history() { return history_; }
    std::string verdict() const {
        std::string all;
        for (const std::string& problem : check(history_)) {
            all += problem + "\n";
        }
        return all;
    }

private:
    std::vector<std::byte> memory_;
    std::vector<std::unique_ptr<std::vector<std::byte>>> got_;
    MemoryHistory history_;
    Time now_ = 0;
};

#define EXPECT_LEGAL(story) EXPECT_EQ((story).verdict(), "")
#define EXPECT_ILLEGAL(story, part)                                                                \
    EXPECT_NE((story).verdict().find(part), std::string::npos) << (story).verdict()

TEST(MemoryModel, PutsInTurn) {
    Story story;
    story.get(story.memory());
    story.put_all(8, 20);
    story.put_all(16, 30);
    story.get(story.memory());
    EXPECT_LEGAL(story);
    story.memory()[3] ^= std::byte{1}; // from no put
    EXPECT_ILLEGAL(story, "at the end: byte 3");
}

TEST(MemoryModel, AReplacedPutIsGone) {
    Story story;
    story.put_all(0, 16);
    const std::vector<std::byte> before = story.memory();
    story.put_all(8, 16);
    EXPECT_LEGAL(story);
    story.get(before);
    EXPECT_ILLEGAL(story, "byte 8");
}

TEST(MemoryModel, OverlappingPutsAtTheSameTimeMayMix) {
    Story story;
    const auto a = story.put(0, 32);
    const auto b = story.put(0, 32);
    story.get(story.memory()); // sees neither put
    story.apply(a);
    story.done(a);
    std::copy_n(payload(101), 10, story.memory().begin());
    story.done(b);
    EXPECT_LEGAL(story);
    std::copy_n(payload(1), 10, story.memory().begin()); // the content from before both puts
    EXPECT_ILLEGAL(story, "at the end: byte 0");
}

TEST(MemoryModel, ALostPutIsMissed) {
    Story story;
    const auto put = story.put(4, 4);
    story.done(put);
    EXPECT_ILLEGAL(story, "at the end: byte 4");
    Story open;
    open.put(4, 4);
    EXPECT_ILLEGAL(open, "never completed");
}

TEST(MemoryModel, AtomicsAreOneChain) {
    Story story;
    story.atomic(false, 5, 0, 0);
    story.atomic(true, 77, 5, 5);
    story.atomic(true, 99, 5, 77); // refused: it sees 77
    story.atomic(false, 3, 0, 77);
    story.last(80);
    EXPECT_LEGAL(story);
    story.last(99);
    EXPECT_ILLEGAL(story, "is 99 at the end instead of 80");
}

TEST(MemoryModel, AtomicsNeitherLostNorInTheWrongOrder) {
    Story lost; // two of them saw the same value
    lost.atomic(false, 5, 0, 0);
    lost.atomic(false, 6, 0, 0);
    lost.last(6);
    EXPECT_ILLEGAL(lost, "that another one had changed");

    Story past; // the second saw what the first had changed already
    past.atomic(false, 5, 0, 7);
    past.atomic(false, 7, 0, 0);
    past.last(12);
    EXPECT_ILLEGAL(past, "only after it had completed");

    Story stale; // a refused swap sees an old value
    stale.atomic(false, 5, 0, 0);
    stale.atomic(true, 9, 1, 0);
    stale.last(5);
    EXPECT_ILLEGAL(stale, "only after it had completed");

    Story stranger;
    stranger.atomic(false, 5, 0, 3);
    stranger.last(0);
    EXPECT_ILLEGAL(stranger, "never there");
}

} // namespace
} // namespace adaptib::torture
