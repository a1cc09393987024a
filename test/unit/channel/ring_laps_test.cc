// SPDX-License-Identifier: BSD-3-Clause
// Rings that the writer stores into: the fast paths of writer and reader, laps, and messages that
// stay in place, with the habits of each kind of processor.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "unit/channel/ring_pair.h"

namespace adaptib {
namespace {

using test::payload_of;
using test::Ring;

// Habits of Intel's processors, of Zen 3 and 4, and a combination that no processor has.
constexpr std::array kHabits{
    RingHabits{.most_claimed = 136, .lap_messages = 16, .lap_longest = 128, .dirties = false},
    RingHabits{.most_claimed = 0, .lap_messages = 4, .lap_longest = 264, .dirties = true},
    RingHabits{.most_claimed = 1, .lap_messages = 1, .lap_longest = 1000, .dirties = true},
};
class RingsOf : public testing::TestWithParam<RingHabits> {
protected:
    Ring make(std::uint64_t units) const { return {units, true, 0, GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Habits, RingsOf, testing::ValuesIn(kHabits), [](const auto& info) {
    return "Claims" + std::to_string(info.param.most_claimed);
});

struct Sent {
    std::uint32_t number;
    std::size_t size;
    MessageType type;
};

// The fast and the general paths of writer and reader may alternate in any order, whatever comes
// between: long messages that stay in place, the ring's end, a full ring.
TEST_P(RingsOf, TheFastPathGivesTheSame) {
    Random random(11);
    for (const std::uint64_t units : {64u, 128u, 1024u}) {
        Ring ring = make(units);
        ring.qp.guarded = true;
        const Bytes longest = units * kRingUnit / 2 - 256;
        std::deque<Sent> sent;
        bool full = false;
        for (int step = 0; step < 20000; ++step) {
            ring.fast_path = random.below(3) != 0;
            ring.type = random.below(2) == 0 ? MessageType::active : MessageType::eager;
            if (random.below(16) == 0) {
                ring.sequence += static_cast<std::uint32_t>(random.below(3)) << 16;
            }
            const Bytes most = random.below(1000) == 0 ? longest
                               : random.below(8) == 0  ? std::min<Bytes>(longest, kRetainedFrom)
                                                       : 64;
            const std::size_t size = random.below(most);
            if (random.below(2) == 0) {
                const Sent next{ring.sequence, size, ring.type};
                if (ring.send(payload_of(next.number, size))) {
                    sent.push_back(next);
                } else {
                    full = true;
                }
            }
            ring.fast_path = random.below(3) != 0;
            ring.defers = random.below(2) == 0;
            std::vector<std::byte> payload;
            std::uint32_t number = 0;
            if (random.below(200) == 0) {
                while (!sent.empty()) {
                    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
                    ASSERT_EQ(number, sent.front().number);
                    ASSERT_EQ(ring.taken_type, sent.front().type);
                    ASSERT_EQ(payload, payload_of(number, sent.front().size));
                    sent.pop_front();
                }
                ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
            }
        }
        EXPECT_TRUE(full);
        EXPECT_GT(ring.stored_short, 500u);
        EXPECT_GT(ring.taken_short, 500u);
        EXPECT_GT(ring.taken_compact, 300u);
        EXPECT_TRUE(ring.deferred > 0 || units < 1024);
    }
}

// Messages of 22 bytes: ob1's header and 8 bytes of data.
TEST(Ring, TwoCompactMessagesShareALine) {
    Ring ring(64, true);
    ring.qp.guarded = true;
    ring.fast_path = true;
    ring.type = MessageType::active;
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    const auto units_of_next = [&] {
        const std::uint64_t before = ring.reader.consumed();
        EXPECT_TRUE(ring.send(payload_of(ring.sequence, 22)));
        EXPECT_EQ(ring.take(payload, number), RingReader::Found::message);
        EXPECT_EQ(number + 1, ring.sequence);
        EXPECT_EQ(payload, payload_of(number, 22));
        return ring.reader.consumed() - before;
    };
    EXPECT_EQ(units_of_next(), 2u); // the writer first asks the queue pair whether it can store
    EXPECT_EQ(units_of_next(), 1u);
    EXPECT_EQ(units_of_next(), 1u);
    // The low 16 bits of the number do not change, so the message carries a whole header.
    ring.sequence += 0x10000;
    EXPECT_EQ(units_of_next(), 2u);
    EXPECT_EQ(units_of_next(), 1u);
    ring.type = MessageType::eager;
    EXPECT_EQ(units_of_next(), 2u);
    ring.type = MessageType::active;
    EXPECT_EQ(units_of_next(), 1u);
}

// A writer that waits for answers reuses the beginning of the ring; one that does not uses all of
// it.
TEST_P(RingsOf, ShortLapsWhereTheReaderKeepsUp) {
    constexpr std::uint64_t kUnits = 4096;
    Ring ring = make(kUnits);
    const std::byte* const begin = ring.reader.next();
    Random random(1);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (std::uint32_t i = 0; i < 20'000; ++i) {
        ring.fast_path = random.below(2) == 0;
        const bool large = i / 1000 % 2 != 0;
        const std::size_t size = random.below(large ? 3 * kRetainedFrom : 200);
        ASSERT_TRUE(ring.send(payload_of(i, size)));
        // Now and then the reader falls behind.
        if (!large && i % 1000 > 600 && random.below(40) == 0) {
            ++i;
            ASSERT_TRUE(ring.send(payload_of(i, size)));
            ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
        }
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
        ASSERT_EQ(payload, payload_of(i, size));
        if (large || i <= 600 || i % 1000 > 600) { // else laps are still becoming short again
            constexpr std::uint64_t kLargest = 3 * kRetainedFrom / kRingUnit + 1;
            const std::uint64_t most =
                large
                    ? std::max<std::uint64_t>(2 * GetParam().lap_messages * kLargest, 2 * kShortLap)
                : i <= 600 ? kShortLap
                           : 2 * kShortLap;
            ASSERT_LE(ring.reader.next() - begin, static_cast<std::ptrdiff_t>(most * kRingUnit));
        }
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
    }
    constexpr std::uint64_t kMessage = 4; // units of a message with 100 bytes
    do {                                  // until a lap has just begun
        ASSERT_TRUE(ring.send(payload_of(ring.sequence, 100)));
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    } while (ring.reader.next() != begin + kMessage * kRingUnit);
    EXPECT_TRUE(ring.writer->lapped());
    std::uint32_t burst = 0;
    bool all_used = true;
    while (ring.send(payload_of(ring.sequence, 100))) {
        ++burst;
        all_used = all_used && ring.writer->lapped();
    }
    EXPECT_FALSE(all_used);
    // The reader has not told of the message before the burst.
    EXPECT_GE(burst, kUnits / kMessage - 2);
    // First from the current position, then with all room.
    for (std::uint32_t round = 0; round < 2; ++round) {
        for (std::uint32_t left = burst; left > 0; --left) {
            ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
            ASSERT_EQ(payload, payload_of(number, 100));
        }
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
        for (burst = 0; ring.send(payload_of(ring.sequence, 100));) {
            ++burst;
        }
    }
    EXPECT_EQ(burst, kUnits / kMessage);
}

// Returns the messages of each lap, of so many units each, whose reader keeps up.
std::vector<std::uint64_t> messages_of_laps(Ring& ring, std::uint64_t units) {
    const std::byte* before = ring.reader.next();
    std::vector<std::uint64_t> laps{0};
    std::vector<std::byte> payload;
    for (std::uint32_t i = 0; i < 100; ++i) {
        std::uint32_t number = 0;
        EXPECT_TRUE(ring.send(payload_of(i, (units - 2) * kRingUnit)));
        EXPECT_EQ(ring.take(payload, number), RingReader::Found::message);
        EXPECT_EQ(number, i);
        if (ring.reader.next() < before) {
            laps.push_back(0);
        }
        ++laps.back();
        before = ring.reader.next();
    }
    return laps;
}

// To look for the end of a lap costs something, which so many messages share.
TEST_P(RingsOf, AShortLapHasSoManyMessages) {
    const std::uint64_t units = kShortLap / GetParam().lap_messages + 8;
    Ring ring = make(4096);
    const std::vector<std::uint64_t> laps = messages_of_laps(ring, units);
    for (std::size_t lap = 0; lap + 1 < laps.size(); ++lap) {
        ASSERT_GE(laps[lap], GetParam().lap_messages) << lap;
        ASSERT_LE(laps[lap], 2 * GetParam().lap_messages) << lap;
    }
}

TEST_P(RingsOf, AMessageThatIsTooLongEndsNoLap) {
    constexpr std::uint64_t kUnits = 4096;
    const std::uint64_t units = GetParam().lap_longest + 8;
    Ring ring = make(kUnits);
    const std::vector<std::uint64_t> laps = messages_of_laps(ring, units);
    for (std::size_t lap = 0; lap + 1 < laps.size(); ++lap) {
        ASSERT_GE(laps[lap], kUnits / units - 1) << lap;
    }
}

// Bundles of messages with an answer between them: wherever in the ring the first bundle lies, laps
// become short again. Without answers the writer would look for the end of a lap only in the middle
// of a bundle, all through the ring.
TEST_P(RingsOf, AnAnswerLetsTheWriterLookAgain) {
    constexpr std::uint32_t kUnits = 8192;
    constexpr std::uint32_t kBundle = 64; // messages of one unit each
    for (const std::uint32_t before : {1u, 7u, 33u, 63u}) {
        for (const bool answers : {false, true}) {
            Ring ring = make(kUnits);
            std::vector<std::byte> payload;
            std::uint32_t number = 0;
            const auto bundle = [&](std::uint32_t messages) {
                for (std::uint32_t i = 0; i < messages; ++i) {
                    ASSERT_TRUE(ring.send(payload_of(ring.sequence, 8)));
                }
                for (std::uint32_t i = 0; i < messages; ++i) {
                    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
                    ASSERT_EQ(payload, payload_of(number, 8));
                }
                if (answers) {
                    ring.writer->answered();
                }
            };
            const std::byte* const begin = ring.reader.next();
            ASSERT_NO_FATAL_FAILURE(bundle(before));
            std::ptrdiff_t furthest = 0;
            for (std::uint32_t i = 0; i < kUnits / kBundle - 2; ++i) {
                ASSERT_NO_FATAL_FAILURE(bundle(kBundle));
                furthest = std::max(furthest, ring.reader.next() - begin);
            }
            EXPECT_EQ(furthest <= static_cast<std::ptrdiff_t>(2 * kShortLap * kRingUnit), answers)
                << before << " " << furthest / kRingUnit;
        }
    }
}

// The end of each lap costs a look at the reader's progress.
TEST_P(RingsOf, AnswersToEachMessageMakeNoLapShorterThanAShortOne) {
    Ring ring = make(8192);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    const std::byte* const begin = ring.reader.next();
    std::ptrdiff_t furthest = 0;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(ring.send(payload_of(ring.sequence, 8)));
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
        furthest = std::max(furthest, ring.reader.next() - begin);
        ring.writer->answered();
    }
    EXPECT_GE(furthest, static_cast<std::ptrdiff_t>((kShortLap - 2) * kRingUnit));
}

// The last message of a lap marks its end, so no extra message is needed, whether the writer stores
// it on the fast or the general path, long or short.
TEST_P(RingsOf, TheLastMessageOfALapEndsIt) {
    constexpr std::uint64_t kUnits = 4096;
    for (const std::size_t size : {std::size_t{8}, std::size_t{100}, kRetainedFrom, Bytes{1500}}) {
        for (const MessageType type : {MessageType::eager, MessageType::active}) {
            Ring ring = make(kUnits);
            ring.qp.guarded = true;
            ring.fast_path = true;
            ring.type = type;
            const std::uint64_t longest =
                std::max<std::uint64_t>(kShortLap, GetParam().lap_messages * 2 * size / kRingUnit);
            const std::byte* const begin = ring.reader.next();
            std::uint64_t before = 0;
            std::uint32_t laps = 0;
            std::vector<std::byte> payload;
            std::uint32_t number = 0;
            for (std::uint32_t i = 0; i < 2000; ++i) {
                ASSERT_TRUE(ring.send(payload_of(i, size)));
                ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
                ASSERT_EQ(number, i);
                ASSERT_EQ(payload, payload_of(i, size));
                if (ring.reader.next() == begin) {
                    EXPECT_EQ(ring.reader.consumed() - before, kUnits);
                    before = ring.reader.consumed();
                    ++laps;
                }
                ASSERT_LE(ring.reader.next() - begin,
                          static_cast<std::ptrdiff_t>(longest * kRingUnit));
            }
            // Laps are hardly longer than that.
            EXPECT_GE(laps, 2000 * size / (2 * longest * kRingUnit));
        }
    }
}

// Mixes readers that keep up with readers that fall behind, long messages that stay in the ring
// with short ones, and stores with posts.
TEST_P(RingsOf, NothingIsLostBetweenShortLapsAndLongOnes) {
    std::uint32_t deferred = 0;
    for (std::uint64_t seed = 1; seed <= 16; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const std::uint64_t units = std::uint64_t{256} << random.below(5);
        Ring ring = make(units);
        const Bytes longest = units * kRingUnit / 2 - 3 * kRingUnit;
        const bool posts = seed % 3 == 0;
        std::deque<std::size_t> sizes;
        std::uint32_t received = 0;
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        const auto take = [&] {
            ring.qp.show(ring.qp.hidden());
            const RingReader::Found found = ring.take(payload, number);
            if (found == RingReader::Found::message) {
                ASSERT_FALSE(sizes.empty());
                ASSERT_EQ(number, received);
                ASSERT_EQ(payload, payload_of(received++, sizes.front()));
                sizes.pop_front();
                return;
            }
            ASSERT_EQ(found, RingReader::Found::nothing);
            ASSERT_TRUE(sizes.empty());
        };
        for (int phase = 0; phase < 40; ++phase) {
            const std::size_t behind = random.below(3) == 0 ? random.below(400) : random.below(3);
            const Bytes most = random.below(3) == 0 ? std::min<Bytes>(longest, 6000) : 300;
            ring.fast_path = random.below(3) != 0;
            ring.defers = random.below(2) == 0;
            ring.qp.up = !posts || random.below(4) != 0;
            for (int step = 0; step < 300; ++step) {
                const std::size_t size = random.below(most);
                if (ring.send(payload_of(ring.sequence, size))) {
                    sizes.push_back(size);
                }
                while (!HasFatalFailure() && sizes.size() > behind) {
                    take();
                }
                if (sizes.empty()) {
                    take();
                }
                ASSERT_FALSE(HasFatalFailure());
                ring.writer->poster().flushed();
                for (std::size_t left = ring.qp.completions(); left > 0; --left) {
                    ring.writer->poster().on_completion();
                }
            }
        }
        EXPECT_GT(received, 3000u);
        deferred += ring.deferred;
    }
    EXPECT_GT(deferred, 3'000u);
}

// A message whose release is deferred stays the reader's: the writer finds neither that the reader
// has caught up, nor room.
TEST_P(RingsOf, WhatIsDeferredIsTheReadersStill) {
    constexpr std::uint64_t kUnits = 256;
    Ring ring = make(kUnits);
    ring.fast_path = true;
    ring.defers = true;
    const std::vector<std::byte> sent = payload_of(0, 2000);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    ASSERT_TRUE(ring.send(sent));
    const std::byte* const first = ring.reader.next();
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    ASSERT_EQ(payload, sent);
    ASSERT_TRUE(ring.reader.has_deferred());
    EXPECT_EQ(ring.reader.consumed(), 0u);
    EXPECT_NE(load_ring_word(first), 0u);
    EXPECT_EQ(std::memcmp(first + kRingUnit, sent.data(), sent.size()), 0);
    ring.reader.release_deferred();
    EXPECT_FALSE(ring.reader.has_deferred());
    EXPECT_EQ(load_ring_word(first), 0u);
    EXPECT_EQ(ring.reader.consumed(), ring_units_for(2000, RingFormat::stored));
    EXPECT_EQ(ring.reader.next(), first + ring.reader.consumed() * kRingUnit);
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
}

// Returns whether the reader takes a message with this first word on the fast path; fills `what`.
bool is_taken_as(Ring& ring, std::uint64_t word, RingReader::Short& what) {
    return with_ring_kind(
        word, [&]<std::uint64_t kKind>() { return ring.reader.take_short<kKind>(word, what); });
}

// The reader never takes a message on the fast path that would reach beyond the ring's end.
TEST(Ring, TheFastPathKeepsToTheRing) {
    Ring ring(64, true);
    ring.fast_path = true;
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (int i = 0; i < 63; ++i) {
        ASSERT_TRUE(ring.send(payload_of(ring.sequence, 8)));
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    }
    MessageHeader header; // room for one unit before the ring's end
    RingReader::Short what;
    const auto is_taken = [&](MessageType type, std::uint64_t length) {
        header.type = type;
        header.length = static_cast<std::uint32_t>(length);
        return is_taken_as(ring, header.head_word(), what);
    };
    EXPECT_TRUE(is_taken(MessageType::eager, 8));
    EXPECT_FALSE(is_taken(MessageType::eager, 9));
    EXPECT_FALSE(is_taken(MessageType::eager, kRetainedFrom));
    EXPECT_FALSE(is_taken(MessageType::eager, 0xffffffff));
    // An active message with a whole header is too rare for the fast path.
    EXPECT_FALSE(is_taken(MessageType::active, 8));
    EXPECT_FALSE(is_taken(MessageType::skip, 0));
    const auto compact_is_taken = [&](Bytes length, std::uint32_t sequence) {
        header.type = MessageType::active;
        header.length = static_cast<std::uint32_t>(length);
        header.sequence = sequence;
        return is_taken_as(ring, ring_compact_word(header), what);
    };
    EXPECT_TRUE(compact_is_taken(24, ring.sequence));
    EXPECT_FALSE(compact_is_taken(25, ring.sequence));
    EXPECT_FALSE(compact_is_taken(kRetainedFrom, ring.sequence));
    EXPECT_FALSE(compact_is_taken(0xffff, ring.sequence));
    EXPECT_FALSE(compact_is_taken(24, ring.sequence + 1));
}

TEST(Ring, TheFastPathKeepsToWhatIsRetainedInTheRing) {
    Ring ring(256, true);
    const auto is_taken = [&](MessageType type, Bytes length) {
        RingReader::Short what;
        return is_taken_as(ring, ring_kind_of(type, kRetainedMagic) | length << 32, what) &&
               what.length == length && what.body == ring.reader.next() + kRingUnit;
    };
    for (const MessageType type : {MessageType::eager, MessageType::active}) {
        EXPECT_TRUE(is_taken(type, kRetainedFrom));
        EXPECT_TRUE(is_taken(type, kShortRetained - 1));
        EXPECT_FALSE(is_taken(type, kShortRetained));
        EXPECT_FALSE(is_taken(type, kRetainedFrom - 1));
        EXPECT_FALSE(is_taken(type, 0xffffffff));
    }
    EXPECT_FALSE(is_taken(MessageType::rendezvous, kRetainedFrom));
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    while (ring.reader.next() < static_cast<std::byte*>(ring.memory.address()) + 240 * kRingUnit) {
        ASSERT_TRUE(ring.send(payload_of(ring.sequence, 200)));
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    }
    EXPECT_FALSE(is_taken(MessageType::eager, kRetainedFrom)); // it would reach beyond the ring
}

// With habits that dirty lines, consuming a message that stays in place stores into each of its
// lines.
TEST_P(RingsOf, LinesThatAreRetainedAreDirtiedWhereThatHelps) {
    for (const bool fast_path : {false, true}) {
        Ring ring = make(1024);
        ring.fast_path = fast_path;
        const std::vector<std::byte> ones(2000, std::byte{0xff});
        const auto* const begin = reinterpret_cast<const std::uint64_t*>(ring.memory.address());
        ASSERT_TRUE(ring.send(ones));
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
        ASSERT_EQ(payload, ones);
        EXPECT_EQ(ring.taken_short, fast_path ? 1u : 0u);
        constexpr std::size_t kWordsOfLine = kCacheLine / sizeof(std::uint64_t);
        EXPECT_EQ(begin[0], 0u);
        for (std::size_t line = 1; line < ones.size() / kCacheLine; ++line) {
            const std::size_t zeros = static_cast<std::size_t>(
                std::count(begin + line * kWordsOfLine, begin + (line + 1) * kWordsOfLine, 0u));
            EXPECT_EQ(zeros, GetParam().dirties ? 1u : 0u) << line;
        }
    }
}

} // namespace
} // namespace adaptib
