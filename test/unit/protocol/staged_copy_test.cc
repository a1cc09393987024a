// SPDX-License-Identifier: BSD-3-Clause
// StagedCopy and StagedOffer, step by step: any order of steps moves each byte once, and the helper
// touches nothing more once the initiator has taken the offer back.
#include "protocol/intranode/staged_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "base/random.h"

namespace adaptib::test {
namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
constexpr std::uint32_t kDepth = 4;
constexpr Bytes kLength = 10 * kUnit + 123;

std::vector<std::byte> numbered(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        data[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
    }
    return data;
}

// Both ends of one copy, in one thread.
struct Pair {
    explicit Pair(Opcode initiators) : work{} {
        const bool reads = initiators == Opcode::read;
        work.opcode = initiators;
        work.local = initiators_memory.data();
        work.length = kLength;
        (reads ? helpers_memory : initiators_memory) = numbered(kLength, 7);
        work.local = initiators_memory.data();
        body.number = 5;
        body.length = kLength;
        body.opcode = static_cast<std::uint8_t>(reads ? Opcode::write : Opcode::read);
        body.staging_units = kDepth;
        slot.make_offer(body);
        copy.emplace(work, body.number, slot, staging.data(), kDepth);
        offer.emplace(body, slot, nullptr, staging.data(), helpers_memory.data());
    }
    bool is_whole() const { return initiators_memory == helpers_memory; }

    std::vector<std::byte> initiators_memory = std::vector<std::byte>(kLength);
    std::vector<std::byte> helpers_memory = std::vector<std::byte>(kLength);
    std::vector<std::byte> staging = std::vector<std::byte>(kDepth * kUnit);
    AnswerSlot slot{};
    RmaWork work;
    CooperativeCopyBody body{};
    std::optional<StagedCopy> copy;
    std::optional<StagedOffer> offer;
};

class StagedEnds : public testing::TestWithParam<Opcode> {};

TEST_P(StagedEnds, AnyOrderOfStepsMovesAll) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Random random{seed};
        Pair pair(GetParam());
        StagedStep initiator = StagedStep::waits;
        std::uint32_t moved = 0;
        for (int step = 0; step < 10'000 && initiator != StagedStep::over; ++step) {
            if (random.below(2) == 0) {
                initiator = pair.copy->step();
                ASSERT_NE(initiator, StagedStep::bad);
                moved += initiator == StagedStep::moved ? 1 : 0;
            } else {
                pair.offer->step();
            }
        }
        ASSERT_EQ(initiator, StagedStep::over) << seed;
        EXPECT_EQ(moved, SharedWork::units_of(kLength));
        EXPECT_EQ(pair.copy->in_place(), kLength);
        EXPECT_EQ(pair.offer->bytes_moved(), kLength);
        EXPECT_TRUE(pair.is_whole()) << seed;
        EXPECT_EQ(pair.offer->step(), StagedStep::over);
    }
}

// A new StagedOffer goes on at the unit where the previous one ended.
TEST_P(StagedEnds, ASecondOfferGoesOnWhereTheFirstOneEnded) {
    Pair pair(GetParam());
    StagedStep initiator = StagedStep::waits;
    for (int step = 0; step < 10'000 && initiator != StagedStep::over; ++step) {
        initiator = pair.copy->step();
        StagedOffer next(pair.body, pair.slot, nullptr, pair.staging.data(),
                         pair.helpers_memory.data());
        next.step();
    }
    EXPECT_EQ(pair.copy->in_place(), kLength);
    EXPECT_TRUE(pair.is_whole());
}

TEST_P(StagedEnds, WhatIsTakenBackIsNotTouched) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Random random{seed};
        Pair pair(GetParam());
        for (std::uint64_t steps = random.below(30); steps > 0; --steps) {
            random.below(2) == 0 ? pair.copy->step() : pair.offer->step();
        }
        pair.copy->close();
        StagedStep initiator = StagedStep::moved;
        while (initiator == StagedStep::moved) {
            initiator = pair.copy->step();
        }
        EXPECT_EQ(initiator, StagedStep::over) << seed << ": no unit is taken and not done";
        EXPECT_TRUE(pair.copy->is_closed());
        const auto initiators = pair.initiators_memory;
        const auto helpers = pair.helpers_memory;
        std::memset(pair.staging.data(), 0xee, pair.staging.size()); // another owner's now
        EXPECT_EQ(pair.offer->step(), StagedStep::over);
        EXPECT_FALSE(pair.offer->stands());
        EXPECT_EQ(pair.offer->step(), StagedStep::over);
        EXPECT_TRUE(initiators == pair.initiators_memory);
        EXPECT_TRUE(helpers == pair.helpers_memory);
        const Bytes in_place = pair.copy->in_place();
        EXPECT_EQ(in_place, pair.offer->bytes_moved());
        EXPECT_EQ(std::memcmp(initiators.data(), helpers.data(), in_place), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Both, StagedEnds, testing::Values(Opcode::read, Opcode::write),
                         [](const auto& way) {
                             return way.param == Opcode::read ? "read" : "write";
                         });

TEST(StagedCopy, WordsWithoutSenseEndIt) {
    for (const SharedWork word :
         {SharedWork{.number = 6}, SharedWork{.number = 5, .back = 1, .done = 2},
          SharedWork{.number = 5, .back = 12, .done = 1}}) {
        Pair pair(Opcode::read);
        pair.slot.shared_word().store(word.word());
        EXPECT_EQ(pair.copy->step(), StagedStep::bad);
        EXPECT_TRUE(SharedWork::of(pair.slot.shared_word().load()).closed);
    }
}

// The units before the one that could not be copied are in place.
TEST(StagedCopy, ARefusalEndsIt) {
    Pair pair(Opcode::read);
    ASSERT_EQ(pair.offer->step(), StagedStep::moved);
    ASSERT_EQ(pair.copy->step(), StagedStep::moved);
    pair.slot.shared_word().fetch_add(SharedWork{.back = 1}.word());
    EXPECT_EQ(pair.copy->step(), StagedStep::waits);
    pair.slot.shared_word().fetch_or(SharedWork{.refused = true}.word());
    EXPECT_EQ(pair.copy->step(), StagedStep::over);
    EXPECT_EQ(pair.copy->in_place(), kUnit);
    EXPECT_EQ(pair.offer->step(), StagedStep::over);
}

TEST(AnswerSlot, AnOfferIsReadWholeWhileItIsOpen) {
    Pair pair(Opcode::write);
    CooperativeCopyBody body{};
    ASSERT_TRUE(pair.slot.read_offer(body));
    EXPECT_EQ(std::memcmp(&body, &pair.body, sizeof body), 0);
    pair.slot.shared_word().store(SharedWork{.number = 6}.word());
    EXPECT_FALSE(pair.slot.read_offer(body)) << "the body is another offer's";
    pair.copy->close();
    EXPECT_FALSE(pair.slot.read_offer(body));
    pair.slot.shared_word().store(SharedWork{.front = 1}.word());
    EXPECT_FALSE(pair.slot.read_offer(body)) << "a copy by one end alone";
}

} // namespace
} // namespace adaptib::test
