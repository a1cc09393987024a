// SPDX-License-Identifier: BSD-3-Clause
// The ring channel: messages come out as they went in, stored or posted, over any queue pair.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "channel/ring_credit.h"
#include "unit/channel/ring_pair.h"

namespace adaptib {
namespace {

using test::BorrowedRegion;
using test::MemoryQp;
using test::MemoryRail;
using test::payload_of;
using test::Ring;

class RingModes : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Mapped, RingModes, testing::Bool());

// Takes the next message, if there is one, and checks that it is the expected one.
void take_next(Ring& ring, std::deque<std::size_t>& sizes, std::uint32_t& received) {
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    const RingReader::Found found = ring.take(payload, number);
    ASSERT_NE(found, RingReader::Found::garbage);
    if (found == RingReader::Found::message) {
        ASSERT_EQ(number, received);
        ASSERT_EQ(payload, payload_of(received, sizes.front()));
        sizes.pop_front();
        ++received;
    }
}

TEST_P(RingModes, RandomTrafficComesOutAsItWentIn) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const std::uint64_t units = 2 * (4 + random.below(90));
        Ring ring(units, GetParam());
        const std::size_t longest = units / 2 * kRingUnit - kRingOverhead;
        std::uint32_t received = 0;
        std::deque<std::size_t> sizes;
        for (int step = 0; step < 2000; ++step) {
            const std::size_t size = random.below(longest + 1);
            if (random.below(2) == 0 && ring.send(payload_of(ring.sequence, size))) {
                sizes.push_back(size);
            }
            ring.qp.show(random.below(800));
            if (random.below(50) == 0) {
                ring.qp.up = random.below(2) == 0 && ring.qp.hidden() == 0;
            }
            ASSERT_NO_FATAL_FAILURE(take_next(ring, sizes, received));
        }
        EXPECT_GT(received, 100u);
    }
}

// Lane migration: from pause() on the writer posts nothing, and it goes on over the other queue
// pair only when all earlier posts have arrived.
TEST_P(RingModes, GoesOnOverAnotherQueuePairInOrder) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const std::uint64_t units = 2 * (4 + random.below(90));
        Ring ring(units, GetParam());
        MemoryQp other;
        other.mappable = GetParam();
        MemoryRail rails[2];
        std::size_t at = 0;
        MemoryQp* qps[2] = {&ring.qp, &other};
        const std::size_t longest = units / 2 * kRingUnit - kRingOverhead;
        std::uint32_t received = 0;
        std::deque<std::size_t> sizes;
        int moves = 0;
        bool paused = false;
        for (int step = 0; step < 4000; ++step) {
            const std::size_t size = random.below(longest + 1);
            const bool sent = random.below(2) == 0 && ring.send(payload_of(ring.sequence, size));
            if (sent) {
                sizes.push_back(size);
                ASSERT_TRUE(!paused || ring.writer->direct());
            }
            ASSERT_EQ(qps[1 - at]->hidden(), 0u);
            qps[at]->show(random.below(800));
            for (std::size_t left = qps[at]->completions(); left > 0; --left) {
                ring.writer->poster().on_completion();
            }
            if (paused && qps[at]->hidden() == 0 && ring.writer->poster().settled()) {
                at = 1 - at;
                ring.writer->migrate_to(rails[at], *qps[at], 0, 0);
                EXPECT_TRUE(ring.writer->poster().posts_to(*qps[at]));
                EXPECT_FALSE(ring.writer->poster().posts_to(*qps[1 - at]));
                paused = false;
                ++moves;
            } else if (paused && random.below(50) == 0) {
                ring.writer->resume();
                paused = false;
            } else if (!paused && random.below(20) == 0) {
                ASSERT_TRUE(ring.writer->pause(rails[1 - at]).ok());
                paused = true;
            }
            if (random.below(50) == 0) {
                qps[random.below(2)]->up = random.below(2) == 0;
            }
            ASSERT_NO_FATAL_FAILURE(take_next(ring, sizes, received));
        }
        EXPECT_GT(received, 100u);
        EXPECT_GT(moves, 20);
    }
}

// Messages that were posted over the old queue pair, and are not known to be consumed, can be sent
// again after a migration.
TEST(Ring, WhatIsInDoubtIsKeptAcrossAMigration) {
    Ring ring(64, false);
    ASSERT_TRUE(ring.send(payload_of(0, 100)));
    ASSERT_TRUE(ring.send(payload_of(1, 100)));
    MemoryRail rail;
    MemoryQp other;
    other.mappable = false;
    ASSERT_TRUE(ring.writer->pause(rail).ok());
    EXPECT_FALSE(ring.send(payload_of(2, 100)));
    ring.qp.show(ring.qp.hidden());
    ASSERT_TRUE(ring.writer->poster().settled());
    ring.writer->migrate_to(rail, other, 0, kRingInline);
    EXPECT_TRUE(ring.send(payload_of(2, 20)));
    EXPECT_TRUE(other.inlined);
    EXPECT_EQ(ring.qp.hidden(), 0u);
    EXPECT_GT(other.hidden(), 0u);
    std::vector<std::uint32_t> numbers;
    EXPECT_TRUE(ring.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte*) {
        numbers.push_back(header.sequence);
    }));
    EXPECT_EQ(numbers, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(Ring, AMigrationThatTheNextRailHasNoRoomForIsRefused) {
    class FullRail final : public test::NullRail {
        Status register_impl(void*, Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) override {
            return Status::error(Reason::no_memory);
        }
    } full;
    Ring ring(64, false);
    ASSERT_TRUE(ring.send(payload_of(0, 100)));
    EXPECT_FALSE(ring.writer->pause(full).ok());
    EXPECT_TRUE(ring.send(payload_of(1, 100))) << "it goes on as before";
}

// Posted writes may still be in flight when the queue pair can be stored through again.
TEST(Ring, StoresDoNotOvertakeWhatWasPosted) {
    Ring ring(64, true);
    ring.qp.up = false;
    ASSERT_TRUE(ring.send(payload_of(0, 100)));
    ring.qp.up = true;
    EXPECT_FALSE(ring.send(payload_of(1, 100)));
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    EXPECT_EQ(ring.take(payload, number), RingReader::Found::nothing);
    ring.qp.show(ring.qp.hidden());
    EXPECT_TRUE(ring.send(payload_of(1, 100)));
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(payload, payload_of(0, 100));
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(payload, payload_of(1, 100));
}

// The writer knows, in order and across the ring's end, which messages the peer may lack.
TEST(Ring, WhatIsInDoubtIsWhatTheReaderHasNotTold) {
    Ring ring(16, false);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    std::uint32_t taken = 0;
    for (int step = 0; step < 300; ++step) {
        if (ring.send(payload_of(ring.sequence, 40 + ring.sequence % 90))) {
            ring.qp.show(ring.qp.hidden());
        } else if (ring.take(payload, number) == RingReader::Found::message) {
            ++taken;
        }
        std::uint32_t first = ring.sequence;
        std::uint32_t next = 0;
        ASSERT_TRUE(
            ring.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte* body) {
                if (first == ring.sequence) {
                    first = next = header.sequence;
                }
                ASSERT_EQ(header.sequence, next++);
                const std::vector<std::byte> sent =
                    payload_of(header.sequence, 40 + header.sequence % 90);
                ASSERT_EQ(header.length, sent.size());
                ASSERT_TRUE(std::equal(sent.begin(), sent.end(), body));
            }));
        ASSERT_LE(first, taken);
        ASSERT_TRUE(first == ring.sequence || next == ring.sequence);
    }
    EXPECT_GT(taken, 100u);
    ring.credit = 1u << 20; // more than was ever sent
    EXPECT_FALSE(ring.writer->for_each_in_doubt([](const MessageHeader&, const std::byte*) {}));
}

// A connection breaks after the writer has posted for a while, and maybe stored again: the writer
// names the messages in doubt, and no others.
TEST(Ring, NothingIsLostAndNothingInventedWhereMessagesAreStoredAgain) {
    std::size_t stored_last = 0;
    std::size_t repeated = 0;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const std::uint64_t units = 2 * (4 + random.below(40));
        Ring ring(units, true);
        const std::size_t longest = units / 2 * kRingUnit - kRingOverhead;
        std::vector<std::size_t> sizes;
        std::uint32_t received = 0;
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        const auto take = [&] {
            const RingReader::Found found = ring.take(payload, number);
            ASSERT_NE(found, RingReader::Found::garbage);
            if (found == RingReader::Found::message) {
                ASSERT_EQ(number, received);
                ASSERT_EQ(payload, payload_of(received, sizes[received]));
                ++received;
            }
        };
        bool posted = false;
        for (auto steps = 50 + random.below(400); steps > 0; --steps) {
            const std::size_t size = random.below(longest + 1);
            if (random.below(2) == 0 && ring.send(payload_of(ring.sequence, size))) {
                sizes.push_back(size);
            }
            posted = posted || !ring.writer->direct();
            ring.qp.show(random.below(800));
            if (random.below(20) == 0) {
                ring.qp.up = random.below(3) != 0;
            }
            ASSERT_NO_FATAL_FAILURE(take());
        }
        std::vector<std::uint32_t> doubted;
        ASSERT_TRUE(
            ring.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte* body) {
                ASSERT_EQ(header.type, MessageType::eager);
                ASSERT_LT(header.sequence, ring.sequence);
                const std::size_t size = sizes[header.sequence];
                ASSERT_EQ(header.length, size);
                const std::vector<std::byte> sent = payload_of(header.sequence, size);
                ASSERT_TRUE(std::equal(sent.begin(), sent.end(), body));
                doubted.push_back(header.sequence);
            }));
        for (std::size_t i = 0; i < doubted.size(); ++i) {
            ASSERT_EQ(doubted[i], ring.sequence - doubted.size() + i) << "the last ones, in order";
        }
        const bool stored = ring.writer->direct();
        ASSERT_TRUE(!stored || doubted.empty());
        stored_last += posted && stored ? 1 : 0;
        repeated += doubted.size();
        ring.qp.lose();
        for (std::uint32_t before = received + 1; before != received;) {
            before = received;
            ASSERT_NO_FATAL_FAILURE(take());
        }
        ASSERT_GE(received + doubted.size(), ring.sequence) << "some are lost";
    }
    EXPECT_GT(stored_last, 100u);
    EXPECT_GT(repeated, 100u);
}

// If the writer cannot ask whether its posts have arrived, it does not assume so.
TEST(Ring, AnErrorIsNoArrival) {
    Ring ring(64, true);
    ring.qp.up = false;
    ASSERT_TRUE(ring.send(payload_of(0, 100)));
    ring.qp.up = true;
    ring.qp.post_result = Status::error(Reason::bad_state);
    EXPECT_FALSE(ring.send(payload_of(1, 100)));
    EXPECT_FALSE(ring.writer->direct());
    std::size_t doubted = 0;
    EXPECT_TRUE(ring.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte*) {
        EXPECT_EQ(header.sequence, 0u);
        ++doubted;
    }));
    EXPECT_EQ(doubted, 1u);
}

TEST_P(RingModes, AFullRingTakesNothingUntilCreditComes) {
    Ring ring(8, GetParam());
    int sent = 0;
    while (ring.send({})) { // one unit each, stored or posted
        ++sent;
    }
    EXPECT_EQ(sent, 8);
    ring.qp.show(ring.qp.hidden());
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
        EXPECT_FALSE(ring.send({})) << "credit is told after half the ring only";
    }
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_TRUE(ring.send({}));
}

TEST(Ring, AMessageThatTheQueuePairTakesInlineIsPostedSo) {
    Ring ring(64, false, 96);
    ASSERT_TRUE(ring.send(payload_of(1, 64)));
    EXPECT_TRUE(ring.qp.inlined);
    ASSERT_TRUE(ring.send(payload_of(2, 65)));
    EXPECT_FALSE(ring.qp.inlined);
    Ring never(64, false, 0);
    ASSERT_TRUE(never.send({}));
    EXPECT_FALSE(never.qp.inlined);
}

RingTarget target_of(Ring& ring, std::uint64_t units) {
    return {.address = reinterpret_cast<std::uintptr_t>(ring.memory.address()), .units = units};
}

// The end of a message is seen before a part of it, as some devices place packets.
TEST(Ring, ACheckedMessageThatIsNotWholeIsFound) {
    for (const std::size_t size : {0u, 1u, 8u, 100u, 703u}) {
        for (std::size_t hole = 8; hole < 24 + size; hole += 7) {
            Ring ring(64, false);
            RingTarget target = target_of(ring, 64);
            target.checked = true;
            ring.write_into(target, ring_habits());
            std::vector<std::byte> payload;
            std::uint32_t number = 0;
            ASSERT_TRUE(ring.send(payload_of(1, size)));
            ring.qp.show(ring.qp.hidden());
            ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
            EXPECT_EQ(payload, payload_of(1, size));
            EXPECT_FALSE(ring.reader.misplaced());
            auto* const next = const_cast<std::byte*>(ring.reader.next());
            ASSERT_TRUE(ring.send(payload_of(2, size)));
            ring.qp.show(ring.qp.hidden());
            if (hole >= 8 && hole < 12) { // the number: the tail does not fit it
                continue;
            }
            next[hole] ^= std::byte{0x40};
            EXPECT_EQ(ring.take(payload, number), RingReader::Found::garbage)
                << size << " " << hole;
            EXPECT_TRUE(ring.reader.misplaced());
        }
    }
}

TEST(Ring, CheckedMessagesCarryCountsToo) {
    Ring there(128, false);
    Ring back(128, false);
    Ring* const ways[] = {&there, &back};
    for (Ring* ring : ways) {
        RingTarget target = target_of(*ring, 128);
        target.checked = true;
        ring->write_into(target, ring_habits());
    }
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    std::uint32_t told = 0;
    for (std::uint32_t i = 0; i < 2000; ++i) {
        Ring& to = *ways[i % 2];
        ASSERT_TRUE(to.send(payload_of(i, i % 200))) << i;
        to.qp.show(to.qp.hidden());
        ASSERT_EQ(to.take(payload, number), RingReader::Found::message);
        ASSERT_EQ(payload, payload_of(i, i % 200));
        told += exchange_credit(to.reader, *ways[1 - i % 2]->writer) ? 1 : 0;
    }
    EXPECT_GT(told, 100u);
}

TEST(Ring, AMessageIsAsLongAsAWriteThatArrivesInOrder) {
    for (const bool checked : {false, true}) {
        for (const Bytes packet : {256u, 1024u}) {
            Ring ring(256, false);
            RingTarget target = target_of(ring, 256);
            target.write_bytes = packet;
            target.checked = checked;
            ring.write_into(target, ring_habits());
            ASSERT_EQ(ring.writer->most(), packet - kRingOverhead);
            ring.writer->carried_credit().carry(1);
            ASSERT_TRUE(ring.send(payload_of(1, ring.writer->most())));
            EXPECT_LE(ring.qp.hidden(), packet);
            EXPECT_GT(ring.qp.hidden(), packet - 2 * sizeof(std::uint64_t));
        }
    }
}

// With messages in both directions, they carry the counts, and none is written by itself.
TEST(Ring, CreditGoesAlongWithMessages) {
    Ring there(128, false);
    Ring back(128, false);
    Ring* const ways[] = {&there, &back};
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    std::uint32_t told = 0;
    for (std::uint32_t i = 0; i < 2000; ++i) {
        Ring& to = *ways[i % 2];
        Ring& from = *ways[1 - i % 2];
        const std::vector<std::byte> expected = payload_of(i, i % 200);
        ASSERT_TRUE(to.send(expected)) << i;
        to.qp.show(to.qp.hidden());
        ASSERT_EQ(to.take(payload, number), RingReader::Found::message);
        ASSERT_EQ(payload, expected);
        told += exchange_credit(to.reader, *from.writer) ? 1 : 0;
        std::uint32_t doubted = 0;
        ASSERT_TRUE(
            to.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte* body) {
                const std::uint32_t of = 2 * header.sequence + i % 2;
                const std::vector<std::byte> sent = payload_of(of, of % 200);
                ASSERT_TRUE(std::equal(sent.begin(), sent.end(), body));
                ++doubted;
            }));
        EXPECT_LE(doubted, 64u);
    }
    EXPECT_GT(told, 100u);
    EXPECT_EQ(there.credit, 0u);
    EXPECT_EQ(back.credit, 0u);
}

TEST(Ring, ACountOfMoreThanWasSentIsNotBelieved) {
    Ring ring(8, false);
    while (ring.send({})) {
    }
    ring.writer->heard(9);
    EXPECT_FALSE(ring.send({}));
    ring.writer->heard(1);
    EXPECT_TRUE(ring.send({}));
    ring.writer->heard(0); // an older count
    EXPECT_FALSE(ring.send({}));
    // More than the 9 that were sent.
    for (const std::uint64_t count : {std::uint64_t{10}, ~std::uint64_t{0}}) {
        ring.credit = count;
        EXPECT_FALSE(ring.send({}));
    }
    ring.credit = 2;
    EXPECT_TRUE(ring.send({}));
}

// Each lap overwrites what earlier messages of the same length left at the same places.
TEST(Ring, AHalfVisibleMessageIsNotThere) {
    Ring ring(16, false);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (std::uint32_t sent = 0; sent < 600; ++sent) {
        const std::vector<std::byte> expected = payload_of(sent, 200);
        ASSERT_TRUE(ring.send(expected));
        while (!ring.qp.done()) {
            ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing)
                << "message " << sent << ", " << ring.qp.hidden() << " bytes before its end";
            ring.qp.show(1);
        }
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message) << sent;
        ring.qp.show(ring.qp.hidden());
        ASSERT_EQ(number, sent);
        ASSERT_EQ(payload, expected);
    }
}

TEST(Ring, ASkipIsTakenOnceItIsWhole) {
    Ring ring(16, false);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (std::uint32_t sent = 0; sent < 200; ++sent) {
        // Six units: at the ring's end 4 are skipped.
        const std::vector<std::byte> expected = payload_of(sent, 150);
        ASSERT_TRUE(ring.send(expected));
        RingReader::Found found = RingReader::Found::nothing;
        while (!ring.qp.done()) {
            ASSERT_EQ(found, RingReader::Found::nothing);
            ring.qp.show(1);
            found = ring.take(payload, number);
        }
        ASSERT_EQ(found, RingReader::Found::message) << sent;
        ring.qp.show(ring.qp.hidden());
        ASSERT_EQ(number, sent);
        ASSERT_EQ(payload, expected);
    }
}

TEST(Ring, ABeginningThatStaysOneIsGarbageInTheEnd) {
    Ring ring(16, false);
    *static_cast<std::uint64_t*>(ring.memory.address()) = 0x1c0002; // type, half of the magic
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (std::uint32_t i = 1; i < kBegunPolls; ++i) {
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
    }
    EXPECT_EQ(ring.take(payload, number), RingReader::Found::garbage);
}

TEST(Ring, WhatNoMessageBeginsWithIsGarbageAtOnce) {
    // From the sixth word on: compact, but no active message; compact with another number; compact
    // with more bytes than a short message has; compact with more than the ring has; posted as the
    // last one of a lap, without and with a count.
    const std::uint64_t words[] = {0x1b0002,       0xad0002,    0x100000002,     0xffff0002,
                                   0x1001c0002,    0x8ad1f0002, 0x10008ad1f000f, 0x300ad1f000f,
                                   0xffffad1f000f, 0x8bd1c0002, 0x8bd1e0002};
    for (const std::uint64_t word : words) {
        Ring ring(16, false);
        *static_cast<std::uint64_t*>(ring.memory.address()) = word;
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        EXPECT_EQ(ring.take(payload, number), RingReader::Found::garbage) << std::hex << word;
    }
}

TEST(Ring, AnAbandonedReservationLeavesNoTrace) {
    Ring ring(16, true);
    std::byte* to = ring.writer->reserve(300);
    ASSERT_NE(to, nullptr);
    std::fill_n(to, 300, std::byte{0xff});
    ring.writer->abandon(300);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    ASSERT_TRUE(ring.send(payload_of(1, 8)));
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(ring.take(payload, number), RingReader::Found::nothing);
    ASSERT_TRUE(ring.send(payload_of(2, 8)));
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(payload, payload_of(2, 8));
}

TEST(Ring, GarbageIsNamedGarbage) {
    for (std::uint64_t seed = 1; seed < 2000; ++seed) {
        Ring ring(16, true);
        Random random(seed);
        auto* words = static_cast<std::uint64_t*>(ring.memory.address());
        for (int i = 0; i < 16 * 4; ++i) {
            words[i] = random.next();
        }
        if (random.below(2) == 0) {
            MessageHeader header; // a believable start with an impossible length
            header.type = MessageType::eager;
            header.length = static_cast<std::uint32_t>(random.next());
            std::memcpy(words, &header, sizeof header);
        }
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        ASSERT_NE(ring.take(payload, number), RingReader::Found::message);
    }
}

TEST(Ring, AFailedPostIsReported) {
    Ring ring(16, false);
    ring.qp.post_result = Status::error(Reason::bad_state);
    ASSERT_NE(ring.writer->reserve(8), nullptr);
    MessageHeader header;
    header.type = MessageType::eager;
    header.length = 8;
    EXPECT_EQ(ring.writer->commit(header), Status::error(Reason::bad_state));
}

} // namespace
} // namespace adaptib
